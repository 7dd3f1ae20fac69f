"""Saves records of the old source alone, in a file or in topics, before a failback deletes their topic.

Both ways check first what is saved and read it back afterwards, so that a killed run can be repeated.
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
    """Saves them in the format of ``diverged export``, and returns the number of records read back from the file.

    A file with exactly these records is kept. Raises ClusterError, and ReconcilerError for any other existing file, or
    if the file cannot be written.
    """
    draft, digest, count = file.with_name(f".{file.name}.unfinished"), hashlib.sha256(), 0
    try:
        # The draft holds data of topics: only this user may read it, and no symbolic link may redirect it. It
        # overwrites the draft of a killed run.
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
        # The next step deletes the topic, so the file is read back and gets its name only as a whole, never by halves.
        if _digest(draft) != digest.digest():
            why = "Nothing was deleted. The disk does not give back what was written to it."
            raise ReconcilerError(
                f"{draft} does not hold what was written", why, "Name a file on another disk: --file."
            )
        with suppress(FileExistsError):
            file.hardlink_to(draft)  # unlike a rename it never replaces another file
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
    """The topic on the flow's target that keeps a topic's diverged records."""
    return f"{topic}.diverged.{flow}"


def keep_in_topic(sides: FlowSides, partitions: Sequence[PartedPartition], to: Cluster, topic: str) -> int:
    """Appends records that ``topic`` lacks, in transactions, and returns the number of records read back.
    ``partitions``: of one topic. Raises ClusterError, possibly after a part was written."""
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
    """Contents of the committed records of ``topic`` on the flow's target, with the headers of their origin."""

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
    """Everything but the offset. The headers hold the offset at the old source, so no two records are equal."""
    text = repr((record.timestamp, record.key, record.value, [(bytes(n), v) for n, v in record.headers]))
    return hashlib.sha256(text.encode()).digest()
