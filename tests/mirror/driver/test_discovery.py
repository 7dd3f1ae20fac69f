"""Discovery: which partitions are copied, what is told, and that a failed read is never an empty cluster."""

from __future__ import annotations

import json

import pytest
from reconciler_mirror.driver.discovery import Discovery
from reconciler_mirror.model.lane import Discovered, lane_of

from reconciler.replication.handover import FlowSettings
from reconciler.replication.handover_reader import parse
from tests.support.fakes.known_topics import Known
from tests.support.lanes.handover import handover


def flow(*topics: str) -> FlowSettings:
    return parse(json.dumps(handover(flows=[handover()["flows"][0] | {"topics": list(topics)}]))).flows[0]


def look(source: Known, target: Known, before: Discovered = Discovered(), *topics: str) -> Discovered:  # noqa: B008
    settings = flow(*(topics or ("orders.*",)))
    return Discovery(settings, settings.selector(), (source, target)).look(before)


def test_matching_partitions_with_a_target_are_copied_and_split_over_the_lanes() -> None:
    found = look(Known({"orders": 5, "other": 3, "__consumer_offsets": 9}), Known({"east.orders": 5}))
    assert [(s.topic, s.partition, s.target_topic, s.topic_id) for s in found.specs] == [
        ("orders", number, "east.orders", "id-orders") for number in range(5)
    ]
    assert found.complete
    assert found.conditions == ()
    lanes = found.by_lane(4)
    assert set(lanes) == {0, 1, 2, 3}
    assert all(lane_of(s.topic, s.partition, 4) == lane for lane, specs in lanes.items() for s in specs)
    assert sum(map(len, lanes.values())) == 5


def test_a_larger_target_is_fine() -> None:
    found = look(Known({"orders": 2}), Known({"east.orders": 8}))
    assert len(found.specs) == 2
    assert found.conditions == ()


def test_a_missing_target_stops_the_topic_and_says_what_to_do() -> None:
    found = look(Known({"orders": 2, "orders2": 1}), Known({"east.orders2": 1}))
    assert {spec.topic for spec in found.specs} == {"orders2"}
    [condition] = found.conditions
    assert (condition.code, condition.topic, condition.stops) == ("target_topic_missing", "orders", True)
    assert "reconciler apply" in condition.todo
    assert found.uncopied == {"orders": 2}, "records may wait in it: how many is not known"


def test_a_name_that_cannot_be_made_at_the_target_is_to_be_left_out() -> None:
    [condition] = look(Known({"o" * 249: 1}), Known({}), Discovered(), "o+").conditions
    assert condition.code == "target_topic_missing"
    assert "254 characters" in condition.todo
    assert "exclude_topics" in condition.todo


def test_a_smaller_target_names_both_numbers_and_copies_what_fits() -> None:
    found = look(Known({"orders": 5}), Known({"east.orders": 3}))
    assert [spec.partition for spec in found.specs] == [0, 1, 2]
    [condition] = found.conditions
    assert condition.code == "target_topic_smaller"
    assert "5 partitions" in condition.text
    assert "has 3" in condition.text
    assert "partitions 3 to 4" in condition.text
    assert found.uncopied == {"orders": 2}


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_failed_read_keeps_what_was_known(side: str) -> None:
    source, target = Known({"orders": 3}), Known({"east.orders": 3})
    before = look(source, target)
    (source if side == "source" else target).broken = True
    now = look(source, target, before)
    assert now.specs == before.specs
    assert now.complete
    assert [condition.code for condition in now.conditions] == [f"{side}_unreachable"]
    again = look(source, target, now)
    assert again == now, "the condition is told once"
    (source if side == "source" else target).broken = False
    assert look(source, target, again) == before


def test_a_first_read_that_fails_is_unknown_and_not_empty() -> None:
    found = look(Known({}, broken=True), Known({}))
    assert not found.complete


def test_a_deleted_source_topic_is_reported_until_its_remote_topic_is_gone_too() -> None:
    source, target = Known({"orders": 1}), Known({"east.orders": 1})
    before = look(source, target)
    source.counts = {}
    for _ in range(3):
        before = look(source, target, before)
        assert [c.code for c in before.conditions] == ["source_topic_deleted"]
        assert before.specs == ()
    target.counts = {}
    assert look(source, target, before).conditions == ()


def test_a_source_topic_that_may_not_be_described_any_more_is_not_called_deleted() -> None:
    source, target = Known({"orders": 1}), Known({"east.orders": 1})
    before = look(source, target)
    source.hidden = {"orders"}
    now = before
    for _ in range(3):
        now = look(source, target, now)
        [condition] = now.conditions
        assert (condition.code, condition.topic, condition.stops) == ("permission_denied", "orders", True)
        assert "describe orders" in condition.text
        assert now.specs == ()
        assert now.uncopied == {"orders": 1}
    source.hidden = set()
    assert look(source, target, now) == before


def test_a_deleted_topic_is_not_called_deleted_any_more_when_no_one_may_look() -> None:
    source, target = Known({"orders": 1}), Known({"east.orders": 1})
    before = look(source, target)
    source.counts = {}
    gone = look(source, target, before)
    source.hidden = {"orders"}
    assert [c.code for c in look(source, target, gone).conditions] == ["permission_denied"]


def test_a_target_topic_that_may_not_be_described_is_not_called_missing() -> None:
    found = look(Known({"orders": 1}), Known({"east.orders": 1}, hidden={"east.orders"}))
    [condition] = found.conditions
    assert (condition.code, condition.stops) == ("permission_denied", True)
    assert "describe east.orders" in condition.text
    assert "DESCRIBE on east.orders" in condition.todo
    assert found.uncopied == {"orders": 1}


def test_a_recreated_topic_changes_its_specs() -> None:
    source, target = Known({"orders": 1}), Known({"east.orders": 1})
    before = look(source, target)
    source.ids["orders"] = "new"
    now = look(source, target, before)
    assert [spec.topic_id for spec in now.specs] == ["new"]
    assert now.specs != before.specs
