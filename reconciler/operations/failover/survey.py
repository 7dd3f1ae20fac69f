"""Looks at both clusters of a move: how far the flow is, where each group stands and would stand on the other side.

Border: puts edges into doings; changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.charting import Chart, as_told, of_both, settled, translated
from reconciler.edges.moving import Bounds, Committed, GroupsSeen, Question, Side, translations
from reconciler.errors import ClusterError, Unknown
from reconciler.failing import least
from reconciler.failovers import (
    FlowState,
    GroupMove,
    GroupOffset,
    GroupState,
    Key,
    Leg,
    Move,
    PartitionState,
    Seen,
    Unmapped,
)
from reconciler.live import FlowStatus, JobState, LiveMirror
from reconciler.routing import selector_of
from reconciler.topology import Flow, Isolation, Topology
from replication.groups import GroupSelector, make_group_selector
from replication.mirrormaker import internal_separator
from replication.pauses import Pause
from replication.policy import TopicSelector, is_heartbeats

MAP_WITHIN = 6.0
"""Seconds a lane may take to write what it has committed into the offset map."""


@dataclass(frozen=True, slots=True)
class Levers:
    """Jobs and pauses of the flows, now. ``pauses``: flow -> its pause as a whole; ``jobs``: flow -> its mirror."""

    pauses: Mapping[str, Pause]
    jobs: Mapping[str, LiveMirror | Unknown | None]


class Survey:
    """Of one move. ``origin_lost`` is decided once, at the first look."""

    def __init__(self, topology: Topology, move: Move) -> None:
        self.move = move
        self.origin = Side(topology.clusters[move.origin])
        self.destination = Side(topology.clusters[move.destination])
        self._flows = {leg.flow: topology.flows[leg.flow] for leg in move.legs}
        wish = topology.flows[move.flow].groups
        self._groups: GroupSelector = make_group_selector(wish.include, wish.exclude)
        self._selectors = {name: selector_of(flow) for name, flow in self._flows.items()}
        self.lost: Unknown | None = None

    def look(self, levers: Levers) -> Seen:
        """After ``try_origin``. Raises ClusterError when the destination cannot be read."""
        groups, unsupported = self.groups()
        return Seen(
            self.move,
            self.lost is None,
            self.lost.error if self.lost else "",
            self.flow(levers) if self.move.drained else None,
            groups,
            unsupported,
            self._unmapped(groups) if self.lost is not None else None,
        )

    def try_origin(self) -> None:
        """Sets ``lost``. Raises ClusterError when the origin answers and yet refuses."""
        try:
            self.origin.partitions()
            self.lost = None
        except ClusterError as error:
            if error.kind != "unreachable":
                raise
            self.lost = Unknown(f"cluster {self.move.origin}", error.why or error.what, error.todo)

    # the flow

    def flow(self, levers: Levers) -> FlowState:
        """How far the drained flow is."""
        name = self.move.drained
        pause, job = levers.pauses.get(name), levers.jobs.get(name)
        told = job.flows.get(name) if isinstance(job, LiveMirror) else None
        running = isinstance(job, LiveMirror) and job.state in (JobState.STARTING, JobState.RUNNING)
        return FlowState(
            self.partitions(),
            job.state.value if isinstance(job, LiveMirror) else "not known" if isinstance(job, Unknown) else "absent",
            pause.by if pause else "",
            pause.reason if pause else "",
            _lag(told, self._selectors[name]) if told else None,
            job.updated_at_ms if isinstance(job, LiveMirror) else None,
            tuple(str(one["text"]) for one in told.conditions if one.get("stops")) if told and running else (),
        )

    def partitions(self) -> tuple[PartitionState, ...] | Unknown:
        """Positions and ends of the drained flow; empty when the origin is lost.

        Without heartbeats: they never end, and no consumer loses by one that stays behind.
        """
        name = self.move.drained
        if self.lost is not None:
            return ()
        try:
            flow, selector = self._flows[name], self._selectors[name]
            positions = self.destination.positions(name)
            topics = self.origin.partitions()
            sources = [
                (topic, n) for topic, count in topics.items() if _waited_for(selector, topic) for n in range(count)
            ]
            bounds = self.origin.bounds(sources)
        except ClusterError as error:
            return Unknown(f"flow {name}", error.what, error.todo)
        return tuple(_partition(flow, selector, key, bounds.get(key), positions) for key in sources)

    # groups

    def groups(self) -> tuple[tuple[GroupMove, ...], Mapping[str, str]]:
        """Every group with offsets on topics of the move, translated; and those that cannot be moved."""
        there = self.destination.groups(self._groups)
        if self.lost is not None:
            return tuple(self._from_checkpoints(there)), there.unsupported
        here = self.origin.groups(self._groups)
        found = tuple(self._translated(here, there))
        return found, here.unsupported

    def exact_groups(self) -> tuple[GroupMove, ...]:
        """Waits until the map has what the lanes have committed, so that every offset is exact; then as they are."""
        until = time.monotonic() + MAP_WITHIN
        while True:
            found, _ = self.groups()
            inexact = any(not one.translated.exact for group in found for one in group.offsets)
            if self.lost is not None or not inexact or time.monotonic() > until:
                return found
            time.sleep(0.5)

    def _translated(self, here: GroupsSeen, there: GroupsSeen) -> Iterator[GroupMove]:
        # The way back first: what it tells of must not be newer than what the other map has (replication.interleaved).
        charts = [self._chart(leg, here) for leg in sorted(self.move.legs, key=lambda leg: leg.forward)]
        offers: dict[str, list[GroupOffset]] = {}
        for group, offsets in here.offsets.items():
            before = there.offsets.get(group, {})
            for at in offsets.items():
                found = [(chart, offer) for chart in charts if (offer := self._offer(chart, at, before))]
                offers.setdefault(group, []).extend(of_both(found) or [offer for _, offer in found])
        wanted = [one for each in offers.values() for one in each]
        ends = self.destination.bounds(one.destination for one in wanted)
        begins = self.origin.bounds(one.origin for one in wanted if one.translated.offset is None)
        for group, each in sorted(offers.items()):
            if each:
                settled_offers = tuple(settled(one, begins.get(one.origin), ends.get(one.destination)) for one in each)
                state = there.states.get(group, GroupState())
                yield GroupMove(group, here.states[group], state, least(settled_offers))

    def _chart(self, leg: Leg, here: GroupsSeen) -> Chart:
        """Translates all that the groups have committed on topics of the leg."""
        source, target = (self.origin, self.destination) if leg.forward else (self.destination, self.origin)
        wanted: dict[Key, set[int]] = {}
        for offsets in here.offsets.values():
            for (topic, partition), committed in offsets.items():
                if (twin := self._twin(leg, topic)) is not None:
                    wanted.setdefault((topic if leg.forward else twin, partition), set()).add(committed.offset)
        flow, remote = self._flows[leg.flow], self._selectors[leg.flow].remote_name
        committed_only = flow.isolation is Isolation.READ_COMMITTED
        positions, maps = target.positions(leg.flow), target.maps(leg.flow)  # in this order
        found = translations(source, target, Question(leg.flow, wanted, remote, not leg.forward, committed_only))
        return Chart(leg, maps, positions, found)

    def _offer(self, chart: Chart, at: tuple[Key, Committed], before: Mapping[Key, Committed]) -> GroupOffset | None:
        (topic, partition), committed = at
        twin = self._twin(chart.leg, topic)
        if twin is None:
            return None
        on_target = before.get((twin, partition))
        return GroupOffset(
            (topic, partition),
            (twin, partition),
            committed.offset,
            committed.metadata,
            translated(chart, at, twin, on_target.offset if on_target else None),
            on_target.offset if on_target else None,
        )

    def _twin(self, leg: Leg, topic: str) -> str | None:
        """The same records' topic at the destination; None when the flow does not carry this one."""
        selector = self._selectors[leg.flow]
        if leg.forward:
            return selector.remote_name(topic) if selector.why_not(topic) is None else None
        upstream = selector.policy.upstream_topic(topic)
        if upstream is None or selector.why_not(upstream) is not None or selector.remote_name(upstream) != topic:
            return None
        return upstream

    def _from_checkpoints(self, there: GroupsSeen) -> Iterator[GroupMove]:
        """As far as the flow told before the origin was lost. Only the way from source to target has checkpoints."""
        by_group: dict[str, list[GroupOffset]] = {}
        for leg in self.move.legs:
            if not leg.forward:
                continue
            flow, maps = self._flows[leg.flow], self.destination.maps(leg.flow)
            ends = {
                twin: found
                for (topic, number), found in maps.items()
                for twin in [(self._selectors[leg.flow].remote_name(topic), number)]
            }
            # Where the destination's own records lie between the copies, the group may have read those, too.
            others = [other for other in self.move.legs if other != leg]
            shared = self.destination.bounds(k for k in ends if any(self._twin(o, k[0]) == k[0] for o in others))
            for one in self.destination.checkpoints(flow.source, _separator(flow)).values():
                key = (one.topic, one.partition)
                if self._groups.why_not(one.group) is not None or key not in ends:
                    continue
                before = there.offsets.get(one.group, {}).get(key)
                at = before.offset if before else None
                told = as_told(ends[key], leg, one.downstream, at)
                if key in shared:
                    told = replace(told, end=shared[key].end, between=None)
                by_group.setdefault(one.group, []).append(GroupOffset(key, key, one.upstream, one.metadata, told, at))
        for group, offers in sorted(by_group.items()):
            yield GroupMove(group, GroupState(), there.states.get(group, GroupState()), tuple(offers))

    def _unmapped(self, groups: Iterable[GroupMove]) -> Unmapped | None:
        """Of the way from target to source: the topics at its one end are other ones than their copies at the other."""
        back = [self._selectors[leg.flow] for leg in self.move.legs if not leg.forward]
        topics = {
            name
            for name in self.destination.partitions()
            for one in back
            if _waited_for(one, name) and one.remote_name(name) != name
        }
        if not topics:
            return None
        names = [one.group for one in groups]
        offsets = self.destination.offsets(names)
        without = [name for name in names if not any(topic in topics for topic, _ in offsets.get(name, {}))]
        return Unmapped(tuple(sorted(topics)), tuple(without))


def _waited_for(selector: TopicSelector, topic: str) -> bool:
    beats = selector.heartbeats and is_heartbeats(selector.policy, topic)
    return selector.why_not(topic) is None and not beats


def _lag(told: FlowStatus, selector: TopicSelector) -> int | None:
    """Without heartbeats, as far as they are among the partitions furthest behind; where they are not, they are few."""
    if told.records_lag is None:
        return None
    beats = (one for one in told.worst_partitions if not _waited_for(selector, str(one["topic"])))
    return max(0, told.records_lag - sum(int(str(one["records_lag"] or 0)) for one in beats))


def _separator(flow: Flow) -> str:
    return internal_separator(flow.naming.separator, kept=flow.mirrormaker_topics.internal_separator)


def _partition(
    flow: Flow, selector: TopicSelector, key: Key, bounds: Bounds | None, positions: Mapping[Key, int]
) -> PartitionState:
    twin = (selector.remote_name(key[0]), key[1])
    if bounds is None:
        return PartitionState(key, twin, positions.get(twin))
    committed_only = flow.isolation is Isolation.READ_COMMITTED
    position = positions.get(twin)
    begin = bounds.begin if position is None else position
    return PartitionState(key, twin, begin, bounds.stable if committed_only else bounds.end, bounds.end)
