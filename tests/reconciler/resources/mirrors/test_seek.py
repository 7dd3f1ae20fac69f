"""Moving a position by hand: where it may go, when, what it costs, and what stays beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.lane.positions import LanePosition, SameOffsetsPosition, decode, encode
from reconciler_mirror.model.lane import Claim, TargetLoss

from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.live import JobState, LiveMirror
from reconciler.render.reports.positions import positions_json, positions_text
from reconciler.replication.offsets.position_metadata import END, mark_of, moved
from reconciler.replication.records.pauses import Scope
from reconciler.replication.status import FlowStatus, ReportedCondition, ReportedPause
from reconciler.resources.mirrors.pause_and_seek import (
    SeekPartition,
    TopicPositions,
    costs,
    destinations,
    require_still,
    table,
    taken_over,
)
from tests.support.builders import flow
from tests.support.documents.live_values import condition, pause
from tests.support.paths import SCHEMAS

KEY = ("east.orders", 0)
TWO = (SeekPartition(0, 50, 100, 900), SeekPartition(1, 700, 0, 800))
ORDERS = Scope("f", "orders")
SCHEMA = json.loads((SCHEMAS / "reports" / "positions.schema.json").read_text("utf-8"))


def test_a_place_is_one_that_the_source_has_for_every_partition() -> None:
    assert destinations(TWO, "earliest") == {0: 100, 1: 0}
    assert destinations(TWO, "latest") == {0: 900, 1: 800}
    assert destinations(TWO, "800") == {0: 800, 1: 800}
    with pytest.raises(ReconcilerError, match="partition 0 has 100 to 900"):
        destinations(TWO, "99")
    for wrong in ("-1", "soon", "1.5", "", "\u00b2", "\u0661", "9" * 5_000):
        with pytest.raises(ReconcilerError, match="earliest, latest, or an offset"):
            destinations(TWO, wrong)


def test_positions_of_another_flow_are_taken_over_where_it_has_one() -> None:
    assert taken_over(TWO, {0: 100, 1: 800}, "old") == ({0: 100, 1: 800}, ())
    assert taken_over(TWO, {1: 5, 7: 1}, "old") == ({1: 5}, (0,))
    with pytest.raises(ReconcilerError, match="flow old has no position"):
        taken_over(TWO, {}, "old")
    with pytest.raises(ReconcilerError, match="is at 99 of partition 0, of which the source has 100 to 900"):
        taken_over(TWO, {0: 99}, "old")


def test_what_is_left_out_and_what_is_copied_again_is_reported() -> None:
    assert costs(TWO, destinations(TWO, "earliest")) == [
        "copied again, so that the target has the records twice: 700 offsets"
    ]
    assert costs(TWO, destinations(TWO, "latest")) == ["passed over and never copied: 900 offsets that the source has"]
    assert costs((SeekPartition(0, None, 0, 9),), {0: 4}) == [
        "1 partition has no position yet and would else begin where start says"
    ]
    assert costs(TWO[:1], {0: 100}) == [], "what retention took is not counted a second time"


def test_the_table_says_what_is_not_known() -> None:
    lines = table((SeekPartition(0, None, 3, 9), SeekPartition(11, 1200, 0, 2200)))
    assert [line.split() for line in lines[1:]] == [
        ["0", "none", "3", "9", "unknown"],
        ["11", "1200", "0", "2200", "1,000"],
    ]
    assert len(set(map(len, lines))) == 1


def test_programs_read_where_it_stood_and_where_it_continues() -> None:
    looked = TopicPositions(
        "e", flow("east", "west", name="f"), "orders", "east.orders", (SeekPartition(0, None, 0, 9), TWO[1])
    )
    moved_one = replace(looked, moved={1: 5}, left=(0,), taken_from="old")
    for seen in (looked, moved_one):
        jsonschema.validate(json.loads(positions_json(seen)), SCHEMA)
    told = json.loads(positions_json(moved_one))
    assert [told[key] for key in ("flow", "source", "target", "remote_topic")] == ["f", "east", "west", "east.orders"]
    assert [(one["position"], one["behind"], one.get("moved_to")) for one in told["partitions"]] == [
        (None, None, None),
        (700, 100, 5),
    ]
    assert positions_text(moved_one).splitlines()[:2] == [
        "orders-1 continues at source offset 5",
        "orders-0 stays: flow old has no position for it",
    ]
    assert positions_text(looked).splitlines() == table(looked.standings)


def mirror(state: JobState = JobState.RUNNING, **fields: Any) -> LiveMirror:
    return LiveMirror("west", state, flows=MappingProxyType({"f": FlowStatus("f", "x", **fields)}))


def paused(partitions: int, **place: Any) -> ReportedPause:
    return pause(2, partitions, **place)


def stopped(**more: Any) -> ReportedCondition:
    return condition("source_truncated", **more)


@pytest.mark.parametrize(
    "still",
    [
        None,
        mirror(JobState.STOPPED),
        mirror(JobState.ABSENT),
        mirror(pauses=(paused(2),)),
        mirror(pauses=(paused(2, topic="orders"),)),
        mirror(conditions=(stopped(topic="orders"),)),
        mirror(conditions=(stopped(topic="orders", partition=0), stopped(topic="orders", partition=1))),
    ],
)
def test_a_position_may_move_where_nothing_copies(still: LiveMirror | None) -> None:
    require_still(still, ORDERS, (0, 1))


@pytest.mark.parametrize(
    "busy",
    [
        mirror(),
        mirror(JobState.STARTING),
        mirror(pauses=(paused(1),)),
        mirror(pauses=(paused(2, topic="others"),)),
        mirror(conditions=(stopped(topic="orders", partition=0),)),
        mirror(conditions=(stopped(topic="orders", stops=False),)),
        mirror(conditions=(stopped(),)),
    ],
)
def test_a_position_does_not_move_under_a_copy(busy: LiveMirror) -> None:
    with pytest.raises(ReconcilerError, match="mirror pause ENV f --topic orders"):
        require_still(busy, ORDERS, (0, 1))


def test_what_is_not_known_is_not_still() -> None:
    with pytest.raises(ReconcilerError, match="not known: down"):
        require_still(Unknown("mirror west", "down", "Look."), ORDERS, (0,))


@given(st.integers(0, 1 << 40), st.integers(0, 99), st.text(max_size=9))
def test_who_owns_the_flow_stays_beside_the_position_and_the_old_place_goes(at: int, claim: int, who: str) -> None:
    before = LanePosition(at, "old", 7, Claim(claim, who), 3, (5, 6), remote_id="deleted since")
    for topic_id, marked in (("old", (5, 6)), ("new", None)):
        left = moved(KEY, (at, encode(KEY, before) + END), 12, topic_id, same=False)
        assert left.endswith(END)
        after = decode(KEY, 12, left.rstrip(END))
        assert (after.offset, after.topic_id, after.leader_epoch, after.remote_id) == (12, "", -1, "")
        assert after.proved
        assert (after.claim, after.marked) == (before.claim, marked)


@given(st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("latin-1")), st.integers().map(json.dumps)))
def test_metadata_of_a_stranger_is_no_obstacle(metadata: str) -> None:
    assert decode(KEY, 1, moved(KEY, (5, metadata), 1, "id", same=True).rstrip(END)) == LanePosition(1)


@pytest.mark.parametrize("metadata", ['{"c":"abc"}', '{"c":1,"o":4}', encode(("t", 1), LanePosition(5, "id", 1))])
def test_of_a_position_that_another_client_committed_nothing_is_kept(metadata: str) -> None:
    assert decode(KEY, 1, moved(KEY, (5, metadata), 1, "id", same=True).rstrip(END)) == LanePosition(1)


def test_of_one_that_a_takeover_claimed_since_the_claim_is_kept() -> None:
    claimed = encode(KEY, LanePosition(5, claim=Claim(4, "new"), hour=8, proved=False))
    after = decode(KEY, 1, moved(KEY, (5, claimed), 1, "id", same=True))
    assert after == LanePosition(1, claim=Claim(4, "new"), hour=8)


def test_a_flow_that_keeps_offsets_no_more_continues_where_it_is_sent() -> None:
    """A position with the producer of its data means the log end of the copy instead."""
    kept = encode(KEY, LanePosition(5, "id", same=SameOffsetsPosition(7, 1, 2)))
    for same in (True, False):
        after = decode(KEY, 3, moved(KEY, (5, kept), 3, "id", same=same))
        assert after.same == (SameOffsetsPosition(7, None, 2) if same else None)


def test_what_the_target_has_lost_is_not_copied_twice() -> None:
    """``LanePosition`` keeps from where on; a seek there, as the condition asks, is no repetition."""
    lost = SeekPartition(0, 120, 0, 130, lost_from=60)
    assert costs([lost], {0: 60}) == []
    assert costs([lost], {0: 50}) == ["copied again, so that the target has the records twice: 10 offsets"]
    assert costs([lost], {0: 120}) == []
    written = encode(KEY, LanePosition(120, "id", lost=TargetLoss(61, 121, 60)))
    assert mark_of(KEY, 120, written).lost_from == 60
    assert decode(KEY, 60, moved(KEY, (120, written), 60, "id", same=False)).lost is None


def test_a_position_that_another_client_committed_is_shown_as_such() -> None:
    standing = SeekPartition(0, None, 0, 90, foreign=40)
    assert "40, not the mirror's" in table([standing])[1]
    assert costs([standing], {0: 60}) == [
        "1 partition has a position that another client committed: how much is copied again or passed over is not known"
    ]
