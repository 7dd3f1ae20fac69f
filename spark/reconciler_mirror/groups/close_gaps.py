"""Gaps of the offset map that groups stand in: both logs are read there, and what that proves is written into the map.

A lane that is killed has not written its last second. Where nothing is copied afterwards, groups that stand there would
not be exact before a record comes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from mirror import logs as words
from replication.names import OFFSETS_TOPIC, position_group
from replication.offset_map import Gap, Stretch
from replication.offset_map_codec import Place, encode
from translation.counting import Log, NotPairedError, close_gap
from translation.pruning import place_of
from wire import logs
from wire.cluster import Cluster, Key
from wire.errors import BrokerError

PATIENCE = 2
"""Rounds that a gap must be seen before it is taken for one: what lanes copy is in the map a moment later."""
LEAST, MOST = 2, 128
"""Rounds until a gap that could not be closed is looked at again."""
CPU_S = 0.1
"""Of one round, about; further gaps wait for the next one."""
RUNS_A_CHUNK = 250
_log = words.logger("groups")


class Places(Protocol):
    """The offset map of the flow."""

    def place(self, topic: str, partition: int) -> Place | None:
        """Of what was written last of a source partition."""
        ...


@dataclass(slots=True)
class _Seen:
    """``due`` and ``last``: rounds. ``why`` not closed; empty before it was tried, or while nothing is to be done."""

    due: int
    last: int
    pause: int = LEAST
    why: str = ""


class GapCloser:
    """``clusters``: the flow's source and target. ``committed``: it copies committed records only."""

    def __init__(self, flow: str, clusters: tuple[Cluster, Cluster], *, committed: bool) -> None:
        self._flow, self._committed = flow, committed
        self._source, self._target = clusters
        self._seen: dict[tuple[Key, Gap], _Seen] = {}
        self._round = 0

    async def close(
        self, gaps: Mapping[Key, set[Gap]], routes: Mapping[Key, str], places: Places
    ) -> Mapping[tuple[Key, Gap], str]:
        """Once a round: those that were there before and are due. Returns why others stay open, in words.

        ``routes``: source partition -> target topic. What is closed is in the map with its next refresh. Raises
        ConnectionLostError.
        """
        self._round += 1
        wanted = {(key, gap) for key, some in gaps.items() for gap in some}
        self._seen = {one: self._seen.get(one) or _Seen(self._round + PATIENCE, self._round) for one in wanted}
        due = [one for one, seen in self._seen.items() if seen.due <= self._round]
        until = time.thread_time() + CPU_S
        for key, gap in sorted(due, key=lambda one: self._seen[one].last):
            if time.thread_time() > until:
                break
            seen = self._seen[key, gap]
            seen.last, seen.pause = self._round, min(MOST, seen.pause * 2)
            seen.due = self._round + seen.pause
            seen.why = await self._close(gap, key, routes[key], places)
        return {one: seen.why for one, seen in self._seen.items() if seen.why}

    async def _close(self, gap: Gap, key: Key, remote: str, places: Places) -> str:
        """Why not; empty when it is done, or when nothing is to be done."""
        twin = (remote, key[1])
        try:
            position = (await self._target.positions(position_group(self._flow), [twin]))[twin].offset
            if position < 0 or (gap.source_end is None and position <= (gap.source or 0)):
                return ""  # the group is ahead of the flow
            await self._source.refresh([key[0]])
            await self._target.refresh([remote])
            ids = (self._source.topics[key[0]].topic_id, self._target.topics[remote].topic_id)
            last = places.place(*key)
            if last is not None and (last.source_id, last.target_id) != ids:
                return ""  # made anew: what the map tells is of the former one
            here, there = Log(self._source, key, self._committed), Log(self._target, twin)
            stretch = await close_gap(gap, here, there, position)
            await self._write(Place(self._flow, *key, *ids), stretch)
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

    async def _write(self, place: Place, stretch: Stretch) -> None:
        await logs.leaders(self._target, [OFFSETS_TOPIC])
        count = len(self._target.topics[OFFSETS_TOPIC].leaders)
        records = [encode(place, part) for part in _parts(stretch)]
        await logs.append(
            self._target, OFFSETS_TOPIC, {place_of(place.flow, (place.topic, place.partition), count): records}
        )


def _parts(stretch: Stretch) -> Iterator[Stretch]:
    """In chunks of the size that lanes write."""
    begin, first, runs = stretch.begin, stretch.first, stretch.runs
    while len(runs) > RUNS_A_CHUNK:
        some, runs = runs[:RUNS_A_CHUNK], runs[RUNS_A_CHUNK:]
        yield Stretch(begin, some[-1].source_end, some, first)
        begin, first = some[-1].source_end, False
    yield Stretch(begin, stretch.end, runs, first)
