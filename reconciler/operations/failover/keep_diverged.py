"""Keeps the records that only the old source has, before a failback deletes their topic: in a file, or in topics.

Both look first and read back afterwards, so that a run that was killed anywhere can be repeated.
"""

import hashlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

from reconciler.backends.clusters.groups import visited
from reconciler.backends.clusters.topics.append_records import TopicWriter
from reconciler.backends.files import keep_names
from reconciler.errors import ReconcilerError
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.options import LogSide
from reconciler.model.reports.failover import Key, PartedPartition
from reconciler.operations.failover.diverged import WITHIN_S, FlowSides, exported, exported_to, origin_headers
from reconciler.replication.offsets.close_gaps import Log
from reconciler.replication.offsets.parting import WholeRecord, bounds_of, read_from

READ_BYTES = 1 << 20


def keep_in_file(sides: FlowSides, partitions: Sequence[PartedPartition], file: Path) -> int:
    """Writes them in the lines of ``diverged export``, and returns how many the file has once it is read back.

    A file that has exactly them stays. Raises ClusterError, and ReconcilerError for any other file, or one that cannot
    be written.
    """
    draft, digest, count = file.with_name(f".{file.name}.unfinished"), hashlib.sha256(), 0
    try:
        # Only this user may read it, and no link may lead it elsewhere; what a killed run left of it is written over.
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(opened, "wb") as lines:  # noqa: PTH123 - a descriptor

            def write(cluster: str, place: Key, record: WholeRecord) -> None:
                nonlocal count
                line = json.dumps(exported(cluster, place, record)).encode() + b"\n"
                digest.update(line)
                lines.write(line)
                count += 1

            exported_to(sides, partitions, LogSide.SOURCE, write)
            lines.flush()
            os.fsync(lines.fileno())
        if _digest(draft) != digest.digest():
            why = "Nothing was deleted. The disk does not give back what was written to it."
            raise ReconcilerError(
                f"{draft} does not hold what was written", why, "Name a file on another disk: --file."
            )
        with suppress(FileExistsError):
            file.hardlink_to(draft)  # unlike a rename it never takes the place of another file
        if _digest(file) != digest.digest():
            raise ReconcilerError(
                f"{file} exists and holds something else than these {count:,} records",
                "It may be an earlier export, and is not written over. Nothing was deleted.",
                "Name another file: --file FILE.",
            )
        keep_names(file.parent)
    except OSError as error:
        why = "Nothing was deleted: the records of the old source are kept first."
        todo = "Make room or name another file: --file FILE."
        raise ReconcilerError(f"{file} cannot be written: {error.strerror or error}", why, todo) from None
    finally:
        with suppress(OSError):
            draft.unlink()
    return count


def _digest(file: Path) -> bytes:
    digest = hashlib.sha256()
    with file.open("rb") as read:
        while data := read.read(READ_BYTES):
            digest.update(data)
    return digest.digest()


def topic_for(topic: str, flow: str) -> str:
    """Where a topic's diverged records are kept, on the flow's target."""
    return f"{topic}.diverged.{flow}"


def keep_in_topic(sides: FlowSides, partitions: Sequence[PartedPartition], to: Cluster, topic: str) -> int:
    """Appends what ``topic`` does not have yet, in transactions, and returns how many of them it has once it is read
    back. ``partitions``: of one topic. Raises ClusterError, after which some may be written."""
    there = _held(sides, topic)
    wanted: set[bytes] = set()
    flow = sides.flow.state_name
    with TopicWriter(to, Principal.MIRROR, topic, f"mirror.{flow}.diverged") as writer:
        if (partitions_there := writer.partitions) is None:
            why = "It was there a moment ago, so something has deleted it. Nothing was deleted on the old source."
            raise ReconcilerError(f"cluster {to.name} has no topic {topic}", why, "Run this again.")

        def write(cluster: str, place: Key, record: WholeRecord) -> None:
            added = [(name.encode(), value) for name, value in origin_headers(cluster, place, record.offset)]
            headers = (*record.headers, *added)
            content = _content(WholeRecord(record.offset, max(0, record.timestamp), record.key, record.value, headers))
            wanted.add(content)
            if content not in there:
                named = [(name.decode("utf-8", "surrogateescape"), value) for name, value in headers]
                writer.append(place[1] % partitions_there, record.timestamp, record.key, record.value, named)

        exported_to(sides, partitions, LogSide.SOURCE, write)
        writer.finish()
    return len(wanted & _held(sides, topic))


def _held(sides: FlowSides, topic: str) -> set[bytes]:
    """What each committed record of ``topic`` on the flow's target is, with the headers that say where it was."""

    async def read(opened: Sequence[ClusterClient]) -> set[bytes]:
        (cluster,) = opened
        await cluster.refresh((topic,))
        numbers = range(len(cluster.topics[topic].leaders))
        return {_content(record) for n in numbers async for record in _all(Log(cluster, (topic, n)))}

    return visited((sides.target,), read, WITHIN_S)


async def _all(log: Log) -> AsyncIterator[WholeRecord]:
    bounds = await bounds_of(log)
    async for record in read_from(log, bounds.begin, bounds.end):
        yield record


def _content(record: WholeRecord) -> bytes:
    """All but its offset. The headers hold the offset at the old source, so no two records are alike."""
    text = repr((record.timestamp, record.key, record.value, [(bytes(n), v) for n, v in record.headers]))
    return hashlib.sha256(text.encode()).digest()
