"""``diverged export --to-topic``: records of one side only go to a topic, with where they were in their headers.

As the principal ``mirror``, which needs Write on that topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.backends.clusters.topics.append_records import TopicWriter
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Cluster, Flow, Principal, TopicRef, Topology
from reconciler.model.options import LogSide
from reconciler.model.reports.failover import Key, PartedPartition
from reconciler.operations.failover.diverged import FlowSides, exported_to
from reconciler.replication.offsets.one_sided import WholeRecord
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.protected_names import is_protected
from reconciler.resources.topics.internal import internal_topics

ORIGIN = "mirror.origin."
"""How headers begin that say where a record was: ``cluster``, ``topic``, ``partition``, ``offset``, in text."""


@dataclass(frozen=True, slots=True)
class ExportTopic:
    """Where records are written to."""

    cluster: Cluster
    topic: str


def export_topic(topology: Topology, text: str) -> ExportTopic:
    """Of ``CLUSTER:TOPIC``. Raises ReconcilerError for a topic that is not for this."""
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
    for flow in topology.flows.values():
        if does := _what_does(flow, ref):
            why = f"Flow {flow.name} {does} it: what is exported would be mixed with its records, or travel on."
            raise _unfit(text, why)
    return ExportTopic(topology.clusters[cluster], topic)


def _unfit(text: str, why: str) -> ReconcilerError:
    return ReconcilerError(f"{text} cannot take exported records", why, "Name a topic that no flow reads or writes.")


def _what_does(flow: Flow, ref: TopicRef) -> str:
    selector = selector_of(flow)
    if flow.source == ref.cluster and selector.why_not(ref.name) is None:
        return "reads"
    upstream = selector.policy.upstream_topic(ref.name) if flow.target == ref.cluster else None
    if upstream is None or selector.why_not(upstream) is not None or selector.remote_name(upstream) != ref.name:
        return ""
    return "writes"


def export_to_topic(
    sides: FlowSides, partitions: Iterable[PartedPartition], which: LogSide, to: ExportTopic
) -> tuple[int, int]:
    """How many were written, and how many of them have the time of their broker instead of their own.

    Each goes to the partition that it had, modulo how many there are, so those of one partition keep their order.
    Raises ClusterError, after which some may be written, and ReconcilerError for a topic that is not there.
    """
    with TopicWriter(to.cluster, Principal.MIRROR, to.topic) as writer:
        if (count := writer.partitions) is None:
            why = "It is not made here, because a plan has to show how many partitions it has and how long it keeps."
            todo = "Declare it in the environment, apply, and run this again."
            raise ReconcilerError(f"cluster {to.cluster.name} has no topic {to.topic}", why, todo)

        def write(cluster: str, place: Key, record: WholeRecord) -> None:
            headers = [(name.decode("utf-8", "replace"), value) for name, value in record.headers]
            headers += origin_headers(cluster, place, record.offset)
            writer.append(place[1] % count, record.timestamp, record.key, record.value, headers)

        written = exported_to(sides, partitions, which, write)
        writer.finish()
        return written, writer.restamped


def origin_headers(cluster: str, place: Key, offset: int) -> Iterator[tuple[str, bytes]]:
    words = {"cluster": cluster, "topic": place[0], "partition": str(place[1]), "offset": str(offset)}
    return ((f"{ORIGIN}{name}", word.encode()) for name, word in words.items())
