"""doctor: facts to findings. The same facts always end in the same words, and a part that is unknown is never ok."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from reconciler.engine.doctor.clusters import cluster_findings
from reconciler.engine.doctor.flows import flow_findings
from reconciler.engine.doctor.machines import machine_findings, spark_cluster_findings
from reconciler.errors import Unknown
from reconciler.model.environment.flow_settings import ConfigSync
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import LiveState, Source
from reconciler.model.reports.doctor import Address, Certificate, Checkup, ClusterFacts, DoctorVerdict, Finding, Machine
from reconciler.model.schemas import schema as schema_of
from reconciler.render.reports.checkups import checkup_json, checkup_text
from reconciler.resources.flows.routes import find_routes
from tests.support.builders import cluster, flow, topic, topology
from tests.support.fakes.cluster import FakeCluster

NOW = 1_800_000_000
DAY = 86_400
FINE: Mapping[str, str | None] = {
    "auto.create.topics.enable": "false",
    "transaction.max.timeout.ms": "900000",
    "transactional.id.expiration.ms": "604800000",
    "offsets.retention.minutes": "10080",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "message.max.bytes": "1048588",
    "replica.fetch.max.bytes": "1048576",
}
FACTS = ClusterFacts(
    name="east",
    addresses=(Address("a:9093", "", Certificate(NOW - DAY, NOW + 90 * DAY, ("a",))),),
    cluster_id="id",
    brokers={1: FINE, 2: FINE, 3: FINE},
    authorizer=True,
    features={"metadata.version": 29, "transaction.version": 2},
    apis={"IncrementalAlterConfigs": 1},
    skew_ms=5,
    skew_error_ms=3,
)
WISH = cluster("east", cluster_id="id")
LOST = Unknown("it", "could not be asked", "do this")
WORLD = topology(topic("orders", "east"), topic("new", "east"), flow("east", "west", "orders", name="f"))


def judged(facts: ClusterFacts = FACTS, **changes: Any) -> dict[str, Finding]:
    return {one.check: one for one in cluster_findings(WISH, replace(facts, **changes), target=True, now_s=NOW)}


def with_setting(key: str, value: str | None) -> dict[int, Mapping[str, str | None]]:
    return {1: FINE, 2: {**FINE, key: value}}


@pytest.mark.parametrize("value", ["²", "--5", "many", ""])
def test_a_broker_setting_that_is_no_number_is_unknown(value: str) -> None:
    brokers = {1: {**FINE, "transaction.max.timeout.ms": value, "min.insync.replicas": value}}
    said = judged(brokers=brokers)
    assert said["transactions"].verdict is said["replicas"].verdict is DoctorVerdict.UNKNOWN


def test_a_service_is_named_and_its_users_upgrade_and_set_nothing() -> None:
    changes: dict[str, Any] = {
        "features": {},
        "authorizer": False,
        "brokers": with_setting("auto.create.topics.enable", "true"),
    }
    hosted, told = replace(WISH, service="confluent-cloud"), {}
    for one in cluster_findings(hosted, replace(FACTS, **changes), target=True, now_s=NOW):
        told[one.check] = one
    assert told["service"].text == "Confluent Cloud"
    assert told["features"].todo == ("Confluent upgrades its brokers.",)
    assert "Confluent sets it" in told["auto-create"].todo[0]
    assert told["authorizer"].why == "only roles of Confluent Cloud can limit who may do what"
    assert [one.todo for one in told.values() if "authorizer.class.name" in " ".join(one.todo)] == []
    assert "authorizer.class.name" in judged(**changes)["authorizer"].todo[0]
    assert "Upgrade the brokers" in judged(**changes)["features"].todo[0]
    assert "service" not in judged()
    address = replace(hosted, service="", bootstrap_servers=("pkc-1.eu.aws.confluent.cloud:9092",))
    guessed = {one.check: one for one in cluster_findings(address, FACTS, target=True, now_s=NOW)}["service"]
    assert "by its address; write service: apache" in guessed.text


def test_brokers_without_a_ticket_are_named_each() -> None:
    tickets = {"b1:9092": "", "b2:9092": "the KDC has no principal kafka/b2", "b3:9092": "the KDC has no principal"}
    found = [
        one for one in cluster_findings(WISH, replace(FACTS, tickets=tickets), True, NOW) if one.check == "tickets"
    ]
    assert [one.text.partition(":")[0] for one in found] == ["no ticket for broker b2", "no ticket for broker b3"]
    assert {one.verdict for one in found} == {DoctorVerdict.PROBLEM}
    assert judged(tickets={"b1:9092": ""})["tickets"].text == "Kerberos has one for each of 1 broker"
    assert "tickets" not in judged()


def test_a_cluster_in_order_has_nothing_but_ok() -> None:
    assert {one.verdict for one in judged().values()} == {DoctorVerdict.OK}


@pytest.mark.parametrize(
    ("check", "verdict", "word", "changes"),
    [
        ("address", DoctorVerdict.PROBLEM, "refused", {"addresses": (Address("a:1", "no connection: refused"),)}),
        (
            "certificate",
            DoctorVerdict.WARNING,
            "10 days",
            {"addresses": (Address("a:1", "", Certificate(0, NOW + 10 * DAY, ("a",))),)},
        ),
        ("cluster id", DoctorVerdict.PROBLEM, "other", {"cluster_id": "other"}),
        ("features", DoctorVerdict.WARNING, "transaction.version 1", {"features": {"transaction.version": 1}}),
        ("features", DoctorVerdict.WARNING, "have no", {"apis": {"Fetch": 3}}),
        ("features", DoctorVerdict.UNKNOWN, "could not", {"features": LOST}),
        ("authorizer", DoctorVerdict.WARNING, "none", {"authorizer": False}),
        ("authorizer", DoctorVerdict.UNKNOWN, "could not", {"authorizer": LOST}),
        ("clock", DoctorVerdict.WARNING, "5000 ms behind", {"skew_ms": -5000}),
        ("clock", DoctorVerdict.PROBLEM, "400000 ms ahead of", {"skew_ms": 400_000}),
        ("clock", DoctorVerdict.OK, "give or take 4000", {"skew_ms": 5000, "skew_error_ms": 4000}),
        ("clock", DoctorVerdict.UNKNOWN, "could not", {"skew_ms": LOST}),
        ("mutation quota", DoctorVerdict.OK, "user a: 2 partitions", {"quotas": {"user a": 2.0}}),
        ("mutation quota", DoctorVerdict.UNKNOWN, "could not", {"quotas": LOST}),
        ("auto-create", DoctorVerdict.WARNING, "true", {"brokers": with_setting("auto.create.topics.enable", "true")}),
        ("auto-create", DoctorVerdict.UNKNOWN, "do not report", {"brokers": {1: {}}}),
        (
            "transactions",
            DoctorVerdict.PROBLEM,
            "30s",
            {"brokers": with_setting("transaction.max.timeout.ms", "30000")},
        ),
        (
            "transactions",
            DoctorVerdict.UNKNOWN,
            "not report",
            {"brokers": {1: {**FINE, "transaction.max.timeout.ms": None}}},
        ),
        ("positions", DoctorVerdict.WARNING, "1d", {"brokers": with_setting("offsets.retention.minutes", "1440")}),
        ("replicas", DoctorVerdict.WARNING, "factor 3", {"brokers": with_setting("min.insync.replicas", "3")}),
        ("replicas", DoctorVerdict.PROBLEM, "factor 3", {"brokers": with_setting("min.insync.replicas", "4")}),
        ("broker settings", DoctorVerdict.UNKNOWN, "could not", {"brokers": LOST}),
        ("cluster id", DoctorVerdict.UNKNOWN, "did not answer", {"cluster_id": None}),
    ],
)
def test_each_thing_that_is_not_in_order(
    check: str, verdict: DoctorVerdict, word: str, changes: dict[str, Any]
) -> None:
    found = judged(**changes)[check]
    assert found.verdict is verdict
    assert word in found.text
    if verdict in (DoctorVerdict.PROBLEM, DoctorVerdict.WARNING):
        assert found.why
        assert all(found.todo)


def test_an_id_that_is_not_declared_is_reported_to_be_written() -> None:
    found = {one.check: one for one in cluster_findings(cluster("east"), FACTS, target=True, now_s=NOW)}["cluster id"]
    assert (found.verdict, found.todo) == (DoctorVerdict.WARNING, ("Write cluster_id: id under it",))


# -- flows


def flow_verdict(source: Mapping[str, Any], remote: Mapping[str, Any], brokers: Any = FACTS) -> dict[str, Finding]:
    east, west = FakeCluster("east"), FakeCluster("west", brokers=2)
    east.put("orders", **dict(source))
    west.put("east.orders", 1, 2, **dict(remote))
    state = LiveState({"east": east.read(), "west": west.read()}, {})
    found = flow_findings(WORLD, state, find_routes(WORLD, state).routes, {"west": brokers})
    return {one.check: one for one in found}


def test_a_target_that_takes_smaller_messages_is_a_problem_and_a_larger_one_is_not() -> None:
    small, large = {"max_message_bytes": "1000"}, {"max_message_bytes": "1048576"}
    found = flow_verdict(large, small)["message size"]
    assert found.verdict is DoctorVerdict.PROBLEM
    assert "east/orders takes 1MiB there, 1000 on west/east.orders" in found.text
    assert flow_verdict(small, large)["message size"].verdict is DoctorVerdict.OK
    fetch = {"max_message_bytes": str(8 << 20)}
    assert flow_verdict(fetch, fetch)["message size"].verdict is DoctorVerdict.WARNING


def test_topics_that_are_still_to_be_made_are_judged_as_they_will_be() -> None:
    """Before the first apply nothing is there to be read, and that is nobody's missing right."""
    state = LiveState({"east": FakeCluster("east").read(), "west": FakeCluster("west", brokers=2).read()}, {})

    def verdict(limit: str, **edits: Any) -> Finding:
        desired_names = topology(
            cluster("east"),
            cluster("west"),
            topic("orders", partitions=1, configs={"max.message.bytes": limit}),
            flow("east", "west", "orders", **edits),
        )
        routing = find_routes(desired_names, state)
        found = flow_findings(desired_names, state, routing.routes, {"west": FACTS}, routing.prospects)
        return next(one for one in found if one.check == "message size")

    assert verdict("9437184").verdict is not DoctorVerdict.UNKNOWN
    assert verdict("9437184").verdict is not DoctorVerdict.PROBLEM
    unsynced = verdict("9437184", configs=ConfigSync(exclude=("max.message.bytes",)))
    assert unsynced.verdict is DoctorVerdict.PROBLEM


def test_a_remote_topic_that_no_one_can_write_is_a_problem() -> None:
    assert flow_verdict({}, {"min_insync_replicas": "3"})["replicas"].verdict is DoctorVerdict.PROBLEM
    assert flow_verdict({}, {"min_insync_replicas": "2"})["replicas"].verdict is DoctorVerdict.OK


def test_without_the_configs_of_remote_topics_no_one_says_that_they_can_be_written() -> None:
    east, west = FakeCluster("east"), FakeCluster("west")
    east.put("orders")
    west.put("east.orders", min_insync_replicas="3")
    west.configs_unreadable = Unknown("configs", "no answer")
    state = LiveState({"east": east.read(), "west": west.read()}, {})
    found = {one.check: one for one in flow_findings(WORLD, state, find_routes(WORLD, state).routes, {"west": FACTS})}
    assert found["replicas"].verdict is DoctorVerdict.UNKNOWN
    assert "min.insync.replicas of 1 remote topic is not known: west/east.orders" in found["replicas"].text


def test_a_copy_that_keeps_less_by_its_brokers_is_a_problem_with_what_to_write() -> None:
    """Seen: 300 records copied, all deleted on the target four minutes later, and "No problem found"."""
    east = FakeCluster("east", broker_configs={"retention.ms": ("-1", Source.BUILT_IN)})
    west = FakeCluster("west", brokers=2)
    east.put("orders")
    wished = topology(flow("east", "west", "orders", name="f"))
    for there in (True, False):  # also while no topic of the target tells
        if there:
            west.put("east.orders")
        else:
            west.topics.clear()
        state = LiveState({"east": east.read(), "west": west.read()}, {})
        routing = find_routes(wished, state)
        facts = {
            "west": replace(FACTS, brokers={1: {**FINE, "log.retention.hours": "168", "log.cleanup.policy": "delete"}})
        }
        found = flow_findings(wished, state, routing.routes, facts, routing.prospects)
        [limits] = [one for one in found if one.check == "limits"]
        assert limits.verdict is DoctorVerdict.PROBLEM
        assert "retention.ms is 7d (broker default) on west, unlimited (broker default) on east" in limits.text
        assert limits.todo[0].startswith("Write retention.ms: -1 under defaults.configs of cluster west")
    west.broker_configs_denied = True
    state = LiveState({"east": east.read(), "west": west.read()}, {})
    routing = find_routes(wished, state)
    unread = flow_findings(wished, state, routing.routes, {"west": replace(FACTS, brokers=LOST)}, routing.prospects)
    assert [one.verdict for one in unread if one.check == "limits"] == [DoctorVerdict.UNKNOWN]


def test_brokers_of_one_cluster_that_give_topics_other_limits_are_named() -> None:
    mixed = {1: {**FINE, "log.retention.ms": "3600000"}, 2: {**FINE, "log.retention.minutes": "120"}, 3: FINE}
    told = judged(brokers=mixed)["limits"]
    assert told.verdict is DoctorVerdict.WARNING
    assert told.text == "retention.ms: 1h on broker 1, 2h on broker 2, (not set) on broker 3"


def test_a_flow_of_a_cluster_that_was_not_read_is_unknown() -> None:
    state = LiveState({"east": LOST, "west": FakeCluster("west").read()}, {})
    [found] = [one for one in flow_findings(WORLD, state, (), {}) if one.check == "message size"]
    assert found.verdict is DoctorVerdict.UNKNOWN


# -- this machine, and what is printed


def test_a_spark_cluster_that_lets_everybody_in_is_a_warning() -> None:
    wished = topology(flow("east", "west", "orders"), Mirror("west", ("east-to-west",), master="spark://h:7077"))
    (finding,) = spark_cluster_findings(wished)
    assert (finding.subject, finding.verdict) == ("mirror west", DoctorVerdict.WARNING)
    assert "can run code there" in finding.why
    assert list(spark_cluster_findings(topology(flow("east", "west", "orders")))) == []


def test_the_machine() -> None:
    fine = Machine(21, "pyspark 4.3", 5 << 30, "runs")
    assert {one.verdict for one in machine_findings(fine)} == {DoctorVerdict.OK}
    poor = Machine(11, LOST, 1 << 20, "runs")
    assert [one.verdict for one in machine_findings(poor)] == [
        DoctorVerdict.PROBLEM,
        DoctorVerdict.PROBLEM,
        DoctorVerdict.WARNING,
    ]
    older = "Spark 3.5.9 of SPARK_HOME: /opt/spark/bin/spark-submit"
    assert [next(machine_findings(Machine(java, older, 5 << 30, "runs"))).verdict for java in (7, 8, 17)] == [
        DoctorVerdict.PROBLEM,
        DoctorVerdict.OK,
        DoctorVerdict.OK,
    ]
    lost = Machine(LOST, "pyspark 4.3", LOST, "runs")
    assert [one.verdict for one in machine_findings(lost)] == [
        DoctorVerdict.PROBLEM,
        DoctorVerdict.OK,
        DoctorVerdict.UNKNOWN,
    ]


@pytest.mark.parametrize(
    ("spark", "verdict"),
    [
        ("Spark 3.3.4 of SPARK_HOME: /usr/lib/spark/bin/spark-submit", DoctorVerdict.PROBLEM),  # HDInsight 5.1
        ("pyspark 3.4.3", DoctorVerdict.PROBLEM),
        ("Spark 3.5.5-amzn-1 of SPARK_HOME: /usr/lib/spark/bin/spark-submit", DoctorVerdict.OK),
        ("pyspark 4.10.0", DoctorVerdict.OK),
        ("Spark 5.0.0 of SPARK_HOME: /opt/spark/bin/spark-submit", DoctorVerdict.PROBLEM),
        ("spark-submit of SPARK_HOME: /opt/spark/bin/spark-submit", DoctorVerdict.OK),
    ],
)
def test_a_release_of_spark_that_mirrors_do_not_run_on_is_a_problem(spark: str, verdict: DoctorVerdict) -> None:
    _, found, _ = machine_findings(Machine(17, spark, 5 << 30, "runs"))
    assert (found.check, found.verdict, found.text) == ("spark", verdict, spark)


def test_the_verdict_comes_first_and_a_warning_alone_is_no_failure() -> None:
    parts = [Finding("cluster east", "x", one, f"text of {one}", "why", ("a command",)) for one in DoctorVerdict]
    bad = Checkup("env", tuple(parts))
    assert checkup_text(bad).startswith("Not healthy: 1 problem, 1 unknown, 1 warning, 1 ok\n")
    assert "    do: a command" in checkup_text(bad)
    good = Checkup("env", tuple(one for one in parts if one.verdict is not DoctorVerdict.PROBLEM))
    assert (bad.exit_code, good.exit_code) == (1, 0)
    schema = schema_of("doctor")
    jsonschema.validate(json.loads(checkup_json(bad)), schema)


def test_older_brokers_learn_what_helps_them_and_no_command_that_they_refuse() -> None:
    """kafka-features cannot raise a feature that the brokers do not have."""
    apis = {"IncrementalAlterConfigs": 1, "Produce": 11}
    older = judged(features={"metadata.version": 21}, apis=apis)["features"]
    assert (older.text, older.todo) == (
        "metadata.version 21",
        ("Upgrade the brokers to Kafka 4.0 or newer, which have the feature transaction.version",),
    )
    newer = judged(features={"metadata.version": 25}, apis=apis | {"Produce": 12})["features"]
    assert "upgrade --feature transaction.version=2" in newer.todo[0]


def test_brokers_with_zookeeper_are_named_as_such() -> None:
    apis = {"IncrementalAlterConfigs": 1, "Produce": 9, "LeaderAndIsr": 5}
    no_clock = Unknown("cluster east", "the controllers do not report their time (Kafka's do from 3.3 on)")
    checks = judged(features={}, apis=apis, skew_ms=no_clock)
    assert checks["features"].text == "none: its brokers keep their metadata in ZooKeeper"
    assert checks["features"].verdict is DoctorVerdict.WARNING
    assert (checks["clock"].verdict, checks["clock"].text) == (
        DoctorVerdict.UNKNOWN,
        "brokers with ZooKeeper do not report their time",
    )
