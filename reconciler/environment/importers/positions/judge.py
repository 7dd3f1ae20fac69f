"""Reads MirrorMaker 2's positions from records of Kafka Connect's offsets topic, and decides from which of them a flow
can continue, with reasons against the others.

Key: JSON ``[connector, {"cluster": alias, "partition": 0, "topic": name}]``; value: ``{"offset": n}``, the source
offset of the last record that was copied. The last record of a key counts, and null takes a position back (KIP-875).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from reconciler.model.environment.topology import Flow, TopicRef
from reconciler.replication.handover import AGAIN
from reconciler.replication.json_codec import parsed
from reconciler.replication.offsets.in_flight import InFlight
from reconciler.resources.flows.routes import selector_of
from reconciler.text import counted, first_of

Key = tuple[str, int]

_MOST = (1 << 63) - 2


@dataclass(frozen=True, slots=True)
class Stored:
    """The key of a stored position; ``alias``: the source as MirrorMaker 2 calls it."""

    connector: str
    alias: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Records:
    """``positions``: the next source offset to copy, one after the stored one. ``broken``: partitions whose last value
    is no offset, with that value. ``unread``: connector -> number of records whose key names no source partition, such
    as those of heartbeats and checkpoints; the empty name for keys that no connector writes."""

    positions: Mapping[Stored, int]
    broken: Mapping[Stored, str]
    unread: Mapping[str, int]


def positions(records: Iterable[tuple[bytes | None, bytes | None]]) -> Records:
    """``records``: in the order of their partition. Never raises, whatever they hold."""
    last: dict[Stored, bytes | None] = {}
    unread: Counter[str] = Counter()
    for key, value in records:
        match _json(key or b""):
            case [str(connector), {"cluster": str(alias), "topic": str(topic), "partition": int(number)}] if (
                type(number) is int and 0 <= number < 1 << 31  # not a bool, which is an int for Python
            ):
                last[Stored(connector, alias, topic, number)] = value
            case [str(connector), *_]:
                unread[connector] += 1
            case _:
                unread[""] += 1
    all_positions: dict[Stored, int] = {}
    broken: dict[Stored, str] = {}
    for stored, value in last.items():
        if value is None or (data := _json(value)) is None:
            continue
        offset = data.get("offset") if isinstance(data, dict) else None
        if type(offset) is int and 0 <= offset <= _MOST:
            all_positions[stored] = offset + 1
        else:
            broken[stored] = value[:60].decode(errors="replace")
    return Records(all_positions, broken, dict(unread))


def _json(text: bytes) -> object:
    """Parsed JSON; invalid JSON becomes a value that is no position."""
    try:
        return parsed(text)
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class PositionAnswers:
    """Answers of both clusters."""

    partitions: Mapping[str, int]
    """Of the source's topics."""
    bounds: Mapping[Key, tuple[int, int]]
    """Source partition -> first offset and end."""
    own: Mapping[Key, int]
    """Existing positions of the flow, by remote topic."""
    remotes: frozenset[str]
    """Topics of the target."""
    in_flight: Mapping[Key, InFlight | str] = field(default_factory=dict)
    """Copied records after the stored positions, or why they were not read."""
    beginnings: Mapping[Key, InFlight | str] = field(default_factory=dict)
    """The same for partitions without a position, from the beginning of both logs."""


@dataclass(frozen=True, slots=True)
class ImportedTopic:
    """The positions of one source topic that an import would write."""

    name: str
    remote: str
    partitions: int
    positions: Mapping[int, int]
    """Partition -> the first source offset to copy."""
    behind: int
    """Offsets from there to the source's end."""
    fresh: tuple[int, ...]
    """Partitions that hold records and begin where ``start`` says, since they have no position, but for those
    ``stopped``: their remote partitions hold records, and nothing proves where MirrorMaker 2 ended."""
    stopped: tuple[int, ...] = ()

    @property
    def begun(self) -> list[int]:
        return [number for number in self.fresh if number not in self.stopped]


@dataclass(frozen=True, slots=True)
class NotImported:
    """A partition, topic or connector that is not taken over."""

    subject: str
    why: str


@dataclass(frozen=True, slots=True)
class Inheritance:
    """The positions that an import would write for one flow, or why it must not."""

    flow: Flow
    place: TopicRef
    """The offsets topic."""
    topics: tuple[ImportedTopic, ...]
    left: tuple[NotImported, ...]
    notes: tuple[str, ...]
    obstacles: tuple[str, ...] = ()
    """Why these positions must not be written now."""

    @property
    def offsets(self) -> Mapping[str, Mapping[int, int]]:
        return {topic.name: topic.positions for topic in self.topics if topic.positions}

    @property
    def stopped(self) -> int:
        """Partitions that stay stopped when all of this is written."""
        return sum(len(topic.stopped) for topic in self.topics)


def wanted(records: Records, connector: str, alias: str) -> Mapping[Key, int]:
    """Next offsets of the source that MirrorMaker 2 calls ``alias``, as its connector stored them."""
    return {
        (stored.topic, stored.partition): at
        for stored, at in sorted(records.positions.items(), key=lambda item: (item[0].topic, item[0].partition))
        if (stored.connector, stored.alias) == (connector, alias)
    }


def inherit(
    flow: Flow, place: TopicRef, records: Records, names: tuple[str, str], world: PositionAnswers
) -> Inheritance:
    """``names``: of the connector, and of the source as MirrorMaker 2 calls it."""
    connector, alias = names
    taken: dict[str, dict[int, int]] = defaultdict(dict)
    not_imported: list[NotImported] = []
    selector = selector_of(flow)
    unmatched: dict[str, tuple[int, str]] = {}
    for (topic, number), at in wanted(records, connector, alias).items():
        if why := selector.why_not(topic):
            unmatched[topic] = unmatched.get(topic, (0, ""))[0] + 1, why
        elif why := _refused((topic, number), at, selector.remote_name(topic), world):
            not_imported.append(NotImported(f"{topic}-{number}", why))
        else:
            known = world.in_flight.get((topic, number))
            taken[topic][number] = known.start if isinstance(known, InFlight) else at
    # A killed MirrorMaker 2 has copied records before it stored a position: both logs show how far it came.
    for (topic, number), read in sorted(world.beginnings.items()):
        if why := _unproved(read, flow.target):
            words = f"no position was stored, and where MirrorMaker 2 ended is not proved: {why}"
            not_imported.append(NotImported(f"{topic}-{number}", words))
        elif isinstance(read, InFlight) and read.copied:
            taken[topic][number] = read.start
    for topic, (count, why) in unmatched.items():
        not_imported.append(NotImported(topic, f"{counted(count, 'position')}, and the flow does not mirror it: {why}"))
    not_imported += _strangers(records, connector, alias)

    # Every topic that the flow mirrors, those without a position too.
    topics: list[ImportedTopic] = []
    for name, count in sorted(world.partitions.items()):
        if selector.why_not(name) is not None:
            continue
        remote, at_each = selector.remote_name(name), taken.get(name, {})
        behind = sum(max(0, world.bounds[name, number][1] - at) for number, at in at_each.items())
        without = [number for number in range(count) if number not in at_each and (remote, number) not in world.own]
        bounds = {number: world.bounds[name, number] for number in without if (name, number) in world.bounds}
        for number in (number for number in without if number not in bounds):
            words = "no position was stored, and the source does not report its offsets: what it holds is not known"
            not_imported.append(NotImported(f"{name}-{number}", words))
        fresh = tuple(number for number, (begin, end) in bounds.items() if end > begin)
        looked = {number: world.beginnings.get((name, number)) for number in fresh}
        stopped = tuple(number for number, read in looked.items() if read is not None and _unproved(read, flow.target))
        topics.append(ImportedTopic(name, remote, count, MappingProxyType(dict(at_each)), behind, fresh, stopped))

    why = "the flow's start is a timestamp, which cannot be combined with offsets. Make it earliest or latest first"
    obstacles = (why,) if flow.start.kind == "timestamp" else ()
    notes = tuple(_notes(flow, alias, topics, world))
    return Inheritance(flow, place, tuple(topics), tuple(not_imported), notes, obstacles)


def _refused(key: Key, at: int, remote: str, world: PositionAnswers) -> str:
    """Why a position cannot be used; empty if it can."""
    topic, number = key
    if topic not in world.partitions:
        return f"is at {at}, and the source has no such topic (any more)"
    if number >= world.partitions[topic]:
        return f"is at {at}, and the source has {counted(world.partitions[topic], 'partition')} of the topic"
    if (own := world.own.get((remote, number))) is not None:
        return f"the flow has a position of its own, {own}, so start.offsets would mean nothing (mirror seek moves it)"
    begin, end = world.bounds[key]
    if at < begin:
        lost = counted(begin - at, "offset")
        return f"is at {at}, and the source begins at {begin}: {lost} deleted before they were copied"
    if at > end:
        return f"is at {at}, and the source ends at {end}: its topic was recreated, or lost records"
    return ""


def _unproved(read: InFlight | str, target: str) -> str:
    """Why a partition without a position cannot continue after the target's records; empty if it can."""
    if isinstance(read, str) or read.unknown:
        return read if isinstance(read, str) else read.unknown
    if read.again:
        return (
            f"{target} may have {counted(read.again, 'record')} from {read.start} on, and before them are some that it "
            "has not, or that are equal to others"
        )
    return ""


def _strangers(records: Records, connector: str, alias: str) -> Iterator[NotImported]:
    """Positions of other connectors or sources, values that are no offset, and keys that name no partition."""
    others = Counter((stored.connector, stored.alias) for stored in records.positions)
    for (name, source), count in sorted(others.items()):
        strangers = counted(count, "position")
        if name != connector:
            yield NotImported(f"connector {name}", f"{strangers} of another connector than {connector} (--connector)")
        elif source != alias:
            yield NotImported(f"source {source}", f"{strangers} of another source than {alias} (--alias)")
    for stored, text in sorted(records.broken.items(), key=lambda item: (item[0].topic, item[0].partition)):
        if (stored.connector, stored.alias) == (connector, alias):
            yield NotImported(f"{stored.topic}-{stored.partition}", f"the last value is {text!r}, which is no offset")
    for name, count in sorted(records.unread.items()):
        if name:
            yield NotImported(f"connector {name}", f"{counted(count, 'record')} of no source partition")
        else:
            yield NotImported("unreadable keys", f"{counted(count, 'record')} that no connector writes")


def _notes(flow: Flow, alias: str, topics: Sequence[ImportedTopic], world: PositionAnswers) -> Iterator[str]:
    # Records that a killed MirrorMaker 2 had copied without storing a position.
    """What a user should know before the positions are written: records that would come twice or be left out, and
    copies that would go into another topic than MirrorMaker 2's."""
    known = {key: its for key, its in world.in_flight.items() if isinstance(its, InFlight)}
    if in_flight := sum(its.copied for its in known.values()):
        count = counted(sum(its.copied > 0 for its in known.values()), "partition")
        yield (
            f"{counted(in_flight, 'record')} of {count} after the stored positions, as both logs show, were copied to "
            f"{flow.target} already: MirrorMaker 2 was killed. The flow begins after them, so none is copied twice"
        )
    for (topic, number), its in sorted(known.items()):
        if its.again:
            yield (
                f"{topic}-{number}: at most {counted(its.again, 'record')} from {its.start} on come twice: "
                f"{flow.target} may have them, and before them are some that it has not, or that are equal to others"
            )
    begun = [its for its in world.beginnings.values() if isinstance(its, InFlight) and its.copied]
    if begun := [its for its in begun if not _unproved(its, flow.target)]:
        copied = counted(sum(its.copied for its in begun), "record")
        yield (
            f"{copied} of {counted(len(begun), 'partition')} without a position, as both logs show from their beginning"
            f" on, were copied to {flow.target} already: MirrorMaker 2 ended before it stored one. The flow begins"
            " after them, so none is copied twice"
        )
    unknown: dict[str, list[str]] = {}
    for (topic, number), read in sorted(world.in_flight.items()):
        if why := read if isinstance(read, str) else read.unknown:
            unknown.setdefault(why, []).append(f"{topic}-{number}")
    for why, names in unknown.items():
        shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
        yield (
            f"{shown}: whether MirrorMaker 2 had records in flight is not known: {why}. After a kill what it copied in "
            "its last offset.flush.interval.ms comes twice, after a clean stop nothing does"
        )

    # Where copying begins without a position, and whether copies would land elsewhere.
    otherwise = flow.start.unnamed
    if fresh := [topic for topic in topics if topic.begun]:
        count = counted(sum(len(topic.begun) for topic in fresh), "partition")
        named = ", ".join(topic.name for topic in fresh[:5]) + (" ..." if len(fresh) > 5 else "")
        yield f"{count} of {named} with records and without a position: copied from {otherwise} on, as start says"
        unread = [topic for topic in fresh if any((topic.name, n) not in world.beginnings for n in topic.begun)]
        there = [topic.remote for topic in unread if topic.remote in world.remotes and otherwise != "latest"]
        if there and otherwise == AGAIN:
            yield f"what {', '.join(there[:5])} hold at {flow.target} already, from these partitions, is copied again"
        elif there:
            yield (
                f"where {', '.join(there[:5])} hold records at {flow.target} already, these partitions are not copied:"
                " plan and job stop them until start says otherwise: again, or their offsets"
            )
    if stopped := [f"{topic.name}-{number}" for topic in topics for number in topic.stopped]:
        yield (
            f"{counted(len(stopped), 'partition')} not copied, and plan is blocked (remote-topic-not-empty):"
            f" {first_of(stopped)}. Give each its offset in flows.{flow.name}.start.offsets, or write"
            " otherwise: again into start, which copies all of them again"
        )
    if missing := [topic for topic in topics if topic.positions and topic.remote not in world.remotes]:
        renamed = f"; MirrorMaker 2 calls the source {alias}" if alias != flow.source else ""
        yield (
            f"{missing[0].remote} is not at {flow.target}: records before the position would be in another topic, or"
            f" nowhere{renamed}. Check the flow's naming and the names of its clusters"
        )
