"""Which of MirrorMaker 2's positions a flow can go on from, and why not from the others.

Border: nouns in, nouns out; ``inheritance`` reads both clusters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from reconciler.counts import counted
from reconciler.inheriting.records import Key, Records, Stored
from reconciler.routing import selector_of
from reconciler.topology import Flow, TopicRef


@dataclass(frozen=True, slots=True)
class World:
    """What both clusters answered. ``partitions``: of the source's topics. ``bounds``: first offset and end by source
    topic and partition. ``own``: positions the flow has already, by remote topic; ``remotes``: topics of the target."""

    partitions: Mapping[str, int]
    bounds: Mapping[Key, tuple[int, int]]
    own: Mapping[Key, int]
    remotes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Topic:
    """``positions``: partition -> the first source offset to copy. ``behind``: offsets from there to the source's end.
    ``fresh``: partitions that hold records and begin where ``start`` says, since nobody has a position for them."""

    name: str
    remote: str
    partitions: int
    positions: Mapping[int, int]
    behind: int
    fresh: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """What was found and is not taken over: a partition, a topic, a connector."""

    subject: str
    why: str


@dataclass(frozen=True, slots=True)
class Inheritance:
    """``place``: the offsets topic. ``obstacles``: why these positions must not be written now."""

    flow: Flow
    place: TopicRef
    topics: tuple[Topic, ...]
    left: tuple[Left, ...]
    notes: tuple[str, ...]
    obstacles: tuple[str, ...] = ()

    @property
    def offsets(self) -> Mapping[str, Mapping[int, int]]:
        return {one.name: one.positions for one in self.topics if one.positions}


@dataclass(slots=True)
class _Sorted:
    """Positions, sorted into what is taken and what is left."""

    taken: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    left: list[Left] = field(default_factory=list)


def wanted(records: Records, connector: str, alias: str) -> Mapping[Key, int]:
    """Next offsets of the source that MirrorMaker 2 calls ``alias``, as its connector stored them."""
    return {
        (one.topic, one.partition): at
        for one, at in sorted(records.positions.items(), key=lambda item: (item[0].topic, item[0].partition))
        if (one.connector, one.alias) == (connector, alias)
    }


def inherit(flow: Flow, place: TopicRef, records: Records, names: tuple[str, str], world: World) -> Inheritance:
    """``names``: of the connector, and of the source as MirrorMaker 2 calls it."""
    connector, alias = names
    sort = _Sorted()
    selector = selector_of(flow)
    unmatched: dict[str, tuple[int, str]] = {}
    for (topic, number), at in wanted(records, connector, alias).items():
        if why := selector.why_not(topic):
            unmatched[topic] = unmatched.get(topic, (0, ""))[0] + 1, why
        elif why := _refused((topic, number), at, selector.remote_name(topic), world):
            sort.left.append(Left(f"{topic}-{number}", why))
        else:
            sort.taken[topic][number] = at
    for topic, (count, why) in unmatched.items():
        sort.left.append(Left(topic, f"{counted(count, 'position')}, and the flow does not mirror it: {why}"))
    sort.left += _strangers(records, connector, alias)
    topics = tuple(_topics(flow, sort, world))
    notes = tuple(_notes(flow, alias, topics, world))
    return Inheritance(flow, place, topics, tuple(sort.left), notes, tuple(_obstacles(flow)))


def _obstacles(flow: Flow) -> Iterator[str]:
    if flow.start.kind == "timestamp":
        yield "the flow's start is a timestamp, beside which offsets cannot stand. Make it earliest or latest first"


def _refused(key: Key, at: int, remote: str, world: World) -> str:
    """Why a position is of no use; empty when it is."""
    topic, number = key
    if topic not in world.partitions:
        return f"stands at {at}, and the source has no such topic (any more)"
    if number >= world.partitions[topic]:
        return f"stands at {at}, and the source has {counted(world.partitions[topic], 'partition')} of the topic"
    if (own := world.own.get((remote, number))) is not None:
        return f"the flow has a position of its own, {own}, so start.offsets would mean nothing (mirror seek moves it)"
    begin, end = world.bounds[key]
    if at < begin:
        lost = counted(begin - at, "offset")
        return f"stands at {at}, and the source begins at {begin}: {lost} deleted before they were copied"
    if at > end:
        return f"stands at {at}, and the source ends at {end}: its topic was made anew, or lost records"
    return ""


def _strangers(records: Records, connector: str, alias: str) -> Iterator[Left]:
    """Positions of another connector or source, what is no offset, and keys that are of no partition."""
    others = Counter((one.connector, one.alias) for one in records.positions)
    for (name, source), count in sorted(others.items()):
        found = counted(count, "position")
        if name != connector:
            yield Left(f"connector {name}", f"{found} of another connector than {connector} (--connector)")
        elif source != alias:
            yield Left(f"source {source}", f"{found} of another source than {alias} (--alias)")
    for one, text in sorted(records.broken.items(), key=lambda item: _order(item[0])):
        if (one.connector, one.alias) == (connector, alias):
            yield Left(f"{one.topic}-{one.partition}", f"the last value is {text!r}, which is no offset")
    for name, count in sorted(records.unread.items()):
        if name:
            yield Left(f"connector {name}", f"{counted(count, 'record')} of no source partition")
        else:
            yield Left("unreadable keys", f"{counted(count, 'record')} that no connector writes")


def _order(one: Stored) -> tuple[str, int]:
    return one.topic, one.partition


def _topics(flow: Flow, sort: _Sorted, world: World) -> Iterator[Topic]:
    """Every topic that the flow mirrors, those without a position too."""
    selector = selector_of(flow)
    for name, count in sorted(world.partitions.items()):
        if selector.why_not(name) is not None:
            continue
        remote, taken = selector.remote_name(name), sort.taken.get(name, {})
        behind = sum(max(0, world.bounds[name, number][1] - at) for number, at in taken.items())
        fresh = tuple(
            number
            for number in range(count)
            if number not in taken and (remote, number) not in world.own and _holds(world, (name, number))
        )
        yield Topic(name, remote, count, MappingProxyType(dict(taken)), behind, fresh)


def _holds(world: World, key: Key) -> bool:
    begin, end = world.bounds.get(key, (0, 0))
    return end > begin


def _notes(flow: Flow, alias: str, topics: tuple[Topic, ...], world: World) -> Iterator[str]:
    otherwise = flow.start.otherwise or flow.start.kind
    if fresh := [one for one in topics if one.fresh]:
        count = counted(sum(len(one.fresh) for one in fresh), "partition")
        named = ", ".join(one.name for one in fresh[:5]) + (" ..." if len(fresh) > 5 else "")
        yield f"{count} of {named} with records and without a position: copied from {otherwise} on, as start says"
        if doubled := [one.name for one in fresh if one.remote in world.remotes and otherwise != "latest"]:
            yield f"what {', '.join(doubled[:5])} has at {flow.target} already, from these partitions, comes again"
    if missing := [one for one in topics if one.positions and one.remote not in world.remotes]:
        renamed = f"; MirrorMaker 2 calls the source {alias}" if alias != flow.source else ""
        yield (
            f"{missing[0].remote} is not at {flow.target}: records before the position would be in another topic, or"
            f" nowhere{renamed}. Look at the flow's naming and at the names of its clusters"
        )
