"""``diverged list`` and ``diverged export``: records on only one side of a flow with same offsets.

Both log in as the principal ``mirror``, which may read topics of both sides; ``--to-topic`` needs Write on that topic.
"""

import base64
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.backends.clusters.groups import PartitionBounds, Side, visited
from reconciler.backends.clusters.topics.append_records import TopicWriter
from reconciler.backends.files import keep_names
from reconciler.errors import ReconcilerError
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.records.fields import HeaderBytes
from reconciler.model.environment.topology import Cluster, Flow, Principal, TopicRef, Topology
from reconciler.model.options import LogSide
from reconciler.model.reports.failover import Key, PartedPartition
from reconciler.replication.offsets.close_gaps import Log, NotPairedError, bounds_of
from reconciler.replication.offsets.parting import WholeRecord, count_from, parting_of, read_from, span_from
from reconciler.replication.policy import TopicSelector
from reconciler.resources.flows.routes import declared_flow, is_copy, selector_of
from reconciler.resources.protected_names import is_protected
from reconciler.resources.topics.internal import internal_topics
from reconciler.text import BRIEF, first_of

WITHIN_S = 600.0


@dataclass(frozen=True, slots=True)
class FlowSides:
    """Both clusters of a flow that keeps offsets, and the rule for names of copies."""

    flow: Flow
    source: Side
    target: Side
    selector: TopicSelector


def sides_of(topology: Topology, name: str) -> FlowSides:
    """Connects both sides. Raises ReconcilerError for a flow that is undeclared or does not keep offsets."""
    flow = declared_flow(topology, name, "There is nothing to compare.")
    if not flow.keeps_offsets:
        raise ReconcilerError(
            f"flow {name} does not keep offsets",
            "Its copies have offsets of their own, so that none can be on one side only.",
            "Compare its records with reconciler verify ENV.",
        )
    source, target = Side(topology.clusters[flow.source]), Side(topology.clusters[flow.target])
    return FlowSides(flow, source, target, selector_of(flow))


def partitions_of(sides: FlowSides) -> list[tuple[Key, Key]]:
    """Source and target partition of each topic that both sides have. Raises ClusterError."""
    there = sides.target.partitions()
    topics = {
        topic: count for topic, count in sorted(sides.source.partitions().items()) if not sides.selector.why_not(topic)
    }
    return [
        ((topic, number), (remote, number))
        for topic, count in topics.items()
        if (remote := sides.selector.remote_name(topic)) in there
        for number in range(min(count, there[remote]))
    ]


def parted(sides: FlowSides, pairs: Sequence[tuple[Key, Key]]) -> tuple[PartedPartition, ...]:
    """Pairs of partitions with more records on one side, or that cannot be compared. Raises ClusterError for a silent
    cluster."""

    async def look(opened: Sequence[ClusterClient]) -> tuple[PartedPartition, ...]:
        differing = []
        for here, there in pairs:
            source, target = Log(opened[0], here), Log(opened[1], there)
            try:
                parting = await parting_of(source, target)
                if not parting.proved:
                    text = f"no record that both have lies before {parting.at}: retention took what could prove where "
                    differing.append(PartedPartition(here, there, unknown=f"{text}they part"))
                    continue
                # Counts records of each side after the offset at which the logs part. Comparing records at equal
                # offsets finds it; if retention has deleted all of them, the partition is unknown.
                ends = parting.source.end, parting.target.end
                ours = await span_from(source, max(parting.at, parting.source.begin), ends[0])
                theirs = await count_from(target, max(parting.at, parting.target.begin), ends[1])
            except (BrokerError, NotPairedError) as error:
                differing.append(PartedPartition(here, there, unknown=str(error)))
                continue
            if ours.records or theirs:
                counts = parting.at, *ends, ours.records, theirs
                differing.append(PartedPartition(here, there, *counts, "", ours.first_ms, ours.last_ms))
        return tuple(differing)

    return visited((sides.source, sides.target), look, WITHIN_S)


Write = Callable[[str, Key, WholeRecord], None]
"""Takes a cluster, a partition and one of its records."""


def export(sides: FlowSides, partitions: Iterable[PartedPartition], which: LogSide, file: Path) -> int:
    """Writes records of one side only as JSON lines, and returns their number. Raises ClusterError, and ReconcilerError
    for a file that exists or cannot be written; either leaves no part of an export behind, which would look whole."""
    try:
        # The file holds data of topics: only this user may read it, and no symbolic link may redirect it.
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(opened, "w", encoding="utf-8") as lines:  # noqa: PTH123 - a descriptor

                def write(cluster: str, place: Key, record: WholeRecord) -> None:
                    lines.write(json.dumps(exported(cluster, place, record)) + "\n")

                return exported_to(sides, partitions, which, write)
        except BaseException:
            file.unlink()
            raise
    except OSError as error:
        why = "An export only goes to a new file, so that no earlier export is lost."
        problem = f"{file} cannot be written: {error.strerror or error}"
        raise ReconcilerError(problem, why, "Name another file.") from None


def exported_to(sides: FlowSides, partitions: Iterable[PartedPartition], which: LogSide, write: Write) -> int:
    """Passes records of one side only to ``write``, and returns their number. Raises ClusterError, and as ``write``."""
    wanted = [partition for partition in partitions if not partition.unknown]

    async def visit(opened: Sequence[ClusterClient]) -> int:
        """Passes on records after the parting offset, of one side or both, in offset order; returns their number."""
        count = 0
        for side, cluster in zip((LogSide.SOURCE, LogSide.TARGET), opened, strict=True):
            for partition in wanted if which in (side, LogSide.BOTH) else ():
                place, end = partition.target, partition.target_end
                if side is LogSide.SOURCE:
                    place, end = partition.source, partition.source_end
                async for record in read_from(Log(cluster, place), partition.at, max(partition.at, end)):
                    write(cluster.name, place, record)
                    count += 1
        return count

    return visited((sides.source, sides.target), visit, WITHIN_S)


def exported(cluster: str, place: Key, record: WholeRecord) -> dict[str, Any]:
    """A record as a JSON object: bytes in base64, null for null."""
    return {
        "cluster": cluster,
        "topic": place[0],
        "partition": place[1],
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name.decode("utf-8", "replace"), _text(value)] for name, value in record.headers],
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


ORIGIN = "mirror.origin."
"""Prefix of the headers with a record's origin: ``cluster``, ``topic``, ``partition``, ``offset``, as text."""


def export_topic(topology: Topology, text: str) -> tuple[Cluster, str]:
    """The parts of ``CLUSTER:TOPIC``. Raises ReconcilerError for a topic that Kafka, a mirror or a flow uses."""
    cluster, colon, topic = text.partition(":")
    if not colon or not topic:
        why = "It says on which cluster, by its alias, and into which topic records are written."
        raise ReconcilerError(f"--to-topic {text} is not CLUSTER:TOPIC", why, "Write it as east:left-behind.")
    if cluster not in topology.clusters:
        why = "A topic is named by the alias of a cluster of the environment and its name."
        known = f"Its clusters: {', '.join(topology.clusters)}."
        raise ReconcilerError(f"environment {topology.environment} has no cluster {cluster}", why, known)
    ref = TopicRef(cluster, topic)
    if is_protected(topic) or any(internal.ref == ref for internal in internal_topics(topology)):
        raise _unfit(text, "It is a topic that Kafka or a mirror keeps for itself.")
    if does := flow_that_uses(topology, cluster, topic, besides=""):
        why = f"Flow {does} it: what is exported would be mixed with its records, or travel on."
        raise _unfit(text, why)
    return topology.clusters[cluster], topic


def bounds_of_all(side: Side, keys: Collection[Key], why: str) -> Mapping[Key, PartitionBounds]:
    """Raises ReconcilerError unless every leader answers: a missing end would be taken for an empty partition. ``why``
    that matters."""
    bounds = side.bounds(keys)
    if missing := [f"{key[0]}-{key[1]}" for key in keys if key not in bounds]:
        raise ReconcilerError(
            f"where {first_of(missing, BRIEF)} on {side.name} ends is not known: its leader does not answer",
            why,
            "Wait until it answers, and run this again.",
        )
    return bounds


def flow_that_uses(topology: Topology, cluster: str, topic: str, besides: str) -> str:
    """``f reads`` or ``f writes``: a flow other than ``besides`` that uses the topic; empty if none does."""
    for flow in topology.flows.values():
        if flow.name == besides:
            continue
        selector = selector_of(flow)
        if flow.source == cluster and selector.why_not(topic) is None:
            return f"{flow.name} reads"
        if flow.target == cluster and is_copy(selector, topic):
            return f"{flow.name} writes"
    return ""


def _unfit(text: str, why: str) -> ReconcilerError:
    return ReconcilerError(f"{text} cannot take exported records", why, "Name a topic that no flow reads or writes.")


def export_to_topic(
    sides: FlowSides, partitions: Iterable[PartedPartition], which: LogSide, to: tuple[Cluster, str]
) -> tuple[int, int]:
    """The number of written records, and of those that got the broker's timestamp in place of their own. ``to``: as
    ``export_topic`` returns it.

    A record keeps its partition number, modulo the topic's partitions, so records of one partition keep their order.
    Raises ClusterError, possibly after a part was written, and ReconcilerError for a missing topic.
    """
    cluster, topic = to
    with TopicWriter(cluster, Principal.MIRROR, topic) as writer:
        if (count := writer.partitions) is None:
            why = "An export does not create it, because a plan has to show its partitions and its retention."
            todo = "Declare it in the environment, apply, and run this again."
            raise ReconcilerError(f"cluster {cluster.name} has no topic {topic}", why, todo)

        def write(origin: str, place: Key, record: WholeRecord) -> None:
            headers = (*record.headers, *origin_headers(origin, place, record.offset))
            writer.append(place[1] % count, record.timestamp, record.key, record.value, headers)

        written = exported_to(sides, partitions, which, write)
        writer.finish()
        return written, writer.restamped


def origin_headers(cluster: str, place: Key, offset: int) -> Iterator[HeaderBytes]:
    words = {"cluster": cluster, "topic": place[0], "partition": str(place[1]), "offset": str(offset)}
    return ((f"{ORIGIN}{name}".encode(), word.encode()) for name, word in words.items())


# Saves records of the old source alone, in a file or in topics, before a failback deletes their topic.
# Both ways check first what is saved and read it back afterwards, so that a killed run can be repeated.

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
            headers = (*record.headers, *origin_headers(cluster, place, record.offset))
            # Compared by content with the place of origin in its headers: offsets here are new ones, and an interrupted
            # run has written a part.
            content = _content(WholeRecord(record.offset, max(0, record.timestamp), record.key, record.value, headers))
            wanted.add(content)
            if content not in there:
                writer.append(place[1] % partitions_there, record.timestamp, record.key, record.value, headers)

        exported_to(sides, partitions, LogSide.SOURCE, write)
        writer.finish()
    # Read back rather than counted: the topic that they came from is deleted next.
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
