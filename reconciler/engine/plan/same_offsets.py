"""The cost of new copies at the source's offsets. Brokers report where their sources begin, and whether they support
it. The plan then has the number of empty records before each copy, the time for them, and copies above the limit."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.model.changes import About, Refused, Subject, Why
from reconciler.model.environment.services import offer_of
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import CopyFacts, Plan
from reconciler.replication.offsets.position_metadata import names_claim
from reconciler.replication.offsets.same import FILLER_LIMIT, FILLERS_PER_SECOND, above_limit, filler_cost, producer_of
from reconciler.resources.flows.routes import TopicHop, hops_between
from reconciler.resources.flows.same_offsets import marker_note, not_new, too_old
from reconciler.resources.protected_names import owner_of
from reconciler.text import BRIEF, counted, first_of, size_words, time_words

EARLIEST, LATEST = -2, -1

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class NewCopy:
    """A source partition of a flow that keeps offsets, without a copy yet."""

    flow: str
    source: Key
    at: int = EARLIEST
    """Where the copy begins, as ListOffsets takes it."""
    offset: int | None = None
    """Set if the flow's ``start`` names it."""
    store: str = ""
    """The program that keeps its own records there, such as a schema registry. The copy has the same name, so the
    program would write to it, too, if it runs at the target."""


def new_copies(topology: Topology, live: LiveState) -> tuple[NewCopy, ...]:
    """Partitions that a flow with same offsets will begin, and where their copies begin. Only for missing copies: an
    existing one has its place."""
    copies = []
    for hop in _hops(topology, live):
        topic, start = live.topic(hop.source), topology.flows[hop.flow].start
        if topic is None or live.topic(hop.remote) is not None:
            continue
        named = (start.offsets or {}).get(topic.name, {})
        at = {"latest": LATEST, "timestamp": start.timestamp_ms or 0}.get(start.unnamed, EARLIEST)
        for part in topic.partitions:
            source = (topic.name, part.index)
            copies.append(NewCopy(hop.flow, source, at, named.get(part.index), _store(hop, live)))
    return tuple(copies)


def _hops(topology: Topology, live: LiveState) -> list[TopicHop]:
    """New copies of flows that keep offsets. Without such flows, as in most environments, nothing is computed."""
    if not any(flow.keeps_offsets for flow in topology.flows.values()):
        return []
    return sorted(hop for hop in hops_between(topology, live) if topology.flows[hop.flow].keeps_offsets)


def _store(hop: TopicHop, live: LiveState) -> str:
    source = live.known(hop.source.cluster)
    if source is None or hop.remote.name != hop.source.name:
        return ""
    return owner_of(hop.source.name, source.topics.keys())


@dataclass(frozen=True, slots=True)
class OldCopy:
    """An existing target partition of a flow that keeps offsets. ``store``: as in ``NewCopy``."""

    flow: str
    target: TopicRef
    partition: int
    store: str = ""

    @property
    def key(self) -> Key:
        return self.target.name, self.partition


def old_copies(topology: Topology, live: LiveState) -> tuple[OldCopy, ...]:
    return tuple(
        OldCopy(hop.flow, hop.remote, part.index, _store(hop, live))
        for hop in _hops(topology, live)
        if (topic := live.topic(hop.remote)) is not None
        for part in topic.partitions
    )


def with_old_copies(plan: Plan, copies: Collection[OldCopy], facts: Mapping[str, CopyFacts]) -> Plan:
    """``plan`` with refusals for existing topics. A position shows how its flow copied; records without one, that
    another producer wrote them. Unknown cases are left to the job, which checks before it writes."""
    refused, strange = list(plan.refused), dict[tuple[str, TopicRef], int]()
    translated: dict[tuple[str, TopicRef], None] = {}
    stores: dict[tuple[str, str], str] = {}
    for copy in copies:
        target = facts.get(copy.target.cluster, CopyFacts())
        if (positions := target.positions.get(copy.flow)) is None:
            continue
        metadata, end = positions.get(copy.key, ""), target.offsets.get(copy.key, 0)
        # A position by a mirror, without the producer of copies at equal offsets: the flow copied at the target's own
        # offsets before, and those copies cannot be moved.
        if names_claim(metadata) and producer_of(metadata) is None:
            translated[copy.flow, copy.target] = None
        elif not names_claim(metadata) and end > 0:
            strange[copy.flow, copy.target] = max(end, strange.get((copy.flow, copy.target), 0))
            stores[copy.flow, copy.target.name] = copy.store
    # The topic's own comparison may have refused it already.
    known = {str(item.subject) for item in refused if item.reason.code is Why.SAME_OFFSETS_NOT_NEW}
    refused += [item for place in translated if str((item := not_new(*place)).subject) not in known]
    notes = [
        f"flow {flow} keeps offsets and has no position of its own for {ref}, which ends at {end:,}: its job writes "
        f"nothing there and says offsets_diverged, unless that topic is the beginning of its source"
        for (flow, ref), end in strange.items()
    ]
    return replace(plan, refused=tuple(refused), notes=(*plan.notes, *notes, *_written_by_both(stores)))


def _written_by_both(stores: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """``stores``: flow and topic -> the program whose store it is."""
    for flow, store in sorted({(flow, store) for (flow, _), store in stores.items() if store}):
        names = [f"'{name}'" for (of, name), its in sorted(stores.items()) if (of, its) == (flow, store)]
        yield (
            f"flow {flow} keeps offsets and copies what {store} keeps for itself, under the same name: "
            f"{first_of(names, BRIEF)}. Where it runs at the target, too, it writes to the copy, whose partitions then "
            "stop with offsets_diverged: leave these topics out of the flow, or run it at one side only"
        )


def copies_asked(
    topology: Topology, copies: Collection[NewCopy], there: Collection[OldCopy] = ()
) -> dict[str, dict[Key, int]]:
    """Cluster -> the questions to it. A target reports the abilities of its brokers, and where existing copies end."""
    asked: dict[str, dict[Key, int]] = {flow.target: {} for flow in topology.flows.values() if flow.keeps_offsets}
    for old in there:
        asked[old.target.cluster][old.key] = LATEST
    for copy in copies:
        if copy.offset is None:
            asked.setdefault(topology.flows[copy.flow].source, {})[copy.source] = copy.at
    return asked


def with_copies(plan: Plan, topology: Topology, copies: Collection[NewCopy], facts: Mapping[str, CopyFacts]) -> Plan:
    """``plan`` with the cost of new copies, and with refusals. ``facts``: answers to ``copies_asked`` by cluster;
    without an answer the plan calls the cost unknown."""
    refused, notes = list(plan.refused), list(plan.notes)

    # The right to write transaction markers: a note if it is missing and the plan creates copies.
    new = {topology.flows[copy.flow].target for copy in copies}
    for name, target in sorted(facts.items()):
        if (right := target.markers) is not None and (right.held is not True or name in new):
            notes.append(marker_note(topology, name, right))
    notes += _written_by_both({(copy.flow, copy.source[0]): copy.store for copy in copies})

    for flow in topology.flows.values():
        if not flow.keeps_offsets:
            continue
        if facts.get(flow.target, CopyFacts(unknown="not asked")).reports_writers is False:
            refused.append(too_old(flow, offer_of(topology.clusters[flow.target])))
        mine, source = [copy for copy in copies if copy.flow == flow.name], facts.get(flow.source, CopyFacts())

        # Where each partition begins, as far as known. ListOffsets answers -1 for a time after the last record.
        firsts: dict[Key, int] = {}
        for copy in mine:
            offset = source.offsets.get(copy.source) if copy.offset is None else copy.offset
            if offset is not None and offset >= 0:
                firsts[copy.source] = offset
        refused += _above_limit(flow, firsts)
        cost = filler_cost(firsts.values())
        if cost.offsets:
            notes.append(
                f"flow {flow.name}: {counted(cost.partitions, 'new partition')} on {flow.target} are first brought to"
                f" where their sources begin: {cost.offsets:,} empty offsets, about {size_words(cost.bytes)}, deleted"
                f" again at once, and {time_words(cost.seconds)} at {FILLERS_PER_SECOND:,} a second, which is an"
                " estimate: measured on a quiet machine, one partition; a busy one took ten times as long and more"
            )
        if missing := len(mine) - len(firsts):
            reason, partitions = source.unknown or "no record is that young", counted(missing, "partition")
            notes.append(f"flow {flow.name}: where {partitions} begin is not known ({reason}), nor what fills them")
    return replace(plan, refused=tuple(refused), notes=tuple(notes))


def _above_limit(flow: Flow, firsts: Mapping[Key, int]) -> Iterator[Refused]:
    """``firsts``: where each partition begins. A copy at the same offsets needs a filler for each offset before
    that."""
    above = sorted(key for key, offset in firsts.items() if above_limit(offset, flow.filler_limit))
    if not above:
        return
    limit = FILLER_LIMIT if flow.filler_limit is None else flow.filler_limit
    worst = max(above, key=lambda key: firsts[key])
    listed = first_of([f"{topic}-{number} at {firsts[topic, number]:,}" for topic, number in above], BRIEF)
    text = (
        f"flow {flow.name} keeps offsets, and {counted(len(above), 'partition')} of {flow.source} begin above its "
        f"limit of {limit:,} empty offsets: {listed}"
    )
    todo = (
        f"Raise filler_limit of the flow to {firsts[worst]} or more, which costs "
        f"{time_words(firsts[worst] / FILLERS_PER_SECOND)} for that partition at the rate measured on a quiet machine, "
        "or leave the topic out"
    )
    yield Refused.of(Subject(About.FLOW, name=flow.name), Why.SAME_OFFSETS_FILLERS, text, todo)
