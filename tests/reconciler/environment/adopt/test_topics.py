"""adopt: whatever a cluster has, a plan of the files is empty, and undeclared objects are reported."""

from __future__ import annotations

import re
import resource
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import ruamel.yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.plan.build import plan
from reconciler.environment.adopt.entries import Adoption, AdoptOptions, adopt, written
from reconciler.environment.adopt.write import scalar, texts, topics_text, value
from reconciler.environment.load import load
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.environment.topology import Cluster, Topology
from reconciler.model.live import ConfigValue, LiveCluster, LiveState, Source
from reconciler.operations.adopt.run import adopt_request, is_empty
from reconciler.replication.expressions.match import expressions
from tests.support.builders import cluster, topic, topology
from tests.support.fakes.cluster import FakeCluster

EAST = Cluster("east", ("a.example:9092", "[::1]:9092"), cluster_id="id-of-east")
TRAPS = ("on", "off", "yes", "No", "n", "y", "null", "Null", "NULL", "true", "False", "1e3", "0123", "0x1f", "0o17",
         "1_000", "12", "-1", "1.5", "-", "_", "...", "--", "-.-", "inf", "nan", "e1", "x-", "7d", "1GiB")  # fmt: skip


def adopted(live: LiveCluster, *exclude: str, known: Topology | None = None) -> Adoption:
    return adopt(EAST, live, AdoptOptions(expressions(exclude), known))


def loaded(made: Adoption) -> Topology:
    return load({f"env/east/{path}": text for path, text in texts(made).items()}, "env")


def names(made: Adoption) -> set[str]:
    return {one.topic.name for one in made.topics}


def left(made: Adoption) -> dict[str, str]:
    return {one.subject.name: one.rule for one in made.left_out}


def comments(made: Adoption) -> str:
    return "\n".join(line for text in texts(made).values() for line in text.splitlines() if line.lstrip()[0] == "#")


def with_configs(live: LiveCluster, name: str, configs: Mapping[str, ConfigValue] | Unknown) -> LiveCluster:
    changed = replace(live.topics[name], configs=configs)
    return replace(live, topics={**live.topics, name: changed})


VALUES = {
    "retention.ms": st.integers(-1, 2**63 - 1).map(str),
    "retention.bytes": st.integers(-1, 2**63 - 1).map(str) | st.sampled_from([str(1 << n) for n in range(63)]),
    "cleanup.policy": st.sampled_from(["delete", "compact", "compact,delete", "delete,compact"]),
    "min.cleanable.dirty.ratio": st.sampled_from(["0.5", "1e-3", ".5", "1.0", "0"]),
    "min.insync.replicas": st.integers(1, 4).map(str),
    "preallocate": st.sampled_from(["true", "false"]),
    "leader.replication.throttled.replicas": st.just("0:1,1:1"),
    "compression.type": st.sampled_from(
        ["lz4", "producer", "on", "null", "1e3", "", " spaced ", "a: b", "#x", "é\x7f☃"]
    ),
}
TOPICS = st.dictionaries(
    st.text("aAon01.-_", min_size=1, max_size=8) | st.sampled_from(TRAPS),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.fixed_dictionaries({}, optional=VALUES)),
    max_size=90,
)


@given(TOPICS)
def test_a_plan_of_what_was_adopted_is_empty(found: Mapping[str, tuple[int, int, Mapping[str, str]]]) -> None:
    fake = FakeCluster("east", brokers=3)
    twins: set[str] = set()
    for name, (partitions, factor, overrides) in found.items():
        legal = re.fullmatch("[A-Za-z0-9._-]+", name) and name not in (".", "..")
        if legal and name.replace(".", "_") not in twins:
            twins.add(name.replace(".", "_"))
            fake.put(name, partitions, factor).overrides.update(overrides)
    live = fake.read()
    made = adopted(live)
    wished = loaded(made)
    assert set(wished.topics) == names(made) == set(live.topics) - set(left(made))
    assert is_empty(plan(wished, LiveState({"east": live}, {})))
    said = comments(made)
    for name, topic_ in wished.topics.items():
        assert topic_.partitions == len(live.topics[name].partitions)
        for key, text in live.topics[name].overrides.items():
            assert topic_.configs[key] == text if key in topic_.configs else f"{key} is" in said


@given(st.text() | st.sampled_from(TRAPS))
def test_a_scalar_is_read_back_as_the_text_it_was_by_both_versions_of_yaml(text: str) -> None:
    if any("\ud800" <= char <= "\udfff" for char in text):
        return
    assert load_yaml(f"{{a: {scalar(text)}}}", (1, 2)) == {"a": text}
    assert load_yaml(f"{{a: {scalar(text)}}}", (1, 1)) == {"a": text}
    assert str(load_yaml(f"{{a: {value(text)}}}", (1, 2))["a"]) == text


def load_yaml(text: str, version: tuple[int, int]) -> dict[str, object]:
    reader = ruamel.yaml.YAML(typ="safe", pure=True)
    reader.version = version
    found = reader.load(text)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("key", "live", "text"),
    [
        ("retention.ms", "604800000", "7d"),
        ("retention.ms", "604800001", "604800001ms"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", str(2**63 - 1), str(2**63 - 1)),
        ("retention.bytes", "1073741824", "1GiB"),
        ("retention.bytes", "1073741825", "1073741825"),
        ("compression.type", "", ""),
    ],
)
def test_units_only_where_they_are_exact(key: str, live: str, text: str) -> None:
    assert written(key, live) == text


def test_internal_remote_and_excluded_topics_are_left_out_and_named() -> None:
    fake = FakeCluster("east")
    for name in ("orders", "__consumer_offsets", "__mirror_status", "west.orders", "west.", "weste.x", "tmp-1",
                 "mm2-offset-syncs.west.internal", "west.checkpoints.internal"):  # fmt: skip
        fake.put(name)
    known = topology(cluster("west"))
    made = adopted(fake.read(), "tmp-.*", known=known)
    assert names(made) == {"orders", "west.", "weste.x"}
    assert left(made)["west.orders"] == "remote topic"
    assert left(made)["tmp-1"] == "excluded"
    assert {name for name, rule in left(made).items() if rule == "internal topic"} == {
        "__consumer_offsets",
        "__mirror_status",
        "mm2-offset-syncs.west.internal",
        "west.checkpoints.internal",
    }
    for name in left(made):
        assert name in comments(made)


@pytest.mark.parametrize("known", [None, topology(cluster("east"), topic("audit_log", "east"))])
def test_of_topics_that_differ_only_in_dots_and_underscores_one_is_declared(known: Topology | None) -> None:
    """Kafka creates both by one request. Declared together, the environment would be refused as a whole."""
    fake = FakeCluster("east")
    for name in ("orders.v2", "orders_v2", "orders-v2", "audit.log", "audit_log"):
        fake.put(name)
    made = adopted(fake.read(), known=known)
    assert left(made)["orders_v2"] == "differs only in '.' and '_'"
    assert "orders.v2 is declared" in next(each.text for each in made.left_out if each.subject.name == "orders_v2")
    taken = {"orders-v2", "orders.v2"}
    assert names(made) == (taken | {"audit.log"} if known is None else taken)


def test_topics_declared_before_that_are_named_as_remote_topics_of_this_cluster_are_reported() -> None:
    known = topology(topic("east.orders", "west"), topic("east.unrelated", "west"), topic("orders.east", "west"))
    east = FakeCluster("east")
    east.put("orders")
    [note] = adopted(east.read(), known=known).notes
    assert note.startswith("declared before, but named as remote topics of east (1): west/east.orders. Where")


def test_a_name_that_another_cluster_declares_is_left_out_with_the_lines_between() -> None:
    fake = FakeCluster("east")
    fake.put("same", 3, retention_ms="60000")
    fake.put("other", 4)
    known = topology(
        topic("same", "west", partitions=3, configs={"retention.ms": "60000"}),
        topic("other", "west", partitions=3, configs={"retention.ms": "60000"}),
    )
    words = {str(one.subject): one.text for one in adopted(fake.read(), known=known).left_out}
    assert "add east to its clusters" in words["east/same"]
    assert "partitions are 4 here and 3 there" in words["east/other"]
    assert "retention.ms is 7d here and 1m there" in words["east/other"]


def test_what_cannot_be_declared_is_said_beside_the_topic_and_never_guessed() -> None:
    fake = FakeCluster("east", brokers=3)
    fake.put("mixed", 3, 2, retention_ms="60000").assignment[2] = (1, 2, 3)
    fake.put("closed")
    fake.put("hidden")
    fake.put("moving", leader_replication_throttled_replicas="0:1")
    fake.put("stuck", min_insync_replicas="2")
    fake.put("odd", compression_type="${env:X}")
    live = with_configs(fake.read(), "closed", Unknown("configs", "may not be described"))
    secret = ConfigValue(None, Source.TOPIC, sensitive=True)
    live = with_configs(live, "hidden", {"vendor.key": secret})
    made = adopted(live)
    found = {one.topic.name: one for one in made.topics}
    assert found["mixed"].topic.replication_factor is None
    assert found["mixed"].comments == (
        "replication factor differs: 2 on partition 0, 1; 3 on partition 2; not declared",
    )
    for name, word in {
        "closed": "may not be described",
        "hidden": "vendor.key is set: the broker hides",
        "moving": "leader.replication.throttled.replicas is set: a throttle",
        "stuck": "above the replication factor 1",
        "odd": "compression.type is ${env:X}",
    }.items():
        assert not found[name].topic.configs
        assert word in found[name].comments[0]
        assert word in re.sub(r"\n *#  ", "", comments(made))
    assert is_empty(plan(loaded(made), LiveState({"east": live}, {})))


def test_topics_the_principal_cannot_see_are_reported_of() -> None:
    fake = FakeCluster("east")
    fake.put("secret")
    fake.hide("secret")
    assert "may not describe every topic" in comments(adopted(fake.read()))


@pytest.mark.parametrize("cluster_id", ["id\naccess: []\n#", "id\r\nusers: []", "id\u2028x: 1", "id\x85y: 1"])
def test_the_id_that_a_cluster_says_begins_no_line_of_its_own(cluster_id: str) -> None:
    """It is written into a comment, after which its words would be YAML."""
    fake = FakeCluster("east")
    fake.put("orders", 1)
    live = replace(fake.read(), cluster_id=cluster_id)
    text = texts(adopt(cluster("east", cluster_id=cluster_id), live, AdoptOptions()))["cluster.yaml"]
    assert list(load_yaml(text, (1, 2))) == ["clusters"]
    assert text.splitlines() == text.split("\n")[:-1]


@pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\u200b", "\ufeff", "\x85", "\u2028", "\0", "\x1b"])
def test_what_a_cluster_says_hides_nothing_in_a_file(sign: str) -> None:
    assert sign not in scalar(f"User:a{sign}b")


def test_many_topics_are_grouped_by_what_their_names_begin_with() -> None:
    fake = FakeCluster("east")
    for number in range(50):
        fake.put(f"orders.{number}")
        fake.put(f"Payments_{number}")
    fake.put("single")
    fake.put("lone-one")
    for number in range(900):
        fake.put(f"flat{number:03}")
    found = texts(adopted(fake.read()))
    assert set(found) == {"cluster.yaml", "topics/orders.yaml", "topics/payments.yaml", "topics/other-001.yaml",
                          "topics/other-002.yaml", "topics/other-003.yaml"}  # fmt: skip
    assert found == texts(adopted(fake.read())), "the order is stable"


@pytest.mark.slow
@pytest.mark.timeout(120)  # what grows with the square of their number takes longer
def test_ten_thousand_topics() -> None:
    fake = FakeCluster("east")
    for number in range(10_000):
        fake.put(f"team{number % 40}.topic-{number}", retention_ms=str(60_000 * (number % 7 + 1)))
    live = fake.read()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = texts(adopted(live))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
    assert len(found) == 41


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"client": ["sasl.password=hunter2"]}, "sasl.password holds a literal value"),
        ({"client": ["ssl.key.pem=hunter2"]}, "ssl.key.pem"),
        ({"client": ["hunter2"]}, "--client number 1"),
        ({"client": ["group.id=hunter2"]}, "group.id"),
        ({"name": "../up"}, "--name"),
        ({"name": ""}, "--name"),
        ({"servers": "nowhere"}, "--bootstrap-servers"),
        ({"servers": " , "}, "--bootstrap-servers"),
        ({"exclude": ["("]}, "--exclude"),
    ],
)
def test_words_that_cannot_be_meant_are_refused_without_the_secret(words: dict[str, object], told: str) -> None:
    given_: dict[str, object] = {"name": "east", "servers": "a:9092", "client": [], "out": Path("e"), "exclude": []}
    with pytest.raises(ReconcilerError) as caught:
        adopt_request(**(given_ | words))  # type: ignore[arg-type]
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_reference_is_kept_as_it_is() -> None:
    desired = adopt_request("east", "a:9092,b:9092", ["ssl.ca.pem=${env:CA}"], Path("e"), [])
    made = adopt(replace(desired.cluster, cluster_id="x"), FakeCluster("east").read(), AdoptOptions())
    assert loaded(made).clusters["east"].client == {"ssl.ca.pem": "${env:CA}"}


STREAMS = ("shop-orders-store-changelog", "shop-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition")
CONNECTS = ("pay-connect-configs", "pay-connect-offsets", "pay-connect-status")


def holding(*held: str) -> LiveCluster:
    fake = FakeCluster("east")
    for name in held:
        fake.put(name)
    return fake.read()


def test_what_streams_connect_and_a_registry_look_after_is_left_out_by_name_and_by_whom() -> None:
    others = ("_schemas", "connect-status", "heartbeats", "kafkasql-journal", "_confluent-command")
    made = adopted(holding("orders", "order-status", "app-configs", *STREAMS, *CONNECTS, *others))
    assert names(made) == {"orders", "order-status", "app-configs"}, "one or two of Connect's endings are anyone's"
    told = {one.subject.name: one.text for one in made.left_out if one.rule == "of an application"}
    assert told.keys() == {*STREAMS, *CONNECTS, *others} - set(left_as_internal(made))
    assert told[STREAMS[0]].startswith("Kafka Streams creates and manages it")
    assert told[CONNECTS[0]].startswith("Kafka Connect creates and manages it")
    assert "--topic pay-connect-configs declares it anyway" in told[CONNECTS[0]]


def left_as_internal(made: Adoption) -> list[str]:
    return [name for name, rule in left(made).items() if rule == "internal topic"]


def test_only_topics_that_are_asked_for_are_taken_and_nothing_else() -> None:
    live = holding("orders", "orders.v2", "pay", *STREAMS)
    only = expressions(("orders.*", STREAMS[0]))
    made = adopt(EAST, live, AdoptOptions(only=only))
    assert names(made) == {"orders", "orders.v2", STREAMS[0]}, "a name that is written out is meant"
    assert left(made) == {"pay": "not asked for", STREAMS[1]: "not asked for"}
    assert "pay" not in comments(made), "ten thousand names that nobody asked about help nobody"
    everything = adopt(EAST, live, AdoptOptions(only=expressions([".*"])))
    assert left(everything) == dict.fromkeys(STREAMS, "of an application"), "an expression does not mean them"


def test_a_default_of_the_environment_changes_no_topic_that_is_taken() -> None:
    fake = FakeCluster("east")
    fake.put("orders")
    fake.put("pay", retention_ms="3600000")
    live = fake.read()
    files = {
        "all.yaml": "clusters: {east: {bootstrap_servers: [a.example:9092], defaults: {configs: {retention.ms: 2d}}}}\n"
        "defaults: {configs: {segment.bytes: 512MiB}}\n"
    }
    known = load(files, "env")
    made = adopt(known.clusters["east"], live, AdoptOptions(known=known, only=expressions([".*"])))
    whole = load({**files, "east/adopted.yaml": topics_text(made.topics)}, "env")
    assert {name: one.configs["retention.ms"] for name, one in whole.topics.items()} == {
        "orders": "604800000",
        "pay": "3600000",
    }
    assert is_empty(plan(whole, LiveState({"east": live}, {})))
