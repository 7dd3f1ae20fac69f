"""MirrorMaker 2's positions: records read as Connect means them, judged against both clusters, written into YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.environment.importers.positions.judge import Inheritance, PositionAnswers, Stored, inherit, positions
from reconciler.environment.importers.positions.write_yaml import write_starts
from reconciler.environment.load import load
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.render.reports.positions import inherited_json, inherited_text
from reconciler.replication.handover import Start
from reconciler.replication.offsets.in_flight import InFlight
from tests.support.paths import SCHEMAS

SCHEMA = json.loads((SCHEMAS / "reports" / "imported-positions.schema.json").read_text("utf-8"))
CONNECTOR = "MirrorSourceConnector"
CLUSTERS = "clusters:\n  east: {bootstrap_servers: ['a:1']}\n  west: {bootstrap_servers: ['b:1']}\n"
FLOW = "  f: {source: east, target: west, topics: [orders, pay.*]}\n"
PLACE = TopicRef("west", "mm2-offsets.east.internal")


def key(topic: str = "orders", partition: object = 0, cluster: str = "east", connector: str = CONNECTOR) -> bytes:
    return json.dumps([connector, {"cluster": cluster, "partition": partition, "topic": topic}]).encode()


def at(offset: object) -> bytes:
    return json.dumps({"offset": offset}).encode()


def test_the_last_record_of_a_key_counts_and_copying_goes_on_one_behind_it() -> None:
    found = positions([(key(), at(4)), (key(partition=1), at(0)), (key(), at(9))])
    assert found.positions == {Stored(CONNECTOR, "east", "orders", 0): 10, Stored(CONNECTOR, "east", "orders", 1): 1}
    assert (found.broken, found.unread) == ({}, {})


def test_null_takes_a_position_back_until_it_is_set_again() -> None:
    assert positions([(key(), at(4)), (key(), None)]).positions == {}
    assert list(positions([(key(), None), (key(), at(4))]).positions.values()) == [5]


@pytest.mark.parametrize("value", [at(-1), at(True), at("4"), at(4.0), at(1 << 63), b"{}", b"[4]", b"\xff", b"", b"4"])
def test_a_last_value_that_is_no_offset_leaves_no_older_one_standing(value: bytes) -> None:
    found = positions([(key(), at(4)), (key(), value)])
    assert found.positions == {}
    assert set(found.broken) == {Stored(CONNECTOR, "east", "orders", 0)}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (None, ""),
        (b"\xff\xfe", ""),
        (b"[" * 100_000, ""),
        (b'{"topic": "orders"}', ""),
        (b"[]", ""),
        (b'["MirrorHeartbeatConnector", {"sourceClusterAlias": "east"}]', "MirrorHeartbeatConnector"),
        (key(partition=True), CONNECTOR),
        (key(partition=-1), CONNECTOR),
        (key(partition="0"), CONNECTOR),
    ],
)
def test_keys_of_something_else_are_counted(name: bytes | None, told: str) -> None:
    found = positions([(name, at(4))])
    assert (found.positions, found.broken, found.unread) == ({}, {}, {told: 1})


@given(st.lists(st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40))))
def test_whatever_the_topic_holds_is_read(records: list[tuple[bytes | None, bytes | None]]) -> None:
    positions(records)


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 99)), max_size=40))
def test_positions_are_those_that_a_compacted_topic_keeps(writes: list[tuple[int, int | None]]) -> None:
    model: dict[int, int] = {}
    for partition, offset in writes:
        model.pop(partition, None)
        model |= {} if offset is None else {partition: offset + 1}
    records = [(key(partition=p), None if offset is None else at(offset)) for p, offset in writes]
    assert {one.partition: offset for one, offset in positions(records).positions.items()} == model


def topology(flow: str = FLOW) -> Topology:
    return load({"e.yaml": CLUSTERS + "flows:\n" + flow}, "e")


def judged(stored: Mapping[bytes, bytes], flow: str = FLOW, alias: str = "east", **changes: object) -> Inheritance:
    """Source: orders with two partitions of 10 to 100, pay with one of 0 to 50; the target has both remote topics."""
    bounds = {("orders", 0): (10, 100), ("orders", 1): (10, 100), ("pay", 0): (0, 50)}
    there = frozenset({"east.orders", "east.pay"})
    world = replace(PositionAnswers({"orders": 2, "pay": 1, "x": 1}, bounds, {}, there), **changes)  # type: ignore[arg-type]
    return inherit(topology(flow).flows["f"], PLACE, positions(stored.items()), (CONNECTOR, alias), world)


def why(found: Inheritance) -> dict[str, str]:
    return {one.subject: one.why for one in found.left}


def test_positions_are_taken_with_how_far_behind_they_are() -> None:
    found = judged({key(): at(89), key(partition=1): at(99), key("pay"): at(49)})
    assert found.offsets == {"orders": {0: 90, 1: 100}, "pay": {0: 50}}
    assert [one.behind for one in found.topics] == [10, 0]
    assert (found.left, found.notes, found.obstacles) == ((), (), ())


def test_a_partition_whose_offsets_no_broker_reports_is_not_taken_for_empty() -> None:
    found = judged({key(): at(89), key("pay"): at(49)}, bounds={("orders", 0): (10, 100), ("pay", 0): (0, 50)})
    assert found.offsets == {"orders": {0: 90}, "pay": {0: 50}}
    assert "the source does not report its offsets" in why(found)["orders-1"]


def test_records_in_flight_move_the_start_and_are_reported() -> None:
    stored = {key(): at(39), key(partition=1): at(59), key("pay"): at(9)}
    found = judged(
        stored,
        in_flight={
            ("orders", 0): InFlight(52, copied=12),
            ("orders", 1): InFlight(60, again=3),
            ("pay", 0): "principal mirror may not read it",
            ("pay", 1): InFlight(4, unknown="other timestamps"),
        },
    )
    assert found.offsets == {"orders": {0: 52, 1: 60}, "pay": {0: 10}}
    assert [topic.behind for topic in found.topics] == [48 + 40, 40]
    doubled, again, unknown, other = found.notes
    assert doubled.startswith("12 records of 1 partition after the stored positions, as both logs show, were copied to")
    assert again.startswith("orders-1: at most 3 records from 60 on come twice")
    assert (
        "pay-0: whether MirrorMaker 2 had records in flight is not known: principal mirror may not read it" in unknown
    )
    assert other.startswith("pay-1: whether MirrorMaker 2 had records in flight is not known: other timestamps")


def test_what_is_left_aside_is_reported_with_why() -> None:
    stored = {
        key(): at(8),
        key(partition=1): at(100),
        key(partition=2): at(5),
        key("gone_pay"): at(1),
        key("payed"): at(1),
        key("x"): at(1),
        key("pay"): b"?",
        key("orders", connector="other"): at(1),
        key("orders", cluster="north"): at(1),
    }
    left = why(judged(stored))
    assert "begins at 10: 1 offset deleted before they were copied" in left["orders-0"]
    assert "is at 101, and the source ends at 100" in left["orders-1"]
    assert "has 2 partitions" in left["orders-2"]
    assert "no such topic" in left["payed-0"]
    assert "does not mirror it: no pattern matches" in left["x"]
    assert "no pattern matches" in left["gone_pay"]
    assert "'?', which is no offset" in left["pay-0"]
    assert "--connector" in left["connector other"]
    assert "--alias" in left["source north"]


@pytest.mark.parametrize("edge", [10, 100])
def test_both_ends_of_the_sources_log_can_be_gone_on_from(edge: int) -> None:
    assert judged({key(): at(edge - 1)}).offsets == {"orders": {0: edge}}


def test_a_position_of_the_flows_own_wins() -> None:
    found = judged({key(): at(49), key(partition=1): at(49)}, own={("east.orders", 0): 70})
    assert found.offsets == {"orders": {1: 50}}
    assert "of its own, 70" in why(found)["orders-0"]


def test_partitions_without_a_position_are_reported_with_where_they_begin() -> None:
    found = judged({key(): at(89), key("pay"): at(49)})
    assert "1 partition of orders with records and without a position: copied from earliest on" in found.notes[0]
    assert "hold records at west already, these partitions are not copied" in found.notes[1]
    again = judged({key(): at(89), key("pay"): at(49)}, FLOW.replace("}", ", start: again}"))
    assert "is copied again" in again.notes[1]
    latest = judged({key(): at(89), key("pay"): at(49)}, FLOW.replace("}", ", start: latest}"))
    assert len(latest.notes) == 1
    assert "copied from latest on" in latest.notes[0]


def test_without_any_position_both_logs_from_their_beginning_prove_where_to_go_on() -> None:
    """MirrorMaker 2 ended before it stored its first position."""
    beginnings: dict[tuple[str, int], InFlight | str] = {
        ("orders", 0): InFlight(52, copied=42),
        ("orders", 1): InFlight(10, again=3),
        ("pay", 0): InFlight(0),
    }
    found = judged({}, beginnings=beginnings)
    assert found.offsets == {"orders": {0: 52}}
    assert found.stopped == 1
    assert why(found)["orders-1"].startswith(
        "no position was stored, and where MirrorMaker 2 ended is not proved: west"
    )
    begun, fresh, stopped = found.notes
    assert begun.startswith("42 records of 1 partition without a position, as both logs show from their beginning on,")
    assert fresh == "1 partition of pay with records and without a position: copied from earliest on, as start says"
    assert stopped.startswith("1 partition not copied, and plan is blocked (remote-topic-not-empty): orders-1.")
    document = json.loads(inherited_json("e", [found], {}, []))
    jsonschema.validate(document, SCHEMA)
    assert [topic["stopped"] for topic in document["flows"][0]["topics"]] == [[1], []]
    assert inherited_text([found], {}, ["e.yaml"]).endswith(
        "review and commit. Then decide about 1 partition not copied (note above): plan is blocked.\n"
    )
    proved = [judged({key(): at(89), key("pay"): at(49)}, FLOW.replace("}", ", start: latest}"))]
    assert inherited_text(proved, {}, ["e.yaml"]).endswith("Then: reconciler plan ENV, reconciler apply ENV.\n")
    assert inherited_text(proved, {}, ["e.yaml"], onward=False).endswith("review and commit.\n"), "takeover does both"


@pytest.mark.parametrize("read", ["plan may not read it", InFlight(0, unknown="west begins at 7")])
def test_logs_that_prove_nothing_leave_a_partition_stopped(read: InFlight | str) -> None:
    found = judged({key(): at(89), key("pay"): at(49)}, beginnings={("orders", 1): read})
    assert found.offsets == {"orders": {0: 90}, "pay": {0: 50}}
    assert str(getattr(read, "unknown", read)) in why(found)["orders-1"]
    [note] = found.notes
    assert note.startswith("1 partition not copied, and plan is blocked (remote-topic-not-empty): orders-1.")


def test_another_remote_topic_than_mirrormakers_is_reported() -> None:
    stored = {key(cluster="e"): at(89), key(partition=1, cluster="e"): at(1 << 4), key("pay", cluster="e"): at(4)}
    found = judged(stored, alias="e", remotes=frozenset({"e.orders", "e.pay"}))
    assert len(found.offsets) == 2
    [note] = found.notes
    assert note.startswith("east.orders is not at west")
    assert "MirrorMaker 2 calls the source e." in note


def test_a_start_by_time_prevents_it() -> None:
    found = judged({key(): at(89)}, FLOW.replace("}", ", start: {timestamp: 5}}"))
    assert "timestamp" in found.obstacles[0]
    assert "start:" not in inherited_text([found], {}, [])


def test_what_is_shown_is_what_would_be_written() -> None:
    found = judged({key(): at(89), key("x"): at(1)})
    text = inherited_text([found], {"g": TopicRef("east", "mm2-offsets.west.internal")}, [])
    assert "flow f: 1 position of 1 topic from west/mm2-offsets.east.internal" in text
    assert "    start: {offsets: {orders: {0: 90}}}\n" in text
    assert "flow g: east/mm2-offsets.west.internal does not exist" in text
    assert "start: {" not in inherited_text([found], {}, ["e.yaml"])
    jsonschema.validate(json.loads(inherited_json("e", [found], {"g": PLACE}, [])), SCHEMA)


OFFSETS = {"orders": {0: 10, 1: 20}, "pay": {0: 5}}
START = "start: {offsets: {orders: {0: 10, 1: 20}, pay: {0: 5}}}"
BLOCK = "  f:\n    source: east # there\n    target: west\n    topics: [orders, pay.*]\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FLOW, FLOW.replace("{source", f"{{{START}, source")),
        (BLOCK, BLOCK.replace("    topics", f"    {START}\n    topics")),
        (BLOCK.replace("    topics", "    # which\n    topics"), None),
        (BLOCK + "    start: earliest # of all\n", BLOCK + f"    {START} # of all\n"),
        (BLOCK + "    start: {offsets: {orders: {0: 1}}}\n\n# end\n", BLOCK + f"    {START}\n\n# end\n"),
        (
            BLOCK + "    start:\n      offsets:\n        orders: {0: 1}\n      otherwise: latest\n\n  # next\n",
            BLOCK + f"    {START[:-1]}, otherwise: latest}}\n\n  # next\n",
        ),
        (BLOCK + "    start: latest\n", BLOCK + f"    {START[:-1]}, otherwise: latest}}\n"),
        (BLOCK.replace("\n", "\r\n"), BLOCK.replace("    topics", f"    {START}\n    topics").replace("\n", "\r\n")),
    ],
)
def test_only_the_start_of_the_flow_changes(before: str, after: str | None) -> None:
    text = CLUSTERS + "flows:\n" + before
    made = write_starts({"e.yaml": text}, load({"e.yaml": text}, "e"), {"f": OFFSETS})["e.yaml"]
    if after is None:
        assert made.replace(f"    {START}\n", "") == text
    else:
        assert made == CLUSTERS + "flows:\n" + after
    flow = load({"e.yaml": made}, "e").flows["f"]
    assert flow.start.offsets == OFFSETS


def test_other_offsets_of_the_flow_stay_and_the_same_ones_change_nothing() -> None:
    flow = BLOCK + "    start: {offsets: {pay2: {0: 7}, orders: {0: 1, 3: 3}}}\n"
    texts = {"e.yaml": CLUSTERS + "flows:\n" + flow}
    made = write_starts(texts, load(texts, "e"), {"f": OFFSETS})
    found = load(made, "e").flows["f"].start.offsets
    assert found == {"orders": {0: 10, 1: 20, 3: 3}, "pay": {0: 5}, "pay2": {0: 7}}
    assert write_starts(made, load(made, "e"), {"f": OFFSETS}) == {}


def test_many_topics_get_a_line_each() -> None:
    many = {f"pay.{number}": {0: number, 1: 10**9} for number in range(30)}
    for flow in (FLOW, BLOCK):
        texts = {"e.yaml": CLUSTERS + "flows:\n" + flow}
        made = write_starts(texts, load(texts, "e"), {"f": many})
        assert load(made, "e").flows["f"].start == Start("offsets", None, many, "earliest")
        assert max(map(len, made["e.yaml"].splitlines())) < 120


@pytest.mark.parametrize(
    "flows",
    [
        "  f: &a {source: east, target: west, topics: [orders, pay.*]}\n  g: {<<: *a, topics: [bills]}\n",
        BLOCK + "    start:\n      offsets: # mine\n        orders: {0: 1}\n",
    ],
)
def test_what_would_change_more_is_left_to_a_hand_and_no_file_changes(flows: str) -> None:
    texts = {"e.yaml": CLUSTERS + "flows:\n" + flows}
    with pytest.raises(ReconcilerError, match="no file was changed") as told:
        write_starts(texts, load(texts, "e"), {"f": {"orders": {0: 10}}})
    assert "start: {offsets: {orders: {0: 10}}}" in told.value.todo
