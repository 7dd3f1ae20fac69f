"""Translates offsets of a group along one flow, in either direction: by the offset map, and by counting gaps."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from uuid import UUID

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import LATEST, NO_ID, ClusterClient, CommittedPosition, Key, printed_id
from reconciler.kafka.client.errors import UNKNOWN_TOPIC, UNSTABLE, BrokerError, ConnectionLostError
from reconciler.replication.offsets import close_gaps, codec, map_topic, position_metadata
from reconciler.replication.offsets.map import (
    THE_MAP,
    CopiedRun,
    Exactness,
    PartitionMap,
    Translation,
    beyond_copy,
    beyond_log,
)

UNDECIDED_WITHIN = 2.0
"""Seconds in which a mirror that is not held up decides the transaction that carries its positions."""
ASKED_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class ClusterSides:
    """Both sides of a flow, as translating its offsets needs them."""

    source: ClusterClient | None
    """None: it does not answer; then gaps stay gaps."""
    target: ClusterClient
    flow: str
    group: str
    """Holds the flow's positions on the target."""
    committed: bool = True
    """The flow copies committed records only."""


async def translate(
    sides: ClusterSides, wanted: Mapping[Key, Iterable[int]], remote: Callable[[str], str], *, reverse: bool = False
) -> dict[tuple[Key, int], Translation]:
    """``wanted``: by *source* topic and partition, positions on the source, or on the target for ``reverse``.

    ``offset`` is None only when the other side has no such partition. Raises BrokerError, ConnectionLostError of the
    target.
    """
    reader = map_topic.MapReader(sides.target, sides.flow, frozenset(topic for topic, _ in wanted))
    await reader.refresh()
    translations: dict[tuple[Key, int], Translation] = {}
    near, far = (sides.target, sides.source) if reverse else (sides.source, sides.target)
    far_ends = await _ends(far, [key if reverse else (remote(key[0]), key[1]) for key in wanted])
    for key, offsets in wanted.items():
        other = (remote(key[0]), key[1])
        here, there = (other, key) if reverse else (key, other)
        ids = (await _id(sides.source, key[0]), await _id(sides.target, other[0]))
        ours = reader.partition(*key, ids)
        asked = sorted(set(offsets))
        answers = _all(ours, asked, reverse)
        position = None if all(each.exact for each in answers) else await _position(sides, other)
        # Entries of former topics cannot become exact by counting: the present logs do not contain their records.
        gone = " and ".join(
            f"{topic} is not on {cluster.name}"
            for cluster, topic in ((sides.source, key[0]), (sides.target, other[0]))
            if cluster is not None and cluster.topics[topic].error == UNKNOWN_TOPIC
        )
        if gone:
            answers = [Translation(None, Exactness.UNKNOWN, gone) for _ in asked]
        # From here on the answer is only made worse, never better than the map's: each step looks for one thing that
        # the map cannot know.
        elif gone := recreated(reader.place(*key), ids, (sides.source, sides.target), other[0], position):
            answers = [replace(each, reason=gone, gap=None) for each in answers]
        elif any(each.gap is not None for each in answers) and sides.source is not None:
            ours, why = await _closed(sides, (key, other), ours, answers, position)
            answers = _all(ours, asked, reverse)
            answers = [each if each.exact else replace(each, reason=why or each.reason) for each in answers]
        # Nor is it lag where the log that the offset is of ends before it.
        if not all(each.exact for each in answers):
            end = await _bound(near, here, logs.ends)
            for number, offset in enumerate(asked):
                if near is not None and end is not None and offset > end and not answers[number].exact:
                    reason = "; ".join(filter(None, (gone, beyond_log(offset, here, near.name, end))))
                    answers[number] = replace(answers[number], reason=reason, gap=None)
        # Nor can the mirror have written records beyond the other log.
        if far is not None and any((each.offset or 0) > far_ends.get(there, 0) for each in answers):
            end = await _bound(far, there, logs.ends)
            for number, each in enumerate(answers):
                if end is not None and each.offset is not None and each.offset > end:
                    reason = beyond_copy(each.offset, there, end, THE_MAP)
                    answers[number] = Translation(None, Exactness.UNKNOWN, reason)
        if any(each.offset is None for each in answers):
            begin = await _bound(far, there, logs.begins)
            for number, each in enumerate(answers):
                if begin is not None and each.offset is None:
                    reason = f"{each.reason}; this is where the partition begins now"
                    answers[number] = Translation(begin, Exactness.EARLIER, reason, each.gap)
        translations |= {(key, offset): each for offset, each in zip(asked, answers, strict=True)}
    return translations


async def _ends(cluster: ClusterClient | None, keys: Sequence[Key]) -> dict[Key, int]:
    """Log ends of all partitions at once, without unknown ones."""
    if cluster is None:
        return {}
    try:
        await cluster.refresh({topic for topic, _ in keys})
        answers = await cluster.list_offsets(dict.fromkeys(keys, LATEST), committed=False)
    except (BrokerError, ConnectionLostError):
        return {}
    return {key: end for key, end in answers.items() if isinstance(end, int)}


def _all(ours: PartitionMap, offsets: list[int], reverse: bool) -> list[Translation]:
    return [ours.upstream(offset) if reverse else ours.downstream(offset) for offset in offsets]


def recreated(
    place: codec.MapPartition | None,
    ids: codec.Ids,
    clusters: tuple[ClusterClient | None, ClusterClient],
    remote: str,
    position: CommittedPosition | None,
) -> str:
    """Words for a topic that was recreated since the offset map was written; empty without one, or if the mirror
    already copies the new one (``position``: the flow's). ``ids``: present ids of source and remote topic."""
    if place is None or place.is_of(ids):
        return ""
    # Only the remote topic was recreated: the map's offsets are of deleted records.
    if place.is_of((ids[0], NO_ID)):
        ways_on = f" until the mirror has copied {place.topic} again: its position went with the former topic"
        if position is not None and position.offset > 0:
            ways_on = (
                f". The flow is at offset {position.offset} already, and what lies before is not in the new topic: "
                f"reconciler mirror seek ENV FLOW --topic {quote(place.topic)} --to earliest"
            )
        return (
            f"{remote} on {clusters[1].name} was deleted and recreated since it was mirrored (id"
            f" {printed_id(place.target_id.bytes)}, now {printed_id(ids[1].bytes)}): offsets of the former topic have"
            f" no counterpart{ways_on}"
        )
    topic, now = place.topic, printed_id(ids[0].bytes)
    cluster = clusters[0].name if clusters[0] is not None else "the source"
    # A position with the new source topic's id proves that the flow copies it, and its map will follow.
    at = position and position_metadata.mark_of((remote, place.partition), position.offset, position.metadata)
    if at and position_metadata.urlsafe(at.topic_id) == position_metadata.urlsafe(now):
        return ""
    return (
        f"{topic} on {cluster} was deleted and recreated since it was mirrored (id"
        f" {printed_id(place.source_id.bytes)}, now {now}):"
        f" offsets of the former topic have no counterpart. Decide about the old records in {remote}, then copy from"
        f" the beginning: reconciler mirror seek ENV FLOW --topic {quote(topic)} --to earliest"
    )


async def _closed(
    sides: ClusterSides,
    keys: tuple[Key, Key],
    ours: PartitionMap,
    translations: list[Translation],
    position: CommittedPosition | None,
) -> tuple[PartitionMap, str]:
    """The map with its gaps closed as far as that can be proved, and why not further."""
    assert sides.source is not None
    here, there = close_gaps.Log(sides.source, keys[0], sides.committed), close_gaps.Log(sides.target, keys[1])
    stretches, why = list(ours.stretches), ""
    for gap in {translation.gap for translation in translations if translation.gap is not None}:
        try:
            stretches.append(await close_gaps.close_gap(gap, here, there, position.offset if position else None))
        except close_gaps.NotPairedError as error:
            why = str(error)
        except (BrokerError, ConnectionLostError) as error:
            why = f"the gap could not be read: {error}"
    return PartitionMap(stretches), why


async def _position(sides: ClusterSides, key: Key) -> CommittedPosition | None:
    """The flow's position, a source offset. None if there is none, if another client committed it, or if it stays
    undecided (KIP-447): the mirror is copying, and proofs without it hold, too."""
    until = time.monotonic() + UNDECIDED_WITHIN
    while True:
        try:
            at = (await sides.target.positions(sides.group, [key]))[key]
        except BrokerError as error:
            if error.code != UNSTABLE:
                raise
            if time.monotonic() > until:
                return None
            await asyncio.sleep(ASKED_EVERY)
        else:
            return at if at.offset >= 0 and position_metadata.is_ours(key, at.offset, at.metadata) else None


async def _id(cluster: ClusterClient | None, topic: str) -> UUID:
    if cluster is None:
        return NO_ID
    if topic not in cluster.topics:
        await cluster.refresh([topic])
    return cluster.topics[topic].topic_id


async def _bound(
    cluster: ClusterClient | None, key: Key, ask: Callable[[ClusterClient, Sequence[Key]], Awaitable[dict[Key, int]]]
) -> int | None:
    """The log's start or end; None if unknown."""
    if cluster is None:
        return None
    try:
        await logs.leaders(cluster, [key[0]])
        return (await ask(cluster, [key]))[key]
    except (BrokerError, ConnectionLostError, KeyError):
        return None


# Translates group offsets of a topic that clients write under one name on two clusters, by the maps of both flows.
#
# The two logs order records differently, so the records that a group has read here do not end at one position there.
# The safe position is that of the first record, own or copy, that the group has not read. *Here* is the cluster that
# the group leaves, *there* its destination.


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Knowledge about one partition that clients write on both sides.

    For a translation that is never ahead, read in this order: the group's offset, ``back_to``, ``back``, ``out_to``,
    ``out``. Then ``back`` covers all that the group can have read, and ``out`` all that lies before its end.
    """

    out: PartitionMap
    """The map from here to there."""
    out_to: int | None
    """That flow's position here; None: not begun."""
    back: PartitionMap
    """The map of the flow from there to here."""
    back_to: int | None
    """Its position, in offsets there; None: not begun."""

    def translate(self, position: int, out: Translation | None = None) -> Translation:
        """Where a group that has read everything before ``position`` here continues there.

        ``out``: a better translation by the map ``out`` alone, if there is one. Exact: no record lies between this
        offset and the first record that the group has not read.
        """
        theirs = self._theirs(position)
        if theirs.offset is None:
            return theirs
        mine = out or self.out.downstream(position)
        if theirs.exactness is Exactness.END and not self._nothing_read_behind(position, theirs.offset):
            why = f"the flow back has come to offset {theirs.offset} only; copies already read come after it"
            theirs = Translation(theirs.offset, Exactness.EARLIER, why)
        if self._nothing_unread(position):
            return theirs
        if mine.offset is None:
            return mine
        if theirs.offset is not None and theirs.offset <= mine.offset:
            return theirs
        if mine.exactness is Exactness.END:
            why = "the map of what was copied does not reach the flow's position yet"
            return Translation(mine.offset, Exactness.EARLIER, why, mine.gap)
        return mine

    def read_again(self, position: int, there: int) -> int:
        """Records from offset ``there`` on that a group at ``position`` here has read already, as far as is known."""
        copies = sum(_records(run, run.source + there - run.target, position) for run in _runs(self.out))
        return copies + sum(_records(run, there, run.source + position - run.target) for run in _runs(self.back))

    def missed(self, position: int, there: int) -> int:
        """Records before offset ``there`` that a group at ``position`` here has not read, as far as is known."""
        copies = sum(_records(run, position, run.source + there - run.target) for run in _runs(self.out))
        return copies + sum(_records(run, run.source + position - run.target, there) for run in _runs(self.back))

    def counts(self, position: int, there: int) -> tuple[int, int] | None:
        """(``read_again``, ``missed``) if the maps cover all relevant records, else None; also None if the group has
        read records that are not copied yet."""
        unread = self.back.upstream(position)
        first = unread.offset if unread.exactness in (Exactness.RECORD, Exactness.NEXT) else self.back_to
        first, out_to = first or 0, self.out_to or 0
        if self.back.known_to(min(there, first)) < max(there, first) or not self._knows_before(there, position):
            return None
        if there > 0 and self.out.known_to(position) < out_to and not self._copied_from(there, position):
            return None
        return self.read_again(position, there), self.missed(position, there)

    def _theirs(self, position: int) -> Translation:
        """The first record of the other cluster, there, that the group has not read."""
        if self.back_to is None:
            return Translation(None, Exactness.UNKNOWN, "nothing has come back yet: the group has read none of that")
        translation = self.back.upstream(position)
        if translation.exactness in (Exactness.RECORD, Exactness.NEXT):
            return translation
        if translation.gap is not None and translation.gap.source_end is not None:
            return translation  # a gap between what is known, or before it
        end = self.back.known_to(self.back.source_end or 0)
        if self.back.source_end is None and end == 0:  # it began later than at the beginning, and has carried nothing
            why = "the map of what came back is empty"
            return Translation(None, Exactness.UNKNOWN, why) if self.back_to else Translation(0, Exactness.END)
        if end >= self.back_to:
            return Translation(end, Exactness.END)
        why = f"the map of what came back ends at offset {end}, its flow has come to {self.back_to}"
        return Translation(end, Exactness.EARLIER, why)

    def _nothing_unread(self, position: int) -> bool:
        """Whether it is sure that no record from ``position`` on was copied there before ``back`` was read."""
        if self.out_to is None or position >= self.out_to:
            return True
        return self.out.known_to(position) >= self.out_to and not self.out.copied(position, self.out_to)

    def _nothing_read_behind(self, position: int, there: int) -> bool:
        """Whether it is sure that no copy from offset ``there`` on is of a record before ``position``."""
        read = (run.source + max(0, there - run.target) for run in _runs(self.out) if run.target_end > there)
        return all(source >= position for source in read) and self._knows_before(there, position)

    def _knows_before(self, there: int, end: int) -> bool:
        """Whether every copy from offset ``there`` on of a record before ``end`` is known."""
        before = (min(run.source_end, run.source + there - run.target) for run in _runs(self.out) if run.target < there)
        return self.out.known_to(max(before, default=0)) >= end

    def _copied_from(self, there: int, position: int) -> bool:
        """Whether it knows every record from ``position`` on up to a record with its copy at ``there`` or behind."""
        behind = (run.source + max(0, there - run.target) for run in _runs(self.out) if run.target_end > there)
        first = min(behind, default=None)
        return first is not None and self.out.known_to(position) >= first


def _runs(known: PartitionMap) -> Iterator[CopiedRun]:
    for stretch in known.stretches:
        yield from stretch.runs


def _records(run: CopiedRun, begin: int, end: int) -> int:
    """Records of ``run`` at source offsets in [``begin``, ``end``)."""
    return max(0, min(run.source_end, end) - max(run.source, begin))
