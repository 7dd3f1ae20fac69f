"""Translates offsets of groups where the flow's offset map alone is not enough.

Copies that keep offsets need no map; a topic with producers on both sides needs the maps of both flows; a gap of the
map is closed by reading both logs there. A killed lane leaves such a gap, because it writes the map a second late. If
nothing is copied afterwards, groups at that gap would stay inexact until the next record.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import LATEST, ClusterClient, Key
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.client.groups import GroupClient
from reconciler.replication.names import position_group
from reconciler.replication.offsets import close_gaps, codec, position_metadata, same, translate
from reconciler.replication.offsets.map import Exactness, Gap, Stretch, Translation
from reconciler.replication.offsets.map_topic import MapReader, append
from reconciler.replication.offsets.translate import recreated
from reconciler_mirror import log_lines


class AsCommitted:
    """Offsets that are equal on both sides. With a position beyond the log of ``other``, ``auto.offset.reset`` would
    apply, so such a group gets the log end, and its own offset once the copy reaches that."""

    def __init__(self, other: ClusterClient) -> None:
        self._other = other
        self._ends: Mapping[Key, int] = {}

    async def refresh(self, keys: Collection[Key]) -> None:
        """Reads the ends of ``keys`` on the other side. Call it after reading the groups' offsets, so that the ends
        include every record copied before a commit. Raises the exceptions of ``list_offsets``."""
        if not keys:
            return
        await self._other.refresh({topic for topic, _ in keys})
        ends = await self._other.list_offsets(dict.fromkeys(keys, LATEST), committed=False)
        self._ends = {key: end for key, end in ends.items() if isinstance(end, int)}

    def translate(self, key: Key, offset: int) -> Translation:
        """``key``: on the other side. Unknown if the broker did not report its end."""
        return same.as_committed(offset, self._ends.get(key))


DECIDED_WITHIN = 3.0
_UNDECIDED = Translation(None, Exactness.UNKNOWN, "a position of the flow is not decided yet, or another client's")


class BothWays:
    """Translates for a topic with producers on both sides, by the flow's map and the one of the returning flow."""

    def __init__(self, flows: tuple[str, str], clusters: tuple[ClusterClient, ClusterClient], maps: MapReader) -> None:
        """``flows``: the flow, and the returning one; ``clusters``: its source and target; ``maps``: the flow's."""
        self._groups = tuple(position_group(name) for name in flows)
        self._source, self._target = clusters
        self._out, self._back = maps, MapReader(self._source, flows[1])
        self._out_to: Mapping[Key, int | None] = {}
        self._back_to: Mapping[Key, int | None] = {}

    async def refresh(self) -> None:
        """Reads positions and maps of both flows. Call it after reading the groups' offsets. Raises WireError."""
        out, back = self._groups
        # In this order a translation is never ahead: ``back`` covers all that the group can have read, and ``out`` all
        # that lies before the end of ``back`` (``Interleaved``).
        self._back_to = await _decided(self._source, back)
        await self._back.refresh()
        self._out_to = await _decided(self._target, out)
        await self._out.refresh()

    def translate(self, key: Key, position: int, ids: codec.Ids) -> Translation:
        """``key``: topic and partition, equal on both sides; ``ids``: the topic's present ids at source and target."""
        out_to, back_to = self._out_to.get(key), self._back_to.get(key)
        if (out_to is None and key in self._out_to) or (back_to is None and key in self._back_to):
            return _UNDECIDED
        out, back = self._out.partition(*key, ids), self._back.partition(*key, (ids[1], ids[0]))
        return translate.Interleaved(out, out_to, back, back_to).translate(position)


async def _decided(cluster: ClusterClient, group: str) -> dict[Key, int | None]:
    """The positions of a flow; None for one in a transaction that stays open too long, or by another client."""
    decided = await GroupClient(cluster).decided(group, DECIDED_WITHIN)
    return {
        key: at.offset if at is not None and position_metadata.is_ours(key, at.offset, at.metadata) else None
        for key, at in decided.items()
    }


SEEN_ROUNDS = 2
"""Rounds for which a gap must last: lanes write the map a moment after they copy."""
LEAST, MOST = 2, 128
"""Rounds between two tries to close a gap, first and last."""
CPU_S = 0.1
"""Seconds of CPU time for gaps per round, about; further gaps wait for the next round."""
RUNS_A_CHUNK = 250
_log = log_lines.logger("groups")


@dataclass(slots=True)
class _Seen:
    """``due`` and ``last``: rounds. ``why``: the reason it is open; empty before the first try, or if it needs none."""

    due: int
    last: int
    pause: int = LEAST
    why: str = ""


class GapCloser:
    """``clusters``: the flow's source and target. ``committed``: the flow copies only committed records."""

    def __init__(self, flow: str, clusters: tuple[ClusterClient, ClusterClient], *, committed: bool) -> None:
        self._flow, self._committed = flow, committed
        self._source, self._target = clusters
        self._seen: dict[tuple[Key, Gap], _Seen] = {}
        self._round = 0

    async def close(
        self, gaps: Mapping[Key, set[Gap]], routes: Mapping[Key, str], places: MapReader
    ) -> Mapping[tuple[Key, Gap], str]:
        """Closes the due gaps that an earlier round has seen, too. Call it once a round. Returns why others stay open.

        ``routes``: source partition -> target topic. The next refresh of the map shows closed gaps. Raises
        ConnectionLostError.
        """
        self._round += 1
        wanted = {(key, gap) for key, in_partition in gaps.items() for gap in in_partition}
        self._seen = {item: self._seen.get(item) or _Seen(self._round + SEEN_ROUNDS, self._round) for item in wanted}
        due = [pair for pair, asked_gap in self._seen.items() if asked_gap.due <= self._round]
        # Time of this thread's CPU, not of the clock: slow brokers cost others nothing, while decoding delays the
        # driver.
        until = time.thread_time() + CPU_S
        for key, gap in sorted(due, key=lambda pair: self._seen[pair].last):
            if time.thread_time() > until:
                break
            asked_gap = self._seen[key, gap]
            asked_gap.last, asked_gap.pause = self._round, min(MOST, asked_gap.pause * 2)
            asked_gap.due = self._round + asked_gap.pause
            asked_gap.why = await self._close(gap, key, routes[key], places)
        return {pair: asked_gap.why for pair, asked_gap in self._seen.items() if asked_gap.why}

    async def _close(self, gap: Gap, key: Key, remote: str, places: MapReader) -> str:
        """Closes a gap; returns why it could not, or an empty text, also if there is nothing to close."""
        twin = (remote, key[1])
        try:
            at = (await self._target.positions(position_group(self._flow), [twin]))[twin]
            position = at.offset if position_metadata.is_ours(twin, at.offset, at.metadata) else -1
            await self._source.refresh([key[0]])
            await self._target.refresh([remote])
            ids = (self._source.topics[key[0]].topic_id, self._target.topics[remote].topic_id)
            if why := recreated(places.place(*key), ids, (self._source, self._target), remote, at):
                return why
            if position < 0 or (gap.source_end is None and position <= (gap.source or 0)):
                # The group is ahead of the flow, which is no gap; but an offset beyond the source's end may never come.
                end = (await logs.ends(self._source, [key]))[key]
                if position < 0 or end > (gap.source or 0):
                    return ""
                return f"the log ends before that on {self._source.name}, at {end}: reset the group there"
            last = places.place(*key)
            if last is not None and (last.source_id, last.target_id) != ids:
                return ""  # the new topic has copies already, and its map follows with the next commit
            source, target = close_gaps.Log(self._source, key, self._committed), close_gaps.Log(self._target, twin)
            stretch = await close_gaps.close_gap(gap, source, target, position)
            place = codec.MapPartition(self._flow, *key, *ids)
            # Readers expect chunks of about the size that lanes write.
            begin, first, runs, chunks = stretch.begin, stretch.first, stretch.runs, list[Stretch]()
            while len(runs) > RUNS_A_CHUNK:
                head, runs = runs[:RUNS_A_CHUNK], runs[RUNS_A_CHUNK:]
                chunks.append(Stretch(begin, head[-1].source_end, head, first))
                begin, first = head[-1].source_end, False
            chunks.append(Stretch(begin, stretch.end, runs, first))
            await append(self._target, self._flow, {key: [codec.encode(place, chunk) for chunk in chunks]})
        except (BrokerError, close_gaps.NotPairedError) as error:
            return str(error)
        _log.info(
            "gap of the offset map closed by counting",
            flow=self._flow,
            topic=key[0],
            partition=key[1],
            begin=stretch.begin,
            end=stretch.end,
        )
        return ""
