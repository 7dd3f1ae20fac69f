"""doctor: facts to findings. The same facts always end in the same words, and a part that is unknown is never ok."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import resources
from typing import Any

import jsonschema
import pytest

from reconciler.checkups import Address, Ask, Certificate, Checkup, ClusterFacts, Finding, Machine, Rights, Verdict
from reconciler.diagnosing import asks, cluster_findings, flow_findings, machine_findings, permission_findings
from reconciler.errors import Unknown
from reconciler.flow_syncs import ConfigSync, Groups
from reconciler.live import LiveState
from reconciler.locks import LOCK_TOPIC
from reconciler.quotas import KEYS, Quota, entity
from reconciler.rendering.checkup import checkup_json, checkup_text
from reconciler.routing import find_routes
from reconciler.topology import Carry, Naming, Principal, Topology
from reconciler.users import ScramUser
from replication.names import OFFSETS_TOPIC, STATUS_TOPIC
from tests.builders import cluster, flow, topic, topology
from tests.fakes import FakeCluster

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


def judged(facts: ClusterFacts = FACTS, **changes: Any) -> dict[str, Finding]:
    return {one.check: one for one in cluster_findings(WISH, replace(facts, **changes), target=True, now_s=NOW)}


def with_setting(key: str, value: str | None) -> dict[int, Mapping[str, str | None]]:
    return {1: FINE, 2: {**FINE, key: value}}


def test_a_cluster_in_order_has_nothing_but_ok() -> None:
    assert {one.verdict for one in judged().values()} == {Verdict.OK}


@pytest.mark.parametrize(
    ("check", "verdict", "word", "changes"),
    [
        ("address", Verdict.PROBLEM, "refused", {"addresses": (Address("a:1", "no connection: refused"),)}),
        (
            "certificate",
            Verdict.WARNING,
            "10 days",
            {"addresses": (Address("a:1", "", Certificate(0, NOW + 10 * DAY, ("a",))),)},
        ),
        ("cluster id", Verdict.PROBLEM, "other", {"cluster_id": "other"}),
        ("features", Verdict.WARNING, "transaction.version 1", {"features": {"transaction.version": 1}}),
        ("features", Verdict.PROBLEM, "have no", {"apis": {"Fetch": 3}}),
        ("features", Verdict.UNKNOWN, "could not", {"features": LOST}),
        ("authorizer", Verdict.WARNING, "none", {"authorizer": False}),
        ("authorizer", Verdict.UNKNOWN, "could not", {"authorizer": LOST}),
        ("clock", Verdict.WARNING, "5000 ms behind", {"skew_ms": -5000}),
        ("clock", Verdict.PROBLEM, "400000 ms ahead of", {"skew_ms": 400_000}),
        ("clock", Verdict.OK, "give or take 4000", {"skew_ms": 5000, "skew_error_ms": 4000}),
        ("clock", Verdict.UNKNOWN, "could not", {"skew_ms": LOST}),
        ("mutation quota", Verdict.OK, "user a: 2 partitions", {"quotas": {"user a": 2.0}}),
        ("mutation quota", Verdict.UNKNOWN, "could not", {"quotas": LOST}),
        ("auto-create", Verdict.WARNING, "true", {"brokers": with_setting("auto.create.topics.enable", "true")}),
        ("transactions", Verdict.PROBLEM, "30s", {"brokers": with_setting("transaction.max.timeout.ms", "30000")}),
        ("transactions", Verdict.UNKNOWN, "not tell", {"brokers": {1: {**FINE, "transaction.max.timeout.ms": None}}}),
        ("positions", Verdict.WARNING, "1d", {"brokers": with_setting("offsets.retention.minutes", "1440")}),
        ("replicas", Verdict.WARNING, "factor 3", {"brokers": with_setting("min.insync.replicas", "3")}),
        ("replicas", Verdict.PROBLEM, "factor 3", {"brokers": with_setting("min.insync.replicas", "4")}),
        ("broker settings", Verdict.UNKNOWN, "could not", {"brokers": LOST}),
        ("cluster id", Verdict.UNKNOWN, "did not answer", {"cluster_id": None}),
    ],
)
def test_each_thing_that_is_not_in_order(check: str, verdict: Verdict, word: str, changes: dict[str, Any]) -> None:
    found = judged(**changes)[check]
    assert found.verdict is verdict
    assert word in found.text
    if verdict in (Verdict.PROBLEM, Verdict.WARNING):
        assert found.why
        assert all(found.todo)


def test_an_id_that_is_not_declared_is_told_to_be_written() -> None:
    found = {one.check: one for one in cluster_findings(cluster("east"), FACTS, target=True, now_s=NOW)}["cluster id"]
    assert (found.verdict, found.todo) == (Verdict.WARNING, ("Write cluster_id: id under it",))


# -- permissions

WORLD = topology(
    topic("orders", "east"),
    topic("new", "east"),
    flow("east", "west", "orders", name="f"),
    cluster("east"),
    cluster("west"),
)


def live() -> LiveState:
    east, west = FakeCluster("east"), FakeCluster("west")
    east.put("orders")
    east.put("other")
    west.put("east.orders")
    west.put(STATUS_TOPIC)
    return LiveState({"east": east.read(), "west": west.read()}, {})


def lacking(on: str, rights: Rights, world: Topology = WORLD) -> list[str]:
    routes = find_routes(world, live()).routes
    found = list(permission_findings(world, on, [rights], routes))
    missing = [line for one in found if one.verdict is Verdict.PROBLEM for line in one.todo]
    assert bool(missing) != any(one.text == "nothing is missing" for one in found)
    return missing


def rights(principal: Principal, operations: Mapping[str, Iterable[str]], **more: Any) -> Rights:
    allowed = {name: frozenset(words) for name, words in operations.items()}
    fields: dict[str, Any] = {"sees_all": True, "operations": allowed} | more
    return Rights(principal, f"User:{principal}", "a:9092", **fields)


VIEW = ("DESCRIBE", "DESCRIBE_CONFIGS")


def command(principal: str, rest: str) -> str:
    return f"kafka-acls.sh --bootstrap-server a:9092 --add --allow-principal 'User:{principal}' --operation {rest}"


def test_what_is_asked_is_what_each_principal_needs() -> None:
    asked = asks(WORLD, live(), find_routes(WORLD, live()).routes)
    lock = ("__reconciler",)
    assert asked["east", Principal.PLAN] == Ask(("orders", "other"), described=("reconciler-doctor",), reads=lock)
    assert asked["east", Principal.APPLY] == Ask(
        ("orders",), ("__reconciler", "new"), (), ("reconciler.test",), reads=lock, writes=lock
    )
    assert asked["east", Principal.MIRROR] == Ask(("orders",))
    assert asked["west", Principal.MIRROR] == Ask(
        (OFFSETS_TOPIC, STATUS_TOPIC, "east.orders"),
        (),
        ("mirror.f",),
        ("mirror.f.0", "mirror.f.1"),
        writes=(OFFSETS_TOPIC,),
    )


def test_nothing_is_missing_where_everything_is_allowed() -> None:
    everything = (*VIEW, "READ", "WRITE", "ALTER", "ALTER_CONFIGS", "DELETE")
    for principal in Principal:
        names = dict.fromkeys(("orders", "east.orders", STATUS_TOPIC, OFFSETS_TOPIC), everything)
        told = rights(principal, names, creates={"new": True}, groups={"mirror.f": True})
        assert lacking("west", told) == []


@pytest.mark.parametrize(
    ("on", "given", "commands"),
    [
        (
            "east",
            rights(Principal.PLAN, {"orders": ["DESCRIBE"], "other": ["DESCRIBE"]}),
            [command("plan", "DescribeConfigs --topic '*'")],
        ),
        ("east", rights(Principal.PLAN, {"orders": VIEW}, sees_all=False), [command("plan", "Describe --topic '*'")]),
        (
            "west",
            rights(Principal.PLAN, {STATUS_TOPIC: VIEW}),
            [command("plan", f"Read --topic {STATUS_TOPIC}")],
        ),
        (
            "east",
            rights(Principal.APPLY, {"orders": (*VIEW, "ALTER")}, creates={"new": False}),
            [command("apply", "AlterConfigs --topic '*'"), command("apply", "Create --topic '*'")],
        ),
        (
            "east",
            rights(Principal.PLAN, {"__reconciler": VIEW}, cluster=frozenset({"DESCRIBE_CONFIGS"})),
            [command("plan", "Read --topic __reconciler"), command("plan", "Describe --cluster")],
        ),
        (
            "east",
            rights(
                Principal.APPLY, {"__reconciler": ["READ", "DESCRIBE"]}, transactional_ids={"reconciler.test": False}
            ),
            [
                command("apply", "Write --topic __reconciler"),
                command("apply", "Write --transactional-id reconciler.test"),
            ],
        ),
        (
            "west",
            rights(Principal.MIRROR, {}, transactional_ids={"mirror.f.0": True, "mirror.f.1": False}),
            [command("mirror", "Write --transactional-id mirror.f. --resource-pattern-type prefixed")],
        ),
        ("west", rights(Principal.APPLY, {}, cluster=frozenset({"DESCRIBE"})), []),
        (
            "east",
            rights(Principal.APPLY, {}, reads={"__reconciler": True}, writes={"__reconciler": False}),
            [command("apply", "Write --topic __reconciler")],
        ),
        (
            "east",
            rights(Principal.PLAN, {}, reads={"__reconciler": False}),
            [command("plan", "Read --topic __reconciler")],
        ),
        (
            "west",
            rights(Principal.MIRROR, {"east.orders": ["WRITE"]}, writes={OFFSETS_TOPIC: False, STATUS_TOPIC: True}),
            [command("mirror", f"Write --topic {OFFSETS_TOPIC}")],
        ),
        ("east", rights(Principal.MIRROR, {"orders": ["DESCRIBE"]}), [command("mirror", "Read --topic orders")]),
        (
            "east",
            rights(Principal.MIRROR, {}, denied=frozenset({"orders"})),
            [command("mirror", "Read --topic orders")],
        ),
        (
            "west",
            rights(Principal.MIRROR, {"east.orders": ["DESCRIBE"], STATUS_TOPIC: ["DESCRIBE", "READ", "WRITE"]}),
            [command("mirror", "Write --topic east. --resource-pattern-type prefixed")],
        ),
        (
            "west",
            rights(Principal.MIRROR, {"east.orders": ["WRITE"], STATUS_TOPIC: ["READ"]}),
            [command("mirror", f"Write --topic {STATUS_TOPIC}")],
        ),
        (
            "west",
            rights(Principal.MIRROR, {"east.orders": ["WRITE"], STATUS_TOPIC: ["WRITE"]}),
            [command("mirror", f"Read --topic {STATUS_TOPIC}")],
        ),
        (
            "west",
            rights(Principal.APPLY, {STATUS_TOPIC: (*VIEW, "ALTER", "ALTER_CONFIGS")}),
            [command("apply", f"Read --topic {STATUS_TOPIC}"), command("apply", f"Write --topic {STATUS_TOPIC}")],
        ),
        (
            "west",
            rights(Principal.MIRROR, {}, groups={"mirror.f": False}, transactional_ids={"mirror.f.0": False}),
            [
                command("mirror", "Read --group mirror.f"),
                command("mirror", "Write --transactional-id mirror.f. --resource-pattern-type prefixed"),
            ],
        ),
    ],
)
def test_what_is_missing_is_printed_as_the_exact_command(on: str, given: Rights, commands: list[str]) -> None:
    assert lacking(on, given) == commands


MARKED: dict[str, Any] = {"provenance": Carry.LOCAL, "naming": Naming("identity")}
CHOSEN = Groups(include=("billing", "ship-.*", "team-[ab]"), sync_offsets=True)
SYNCED = topology(
    flow("east", "west", "orders", name="f", groups=CHOSEN, **MARKED),
    flow("west", "east", "orders", name="b", **MARKED),
    cluster("east"),
    cluster("west"),
)


def test_groups_that_a_broker_would_hide_are_asked_for_by_name() -> None:
    asked = asks(SYNCED, live(), ())
    east, west = asked["east", Principal.MIRROR], asked["west", Principal.MIRROR]
    assert (east.groups, east.described) == (("mirror.b",), ("mirror.b", "billing", "ship-reconciler-doctor"))
    assert (west.groups, west.described) == (("mirror.f", "billing", "ship-reconciler-doctor"), ("mirror.f",))


def test_a_right_on_groups_that_is_missing_is_printed_as_the_exact_command() -> None:
    east = rights(
        Principal.MIRROR, {}, described={"mirror.b": False, "billing": False, "ship-reconciler-doctor": False}
    )
    assert lacking("east", east, SYNCED) == [
        command("mirror", "Describe --group mirror.b"),
        command("mirror", "Describe --group billing"),
        command("mirror", "Describe --group ship- --resource-pattern-type prefixed"),
    ]
    west = rights(Principal.MIRROR, {}, groups={"mirror.f": True, "billing": True, "ship-reconciler-doctor": False})
    assert lacking("west", west, SYNCED) == [command("mirror", "Read --group ship- --resource-pattern-type prefixed")]
    plan = rights(Principal.PLAN, {"orders": VIEW}, described={"reconciler-doctor": False})
    assert lacking("east", plan) == [command("plan", "Describe --group '*'")]


def test_a_login_that_failed_says_so_and_nothing_of_permissions() -> None:
    told = Rights(Principal.APPLY, "User:apply", "a:9092", failed=Unknown("cluster east", "wrong password", "check it"))
    [one] = permission_findings(WORLD, "east", [told], ())
    assert (one.verdict, one.text, one.todo) == (Verdict.PROBLEM, "wrong password", ("check it",))


def test_what_could_not_be_asked_is_unknown_not_in_order() -> None:
    told = rights(Principal.MIRROR, {"east.orders": ["WRITE"], STATUS_TOPIC: ["READ", "WRITE"]}, groups=LOST)
    found = list(permission_findings(WORLD, "west", [told], find_routes(WORLD, live()).routes))
    assert [one.verdict for one in found] == [Verdict.OK, Verdict.UNKNOWN]


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
    assert found.verdict is Verdict.PROBLEM
    assert "east/orders takes 1MiB there, 1000 on west/east.orders" in found.text
    assert flow_verdict(small, large)["message size"].verdict is Verdict.OK
    fetch = {"max_message_bytes": str(8 << 20)}
    assert flow_verdict(fetch, fetch)["message size"].verdict is Verdict.WARNING


def test_topics_that_are_still_to_be_made_are_judged_as_they_will_be() -> None:
    """Before the first apply nothing is there to be read, and that is nobody's missing right."""
    state = LiveState({"east": FakeCluster("east").read(), "west": FakeCluster("west", brokers=2).read()}, {})

    def verdict(limit: str, **edits: Any) -> Finding:
        wished = topology(
            cluster("east"),
            cluster("west"),
            topic("orders", partitions=1, configs={"max.message.bytes": limit}),
            flow("east", "west", "orders", **edits),
        )
        routing = find_routes(wished, state)
        found = flow_findings(wished, state, routing.routes, {"west": FACTS}, routing.prospects)
        return next(one for one in found if one.check == "message size")

    assert verdict("9437184").verdict is not Verdict.UNKNOWN
    assert verdict("9437184").verdict is not Verdict.PROBLEM
    unsynced = verdict("9437184", configs=ConfigSync(exclude=("max.message.bytes",)))
    assert unsynced.verdict is Verdict.PROBLEM


def test_a_remote_topic_that_nobody_can_write_is_a_problem() -> None:
    assert flow_verdict({}, {"min_insync_replicas": "3"})["replicas"].verdict is Verdict.PROBLEM
    assert flow_verdict({}, {"min_insync_replicas": "2"})["replicas"].verdict is Verdict.OK


def test_a_flow_of_a_cluster_that_was_not_read_is_unknown() -> None:
    state = LiveState({"east": LOST, "west": FakeCluster("west").read()}, {})
    [found] = flow_findings(WORLD, state, (), {})
    assert found.verdict is Verdict.UNKNOWN


# -- this machine, and what is printed


def test_the_machine() -> None:
    fine = Machine(21, "pyspark 4.3", 5 << 30, "runs")
    assert {one.verdict for one in machine_findings(fine)} == {Verdict.OK}
    poor = Machine(11, LOST, 1 << 20, "runs")
    assert [one.verdict for one in machine_findings(poor)] == [Verdict.PROBLEM, Verdict.PROBLEM, Verdict.WARNING]
    lost = Machine(LOST, "pyspark 4.3", LOST, "runs")
    assert [one.verdict for one in machine_findings(lost)] == [Verdict.PROBLEM, Verdict.OK, Verdict.UNKNOWN]


def test_the_verdict_comes_first_and_a_warning_alone_is_no_failure() -> None:
    parts = [Finding("cluster east", "x", one, f"text of {one}", "why", ("a command",)) for one in Verdict]
    bad = Checkup("env", tuple(parts))
    assert checkup_text(bad).startswith("Not healthy: 1 problem, 1 unknown, 1 warning, 1 ok\n")
    assert "    do: a command" in checkup_text(bad)
    good = Checkup("env", tuple(one for one in parts if one.verdict is not Verdict.PROBLEM))
    assert (bad.exit_code, good.exit_code) == (1, 0)
    schema = json.loads(resources.files("schemas").joinpath("doctor.schema.json").read_text())
    jsonschema.validate(json.loads(checkup_json(bad)), schema)


def test_moving_replicas_needs_rights_on_the_cluster() -> None:
    wished = topology(topic("orders", replication_factor=3))
    told = rights(Principal.APPLY, {}, cluster=frozenset({"DESCRIBE"}))
    todos = [todo for one in permission_findings(wished, "east", [told], ()) for todo in one.todo]
    assert todos == [command("apply", "Alter --cluster"), command("apply", "AlterConfigs --cluster")]


def test_quotas_need_rights_on_the_cluster_only_where_they_are_declared() -> None:
    whom = entity({"user": "orders-app"})
    wished = replace(topology(topic("orders", "east", "west")), quotas=(Quota(1, ("east",), whom, {KEYS[0]: 1.0}),))
    for principal, lacking in (
        (Principal.PLAN, ["DescribeConfigs"]),
        (Principal.APPLY, ["DescribeConfigs", "AlterConfigs"]),
    ):
        told = rights(principal, {}, cluster=frozenset({"DESCRIBE"}))
        todos = [todo for one in permission_findings(wished, "east", [told], ()) for todo in one.todo]
        assert todos == [command(principal, f"{word} --cluster") for word in lacking]
        assert not [todo for one in permission_findings(wished, "west", [told], ()) for todo in one.todo]


def test_of_a_cluster_that_tells_no_operation_only_what_is_sure_is_missing() -> None:
    """Without Describe a broker names none, although AlterConfigs may be there."""
    whom = entity({"user": "orders-app"})
    wished = replace(topology(topic("orders", "east", "west")), quotas=(Quota(1, ("east",), whom, {KEYS[0]: 1.0}),))
    told = rights(Principal.APPLY, {}, cluster=frozenset())
    todos = [todo for one in permission_findings(wished, "east", [told], ()) for todo in one.todo]
    assert todos == [command(Principal.APPLY, "Describe --cluster")]


def test_scram_users_need_rights_on_the_cluster_and_on_the_record_where_they_are_declared() -> None:
    user = ScramUser(1, ("east",), "orders-app", 1, password="${env:APP}")
    wished = replace(topology(topic("orders", "east", "west")), users=(user,))
    for principal, lacking in ((Principal.PLAN, ["Describe"]), (Principal.APPLY, ["Describe", "Alter"])):
        told = rights(principal, {}, cluster=frozenset())
        found = [one for one in permission_findings(wished, "east", [told], ()) if "--cluster" in "".join(one.todo)]
        assert [one.todo for one in found] == [(command(principal, f"{word} --cluster"),) for word in lacking]
        assert "SCRAM users" in found[-1].why
    told = rights(Principal.APPLY, {}, cluster=frozenset({"DESCRIBE"}))
    assert not [todo for one in permission_findings(wished, "west", [told], ()) for todo in one.todo]
    west = replace(wished, users=(replace(user, clusters=("west",)),))
    seen = rights(Principal.PLAN, {LOCK_TOPIC: ("DESCRIBE",)}, cluster=frozenset({"DESCRIBE"}))
    [finding] = [one for one in permission_findings(west, "west", [seen], ()) if LOCK_TOPIC in "".join(one.todo)]
    assert "which access rules, quotas and users are ours" in finding.why
