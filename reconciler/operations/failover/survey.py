"""Surveys both clusters of a failover: the flow's lag, and each group's offsets on both sides, translated by the offset
maps of all flows between them."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from reconciler.backends.clusters.groups import GroupsSeen, Side, translations
from reconciler.backends.connections.own import Visits
from reconciler.errors import ClusterError, Unknown
from reconciler.model.environment.flow_settings import Isolation
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveMirror
from reconciler.model.reports import failover
from reconciler.operations.failover.charts import Chart, by_checkpoint, of_both, settled, translated, unbelieved
from reconciler.operations.failover.diverged import FlowSides, parted, partitions_of
from reconciler.operations.failover.group_offsets import bounded, least
from reconciler.operations.failover.rights import hidden
from reconciler.replication.groups import GroupSelector, make_group_selector
from reconciler.replication.names import LAG_HOLDS_MS
from reconciler.replication.offsets.map import PartitionMap
from reconciler.replication.offsets.position_metadata import urlsafe
from reconciler.replication.policy import TopicSelector, is_heartbeats
from reconciler.replication.records.pauses import Pause
from reconciler.replication.status import FlowStatus, LastLag
from reconciler.resources.flows.routes import is_copy, selector_of
from reconciler.text import counted

_FORMER = (
    "{0}-{1} on {2} was deleted and created again since it was mirrored, and nothing was copied into it since: the last"
    " checkpoint is of the former topic"
)
MAP_WITHIN = 6.0
"""Seconds within which a lane writes committed offsets into the offset map."""


@dataclass(frozen=True, slots=True)
class Levers:
    """Present jobs and pauses of the flows. ``pauses``: flow -> pause of the whole flow; ``jobs``: flow -> its mirror;
    ``unread``: flow -> why both are unknown, if the cluster that keeps them was lost with the origin."""

    pauses: Mapping[str, Pause]
    jobs: Mapping[str, LiveMirror | Unknown | None]
    unread: Mapping[str, str] = field(default_factory=dict)


class Survey:
    """The survey of one move. ``lost``: why the origin counts as lost; each ``try_origin`` decides again."""

    def __init__(self, topology: Topology, move: failover.ConsumerMove, visits: Visits | None = None) -> None:
        self.move = move
        same = topology.flows[move.flow].keeps_offsets
        self.origin = Side(topology.clusters[move.origin], share_starts=same, visits=visits)
        self.destination = Side(topology.clusters[move.destination], share_starts=same, visits=visits)
        self._flows = {leg.flow: topology.flows[leg.flow] for leg in move.legs}
        request = topology.flows[move.flow].groups
        self._groups: GroupSelector = make_group_selector(request.include, request.exclude)
        self._selectors = {name: selector_of(flow) for name, flow in self._flows.items()}
        self._server = next(iter(topology.clusters[move.destination].bootstrap_servers), "")
        self.lost: Unknown | None = None
        self._ids: Mapping[str, str] = {}

    def look(self, levers: Levers) -> failover.FailoverFacts:
        """Reads everything; call ``try_origin`` before. Raises ClusterError if the destination cannot be read."""
        groups, unsupported = self.groups()
        flow = self._flows[self.move.flow]
        apart: tuple[failover.PartedPartition, ...] = ()
        unseen: tuple[failover.FailoverCheck, ...] = ()
        # At a failover the copy can only lag; at a failback the old source may have records that the copy lacks.
        if self.lost is None and self.move.way is failover.Way.FAILBACK and flow.keeps_offsets:
            sides = FlowSides(flow, self.destination, self.origin, self._selectors[flow.name])
            apart = parted(sides, partitions_of(sides))
        if self.lost is None:
            seen = [move.group for move in groups]
            unseen = tuple(hidden(self.move, (self.origin, self.destination), self._flows, self._selectors, seen))
        return failover.FailoverFacts(
            self.move,
            self.lost is None,
            self.lost.error if self.lost else "",
            self.flow(levers) if self.move.drained else None,
            groups,
            unsupported,
            self._unmapped(groups) if self.lost is not None else None,
            same_offsets=flow.keeps_offsets,
            parted=apart,
            hidden=unseen,
        )

    def moves(self, topic: str) -> bool:
        """Whether the move waits for a topic of the origin: one that the drained flow copies, other than heartbeats."""
        return _waited_for(self._selectors[self.move.drained], topic)

    def try_origin(self) -> None:
        """Sets ``lost``. Raises ClusterError if the origin answers but refuses the login or request."""
        try:
            self.origin.partitions()
            self.lost = None
        except ClusterError as error:
            if error.kind != "unreachable":
                raise
            self.lost = Unknown(f"cluster {self.move.origin}", error.why or error.what, error.todo)

    # the flow

    def flow(self, levers: Levers) -> failover.DrainedFlow:
        """Progress of the drained flow."""
        name = self.move.drained
        pause, job = levers.pauses.get(name), levers.jobs.get(name)
        flow = job.flows.get(name) if isinstance(job, LiveMirror) else None
        lag, running = None, isinstance(job, LiveMirror) and job.state.runs
        if isinstance(job, LiveMirror) and flow is not None:
            lag = known_lag(flow, job.updated_at_ms, self._selectors[name], int(time.time() * 1000))
        return failover.DrainedFlow(
            self.partitions(),
            job.state.value if isinstance(job, LiveMirror) else "not known" if isinstance(job, Unknown) else "absent",
            pause.by if pause else "",
            pause.reason if pause else "",
            lag,
            # None until groups were read for the first time, and if the flow does not sync them.
            (flow.groups.read_ms or None) if flow is not None and flow.groups is not None else None,
            stopping_conditions(flow) if flow is not None and running else (),
            levers.unread.get(name, ""),
        )

    def partitions(self) -> tuple[failover.PartitionState, ...] | Unknown:
        """Positions and ends of the drained flow; empty if the origin is lost.

        Without heartbeats: they are written all the time, and no consumer misses one.
        """
        name = self.move.drained
        if self.lost is not None:
            return ()
        try:
            flow, selector = self._flows[name], self._selectors[name]
            self._ids = self.origin.topic_ids()
            positions = self.positions(name)
            topics = {topic: n for topic, n in self.origin.partitions().items() if _waited_for(selector, topic)}
            sources = [(topic, number) for topic, count in topics.items() for number in range(count)]
            bounds = self.origin.bounds(sources)
        except ClusterError as error:
            return Unknown(f"flow {name}", error.what, error.todo)
        states = []
        for key in sources:
            twin, its = (selector.remote_name(key[0]), key[1]), bounds.get(key)
            position, end, newest = positions.get(twin), None, None
            if its is not None:
                # The mirror can only reach the end of its isolation level: the last stable offset with read_committed.
                position = its.begin if position is None else position
                end, newest = its.stable if flow.isolation is Isolation.READ_COMMITTED else its.end, its.end
            states.append(failover.PartitionState(key, twin, position, end, newest))
        return tuple(states)

    def positions(self, name: str) -> Mapping[failover.Key, int]:
        """Positions of a flow to the destination; for a flow that keeps offsets, the ends of the copies. Positions in a
        deleted and recreated source topic are left out: nothing of the new topic is copied."""
        flow, selector = self._flows[name], self._selectors[name]
        remote = {selector.remote_name(topic): its for topic, its in self._ids.items() if _waited_for(selector, topic)}
        marks = self.destination.marks(flow.state_name)
        former = {
            key for key, at in marks.items() if at.topic_id and remote.get(key[0], "") not in ("", urlsafe(at.topic_id))
        }
        if flow.keeps_offsets:
            ends = self.destination.bounds(self._copies(name)).items()
            return {key: bounds.end for key, bounds in ends if key not in former}
        return {key: at for key, at in self.destination.positions(flow.state_name).items() if key not in former}

    def _copies(self, name: str) -> list[failover.Key]:
        """Partitions of the destination that the flow writes."""
        leg = failover.Leg(name, forward=False)
        counts = self.destination.partitions().items()
        return [(topic, part) for topic, n in counts if self._twin(leg, topic) is not None for part in range(n)]

    # groups

    def groups(self) -> tuple[tuple[failover.GroupMove, ...], Mapping[str, str]]:
        """Translated moves of all groups with offsets on topics of the move; and groups that cannot move -> why."""
        on_destination = self.destination.groups(self._groups)
        if self.lost is not None:
            return tuple(self._from_checkpoints(on_destination)), on_destination.unsupported
        here = self.origin.groups(self._groups)
        return tuple(self._translated(here, on_destination)), here.unsupported

    def exact_groups(self) -> tuple[failover.GroupMove, ...]:
        """Waits until the offset map covers all committed positions, so that every translated offset is exact. After
        ``MAP_WITHIN`` seconds returns them, exact or not."""
        until = time.monotonic() + MAP_WITHIN
        while True:
            moves, _ = self.groups()
            waiting = [group for group in moves if not group.origin.is_share]
            inexact = any(not offset.translated.exact for group in waiting for offset in group.offsets)
            if self.lost is not None or not inexact or time.monotonic() > until:
                return moves
            time.sleep(0.5)

    def _translated(self, here: GroupsSeen, there: GroupsSeen) -> Iterator[failover.GroupMove]:
        # The way back first: its entries must not be newer than those of the other map (replication.interleaved).
        """Each group of the origin with its offsets, translated by every flow that carries the topic; of two, the
        earlier offset counts."""
        charts = [self._chart(leg, here) for leg in sorted(self.move.legs, key=lambda leg: leg.forward)]
        offers: dict[str, list[failover.GroupOffset]] = {}
        for group, positions in here.offsets.items():
            before = there.offsets.get(group, {})
            for (topic, partition), committed in positions.items():
                at, entries = (topic, partition), list[tuple[Chart, failover.GroupOffset]]()
                for chart in charts:
                    if (twin := self._twin(chart.leg, topic)) is not None:
                        on_target = before.get((twin, partition))
                        present = on_target.offset if on_target else None
                        moved = translated(chart, (at, committed), twin, present)
                        offset, metadata = committed.offset, committed.metadata
                        entries.append(
                            (chart, failover.GroupOffset(at, (twin, partition), offset, metadata, moved, present))
                        )
                offers.setdefault(group, []).extend(of_both(entries) or [offer for _, offer in entries])

        # Bounds of both sides, asked once for all groups, decide offsets that the maps leave open.
        wanted = [offset for each in offers.values() for offset in each]
        ends = self.destination.bounds(offset.destination for offset in wanted)
        begins = self.origin.bounds(offset.origin for offset in wanted if not offset.translated.exact)
        for group, each in sorted(offers.items()):
            if each:
                state = here.states[group]
                own = map(bounded, each) if state.is_share else each
                offsets = tuple(settled(it, begins.get(it.origin), ends.get(it.destination)) for it in own)
                yield failover.GroupMove(group, state, there.states.get(group, failover.GroupState()), least(offsets))

    def _chart(self, leg: failover.Leg, seen: GroupsSeen) -> Chart:
        """Translates all committed offsets of the groups on topics of the leg."""
        source, target = (self.origin, self.destination) if leg.forward else (self.destination, self.origin)
        wanted: dict[failover.Key, set[int]] = {}
        for offsets in seen.offsets.values():
            for (topic, partition), committed in offsets.items():
                if (twin := self._twin(leg, topic)) is not None:
                    wanted.setdefault((topic if leg.forward else twin, partition), set()).add(committed.offset)
        flow, remote = self._flows[leg.flow], self._selectors[leg.flow].remote_name
        # Positions before the map, which then covers them.
        positions = {} if flow.keeps_offsets else target.positions(flow.state_name)
        maps = {} if flow.keeps_offsets else target.maps(flow.state_name, source, remote)
        entries = translations((source, target), flow, wanted, remote, reverse=not leg.forward)
        return Chart(leg, maps, positions, entries, same=flow.keeps_offsets)

    def _twin(self, leg: failover.Leg, topic: str) -> str | None:
        """The topic's counterpart at the destination; None if the flow does not carry the topic."""
        selector = self._selectors[leg.flow]
        if leg.forward:
            return selector.remote_name(topic) if selector.why_not(topic) is None else None
        return selector.policy.upstream_topic(topic) if is_copy(selector, topic) else None

    def _from_checkpoints(self, on_destination: GroupsSeen) -> Iterator[failover.GroupMove]:
        """Moves by the last checkpoints that the flow wrote before the origin was lost. Only the direction from source
        to target has checkpoints."""
        by_group: dict[str, list[failover.GroupOffset]] = {}
        for leg in (leg for leg in self.move.legs if leg.forward):
            flow, remote = self._flows[leg.flow], self._selectors[leg.flow].remote_name
            ends: dict[failover.Key, PartitionMap] = {}
            if flow.keeps_offsets:
                bounds = self.destination.bounds(self._copies(leg.flow))
            else:
                maps = self.destination.maps(flow.state_name, None, remote)
                ends = {(remote(topic), number): its for (topic, number), its in maps.items()}
                # If the destination's own records lie between the copies, the group may have read those, too.
                others = [other for other in self.move.legs if other != leg]
                bounds = self.destination.bounds(k for k in ends if any(self._twin(o, k[0]) == k[0] for o in others))
            known = bounds.keys() | ends.keys()
            checkpoints = [
                each
                for each in self.destination.checkpoints(flow.source, flow.internal_separator).values()
                if self._groups.why_not(each.group) is None and (each.topic, each.partition) in known
            ]
            # A checkpoint outlives its remote topic. One that points past the end of the present log is from a former
            # topic, so the group starts at the beginning, where it misses nothing.
            logs = self.destination.bounds((each.topic, each.partition) for each in checkpoints)
            for checkpoint in checkpoints:
                key = (checkpoint.topic, checkpoint.partition)
                before = on_destination.offsets.get(checkpoint.group, {}).get(key)
                at = before.offset if before else None
                if flow.keeps_offsets:
                    # A checkpoint pairs offsets of both sides. The group may have read on, at most to the end of the
                    # copy.
                    reached = min(checkpoint.downstream, bounds[key].end)
                    between = None if at is None else abs(at - reached)
                    partition = failover.TranslatedPartition(reached, False, "", bounds[key].end, between)
                else:
                    partition = by_checkpoint(ends[key], leg, checkpoint.downstream, at)
                    if ends[key].source_end is None and checkpoint.downstream > 0:
                        partition = failover.TranslatedPartition(0, False, _FORMER.format(*key, self.destination.name))
                    if key in bounds:
                        partition = replace(partition, end=bounds[key].end, between=None)
                    elif (log := logs.get(key)) is not None and checkpoint.downstream > log.end:
                        says = f"the checkpoint of group {checkpoint.group}"
                        partition = unbelieved(checkpoint.downstream, key, log, says)
                offer = failover.GroupOffset(key, key, checkpoint.upstream, checkpoint.metadata, partition, at)
                by_group.setdefault(checkpoint.group, []).append(offer)
        for group, offers in sorted(by_group.items()):
            yield failover.GroupMove(
                group, failover.GroupState(), on_destination.states.get(group, failover.GroupState()), tuple(offers)
            )

    def _unmapped(self, groups: Iterable[failover.GroupMove]) -> failover.Unmapped | None:
        """The destination's own topics with renamed copies on the origin: without the origin, offsets of groups on
        those copies are unknown."""
        back = [self._selectors[leg.flow] for leg in self.move.legs if not leg.forward]
        names = self.destination.partitions()
        topics = {name for name in names for its in back if _waited_for(its, name) and its.remote_name(name) != name}
        if not topics:
            return None
        moved = [move.group for move in groups]
        offsets = self.destination.offsets(moved)
        without = [name for name in moved if not any(topic in topics for topic, _ in offsets.get(name, {}))]
        return failover.Unmapped(tuple(sorted(topics)), tuple(without), self._server)


def _waited_for(selector: TopicSelector, topic: str) -> bool:
    beats = selector.heartbeats and is_heartbeats(selector.policy, topic)
    return selector.why_not(topic) is None and not beats


def stopping_conditions(flow: FlowStatus) -> tuple[tuple[str, str], ...]:
    """Conditions that stop copying, each with its remedy. Of very many, the status record has the first in full, and
    counts the others."""
    texts = [(each.text, each.todo) for each in flow.conditions if each.stops]
    stopping = Counter({code: count for (code, stops), count in flow.counted_conditions.items() if stops})
    stopping.subtract(each.code for each in flow.conditions if each.stops)
    if rest := +stopping:
        codes = ", ".join(f"{code} x{count:,}" for code, count in rest.most_common())
        texts.append((f"{counted(rest.total(), 'more condition')} that stop copying: {codes}", ""))
    return tuple(texts)


def known_lag(
    flow: FlowStatus, reported_ms: int | None, selector: TopicSelector, now_ms: int
) -> failover.KnownLag | None:
    """The last lag that the job reported; its record is from ``reported_ms``. Heartbeats are subtracted only if they
    are among the partitions with the most lag; otherwise they are few. The job caches ends for a while, so the lag is
    to ends of up to that age."""
    if flow.records_lag is not None and reported_ms is not None:
        last = LastLag(flow.records_lag, reported_ms - LAG_HOLDS_MS, 0, flow.worst_partitions)
    elif flow.last_lag is not None:
        last = flow.last_lag
    else:
        return None
    worst = tuple(each for each in last.worst_partitions if _waited_for(selector, each.topic))
    beats = sum(each.records_lag for each in last.worst_partitions) - sum(each.records_lag for each in worst)
    since_s = max(0, math.ceil((now_ms - last.at_ms) / 1000))
    return failover.KnownLag(max(0, last.records - beats), last.at_ms, since_s, last.unknown_partitions, worst)
