"""One round of group sync: reads the source's groups, translates their offsets, and commits them at the target.

State between rounds makes a round cheap: an offset is translated again only after the group has committed a new one.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from reconciler.kafka.client.cluster import LATEST, NO_ID, ClusterClient, Key, TopicListing
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.client.small_topics import log_bounds
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
from reconciler.replication.offsets.codec import Ids
from reconciler.replication.offsets.map import THE_MAP, Gap, PartitionMap, Translation, beyond_copy
from reconciler.replication.offsets.map_topic import MapReader
from reconciler_mirror.groups.translators import AsCommitted, BothWays, GapCloser

ACTIVE = frozenset({22, 25, 27, 68})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, NON_EMPTY_GROUP: a member has joined."""
OTHER_KIND = 23
"""INCONSISTENT_GROUP_PROTOCOL: the name is a share group on only one side."""
LOOK_AT_EMPTY_EVERY = 10  # rounds

_BEGINNING = Synced(0, 0)

WriteCheckpoints = Callable[[Sequence[Checkpoint]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The results of one round. ``inexact``: partitions with a safe earlier offset for now, or an unknown one;
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
    """Source and target topic of ``downstream``; recreated topics of the same names have other offsets."""
    map: PartitionMap | None = None
    """The map that gave ``downstream``; a newer one may give a better offset."""
    gap: Gap | None = None
    """The gap of the map that contains the group's offset, if any."""
    downstream: int | None = None
    """The translated offset, perhaps a safe earlier one; None while unknown."""
    exact: bool = False
    last: Synced | None = None
    """The last checkpoint; a commit at the source before it is a rewind."""
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
        """``checkpoints``: the last one of each group, target topic and partition, so that a new application continues
        for the one before. ``further``: translates where the map is not enough. ``BothWays``: producers at the target
        write to the same topics, and a returning flow copies their records. ``AsCommitted``: copies keep the source's
        offsets, without a map."""
        self._selector: GroupSelector = settings.selector()
        self._follow = settings.follow_rewinds
        self._both = further if isinstance(further, BothWays) else None
        self._closer = further if isinstance(further, GapCloser) else None
        self._same = further if isinstance(further, AsCommitted) else None
        self._source, self._target = source, target
        self._source_groups, self._target_groups = GroupClient(source), GroupClient(target)
        self._listings = TopicListing(source), TopicListing(target)
        self._ids: dict[tuple[str, str], Ids] = {}
        self._former: set[Key] = set()  # with a recreated remote topic that has no copies yet
        # The last offsets that this or an earlier application set: they reveal a rewind, and prevent repeated writes.
        self._last = {
            where: Synced(checkpoint.upstream, checkpoint.downstream) for where, checkpoint in checkpoints.items()
        }
        self._entries: dict[str, dict[Key, _Entry]] = {}
        self._empty: dict[Key, int] = {}
        self._ends: dict[tuple[Key, Ids | None], int] = {}
        self._round = 0
        self._shares: frozenset[str] = frozenset()

    async def run(self, routes: Mapping[Key, str], maps: MapReader, write: WriteCheckpoints) -> RoundResult:
        """``routes``: source partition -> target topic; ``maps``: the flow's, as of the last refresh; ``write`` writes
        checkpoints. Raises the exceptions of ``kafka.client.groups`` and ``write``.

        The checkpoint of an advance is written before the offset is committed, that of a rewind after it: after a crash
        in between, the next application sees the same advance or rewind again.
        """
        self._round += 1
        listed = {
            name: group
            for name, group in (await self._source_groups.listed()).items()
            if self._selector.why_not(name) is None
        }
        # Start offsets of share groups are synced if copies keep offsets, and both clusters offer the requests.
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
        # Only the topics of its commits reveal a group of Kafka Streams, so this check follows the read.
        for group, entries in self._entries.items():
            topics = {topic for topic, _ in entries}
            if group not in self._shares and (why := unsupported(listed[group].kind, group, "", topics)):
                named[group] = why
        # Topic ids are read in each round, just before they are used: a topic recreated since the last round has other
        # offsets under the same name.
        self._ids.clear()
        self._former.clear()
        await self._look_up((key[0], routes[key]) for _, key, entry in self._each() if not entry.exact)
        if self._both is not None:
            await self._both.refresh()
        if self._same is not None:
            await self._same.refresh({(routes[key], key[1]) for _, key, entry in self._each() if not entry.exact})
            # An offset is the same record on both sides, and an empty partition has the same end, too: nothing stays
            # unknown.
            unknown: set[Key] = set()
            for _, key, entry in self._each():
                if not entry.exact:
                    entry.ids = self._ids.get((key[0], routes[key]))
                    translation = self._same.translate((routes[key], key[1]), entry.committed.offset)
                    entry.downstream, entry.exact = translation.offset, translation.exact
        else:
            unknown = self._translate(maps, routes)
        # With an offset after the target's log end, the group's auto.offset.reset would apply after a failover.
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
        """Each group, source partition and entry."""
        for group, entries in self._entries.items():
            for key, entry in entries.items():
                yield group, key, entry

    async def _read(self, names: Iterable[str], routes: Mapping[Key, str]) -> None:
        """Updates the entries with the groups' commits at the source. Drops groups and partitions that no longer exist,
        so that memory follows the cluster. A commit before the last checkpoint is a rewind, which the target follows
        only with ``follow_rewinds``."""
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
                # Most offsets have not changed since the last round: they keep their translation.
                if entry is None:
                    entry = entries[key] = _Entry(committed, last=self._last.get((group, routes[key], key[1])))
                elif entry.committed == committed:
                    continue
                if entry.last is not None and committed.offset < entry.last.upstream:
                    entry.rewound = True
                entry.committed = committed
                _forget(entry)

    async def _look_up(self, topics: Iterable[tuple[str, str]]) -> None:
        """Reads the ids of source topics and remote topics that both exist, once a round, just before their use: topics
        may have been deleted and recreated since the driver discovered them."""
        wanted = set(topics) - self._ids.keys()
        if not wanted:
            return
        known: list[dict[str, UUID]] = []
        for side, listing in enumerate(self._listings):
            answers = await listing.of(sorted({pair[side] for pair in wanted}))
            existing = [topic for topic in answers if not topic.error or any(topic.topic_id)]
            known.append({topic.name: UUID(bytes=topic.topic_id) for topic in existing})
        source, target = known
        pairs = [(topic, remote) for topic, remote in wanted if topic in source and remote in target]
        self._ids |= {(topic, remote): (source[topic], target[remote]) for topic, remote in pairs}

    def _translate(self, maps: MapReader, routes: Mapping[Key, str]) -> set[Key]:
        """Translates inexact offsets; returns the partitions without a translation."""
        unknown: set[Key] = set()
        current: dict[Key, PartitionMap] = {}
        same: dict[tuple[Key, int], Translation] = {}  # groups that have caught up have equal offsets
        for entries in self._entries.values():
            for key, entry in entries.items():
                if entry.exact:
                    continue
                # Offsets of a recreated topic begin at 0, so a translation for the former topic is void.
                ids = self._ids.get((key[0], routes[key]))
                if ids is None or entry.ids != ids:
                    _forget(entry)
                if ids is None:
                    continue
                known = current.get(key)
                if known is None:
                    known = current[key] = maps.partition(*key, ids)
                    # The newest chunk is of another remote topic, and there is none of this one: it has no copies yet.
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
        """Forgets translations after the target's log end: the target lost records, or another client wrote to the map.
        Nor does a checkpoint after that end prove a rewind. Returns a sentence for each group. Where a leader does not
        say the end, translations wait for the next round.

        Asks for ends after the map was read, and only for translations after the last known end."""
        asked = {
            (routes[key], key[1]): entry.ids
            for _, key, entry in self._each()
            if max(entry.downstream or 0, entry.last.downstream if entry.rewound and entry.last else 0)
            > self._ends.get(((routes[key], key[1]), entry.ids), 0)
        }
        if not asked:
            return {}
        # Ends of all records, not of the committed ones: a translation into an open transaction is not lost.
        await self._target.refresh({topic for topic, _ in asked})
        answers = await self._target.list_offsets(dict.fromkeys(asked, LATEST), committed=False)
        self._ends |= {(twin, asked[twin]): end for twin, end in answers.items() if isinstance(end, int)}
        reasons: dict[str, str] = {}
        for group, key, entry in self._each():
            twin = (routes[key], key[1])
            if twin not in asked or asked[twin] != entry.ids:
                continue
            if isinstance(end := answers[twin], BrokerError):
                _forget(entry)
                continue
            if entry.rewound and entry.last is not None and entry.last.downstream > end and key not in self._former:
                entry.rewound = False
            if entry.downstream is not None and entry.downstream > end:
                why = beyond_copy(entry.downstream, twin, end, THE_MAP)
                reasons[group] = f"{key[0]}-{key[1]} (at {entry.committed.offset}): {why}"
                _forget(entry)
        return reasons

    async def _close_gaps(self, maps: MapReader, routes: Mapping[Key, str]) -> dict[str, str]:
        """Closes gaps of the map, for the next round. Returns why groups stay inexact."""
        if self._closer is None:
            return {}
        wanted: dict[Key, set[Gap]] = {}
        for _, key, entry in self._each():
            never_copied = entry.downstream is not None and entry.map is not None and entry.map.source_end is None
            if entry.gap is not None and not never_copied:
                wanted.setdefault(key, set()).add(entry.gap)
        open_gaps = await self._closer.close(wanted, routes, maps)
        return {
            group: f"{key[0]}-{key[1]} (at {entry.committed.offset}): {open_gaps[key, entry.gap]}"
            for group, key, entry in (self._each() if open_gaps else ())
            if entry.gap is not None and (key, entry.gap) in open_gaps
        }

    async def _look_at_empty(self, unknown: set[Key], routes: Mapping[Key, str]) -> None:
        """Translates offsets that the map does not know: in a partition empty on both sides to the end of the target,
        and before the beginning of the map to the target's log start for now, so that the group misses nothing."""
        # Not in each round: there may be thousands of empty partitions, and they rarely change.
        before = self._round - LOOK_AT_EMPTY_EVERY
        due = [key for key in unknown if self._empty.get(key, before) <= before]
        self._empty |= dict.fromkeys(due, self._round)
        for key in self._empty.keys() - unknown:
            del self._empty[key]
        if not due:
            return
        bounds: list[Mapping[Key, tuple[int, int] | BrokerError]] = []
        for cluster, keys in ((self._source, due), (self._target, [(routes[key], key[1]) for key in due])):
            await cluster.refresh({topic for topic, _ in keys})
            bounds.append(await log_bounds(cluster, keys, committed=False))
        for _, key, entry in self._each():
            source, target = bounds[0].get(key), bounds[1].get((routes[key], key[1]))
            if entry.downstream is not None or not isinstance(source, tuple) or not isinstance(target, tuple):
                continue
            if source[0] == source[1] and target[0] == target[1]:
                entry.downstream = target[1]
            elif entry.map is not None and entry.map.source_end is not None:
                entry.downstream = target[0]

    def _due(self, routes: Mapping[Key, str]) -> tuple[list[Checkpoint], list[Checkpoint]]:
        """Due checkpoints of advances, and of rewinds."""
        advances: list[Checkpoint] = []
        rewinds: list[Checkpoint] = []
        for group, key, entry in self._each():
            if key in self._former and entry.last not in (None, _BEGINNING):
                # The last checkpoint is of the former remote topic. One at 0 makes its readers begin with the new topic
                # until records are copied again.
                entry.last = _BEGINNING
                rewinds.append(Checkpoint(group, routes[key], key[1], 0, 0))
            if entry.downstream is None or not (self._same or (entry.map and entry.map.source_end is not None)):
                continue  # without copied records there is no checkpoint, as in MirrorMaker 2
            if group in self._shares:
                continue  # a reader of checkpoints would commit it, and so create a group of another kind
            # Where copies keep offsets, a checkpoint must not name an upstream offset beyond the copy's end.
            now = Synced(entry.downstream if self._same else entry.committed.offset, entry.downstream)
            if not checkpoint_due(entry.last, now, exact=entry.exact):
                continue
            back = entry.last is not None and now.upstream < entry.last.upstream
            entry.last, metadata = now, entry.committed.metadata
            checkpoint = Checkpoint(group, routes[key], key[1], now.upstream, now.downstream, metadata)
            (rewinds if back else advances).append(checkpoint)
        return advances, rewinds

    async def _write(self, routes: Mapping[Key, str]) -> tuple[int, tuple[str, ...], dict[str, int]]:
        """Commits the offsets of groups without members at the target, unless that is a step back. Returns the number
        of partitions, the groups with members, and the groups that the target refused."""
        listed = await self._target_groups.listed()
        active = {name for name in self._entries.keys() & listed.keys() if not idle(listed[name].state)}
        target_shares = {name for name in self._entries.keys() & listed.keys() if listed[name].kind is GroupKind.SHARE}
        # A consumer group on one side and a share group of the same name on the other have no common kind of offset.
        others = {name for name in listed if (name in self._shares) != (name in target_shares)} & self._entries.keys()
        free = self._entries.keys() - active - others
        all_offsets = await self._target_groups.offsets(free & listed.keys(), share=self._shares)
        wanted: dict[str, dict[Key, CommittedOffset]] = {}
        for group in free:
            known = all_offsets.get(group)
            if known is not None and known.error:
                continue  # unknown offsets are not missing ones: a commit might be a step back
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
        # Kafka deletes group offsets with their topic. An offset translated for a topic that was recreated since would
        # lie anywhere in the new log, so the ids are read once more just before the commit.
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
    """Drops the translation; the next round makes a new one."""
    entry.ids = entry.map = entry.gap = entry.downstream = None
    entry.exact = False
