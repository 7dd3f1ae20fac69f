"""What a flow's job would do with remote partitions for which it has no position.

It would begin at the first record of the source. Where the remote topic already holds records, consumers would get them
twice, unless the flow's ``start`` says otherwise.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.environment.importers.positions.judge import Stored, positions
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import FlowCopies, Key, RemoteFacts
from reconciler.replication.handover import AGAIN
from reconciler.replication.names import is_own_topic
from reconciler.resources.flows.routes import TopicHop, hops_between
from reconciler.resources.topics.internal import of_mirrormaker
from reconciler.text import grouped

_BEGIN_LATE = ("latest", "timestamp")

Facts = Mapping[str, RemoteFacts]
"""Target -> facts."""


def copies_of(topology: Topology, live: LiveState) -> Mapping[str, tuple[FlowCopies, ...]]:
    """Target -> flows of mirrors, with existing and planned partitions of both sides; for a source topic that the plan
    or a flow creates, those of its remote topic."""
    carried = {name for mirror in topology.mirrors.values() for name in mirror.flows}
    hops = grouped((hop.flow, hop) for hop in hops_between(topology, live)) if carried else {}
    by_target: dict[str, list[FlowCopies]] = defaultdict(list)
    for name in sorted(carried):
        flow, some = topology.flows[name], hops.get(name, ())
        if not (live.known(flow.source) and live.known(flow.target)):
            continue
        partitions: dict[Key, Key] = {}
        ids: dict[Key, tuple[str, str]] = {}
        for hop in some:
            source, remote = live.topic(hop.source), live.topic(hop.remote)
            if remote is not None:
                there = len(remote.partitions)
                # Partitions that only one side has cannot hold a copy of each other.
                for number in range(there if source is None else min(len(source.partitions), there)):
                    partitions[hop.remote.name, number] = (hop.source.name, number)
                    ids[hop.remote.name, number] = ("" if source is None else source.topic_id, remote.topic_id)
        by_target[flow.target].append(FlowCopies(flow.state_name, partitions, ids))
    return {target: tuple(copies) for target, copies in by_target.items()}


@dataclass(frozen=True, slots=True)
class Judged:
    """One flow."""

    flow: Flow
    copies: FlowCopies
    facts: RemoteFacts
    fresh: frozenset[Key]
    """Remote partitions without a position."""
    first: bool
    """The flow has no position at all, but perhaps the mark of its owner."""
    beside: frozenset[str]
    """State names of the environment's other flows."""

    @property
    def copied(self) -> Mapping[Key, tuple[str, int]]:
        """Remote partitions that the flow itself has copied, by its offset map, with the next source offset."""
        return self.facts.copied.get(self.copies.state, {})

    @property
    def own_topics(self) -> frozenset[str]:
        """MirrorMaker 2's internal topics that the flow itself writes for clients, so that they do not show a running
        MirrorMaker 2."""
        return frozenset(topic.ref.name for topic in of_mirrormaker(self.flow))

    @property
    def twice(self) -> list[Key]:
        """Partitions without a position that already hold records. Without flows with same offsets, which compare both
        logs. With provenance, which shares topics with producers, only records of a known mirror. Without copies of
        another flow of this environment: for these the job waits for ``mirror seek --from-flow``."""
        if self.flow.keeps_offsets:
            return []
        others = [self.facts.positions.get(state, {}) for state in self.beside]
        held = sorted(self.fresh & self.facts.held.keys())
        if self.flow.provenance is not None and held:
            stored = {(stored.topic, stored.partition) for _, stored in self.stored}
            held = [key for key in held if key in self.copied or self.copies.partitions[key] in stored]
        waits = {key for key in held if any(key in at for at in others) or self._copied_by(key) in self.beside}
        return [key for key in held if key not in waits]

    def _copied_by(self, key: Key) -> str:
        return self.copied.get(key, ("", 0))[0]

    @property
    def stored(self) -> Iterator[tuple[str, Stored]]:
        """MirrorMaker 2's positions on the target, with the Connect topic that holds them."""
        for topic, read in self.facts.connect.items():
            if not isinstance(read, Unknown):
                yield from ((topic, stored) for stored in positions(read).positions)

    @property
    def still_copied(self) -> Mapping[str, Sequence[Key]]:
        """Groups of a dedicated MirrorMaker 2 that has members -> partitions of ``twice`` with its stored positions,
        which the flow would begin by its ``start``. Workers of Connect do not show which connectors run."""
        wanted = {self.copies.partitions[key]: key for key in self.twice if self.start(key)}
        running = {group for group, state in self.facts.workers.items() if state not in ("", "Empty")}
        covered: dict[str, set[Key]] = defaultdict(set)
        for _, stored in self.stored:
            key, group = wanted.get((stored.topic, stored.partition)), f"{stored.alias}-mm2"
            if key is not None and group in running:
                covered[group].add(key)
        return {group: sorted(keys) for group, keys in sorted(covered.items())}

    @property
    def shared(self) -> list[Key]:
        """Partitions in which a flow with provenance would copy beside records of an unknown writer."""
        if self.flow.provenance is None:
            return []
        held = (self.fresh & self.facts.held.keys()).difference(self.twice)
        return sorted(key for key in held if self.start(key) not in _BEGIN_LATE)

    @property
    def lost(self) -> list[Key]:
        """Partitions of ``twice`` that the flow itself has copied."""
        return [key for key in self.twice if self._copied_by(key) == self.copies.state and not self.start(key)]

    @property
    def strange(self) -> list[Key]:
        """Partitions of ``twice`` that others wrote, without a ``start`` that says how to begin."""
        return [key for key in self.twice if self._copied_by(key) != self.copies.state and not self.start(key)]

    def start(self, key: Key) -> str:
        """How a job begins the partition by the flow's ``start``; empty without one."""
        start, (topic, number) = self.flow.start, self.copies.partitions[key]
        begin = (start.offsets or {}).get(topic, {}).get(number)
        if begin is not None:
            copied_by, copied_to = self.copied.get(key, ("", 0))
            return "" if copied_by == self.copies.state and copied_to > begin else "offsets"
        agreed = start.unnamed == AGAIN or (self.first and start.unnamed in _BEGIN_LATE)
        return start.unnamed if agreed and key not in self.copied else ""

    def hops(self, keys: Iterable[Key]) -> frozenset[TopicHop]:
        flow = self.flow
        return frozenset(
            TopicHop(TopicRef(flow.source, self.copies.partitions[key][0]), TopicRef(flow.target, key[0]), flow.name)
            for key in keys
        )


def judge(topology: Topology, copies: Mapping[str, Sequence[FlowCopies]], facts: Facts) -> tuple[Judged, ...]:
    """Judges each flow with readable positions."""
    by_state = {(flow.target, flow.state_name): flow for flow in topology.flows.values()}
    states = frozenset(flow.state_name for flow in topology.flows.values())
    return tuple(
        Judged(
            by_state[target, each.state],
            each,
            facts[target],
            frozenset(each.partitions.keys() - positions.keys()),
            all(is_own_topic(topic) for topic, _ in positions),
            states - {each.state},
        )
        for target, some in copies.items()
        for each in some
        if target in facts and (positions := facts[target].positions.get(each.state)) is not None
    )


def copied_again(judged: Iterable[Judged]) -> frozenset[TopicHop]:
    """Topics that a flow copies, or would copy, into remote topics with records, at most from a given time on."""
    starts = ("", AGAIN, "timestamp")
    return frozenset(
        hop for flow in judged for hop in flow.hops(key for key in flow.twice if flow.start(key) in starts)
    )


def begin_at_the_end(judged: Iterable[Judged]) -> frozenset[str]:
    """Flows that have not begun and leave out what their topics hold now. Once they have begun, they copy new topics
    from the first record."""
    return frozenset(each.flow.name for each in judged if each.first and each.flow.start.kind == "latest")


def copied_first(judged: Iterable[Judged]) -> frozenset[TopicHop]:
    """Topics that a flow copies from their beginning into an existing remote topic, empty or shared."""
    return frozenset(
        hop
        for flow in judged
        for hop in flow.hops(
            key
            for key in (flow.fresh - flow.facts.held.keys()).union(flow.shared)
            if flow.start(key) not in _BEGIN_LATE
        )
    )
