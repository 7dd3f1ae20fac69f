"""One round of group sync: reads the source's groups, translates their offsets, says what to commit.

State between rounds makes a round cheap: an offset is translated again only after the group committed another one.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from reconciler.kafka.client.cluster import EARLIEST, LATEST, NO_ID, ClusterClient, Key
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.client.topic_listing import TopicListing
from reconciler.kafka.protocol.groups.describe_groups import GroupKind
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.groups import (
    GroupSelector,
    Synced,
    UnsupportedGroup,
    checkpoint_due,
    idle,
    may_write,
    unsupported,
)
from reconciler.replication.handover import GroupSettings
from reconciler.replication.mirrormaker_records import Checkpoint
from reconciler.replication.names import OFFSETS_TOPIC
from reconciler.replication.offsets.codec import Ids
from reconciler.replication.offsets.map import Gap, PartitionMap, Translation, beyond_copy
from reconciler.replication.offsets.map_topic import MapReader
from reconciler_mirror.groups.translators import AsCommitted, BothWays, GapCloser

ACTIVE = frozenset({22, 25, 27, 68})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, NON_EMPTY_GROUP: somebody has joined."""
OTHER_KIND = 23
"""INCONSISTENT_GROUP_PROTOCOL: of a name that is a share group on one side alone."""
LOOK_AT_EMPTY_EVERY = 10  # rounds

_BEGINNING = Synced(0, 0)

WriteCheckpoints = Callable[[Sequence[Checkpoint]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round found. ``inexact``: partitions whose offset is a safe earlier one for now, or not known yet;
    ``active``: groups with members at the target, left alone; ``refused``: group -> Kafka's error code; ``gaps``: group
    -> why it stays inexact for longer than the map lags."""

    groups: int = 0
    checkpoints: tuple[Checkpoint, ...] = ()
    written: int = 0
    inexact: int = 0
    active: tuple[str, ...] = ()
    unsupported: Mapping[str, UnsupportedGroup] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    gaps: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Entry:
    """One partition of one group."""

    committed: CommittedOffset
    ids: Ids | None = None
    """Source and target topic that ``downstream`` belongs to; recreated topics of these names have other offsets."""
    map: PartitionMap | None = None
    """The map that gave ``downstream``: a newer one may know better."""
    gap: Gap | None = None
    """Of the map, where the group's offset lies in one."""
    downstream: int | None = None
    """The translated offset, perhaps a safe earlier one; None while it is unknown."""
    exact: bool = False
    last: Synced | None = None
    """What the last checkpoint says; a rewind is a commit below it."""
    rewound: bool = False
    """The group went back at the source, so the target may go back, too (``follow_rewinds``)."""


class GroupRounds:
    """The rounds of one flow."""

    def __init__(
        self,
        settings: GroupSettings,
        source: ClusterClient,
        target: ClusterClient,
        checkpoints: Mapping[tuple[str, str, int], Checkpoint],
        further: BothWays | GapCloser | AsCommitted | None = None,
    ) -> None:
        """``checkpoints``: the last of each group, target topic and partition, so that a new application continues
        where an earlier one ended. ``further``: where the map alone is not enough. ``BothWays``: the target writes the
        same topics, and its records come to the source. ``AsCommitted``: no map exists, copies keep the source's
        offsets."""
        self._selector: GroupSelector = settings.selector()
        self._follow = settings.follow_rewinds
        self._both = further if isinstance(further, BothWays) else None
        self._closer = further if isinstance(further, GapCloser) else None
        self._same = further if isinstance(further, AsCommitted) else None
        self._source, self._target = source, target
        self._source_groups, self._target_groups = GroupClient(source), GroupClient(target)
        self._listings = TopicListing(source), TopicListing(target)
        self._ids: dict[tuple[str, str], Ids] = {}
        self._former: set[Key] = set()  # whose remote topic was recreated, with nothing copied into it yet
        # Where this application or one before it set a group last: by it a rewind is recognised, and nothing is written
        # twice.
        self._last = {
            where: Synced(checkpoint.upstream, checkpoint.downstream) for where, checkpoint in checkpoints.items()
        }
        self._entries: dict[str, dict[Key, _Entry]] = {}
        self._empty: dict[Key, int] = {}
        self._ends: dict[tuple[Key, Ids | None], int] = {}
        self._round = 0
        self._shares: frozenset[str] = frozenset()

    async def run(self, routes: Mapping[Key, str], maps: MapReader, write: WriteCheckpoints) -> RoundResult:
        """``routes``: source partition -> target topic; ``maps``: of the flow, as of the last refresh; ``write`` writes
        checkpoints. Raises what ``kafka.client.groups`` and ``write`` raise.

        A checkpoint of an advance is written before the offset is set, one of a rewind after it: an application killed
        in between leaves what the next one takes for the same advance or rewind.
        """
        self._round += 1
        listed = {
            name: group
            for name, group in (await self._source_groups.listed()).items()
            if self._selector.why_not(name) is None
        }
        # Start offsets of share groups travel where offsets are the same and both clusters serve them.
        shares = frozenset(name for name, group in listed.items() if group.kind is GroupKind.SHARE)
        if shares and self._same is not None:
            served = [await groups.has_share_offsets() for groups in (self._source_groups, self._target_groups)]
            self._shares = shares if all(served) else frozenset()
        else:
            self._shares = frozenset()
        named = {
            name: unsupported_group
            for name, group in listed.items()
            if name not in self._shares and (unsupported_group := unsupported(group.kind, name, "", ()))
        }
        await self._read(listed.keys() - named.keys(), routes)
        # Whether a group is one of Kafka Streams shows in the topics that it commits, so only after they were read.
        for group, entries in self._entries.items():
            topics = {topic for topic, _ in entries}
            if group not in self._shares and (why := unsupported(listed[group].kind, group, "", topics)):
                named[group] = why
        # Ids are asked for in each round, just before they count: a topic that was recreated in between has other
        # offsets under the same name.
        self._ids.clear()
        self._former.clear()
        await self._look_up((key[0], routes[key]) for _, key, entry in self._each() if not entry.exact)
        if self._both is not None:
            await self._both.refresh()
        if self._same is not None:
            await self._same.refresh({(routes[key], key[1]) for _, key, entry in self._each() if not entry.exact})
            # An offset means the same record on both sides, and a partition without a record has its end, too.
            unknown: set[Key] = set()
            for _, key, entry in self._each():
                if not entry.exact:
                    entry.ids = self._ids.get((key[0], routes[key]))
                    translation = self._same.translate((routes[key], key[1]), entry.committed.offset)
                    entry.downstream, entry.exact = translation.offset, translation.exact
        else:
            unknown = self._translate(maps, routes)
        # Only now, with every translation made: an offset behind the end of the target's log would send the group to
        # where its auto.offset.reset says.
        beyond = {} if self._same is not None else await self._beyond(routes)
        gaps = {**await self._close_gaps(maps, routes), **beyond}
        await self._look_at_empty(unknown, routes)
        advances, rewinds = self._due(routes)
        await write(advances)
        written, active, refused = await self._write(routes)
        await write(rewinds)
        return RoundResult(
            groups=len(self._entries),
            checkpoints=(*advances, *rewinds),
            written=written,
            inexact=sum(not entry.exact for _, _, entry in self._each()),
            active=active,
            unsupported=named,
            refused=refused,
            gaps=gaps,
        )

    def _each(self) -> Iterator[tuple[str, Key, _Entry]]:
        """Group, source partition, entry."""
        for group, entries in self._entries.items():
            for key, entry in entries.items():
                yield group, key, entry

    async def _read(self, names: Iterable[str], routes: Mapping[Key, str]) -> None:
        """Brings the entries up to date with what groups committed at the source. Groups and partitions that are gone
        are dropped, so memory follows the cluster. A group that went back behind what was last written for it is a
        rewind, which is followed only where the flow has ``follow_rewinds``."""
        groups = await self._source_groups.offsets(names, share=self._shares)
        for group in self._entries.keys() - groups.keys():
            del self._entries[group]
        for group, group_offsets in groups.items():
            if group_offsets.error:
                continue
            offsets = {key: committed for key, committed in group_offsets.offsets.items() if key in routes}
            if not offsets:
                self._entries.pop(group, None)
                continue
            entries = self._entries.setdefault(group, {})
            for key in entries.keys() - offsets.keys():
                del entries[key]
            for key, committed in offsets.items():
                entry = entries.get(key)
                # Most positions have not moved since the last round: their translation still holds.
                if entry is None:
                    entry = entries[key] = _Entry(committed, last=self._last.get((group, routes[key], key[1])))
                elif entry.committed == committed:
                    continue
                if entry.last is not None and committed.offset < entry.last.upstream:
                    entry.rewound = True
                entry.committed = committed
                _forget(entry)

    async def _look_up(self, topics: Iterable[tuple[str, str]]) -> None:
        """Ids of source topics and their remote topics, once a round, as far as both exist. Asked for just before they
        count: topics that the driver discovered may have been deleted and recreated since."""
        wanted = set(topics) - self._ids.keys()
        if not wanted:
            return
        known: list[dict[str, UUID]] = []
        for side, listing in enumerate(self._listings):
            answers = await listing.of(sorted({pair[side] for pair in wanted}))
            there = [topic for topic in answers if not topic.error or any(topic.topic_id)]
            known.append({topic.name: UUID(bytes=topic.topic_id) for topic in there})
        source, target = known
        pairs = [(topic, remote) for topic, remote in wanted if topic in source and remote in target]
        self._ids |= {(topic, remote): (source[topic], target[remote]) for topic, remote in pairs}

    def _translate(self, maps: MapReader, routes: Mapping[Key, str]) -> set[Key]:
        """Returns the partitions that the map does not know."""
        unknown: set[Key] = set()
        current: dict[Key, PartitionMap] = {}
        same: dict[tuple[Key, int], Translation] = {}  # groups that have caught up share an offset
        for entries in self._entries.values():
            for key, entry in entries.items():
                if entry.exact:
                    continue
                # A topic that was recreated starts its offsets at 0: what was translated for the former one means
                # nothing.
                ids = self._ids.get((key[0], routes[key]))
                if ids is None or entry.ids != ids:
                    _forget(entry)
                if ids is None:
                    continue
                known = current.get(key)
                if known is None:
                    known = current[key] = maps.partition(*key, ids)
                    place = maps.place(*key)
                    if place is not None and known.source_end is None and not place.is_of((NO_ID, ids[1])):
                        self._former.add(key)
                entry.ids = ids
                if self._both is not None:
                    translation = self._both.translate(key, entry.committed.offset, ids)
                    entry.map, entry.downstream, entry.exact = known, translation.offset, translation.exact
                elif entry.map is not known:
                    entry.map = known
                    downstream = same.get((key, entry.committed.offset))
                    if downstream is None:
                        downstream = same[key, entry.committed.offset] = known.downstream(entry.committed.offset)
                    entry.downstream, entry.exact, entry.gap = downstream.offset, downstream.exact, downstream.gap
                if entry.downstream is None:
                    unknown.add(key)
        return unknown

    async def _beyond(self, routes: Mapping[Key, str]) -> dict[str, str]:
        """Forgets translations that the target's log cannot hold: it lost records, or another client than the mirror
        wrote to the map. Nor does a checkpoint beyond that log show that a group went back. Returns which, in words.

        Asked after the map was read, and only for what the last known end does not cover."""
        asked = {
            (routes[key], key[1]): entry.ids
            for _, key, entry in self._each()
            if max(entry.downstream or 0, entry.last.downstream if entry.rewound and entry.last else 0)
            > self._ends.get(((routes[key], key[1]), entry.ids), 0)
        }
        if not asked:
            return {}
        await self._target.refresh({topic for topic, _ in asked})
        answers = await self._target.list_offsets(dict.fromkeys(asked, LATEST), committed=False)
        self._ends |= {(twin, asked[twin]): end for twin, end in answers.items() if isinstance(end, int)}
        reasons: dict[str, str] = {}
        for group, key, entry in self._each():
            twin = (routes[key], key[1])
            if twin not in asked or (end := self._ends.get((twin, entry.ids))) is None:
                continue
            if entry.rewound and entry.last is not None and entry.last.downstream > end and key not in self._former:
                entry.rewound = False
            if entry.downstream is not None and entry.downstream > end:
                why = beyond_copy(entry.downstream, twin, end, f"the offset map ({OFFSETS_TOPIC})")
                reasons[group] = f"{key[0]}-{key[1]} (at {entry.committed.offset}): {why}"
                _forget(entry)
        return reasons

    async def _close_gaps(self, maps: MapReader, routes: Mapping[Key, str]) -> dict[str, str]:
        """For the next round. Returns why groups stay inexact."""
        if self._closer is None:
            return {}
        wanted: dict[Key, set[Gap]] = {}
        for _, key, entry in self._each():
            nothing_there = entry.downstream is not None and entry.map is not None and entry.map.source_end is None
            if entry.gap is not None and not nothing_there:
                wanted.setdefault(key, set()).add(entry.gap)
        open_gaps = await self._closer.close(wanted, routes, maps)
        return {
            group: f"{key[0]}-{key[1]} (at {entry.committed.offset}): {open_gaps[key, entry.gap]}"
            for group, key, entry in (self._each() if open_gaps else ())
            if entry.gap is not None and (key, entry.gap) in open_gaps
        }

    async def _look_at_empty(self, unknown: set[Key], routes: Mapping[Key, str]) -> None:
        """A partition without a record on either side translates to its end at the target. Where the map begins after
        the group's offset, it translates to the target's beginning for now, so that the group misses nothing."""
        before = self._round - LOOK_AT_EMPTY_EVERY
        due = [key for key in unknown if self._empty.get(key, before) <= before]
        self._empty |= dict.fromkeys(due, self._round)
        for key in self._empty.keys() - unknown:
            del self._empty[key]
        if not due:
            return
        here, there = set(due), {(routes[key], key[1]) for key in due}
        begin, end = await _bounds(self._source, here)
        target_begin, target_end = await _bounds(self._target, there)
        for _, key, entry in self._each():
            twin = (routes[key], key[1])
            if key not in here or entry.downstream is not None or key not in begin or twin not in target_begin:
                continue
            if begin[key] == end[key] and target_begin[twin] == target_end[twin]:
                entry.downstream = target_end[twin]
            elif entry.map is not None and entry.map.source_end is not None:
                entry.downstream = target_begin[twin]

    def _due(self, routes: Mapping[Key, str]) -> tuple[list[Checkpoint], list[Checkpoint]]:
        """Of groups that went on, and of those that went back at the source."""
        advances: list[Checkpoint] = []
        rewinds: list[Checkpoint] = []
        for group, key, entry in self._each():
            if key in self._former and entry.last not in (None, _BEGINNING):
                # It is the former topic's. Readers of checkpoints begin with the new one until it is copied again.
                entry.last = _BEGINNING
                rewinds.append(Checkpoint(group, routes[key], key[1], 0, 0))
            if entry.downstream is None or not (self._same or (entry.map and entry.map.source_end is not None)):
                continue  # nothing was mirrored yet: no checkpoint, as in MirrorMaker 2
            if group in self._shares:
                continue  # a reader of checkpoints would commit them, which makes a group of another kind
            # Of offsets that are the same, a checkpoint says no more than the copy reaches.
            now = Synced(entry.downstream if self._same else entry.committed.offset, entry.downstream)
            if not checkpoint_due(entry.last, now, exact=entry.exact):
                continue
            back = entry.last is not None and now.upstream < entry.last.upstream
            entry.last, metadata = now, entry.committed.metadata
            checkpoint = Checkpoint(group, routes[key], key[1], now.upstream, now.downstream, metadata)
            (rewinds if back else advances).append(checkpoint)
        return advances, rewinds

    async def _write(self, routes: Mapping[Key, str]) -> tuple[int, tuple[str, ...], dict[str, int]]:
        """Sets the offsets of groups without members at the target, unless that is a step back. Returns how many
        partitions, the groups that have members, and those that the target refused."""
        listed = await self._target_groups.listed()
        active = {name for name in self._entries.keys() & listed.keys() if not idle(listed[name].state)}
        shared_there = {name for name in self._entries.keys() & listed.keys() if listed[name].kind is GroupKind.SHARE}
        others = {name for name in listed if (name in self._shares) != (name in shared_there)} & self._entries.keys()
        free = self._entries.keys() - active - others
        all_offsets = await self._target_groups.offsets(free & listed.keys(), share=self._shares)
        wanted: dict[str, dict[Key, CommittedOffset]] = {}
        for group in free:
            known = all_offsets.get(group)
            if known is not None and known.error:
                continue
            offsets = known.offsets if known is not None else {}
            for key, entry in self._entries[group].items():
                twin = (routes[key], key[1])
                on_target = offsets.get(twin)
                if entry.downstream is None:
                    continue
                rewound = self._follow and entry.rewound
                if may_write(entry.downstream, on_target.offset if on_target else None, rewound=rewound):
                    committed = CommittedOffset(entry.downstream, metadata=entry.committed.metadata)
                    wanted.setdefault(group, {})[twin] = committed
                elif on_target is not None and entry.downstream >= on_target.offset:
                    entry.rewound = False
        # Kafka deletes a group's offset with its topic. What was translated for a topic that was deleted since would be
        # set in the middle of another log, so ids are looked up once more just before the commit.
        places = [(group, key, (routes[key], key[1])) for group in wanted for key in self._entries[group]]
        places = [place for place in places if place[2] in wanted[place[0]]]
        await self._look_up((key[0], twin[0]) for _, key, twin in places)
        for group, key, twin in places:
            entry = self._entries[group][key]
            if entry.ids != self._ids.get((key[0], twin[0])):
                del wanted[group][twin]
                _forget(entry)
        answers = await self._target_groups.commit(wanted, share=self._shares)
        codes = {group: max(codes.values(), default=0) for group, codes in answers.items()}
        joined = {group for group, code in codes.items() if code in ACTIVE}
        written = sum(len(wanted[group]) for group, code in codes.items() if code == 0)
        refused = {group: code for group, code in codes.items() if code and code not in ACTIVE}
        refused |= dict.fromkeys(others, OTHER_KIND)
        return written, tuple(sorted(active | joined)), refused


def _forget(entry: _Entry) -> None:
    """The next round translates it again."""
    entry.ids = entry.map = entry.gap = entry.downstream = None
    entry.exact = False


async def _bounds(cluster: ClusterClient, keys: set[Key]) -> tuple[dict[Key, int], dict[Key, int]]:
    """(log start, log end) of each partition; a partition with unknown bounds is in neither."""
    await cluster.refresh({topic for topic, _ in keys})
    begin = await cluster.list_offsets(dict.fromkeys(keys, EARLIEST), committed=False)
    end = await cluster.list_offsets(dict.fromkeys(keys, LATEST), committed=False)
    known = [
        (key, first, last) for key in keys if isinstance(first := begin[key], int) and isinstance(last := end[key], int)
    ]
    return {key: first for key, first, _ in known}, {key: last for key, _, last in known}
