"""Where a copy stands, as its target's leader says, and what a stranger's record does to that."""

from __future__ import annotations

import asyncio
import random

import pytest
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.positions import LanePosition, SameOffsetsPosition
from reconciler_mirror.lane.same_offsets.place import CopyPlace, Look, look
from reconciler_mirror.lane.same_offsets.segments import Hole, Run, Segment, Whole, segments, split

from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.records.batches import SEQUENCES, CommittedFilter, scan
from tests.support.fakes.source_log import random_log

PRODUCER = ("t", 0)


def test_the_sequence_begins_at_the_offset_and_continues_behind_a_hole() -> None:
    begun = CopyPlace(70, Look(70, None)).settled()
    assert begun.look.next_sequence == 70
    assert begun.appended(0, 75).look.next_sequence == 75, "nothing is written yet"
    written = begun.appended(10, 80)
    assert written.look == Look(80, 79)
    assert written.appended(0, 200).look == Look(200, 79)
    assert written.appended(0, 200).look.next_sequence == 80


def test_the_sequence_wraps() -> None:
    at = CopyPlace(SEQUENCES - 2, Look(SEQUENCES - 2, None)).settled()
    assert at.appended(5, SEQUENCES + 3).look == Look(SEQUENCES + 3, 2)
    assert Look(9, SEQUENCES - 1).next_sequence == 0


@pytest.mark.parametrize(
    ("last", "seen", "found", "displaced"),
    [
        (9, 10, 19, False),
        (9, 10, 18, True),
        (9, 0, 9, False),
        (9, 0, 12, True),
        (None, 10, 109, False),
        (None, 10, 19, True),
        (9, 10, None, False),
        (9, 10, 109, False),
    ],
    ids=["alike", "one less", "nothing", "unseen", "first", "not first", "forgotten", "forgotten and begun anew"],
)
def test_another_number_of_records_is_noticed(last: int | None, seen: int, found: int | None, displaced: bool) -> None:
    """From offset 100 to 110, of which the source has ``seen`` records."""
    place = CopyPlace(100, Look(110, found), last, trusted=True)
    assert place.seen(seen, 100, 110, absent=False).displaced is displaced
    assert not place.seen(seen, 100, 110, absent=True).displaced, "compaction may have changed how many there are"


def test_a_log_that_lost_its_tail_is_copied_again_from_its_end() -> None:
    assert CopyPlace(100, Look(100, 50), 50, trusted=True).looked(Look(90, 40)) == CopyPlace(90, Look(90, 40))


class Moving:
    """A leader to which somebody else appends: each answer differs from the one before, ``until`` they do no more."""

    def __init__(self, until: int) -> None:
        self.asked, self.until = 0, until

    async def sequences(self, keys: object) -> dict[tuple[str, int], int | BrokerError | None]:
        self.asked += 1
        return {PRODUCER: min(self.asked, self.until)}

    async def ends(self, keys: object) -> dict[tuple[str, int], int | BrokerError]:
        return {PRODUCER: 100 + min(self.asked, self.until)}

    async def replicated(self, keys: object) -> dict[tuple[str, int], int | BrokerError]:
        return await self.ends(keys)


def test_sequence_and_end_are_of_one_moment() -> None:
    assert asyncio.run(look(Moving(4), [PRODUCER])) == {PRODUCER: Look(104, 4)}
    answer = asyncio.run(look(Moving(1000), [PRODUCER]))[PRODUCER]
    assert isinstance(answer, BrokerError)
    assert answer.retriable


@pytest.mark.parametrize("seed", range(40))
def test_segments_cover_every_offset_once(seed: int) -> None:
    log = random_log(random.Random(seed))
    at, seen = log.start, dict[int, int]()
    while at < log.stable:
        view, aborted = log.fetch(at, 3)
        keep = CommittedFilter(view, aborted)
        batches = [(batch, keep.delivers(batch)) for batch in scan(view) if batch.base < log.stable]
        for segment in segments(view, batches, at, lambda _: None, left_out={7, 30}):
            assert segment.first == at, "no gap and no overlap"
            for part in _halves(view, segment):
                seen |= dict.fromkeys(range(part.first, part.next_offset), part.records > 0)
            at = segment.next_offset
    assert [offset for offset, data in sorted(seen.items()) if data] == sorted(log.committed.keys() - {7, 30})
    assert sorted(seen) == list(range(log.start, log.stable))


def _halves(view: memoryview, segment: Segment) -> list[Hole | Whole | Run]:
    middle = (segment.first + segment.next_offset) // 2
    return [segment] if middle == segment.first else list(split(view, segment, middle))


@pytest.mark.parametrize(
    "same", [None, SameOffsetsPosition(7), SameOffsetsPosition(7, -1, 50), SameOffsetsPosition(7, 12, 0, 99)]
)
def test_a_position_keeps_what_belongs_to_same_offsets(same: SameOffsetsPosition | None) -> None:
    position = LanePosition(123, "id", 4, same=same)
    written = positions.to_commit(("t", 0), position)
    assert positions.decode(("t", 0), written.offset, written.metadata) == position
