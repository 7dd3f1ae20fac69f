"""drift --accept: only the value's own characters change, and what cannot be accepted changes nothing."""

from __future__ import annotations

import difflib

import pytest

from reconciler.environment.adopt.accept_drift import accept
from reconciler.environment.load import load
from reconciler.errors import ReconcilerError
from reconciler.model.live import LiveState
from tests.support.fakes.cluster import FakeCluster

TEXT = """\
# who reads this: everyone
clusters:
  east: {bootstrap_servers: [a:9092], defaults: {configs: {segment.ms: 1d}}}
  west: {bootstrap_servers: [b:9092]}

topics:
  orders:   # the important one
    clusters: [east]
    partitions: 8          # grown twice
    configs:
      retention.ms: "7d"   # as agreed
      cleanup.policy: delete
  pay: {clusters: [east, west], partitions: 2, configs: {retention.ms: 1h, max.message.bytes: 1MiB}}   # both
  shared: {clusters: [east], configs: &short {retention.ms: 1h}}
  sharing: {clusters: [east], configs: *short}
  listed: {clusters: [east], configs: {cleanup.policy: [compact, delete]}}
"""
FILE = "env/topology.yaml"


def worlds(east: FakeCluster, west: FakeCluster | None = None) -> LiveState:
    return LiveState({"east": east.read(), "west": (west or same_west()).read()}, {})


def same_west() -> FakeCluster:
    west = FakeCluster("west")
    west.put("pay", 2, retention_ms="3600000", max_message_bytes="1048576")
    return west


def same_east() -> FakeCluster:
    east = FakeCluster("east")
    east.put("orders", 8, retention_ms="604800000", cleanup_policy="delete")
    east.put("pay", 2, retention_ms="3600000", max_message_bytes="1048576")
    east.put("shared", retention_ms="3600000")
    east.put("sharing", retention_ms="3600000")
    east.put("listed", cleanup_policy="compact,delete")
    return east


def accepted(live: LiveState, *subjects: str) -> list[tuple[str, str]]:
    made = accept({FILE: TEXT}, load({FILE: TEXT}, "env"), live, subjects)
    diff = [line for line in difflib.ndiff(TEXT.splitlines(), made.texts[FILE].splitlines()) if line[0] in "+-"]
    before, after = ([line[2:] for line in diff if line[0] == sign] for sign in "-+")
    return list(zip(before, after, strict=True))


def refusal(live: LiveState, *subjects: str) -> str:
    with pytest.raises(ReconcilerError) as caught:
        accept({FILE: TEXT}, load({FILE: TEXT}, "env"), live, subjects)
    assert "no file was changed" in str(caught.value)
    return str(caught.value)


def test_only_the_touched_lines_change_and_only_their_values() -> None:
    east = same_east()
    east.topics["orders"] = east.put("orders", 12, retention_ms="172800001", cleanup_policy="compact,delete")
    assert accepted(worlds(east), "east/orders") == [
        ("    partitions: 8          # grown twice", "    partitions: 12          # grown twice"),
        ('      retention.ms: "7d"   # as agreed', '      retention.ms: "172800001ms"   # as agreed'),
        ("      cleanup.policy: delete", '      cleanup.policy: "compact,delete"'),
    ]


@pytest.mark.parametrize(
    ("written", "live", "then"),
    [
        ('"retention.ms":"7d"', "1", '"retention.ms":"1ms"'),
        ("retention.ms: '7d'", "-1", "retention.ms: '-1'"),
        ("preallocate: false", "true", "preallocate: true"),
        ("cleanup.policy: compact", "compact,delete", 'cleanup.policy: "compact,delete"'),
        ("min.cleanable.dirty.ratio: 0.5", "0.7", "min.cleanable.dirty.ratio: 0.7"),
        ("min.cleanable.dirty.ratio: '0.5'", "0.7", "min.cleanable.dirty.ratio: '0.7'"),
    ],
)
def test_a_value_is_quoted_as_it_was(written: str, live: str, then: str) -> None:
    clusters = 'clusters: {east: {bootstrap_servers: ["a:9092"]}}'
    text = f"{clusters}\ntopics: {{t: {{clusters: [east], configs: {{{written}}}}}}}\n"
    east = FakeCluster("east")
    east.put("t").overrides[written.partition(":")[0].strip('"')] = live
    made = accept({FILE: text}, load({FILE: text}, "env"), LiveState({"east": east.read()}, {}), ["east/t"])
    assert made.texts[FILE] == text.replace(written, then)


def test_a_byte_order_mark_moves_no_column() -> None:
    text = '\ufeff{"clusters": {"east": {"bootstrap_servers": ["a:9092"]}}, "topics": {"t": {"clusters": ["east"], '
    text += '"configs": {"retention.ms": "7d"}}}}'
    east = FakeCluster("east")
    east.put("t", retention_ms="3600000")
    made = accept({FILE: text}, load({FILE: text}, "env"), LiveState({"east": east.read()}, {}), ["east/t"])
    assert made.texts[FILE] == text.replace("7d", "1h")


def test_one_field_of_a_topic_on_one_line_for_two_clusters() -> None:
    east, west = same_east(), same_west()
    for one in (east, west):
        one.topics["pay"].overrides["retention.ms"] = "86400000"
    old = (
        "  pay: {clusters: [east, west], partitions: 2, configs: {retention.ms: 1h, max.message.bytes: 1MiB}}   # both"
    )
    assert accepted(worlds(east, west), "west/pay:retention.ms") == [(old, old.replace("1h", "1d"))]


def test_clusters_that_differ_from_each_other_cannot_both_be_accepted() -> None:
    east = same_east()
    east.topics["pay"].overrides["retention.ms"] = "86400000"
    told = refusal(worlds(east), "east/pay")
    assert "retention.ms is 1d on east, 1h on west" in told


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        ("east/orders:retention.ms", "does not differ"),
        ("east/orders", "none of the fields declared on the topic itself differs"),
        ("east/orders:segment.ms", "not declared on the topic itself"),
        ("west/orders", "no topic of this name is declared there"),
        ("east/nothing", "no topic of this name is declared there"),
        ("orders", "CLUSTER/TOPIC"),
    ],
)
def test_what_is_no_drift_of_a_declared_field_is_refused(subject: str, told: str) -> None:
    assert told in refusal(worlds(same_east()), subject)


def test_a_value_that_others_share_is_not_written() -> None:
    east = same_east()
    east.topics["shared"].overrides["retention.ms"] = "86400000"
    told = refusal(worlds(east), "east/shared")
    assert "anchor" in told
    assert "shared retention.ms (topic at" in told
    assert "topic sharing would change with it" in told


@pytest.mark.parametrize(
    ("anchored", "alias", "others"),
    [
        ("defaults: {configs: &own {retention.ms: 1h}}", "configs: *own", "defaults would change with it"),
        ("classes: {brief: {configs: &own {retention.ms: 1h}}}", "configs: *own", "class brief would change with it"),
        ("", "lower_retention_by: &own {retention.ms: 1h}, configs: *own", "topic t would change with it"),
    ],
)
def test_a_value_that_a_layer_shares_is_not_written(anchored: str, alias: str, others: str) -> None:
    """Another layer of values would change for all topics without anyone having accepted that."""
    topic = f"topics: {{t: {{clusters: [east], {alias}}}}}"
    text = f"clusters: {{east: {{bootstrap_servers: [a:9092]}}}}\n{anchored}\n{topic}\n"
    east = FakeCluster("east")
    east.put("t", retention_ms="86400000")
    with pytest.raises(ReconcilerError, match=others):
        accept({FILE: text}, load({FILE: text}, "env"), LiveState({"east": east.read()}, {}), ["east/t"])


def test_a_list_is_left_to_its_author() -> None:
    east = same_east()
    east.topics["listed"].overrides["cleanup.policy"] = "delete"
    told = refusal(worlds(east), "east/listed")
    assert "at env/topology.yaml:16:56 as a list" in told, "where the value stands"
    assert told.splitlines()[1].endswith("only you can edit; the live value is cleanup.policy: delete")


def test_a_value_git_cannot_hold_is_refused_and_nothing_else_is_taken_either() -> None:
    east = same_east()
    east.topics["orders"].overrides["retention.ms"] = "1"
    east.topics["pay"].overrides["retention.ms"] = "2"
    assert "on west" in refusal(worlds(east), "east/orders", "east/pay")


def test_a_cluster_that_was_not_read_is_not_taken_for_equal() -> None:
    east = same_east()
    east.topics["pay"].overrides["retention.ms"] = "86400000"
    live = LiveState({"east": east.read()}, {})
    assert "could not be read" in refusal(live, "east/pay")


def test_a_replication_factor_is_accepted_where_it_is_declared() -> None:
    text = TEXT.replace("pay: {", "pay: {replication_factor: 1, ")
    east, west = FakeCluster("east", brokers=3), FakeCluster("west", brokers=3)
    for cluster in (east, west):
        cluster.put("pay", 2, 3, retention_ms="3600000", max_message_bytes="1048576")
    live = LiveState({"east": east.read(), "west": west.read()}, {})
    made = accept({FILE: text}, load({FILE: text}, "env"), live, ["east/pay"])
    assert made.texts[FILE] == text.replace("replication_factor: 1", "replication_factor: 3")
    west.put("pay", 2, 2, retention_ms="3600000", max_message_bytes="1048576")
    live = LiveState({"east": east.read(), "west": west.read()}, {})
    with pytest.raises(ReconcilerError, match="replication_factor is 3 on east, 2 on west"):
        accept({FILE: text}, load({FILE: text}, "env"), live, ["east/pay"])


def added(live: LiveState, *subjects: str, text: str = TEXT) -> list[str]:
    """The lines that are new or changed; nothing else is."""
    made = accept({FILE: text}, load({FILE: text}, "env"), live, subjects)
    diff = difflib.ndiff(text.splitlines(), made.texts[FILE].splitlines())
    return [line[2:] for line in diff if line[0] == "+"]


def test_an_undeclared_override_is_written_among_the_configs_of_its_topic() -> None:
    east = same_east()
    east.put("orders", 8, retention_ms="604800000", cleanup_policy="delete", flush_ms="60000")
    assert added(worlds(east), "east/orders:flush.ms") == ["      flush.ms: 1m"]
    assert "a default of the cluster" in refusal(worlds(east), "east/orders:segment.ms")


@pytest.mark.parametrize(
    ("topic", "line"),
    [
        ("{clusters: [east], configs: {}}", "  new: {clusters: [east], configs: {flush.ms: 1m}}"),
        ("{clusters: [east]}", "  new: {configs: {flush.ms: 1m}, clusters: [east]}"),
        ('{"clusters": ["east"]}', '  new: {"configs": {"flush.ms": "1m"}, "clusters": ["east"]}'),
        ("\n    clusters: [east]\n    partitions: 1", "    configs: {flush.ms: 1m}"),
        ("\n    clusters: [east]\n    # why\n    configs:\n      flush.messages: 5", "      flush.ms: 1m"),
    ],
)
def test_an_override_is_written_wherever_a_topic_has_a_plain_place_for_it(topic: str, line: str) -> None:
    text = f"clusters:\n  east: {{bootstrap_servers: [a:9092]}}\ntopics:\n  new: {topic}\n"
    east = FakeCluster("east")
    east.put("new", 1, flush_ms="60000", flush_messages="5")
    assert added(LiveState({"east": east.read()}, {}), "east/new:flush.ms", text=text) == [line]


def test_an_override_of_one_of_several_clusters_is_not_declared_for_all() -> None:
    west = same_west()
    west.topics["pay"].overrides["segment.bytes"] = "1048576"
    told = refusal(worlds(same_east(), west), "west/pay:segment.bytes")
    assert "segment.bytes is 1MiB on west, 1GiB on east" in told
    assert "not declared on the topic itself" in refusal(worlds(same_east(), west), "east/pay:segment.bytes")


def test_an_override_that_counts_as_drift_is_accepted_with_its_topic() -> None:
    text = TEXT.replace("    partitions: 8 ", "    undeclared: drift\n    partitions: 8 ")
    east = same_east()
    east.put("orders", 8, retention_ms="604800000", cleanup_policy="delete", flush_ms="60000")
    assert added(worlds(east), "east/orders", text=text) == ["      flush.ms: 1m"]


def test_a_topic_that_is_gone_is_reported_once_and_plainly() -> None:
    east = same_east()
    del east.topics["orders"]
    told = refusal(worlds(east), "east/orders")
    assert told.count("east/orders") == 1
    assert "the topic is not on cluster east: it was deleted, or no apply has made it yet" in told
