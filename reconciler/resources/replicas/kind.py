"""The kind of replicas: number and placement of a topic's replicas."""

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from reconciler.model.changes import (
    About,
    ConfigChange,
    FinishReassignment,
    KindName,
    ReassignReplicas,
    ReplicaChange,
    Risk,
    Subject,
)
from reconciler.model.config_values import number
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveCluster, LiveTopic
from reconciler.model.plan import Planned
from reconciler.model.reports.drift import Cause, Deviation, FoundCause, History
from reconciler.resources.kind import ABSENT, Assessment, Counts, Kind, World, of_clusters, of_topics, tally
from reconciler.text import counted, size_words


def assess(change: ReplicaChange, world: World) -> Assessment:
    """A single replica, or as many replicas as min.insync.replicas, are a high risk, reported before the cost of
    copying."""
    if isinstance(change, FinishReassignment):
        return Assessment(Risk.LOW)
    topic = world.live.topic(change.ref)
    least = int(number(topic.config("min.insync.replicas")) or 1) if topic else 1
    if change.after == 1:
        return Assessment(Risk.HIGH, "a single copy is left: a lost disk loses its records", "reversible: copied again")
    if least == change.after:
        why = f"with min.insync.replicas {least} no replica may be missing: one stopped broker stops its producers"
        return Assessment(Risk.HIGH, why, "reversible: copied again")
    if not change.bytes_to_copy:
        fewer = change.before is not None and change.after < change.before
        return Assessment(Risk.MEDIUM if fewer else Risk.LOW, "fewer copies; nothing is copied" if fewer else "")
    return Assessment(Risk.MEDIUM, f"brokers copy meanwhile, at up to {size_words(change.pace.throttle)}/s each")


def rests_on(change: ReplicaChange, _: Mapping[TopicRef, TopicRef]) -> Iterator[Subject]:
    yield Subject(About.CLUSTER, change.cluster)
    if isinstance(change, ReassignReplicas):
        yield Subject(About.TOPIC_STATE, *change.subject[1:])
        yield Subject(About.REPLICAS, *change.subject[1:])
        yield Subject(About.BROKERS, change.cluster)


def _brokers(cluster: LiveCluster, _: str) -> str:
    """Live brokers and their racks, on which a placement rests."""
    living = sorted(cluster.brokers, key=lambda broker: broker.id)
    return "; ".join(
        f"{broker.id} (rack {broker.rack})" if broker.rack is not None else str(broker.id) for broker in living
    )


def _replicas(topic: LiveTopic | None) -> str:
    """The replica set of each partition; its order may change during a reassignment."""
    if topic is None:
        return ABSENT
    return "; ".join(f"{part.index}: {', '.join(map(str, sorted(part.replicas)))}" for part in topic.partitions)


def deviations(change: ReplicaChange) -> Iterator[Deviation]:
    """For ``drift``: a different factor, and our own unfinished reassignments."""
    begun = f"{counted(change.in_flight, 'partition')} on the way"
    match change:
        case ReassignReplicas():
            name = "reassignment-unfinished" if change.in_flight else "replication-factor"
            text = f"replication factor {change.before or 'mixed'}{f', {begun}' if change.in_flight else ''}"
            yield Deviation(str(change.ref), name, f"replication factor {change.after}", text)
        case FinishReassignment():
            left = f"{begun}, throttles on {counted(len(change.brokers), 'broker')}"
            yield Deviation(f"cluster {change.cluster}", "reassignment-unfinished", "none under way", left)
        case _:
            assert_never(change)


def cause(planned: Planned, _: History, __: ConfigChange | None) -> FoundCause | None:
    if isinstance(planned.change, FinishReassignment):
        return FoundCause(Cause.HALF_FINISHED, "an earlier run began it and did not clear up after it")
    if isinstance(planned.change, ReassignReplicas) and planned.change.in_flight:
        return FoundCause(Cause.HALF_FINISHED, "an earlier run began it, and it has not ended")
    return None


def counts(changes: Sequence[ReplicaChange]) -> Counts:
    unfinished = sum(isinstance(change, FinishReassignment) for change in changes)
    finished = (("finishes", counted(unfinished, "reassignment")),) if unfinished else ()
    return Counts((*tally(changes, {ReassignReplicas: "replication factor"}).changed, *finished))


KIND: Kind[ReplicaChange] = Kind(
    name=KindName.REPLICAS,
    changes=(ReassignReplicas, FinishReassignment),
    assess=assess,
    place=lambda change: (0, str(change.subject)),
    rests_on=rests_on,
    states={About.REPLICAS: of_topics(_replicas), About.BROKERS: of_clusters(_brokers)},
    deviations=deviations,
    cause=cause,
    counts=counts,
)
