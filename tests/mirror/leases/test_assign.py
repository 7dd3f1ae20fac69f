"""Lanes: the rule of who owns a partition, their packing, and the nouns that travel."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reconciler_mirror.lane.positions import LanePosition, SameOffsetsPosition, decode, encode, is_of_topic
from reconciler_mirror.leases import channel
from reconciler_mirror.leases.channel import ROWS
from reconciler_mirror.leases.lanes import LanePlacement, best_move, pack
from reconciler_mirror.model.counters import BOUNDS_MS, Latency
from reconciler_mirror.model.lane import (
    NO_CLAIM,
    Claim,
    Condition,
    LaneEnd,
    LaneProgress,
    LaneReport,
    LaneSpec,
    PartitionProgress,
    PartitionSpec,
    lane_of,
)

from reconciler.replication.handover import Endpoint

LOADS = st.dictionaries(
    st.tuples(st.text(max_size=3), st.integers(0, 20)), st.floats(0, 1e9, allow_nan=False), max_size=30
)


@pytest.mark.parametrize(
    ("topic", "partition", "lanes", "lane"),
    [("orders", 0, 4, 1), ("orders", 1, 4, 2), ("orders", 11, 64, 24), ("payments.eu", 3, 7, 5), ("\u00fc", 0, 16, 7)],
)
def test_the_owner_of_a_partition_does_not_change_unnoticed(topic: str, partition: int, lanes: int, lane: int) -> None:
    """Only a takeover may move partitions between lanes; a change of the rule needs what decision 151 says."""
    assert lane_of(topic, partition, lanes) == lane


@given(st.text(min_size=1, max_size=20), st.integers(1, 300), st.integers(1, 64))
def test_the_partitions_of_a_topic_are_spread_evenly_over_the_lanes(topic: str, partitions: int, lanes: int) -> None:
    owned = Counter(lane_of(topic, number, lanes) for number in range(partitions))
    assert {owned[lane] for lane in range(lanes)} <= {partitions // lanes, -(-partitions // lanes)}


@pytest.mark.parametrize("pattern", ["orders-%d", "t%d", "%d.events", "eu.payments.v%d"])
@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16])
def test_topics_of_one_partition_are_spread_too(pattern: str, lanes: int) -> None:
    owned = Counter(lane_of(pattern % number, 0, lanes) for number in range(100 * lanes))
    assert max(owned.values()) < 150
    assert min(owned[lane] for lane in range(lanes)) > 60


@given(LOADS, st.integers(1, 6))
def test_every_lane_is_packed_and_no_lease_is_far_over_its_share(
    loads: dict[tuple[str, int], float], leases: int
) -> None:
    placed = pack(loads, leases)
    assert placed.keys() == loads.keys()
    assert set(placed.values()) <= set(range(leases))
    totals = [sum(load for lane, load in loads.items() if placed[lane] == lease) for lease in range(leases)]
    fair = max(sum(loads.values()) / leases, max(loads.values(), default=0.0))
    assert max(totals) <= fair * 4 / 3 + max(loads.values(), default=0.0) / 3 + 1e-6


@given(LOADS, st.integers(1, 6))
@example({("a", 0): 5e-324, ("b", 0): 5e-324}, 2)
def test_a_packed_set_is_not_moved_for_ever(loads: dict[tuple[str, int], float], leases: int) -> None:
    placed = dict.fromkeys(loads, 0)
    for _ in range(len(loads) + 1):
        move = best_move(placed, loads, range(leases))
        if move is None:
            break
        before = _spread(placed, loads, leases)
        placed[move.lane] = move.destination
        assert _spread(placed, loads, leases) < before
    assert best_move(placed, loads, range(leases)) is None


def _spread(placed: dict[tuple[str, int], int], loads: dict[tuple[str, int], float], leases: int) -> float:
    totals = [sum(loads[lane] for lane, at in placed.items() if at == lease) for lease in range(leases)]
    return sum(total * total for total in totals)


def test_lanes_that_were_moved_twice_come_back_to_where_they_began() -> None:
    """Else the slot that was lost first would stay without lanes for good."""
    lanes = {("f", number): 1.0 for number in range(3)}
    placed = LanePlacement(lanes, 3)
    began = {lane: placed[lane] for lane in lanes}
    (of_0,) = placed.lanes_of(0)
    assert placed.leave({0}, lanes, {1}) == {1}
    assert placed.leave({1}, lanes, {2}) == {2}
    placed.come_back(1)
    assert placed[of_0] == 2, "slot 0 has no place yet"
    assert placed.come_back(0) == {2}
    assert {lane: placed[lane] for lane in lanes} == began
    assert placed.vacated == set()


KEY = ("east.orders", 3)
SPECS = (PartitionSpec("orders", 3, "east.orders", "abc"), PartitionSpec("\u00fc", 0, "east.\u00fc", ""))
PROGRESS = LaneProgress(
    "orders",
    2,
    (
        PartitionProgress("orders", 3, 5, None, 4, 100, 17, "record level", "small batches"),
        PartitionProgress("orders", 4, None, None),
    ),
    (Condition("record_refused", "text", "todo", "orders", 3, stops=True), Condition("lane_failed", "text", "todo")),
    7,
    3,
    Latency((1,) * (len(BOUNDS_MS) + 1), 12),
)


def test_what_travels_on_the_channel_comes_out_the_same() -> None:
    assert ROWS.decoded(channel.SPECS, ROWS.encoded(SPECS, channel.SPECS)) == SPECS
    assert ROWS.decoded(LaneProgress, ROWS.encoded(PROGRESS)) == PROGRESS
    report = LaneReport(LaneEnd.FAILED, PROGRESS, "why")
    assert ROWS.decoded(LaneReport, ROWS.encoded(report)) == report


def test_a_lane_pickles_into_a_task() -> None:
    here = Endpoint("east", ("a:1",), {"client.id": "x"})
    lane = LaneSpec(
        "f", 1, "mirror.f.1", "mirror.f", here, here, "exactly_once", "read_committed", "earliest", None, SPECS
    )
    assert pickle.loads(pickle.dumps(lane)) == lane


@given(
    st.builds(
        LanePosition,
        st.integers(0, 2**62),
        st.text(max_size=30),
        st.integers(-1, 2**31 - 1),
        st.builds(Claim, st.integers(0, 2**31), st.text(max_size=30)),
        st.integers(0, 2**31),
    )
)
def test_a_position_survives_its_metadata(position: LanePosition) -> None:
    assert decode(KEY, position.offset, encode(KEY, position)) == position


@pytest.mark.parametrize("metadata", [None, "", "by hand", "[1]", '{"e":"x"}', '{"c":null}', "7"])
def test_a_position_that_others_else_wrote_is_known_for_it(metadata: str | None) -> None:
    assert decode(KEY, 42, metadata) == LanePosition(42, proved=False)


@given(st.integers(0, 2**62), st.integers(0, 61), st.data())
def test_a_flipped_bit_of_a_position_or_its_metadata_is_noticed(offset: int, bit: int, data: st.DataObject) -> None:
    metadata = encode(KEY, LanePosition(offset, "id", 3, Claim(1, "app"), 5, (1, 2)))
    assert not decode(KEY, offset ^ (1 << bit), metadata).proved
    raw = bytearray(metadata.encode())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 6))
    assert not decode(KEY, offset, raw.decode()).proved


def test_a_position_of_the_release_that_wrote_no_proof_counts() -> None:
    known = decode(KEY, 7, '{"i":"id","e":3,"c":5,"a":"local-1","h":9}')
    assert known == LanePosition(7, "id", 3, Claim(5, "local-1"), 9)


def test_a_position_of_the_release_whose_proof_named_no_partition_counts() -> None:
    known = decode(KEY, 7, '{"i":"id","e":3,"c":5,"a":"local-1","h":9,"m":[1,2],"o":7,"d":"13a02d8e"}')
    assert known == LanePosition(7, "id", 3, Claim(5, "local-1"), 9, (1, 2))


@given(st.sampled_from([("east.orders", 2), ("east.order", 3), ("east.orders-3", 3)]))
def test_a_position_copied_from_another_partition_is_not_proved(other: tuple[str, int]) -> None:
    metadata = encode(other, LanePosition(900, "id", 3, Claim(9, "app"), 5, (1, 2), same=SameOffsetsPosition(7)))
    assert decode(KEY, 900, metadata) == LanePosition(900, proved=False), "and nothing else of it is believed"


@pytest.mark.parametrize("printed", ["yG+S3CrSQamyDs8Gni5R/w", "yG-S3CrSQamyDs8Gni5R_w", "yG-S3CrSQamyDs8Gni5R_w=="])
def test_a_topic_is_the_same_by_whichever_client_its_id_was_printed(printed: str) -> None:
    position = decode(KEY, 7, encode(KEY, LanePosition(7, printed)))
    assert is_of_topic(position, "yG+S3CrSQamyDs8Gni5R/w")
    assert is_of_topic(position, "yG-S3CrSQamyDs8Gni5R_w")
    assert not is_of_topic(position, "yG-S3CrSQamyDs8Gni5R-w")
    assert is_of_topic(LanePosition(7), "yG-S3CrSQamyDs8Gni5R_w"), "after a seek"


def test_anyone_who_writes_a_position_again_gives_it_no_proof() -> None:
    foreign = decode(KEY, 500, encode(KEY, LanePosition(900, "id", 3, Claim(9, "app"))))
    claimed = replace(foreign, claim=Claim(4, "new"), hour=8)
    for _ in range(3):
        claimed = decode(KEY, 500, encode(KEY, claimed))
        assert claimed == LanePosition(500, claim=Claim(4, "new"), hour=8, proved=False)
    assert decode(KEY, 501, encode(KEY, claimed)).claim == NO_CLAIM


def test_claims_are_ordered_by_number_then_application() -> None:
    assert Claim(2, "a") > Claim(1, "z")
    assert Claim(2, "b") > Claim(2, "a")
    assert not Claim(2, "a") > Claim(2, "a")
