"""Markers that a lane writes itself: which epochs they have, and who else fills a hole. That no two get in at the same
place is shown in ``test_competing_holders.py``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.lane.same_offsets.holes import MOST, NO_LEADER_KNOWN, RANKS, OwnMarkers, exhausted, following
from reconciler_mirror.lane.same_offsets.segments import Hole
from reconciler_mirror.lane.state import RestartError

from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.protocol.producers.write_markers import (
    DENIED,
    STALE_COORDINATOR,
    STALE_EPOCH,
    UNSUPPORTED,
    Epochs,
)

KEY = ("t", 0)
known = st.builds(Epochs, st.integers(-1, (1 << 15) - RANKS - 1), st.integers(-1, (1 << 31) - 2 * RANKS - 1))


def taken(last: Epochs, marker: Epochs) -> bool:
    """As a leader judges."""
    return marker.producer >= last.producer and marker.coordinator >= last.coordinator


@given(known, st.lists(st.integers(0, RANKS - 1), min_size=2, max_size=2, unique=True))
def test_of_two_at_the_same_place_the_second_is_refused_whichever_that_is(last: Epochs, ranks: list[int]) -> None:
    first, second = (following(last, rank) for rank in ranks)
    assert taken(last, first)
    assert taken(last, second)
    assert not taken(first, second)
    assert not taken(second, first)


@given(known, st.integers(0, RANKS - 1), st.integers(0, RANKS - 1), st.integers(0, RANKS - 1))
def test_the_next_place_is_open_to_all_and_the_one_before_to_no_one(
    last: Epochs, winner: int, following_rank: int, late: int
) -> None:
    there = following(last, winner)
    assert exhausted(there) or taken(there, following(there, following_rank))
    assert late == winner or not taken(following(there, following_rank), following(last, late))


@given(known, st.integers(0, RANKS - 1))
def test_epochs_fit_into_their_fields_until_they_are_exhausted(last: Epochs, rank: int) -> None:
    marker = following(last, rank)
    assert 0 <= marker.producer < 1 << 15
    assert 0 <= marker.coordinator < 1 << 31


class Leader:
    """Answers with the next of ``codes``, then takes each."""

    def __init__(self, *codes: int, last: Epochs | BrokerError = Epochs(), end: int = 10) -> None:  # noqa: B008
        self.codes, self.last, self.end = list(codes), last, end
        self.written: list[Epochs] = []
        self.asked = self.election = 0

    async def leaders(self, keys: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], object]:
        return dict.fromkeys(keys, self.election)

    async def last_markers(self, keys: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], Epochs | BrokerError]:
        self.asked += 1
        return dict.fromkeys(keys, self.last)

    async def ends(self, keys: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], int | BrokerError]:
        return dict.fromkeys(keys, self.end)

    async def require_current(self) -> None: ...

    async def write_markers(
        self, markers: Mapping[tuple[str, int], Epochs], leaders: Mapping[tuple[str, int], object]
    ) -> Mapping[tuple[str, int], int]:
        assert set(leaders.values()) == {self.election}
        code = self.codes.pop(0) if self.codes else 0
        if not code:
            self.written += markers.values()
        return dict.fromkeys(markers, code)


def filled(own: OwnMarkers, first: int, after: int) -> Mapping[tuple[str, int], int | None]:
    return asyncio.run(own.fill({KEY: Hole(first, after)}))


def test_a_hole_takes_a_marker_for_each_offset_and_the_leader_is_asked_once() -> None:
    leader = Leader()
    own = OwnMarkers(leader, 6)
    assert filled(own, 10, 13) == {KEY: 13}
    assert filled(own, 20, 21) == {KEY: 21}
    assert leader.asked == 1
    assert [epochs.producer for epochs in leader.written] == [7, 7, 7, 7], "only the first raises it"
    assert leader.written == sorted(leader.written)


@pytest.mark.parametrize("code", [STALE_EPOCH, STALE_COORDINATOR, NO_LEADER_KNOWN])
def test_where_another_holder_came_first_it_looks_again_and_asked_again(code: int) -> None:
    leader = Leader(code)
    own = OwnMarkers(leader, 1)
    assert filled(own, 10, 11) == {KEY: None}
    assert filled(own, 10, 11) == {KEY: 11}
    assert leader.asked == 2


def test_a_log_that_ends_elsewhere_is_checked_again_and_nothing_is_written() -> None:
    leader = Leader(end=11)
    assert filled(OwnMarkers(leader, 1), 10, 12) == {KEY: None}
    assert leader.written == []


def test_the_next_leader_is_asked_first_since_it_may_have_lost_what_is_before_the_hole() -> None:
    leader = Leader()
    own = OwnMarkers(leader, 1)
    assert filled(own, 10, 11) == {KEY: 11}
    leader.election, leader.end = 1, 15
    assert filled(own, 16, 17) == {KEY: None}, "offset 15 was a record: a marker would take its place"
    assert len(leader.written) == 1
    assert filled(own, 15, 16) == {KEY: 16}


@pytest.mark.parametrize("code", [6, 7, 19, 20, 56, -1])
def test_what_may_have_been_written_begins_another_session(code: int) -> None:
    with pytest.raises(RestartError, match="t-0"):
        filled(OwnMarkers(Leader(code), 1), 10, 11)


@pytest.mark.parametrize("code", [DENIED, UNSUPPORTED])
def test_who_may_not_leaves_holes_to_the_coordinator(code: int) -> None:
    leader = Leader(code)
    own = OwnMarkers(leader, 1)
    assert filled(own, 10, 11) == {}
    assert own.denied
    assert not own.may(KEY)
    assert leader.written == []


def test_a_writer_that_lost_its_right_reports_how_far_it_came() -> None:
    leader = Leader(0, DENIED)
    assert filled(OwnMarkers(leader, 1), 10, 13) == {KEY: 11}


def test_a_leader_that_takes_no_higher_epoch_is_left_to_the_coordinator() -> None:
    own = OwnMarkers(Leader(last=Epochs((1 << 15) - RANKS, 5)), 1)
    assert filled(own, 10, 11) == {}
    assert not own.may(KEY)
    assert own.may(("t", 1))


def test_of_a_long_hole_the_first_offset_is_closed_before_the_coordinator_fills_it() -> None:
    own = OwnMarkers(Leader(), 1)
    assert own.own_part(Hole(10, 10 + MOST)) == Hole(10, 10 + MOST)
    assert own.own_part(Hole(10, 11 + MOST)) == Hole(10, 11)
