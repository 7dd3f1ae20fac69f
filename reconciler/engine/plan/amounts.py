"""How much a plan will copy over each flow, lose on each cluster, and move between brokers, as far as it is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reconciler.engine.plan.impact import MOST, lowered_retention
from reconciler.model.changes import AlterConfigs, CreateTopic, DeleteTopic, ReassignReplicas
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.plan import Plan, Planned
from reconciler.model.reports.impact import ImpactQuery, Stakes
from reconciler.resources.flows.routes import TopicHop, hops_between
from reconciler.text import total


class AmountKind(StrEnum):
    COPY = "to copy"
    AGAIN = "to copy again"
    LOSE = "to lose"
    MOVE = "to move"


@dataclass(frozen=True, slots=True)
class Amount:
    """``about``: a flow for COPY and AGAIN, else a cluster. ``records`` and ``bytes`` are upper bounds; None: of one
    topic at least it is not known. ``bytes`` of these: one copy, as it travels; else on all replicas. ``seconds``: at
    the rate that the flow has now, or at the throttle of a reassignment; None: there is no such rate."""

    kind: AmountKind
    about: str
    topics: int
    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    @property
    def nothing(self) -> bool:
        """Known to be none: partitions without an offset hold no record, and neither do those without a byte, whatever
        else could not be read. Of a move only bytes tell."""
        return self.records == 0 if self.bytes is None else self.bytes == 0 and not self.records


def beginning_to_travel(plan: Plan, topology: Topology, live: LiveState) -> tuple[TopicHop, ...]:
    """Topics that are there and that a flow begins to carry with this plan: their remote topics are created."""
    created = {planned.change.ref for planned in plan.changes if isinstance(planned.change, CreateTopic)}
    if not created or not topology.flows:
        return ()
    hops = (hop for hop in hops_between(topology, live) if hop.remote in created)
    return tuple(sorted(hop for hop in hops if live.topic(hop.source) is not None))


def copy_questions(travelling: Sequence[TopicHop], live: LiveState) -> dict[str, tuple[ImpactQuery, ...]]:
    """Cluster -> what to ask of the topics that begin to travel; only so many."""
    asked: dict[str, dict[str, ImpactQuery]] = defaultdict(dict)
    for hop in travelling[:MOST]:
        if topic := live.topic(hop.source):
            asked[hop.source.cluster][topic.name] = ImpactQuery(topic.name, len(topic.partitions))
    return {cluster: tuple(some.values()) for cluster, some in asked.items()}


def amounts(
    plan: Plan,
    travelling: Sequence[TopicHop],
    impacts: Mapping[TopicRef, Stakes],
    live: LiveState,
    again: Collection[TopicHop] = (),
) -> tuple[Amount, ...]:
    """``again``: of ``travelling``, what the remote topics hold already."""
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
    by_flow: dict[str, list[TopicRef]] = defaultdict(list)
    for hop in travelling:
        by_flow[hop.flow].append(hop.source)
    for flow, sources in sorted(by_flow.items()):
        stakes = [impacts.get(source, Stakes()) for source in sources]
        size = total(_one_copy(each.bytes, source, live) for each, source in zip(stakes, sources, strict=True))
        rate = _rate(flow, live)
        seconds = None if size is None or not rate else size / rate
        records = total(each.records for each in stakes)
        yield Amount(kind, flow, len(sources), records, size, 0.0 if size == 0 else seconds)


def _one_copy(size: int | None, source: TopicRef, live: LiveState) -> int | None:
    topic = live.topic(source)
    factor = topic.replication_factor if topic is not None else None
    return None if size is None or not factor else size // factor


def _rate(flow: str, live: LiveState) -> float | None:
    """Bytes per second that the flow copies now; None where that is not known, or it has nothing to copy."""
    for mirror in live.mirrors.values():
        if isinstance(mirror, LiveMirror) and mirror.lag_is_current and flow in mirror.flows:
            return mirror.flows[flow].bytes_per_second or None
    return None


def _lost(plan: Plan) -> Iterator[Amount]:
    by_cluster: dict[str, list[tuple[int | None, int | None]]] = defaultdict(list)
    for planned in plan.changes:
        if isinstance(planned.change, DeleteTopic):
            stakes = planned.stakes or Stakes()
            by_cluster[planned.change.cluster].append((stakes.records, stakes.bytes))
        elif isinstance(planned.change, AlterConfigs) and lowered_retention(planned.change) is not None:
            by_cluster[planned.change.cluster].append(_expiring(planned))
    for cluster, lost in sorted(by_cluster.items()):
        records, sizes = total(records for records, _ in lost), total(size for _, size in lost)
        yield Amount(AmountKind.LOSE, cluster, len(lost), records, sizes)


def _expiring(planned: Planned) -> tuple[int | None, int | None]:
    stakes = planned.stakes or Stakes()
    if stakes.expiring is None:
        return None, None
    if not stakes.records or stakes.bytes is None:
        return stakes.expiring, 0 if stakes.expiring == 0 else None
    return stakes.expiring, stakes.bytes * stakes.expiring // stakes.records


def _moved(plan: Plan) -> Iterator[Amount]:
    by_cluster: dict[str, list[ReassignReplicas]] = defaultdict(list)
    for planned in plan.changes:
        if isinstance(planned.change, ReassignReplicas):
            by_cluster[planned.change.cluster].append(planned.change)
    for cluster, moved in sorted(by_cluster.items()):
        size, seconds = sum(each.bytes_to_copy for each in moved), sum(each.seconds for each in moved)
        yield Amount(AmountKind.MOVE, cluster, len(moved), None, size, seconds)
