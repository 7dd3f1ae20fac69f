"""Closes gaps of the offset map that groups are in, by reading both logs there.

A lane that is killed has not written its last second. Where nothing is copied afterwards, groups that stand there would
not be exact before a record comes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import BrokerError
from reconciler.replication.names import position_group
from reconciler.replication.offsets.close_gaps import Log, NotPairedError, close_gap
from reconciler.replication.offsets.codec import MapPartition, encode
from reconciler.replication.offsets.map import Gap, Stretch
from reconciler.replication.offsets.map_topic import append
from reconciler.replication.offsets.position_metadata import is_ours
from reconciler.replication.offsets.reader import MapReader
from reconciler.replication.offsets.translate import made_anew
from reconciler_mirror import log_lines

SEEN_ROUNDS = 2
"""Rounds that a gap must be seen before it is taken for one: what lanes copy is in the map a moment later."""
LEAST, MOST = 2, 128
"""Rounds until a gap that could not be closed is looked at again."""
CPU_S = 0.1
"""Of one round, about; further gaps wait for the next one."""
RUNS_A_CHUNK = 250
_log = log_lines.logger("groups")


@dataclass(slots=True)
class _Seen:
    """``due`` and ``last``: rounds. ``why`` not closed; empty before it was tried, or while nothing is to be done."""

    due: int
    last: int
    pause: int = LEAST
    why: str = ""


class GapCloser:
    """``clusters``: the flow's source and target. ``committed``: it copies committed records only."""

    def __init__(self, flow: str, clusters: tuple[ClusterClient, ClusterClient], *, committed: bool) -> None:
        self._flow, self._committed = flow, committed
        self._source, self._target = clusters
        self._seen: dict[tuple[Key, Gap], _Seen] = {}
        self._round = 0

    async def close(
        self, gaps: Mapping[Key, set[Gap]], routes: Mapping[Key, str], places: MapReader
    ) -> Mapping[tuple[Key, Gap], str]:
        """Once a round: those that were there before and are due. Returns why others stay open, in words.

        ``routes``: source partition -> target topic. What is closed is in the map with its next refresh. Raises
        ConnectionLostError.
        """
        self._round += 1
        wanted = {(key, gap) for key, some in gaps.items() for gap in some}
        self._seen = {item: self._seen.get(item) or _Seen(self._round + SEEN_ROUNDS, self._round) for item in wanted}
        due = [pair for pair, asked_gap in self._seen.items() if asked_gap.due <= self._round]
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
        """Why not; empty when it is done, or when nothing is to be done."""
        twin = (remote, key[1])
        try:
            at = (await self._target.positions(position_group(self._flow), [twin]))[twin]
            position = at.offset if is_ours(twin, at.offset, at.metadata) else -1
            await self._source.refresh([key[0]])
            await self._target.refresh([remote])
            ids = (self._source.topics[key[0]].topic_id, self._target.topics[remote].topic_id)
            if anew := made_anew(places.place(*key), ids, (self._source, self._target), remote, at):
                return anew
            if position < 0 or (gap.source_end is None and position <= (gap.source or 0)):
                # The group is ahead of the flow, which is no gap; but what the source does not have never comes.
                end = (await logs.ends(self._source, [key]))[key]
                if position < 0 or end > (gap.source or 0):
                    return ""
                return f"the log ends before that on {self._source.name}, at {end}: reset the group there"
            last = places.place(*key)
            if last is not None and (last.source_id, last.target_id) != ids:
                return ""  # made anew, and copied since: the map of the new one comes with the next commit
            here, there = Log(self._source, key, self._committed), Log(self._target, twin)
            stretch = await close_gap(gap, here, there, position)
            place = MapPartition(self._flow, *key, *ids)
            await append(self._target, self._flow, {key: [encode(place, part) for part in _parts(stretch)]})
        except (BrokerError, NotPairedError) as error:
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


def _parts(stretch: Stretch) -> Iterator[Stretch]:
    """In chunks of the size that lanes write."""
    begin, first, runs = stretch.begin, stretch.first, stretch.runs
    while len(runs) > RUNS_A_CHUNK:
        some, runs = runs[:RUNS_A_CHUNK], runs[RUNS_A_CHUNK:]
        yield Stretch(begin, some[-1].source_end, some, first)
        begin, first = some[-1].source_end, False
    yield Stretch(begin, stretch.end, runs, first)
