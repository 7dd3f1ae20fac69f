"""Amounts that a plan will copy over each flow, lose on each cluster, and move between brokers, as far as known."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reconciler.engine.plan.impact import lowered_retention
from reconciler.model.changes import AlterConfigs, CreateTopic, DeleteTopic, ReassignReplicas
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.plan import Plan, Stakes
from reconciler.resources.flows.routes import TopicHop, hops_between
from reconciler.text import grouped, total


class AmountKind(StrEnum):
    COPY = "to copy"
    AGAIN = "to copy again"
    LOSE = "to lose"
    MOVE = "to move"


@dataclass(frozen=True, slots=True)
class Amount:
    """Records and bytes that a plan moves or loses. ``records`` and ``bytes``: upper bounds, None if unknown for a
    topic. ``bytes`` of COPY and AGAIN: of one copy, as it travels; else on all replicas."""

    kind: AmountKind
    about: str
    """A flow for COPY and AGAIN, else a cluster."""
    topics: int
    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    """At the flow's present rate, or at the throttle of a reassignment; None without such a rate."""

    @property
    def nothing(self) -> bool:
        """Known to be empty: partitions without offsets or without bytes have no record, whatever else could not be
        read. A move has only bytes."""
        return self.records == 0 if self.bytes is None else self.bytes == 0 and not self.records


def beginning_to_travel(plan: Plan, topology: Topology, live: LiveState) -> tuple[TopicHop, ...]:
    """Existing topics that a flow begins to carry, because this plan creates their remote topics."""
    created = {planned.change.ref for planned in plan.changes if isinstance(planned.change, CreateTopic)}
    if not created or not topology.flows:
        return ()
    return in_sight((hop for hop in hops_between(topology, live) if hop.remote in created), live)


def in_sight(hops: Iterable[TopicHop], live: LiveState) -> tuple[TopicHop, ...]:
    """Without topics whose source does not exist: these have nothing to count."""
    return tuple(sorted(hop for hop in hops if live.topic(hop.source) is not None))


def amounts(
    plan: Plan,
    travelling: Sequence[TopicHop],
    impacts: Mapping[TopicRef, Stakes],
    live: LiveState,
    again: Collection[TopicHop] = (),
) -> tuple[Amount, ...]:
    """``again``: those of ``travelling`` whose remote topics have records already."""
    first = [hop for hop in travelling if hop not in again]
    return (
        *_copied(AmountKind.COPY, first, impacts, live),
        *_copied(AmountKind.AGAIN, [hop for hop in travelling if hop in again], impacts, live),
        *_lost(plan),
        *_moved(plan),
    )


def _copied(
    kind: AmountKind, travelling: Sequence[TopicHop], impacts: Mapping[TopicRef, Stakes], live: LiveState
) -> Iterator[Amount]:
    """What each flow will copy of topics that begin to travel: on the line, so one replica each."""
    for flow, sources in sorted(grouped((hop.flow, hop.source) for hop in travelling).items()):
        stakes = [impacts.get(source, Stakes()) for source in sources]

        # Kafka reports bytes of all replicas; one of them travels.
        sizes: list[int | None] = []
        for each, topic in zip(stakes, map(live.topic, sources), strict=True):
            factor = topic.replication_factor if topic is not None else None
            sizes.append(None if each.bytes is None or not factor else each.bytes // factor)
        size, records = total(sizes), total(each.records for each in stakes)

        # The rate of a flow with nothing to copy says nothing about its speed.
        jobs = [it for it in live.mirrors.values() if isinstance(it, LiveMirror) and flow in it.flows]
        rate = next((job.flows[flow].bytes_per_second for job in jobs if job.lag_is_current), None)
        seconds = None if size is None or not rate else size / rate
        yield Amount(kind, flow, len(sources), records, size, 0.0 if size == 0 else seconds)


def _lost(plan: Plan) -> Iterator[Amount]:
    """What the plan deletes, by cluster: whole topics, and records past a lowered retention."""
    losses: dict[str, list[tuple[int | None, int | None]]] = defaultdict(list)
    for planned in plan.changes:
        change, stakes = planned.change, planned.stakes or Stakes()
        if isinstance(change, DeleteTopic):
            losses[change.cluster].append((stakes.records, stakes.bytes))
        elif isinstance(change, AlterConfigs) and lowered_retention(change) is not None:
            # Only records are counted by their time: their bytes are a share of the whole.
            expiring, size = stakes.expiring, None
            if expiring == 0:
                size = 0
            elif expiring is not None and stakes.records and stakes.bytes is not None:
                size = stakes.bytes * expiring // stakes.records
            losses[change.cluster].append((expiring, size))
    for cluster, lost in sorted(losses.items()):
        records, sizes = total(records for records, _ in lost), total(size for _, size in lost)
        yield Amount(AmountKind.LOSE, cluster, len(lost), records, sizes)


def _moved(plan: Plan) -> Iterator[Amount]:
    changes = (planned.change for planned in plan.changes)
    moves = grouped((change.cluster, change) for change in changes if isinstance(change, ReassignReplicas))
    for cluster, moved in sorted(moves.items()):
        size, seconds = sum(each.bytes_to_copy for each in moved), sum(each.seconds for each in moved)
        yield Amount(AmountKind.MOVE, cluster, len(moved), None, size, seconds)
