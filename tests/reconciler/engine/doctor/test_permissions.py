"""What each principal is asked for and lacks, with the exact command that gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.engine.doctor.permissions import asks, permission_findings
from reconciler.engine.doctor.rights import record_needs, topic_needs
from reconciler.errors import Unknown
from reconciler.model.environment.flow_settings import Carry, Groups, OffsetsKept
from reconciler.model.environment.topology import Principal, Tombstone, Topology
from reconciler.model.live import LiveState
from reconciler.model.principals import QUOTA_KEYS, Quota, ScramUser, entity
from reconciler.model.reports.doctor import Ask, DoctorVerdict, Finding, Rights
from reconciler.replication.handover import Naming
from reconciler.replication.names import LOCK_TOPIC, OFFSETS_TOPIC, STATUS_TOPIC
from reconciler.resources.acls.roles import TOPIC, mirror_rights
from reconciler.resources.flows.routes import find_routes
from tests.support.builders import cluster, flow, topic, topology
from tests.support.fakes.cluster import FakeCluster

LOST = Unknown("it", "could not be asked", "do this")
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
    missing = [line for one in found if one.verdict is DoctorVerdict.PROBLEM for line in one.todo]
    assert bool(missing) != any(one.text == "nothing is missing" for one in found)
    return missing


def rights(principal: Principal, operations: Mapping[str, Iterable[str]], **more: Any) -> Rights:
    allowed = {name: frozenset(words) for name, words in operations.items()}
    fields: dict[str, Any] = {"sees_all": True, "operations": allowed} | more
    return Rights(principal, f"User:{principal}", "a:9092", **fields)


def test_topics_with_a_tombstone_are_asked_about_and_each_gets_its_own_grant() -> None:
    names = [f"old-{number}" for number in range(4)]
    stones = tuple(Tombstone("east", name, "an-id", "moved", "2099-01-01") for name in names)
    world, seen = replace(WORLD, deletions=stones), FakeCluster("east")
    for name in ("orders", "other", *names):
        seen.put(name)
    state = LiveState({**live().clusters, "east": seen.read()}, {})
    asked = asks(world, state, find_routes(world, state).routes)["east", Principal.APPLY]
    assert asked.topics == (*names, "orders")
    everything = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE", "ALTER", "ALTER_CONFIGS")
    allowed = dict.fromkeys(asked.topics, everything)
    missing = lacking("east", rights(Principal.APPLY, allowed, cluster=frozenset(everything)), world)
    grant = "kafka-acls.sh --bootstrap-server a:9092 --add --allow-principal 'User:apply' --operation Delete --topic"
    assert missing == [f"{grant} {name}" for name in names]


def test_plan_is_never_advised_to_get_the_rights_of_apply() -> None:
    """Without ``principals: apply`` both are one login, which a pull request's check uses."""
    plan = rights(Principal.PLAN, {}, cluster=frozenset({"DESCRIBE"}))
    for who in (Principal.APPLY, Principal.MIRROR):
        other = replace(rights(who, {}, denied=frozenset({"orders"})), kafka_principal="User:plan", sees_all=False)
        routes = find_routes(WORLD, live()).routes
        found = list(permission_findings(WORLD, "east", [plan, other], routes))
        [lack] = [one for one in found if one.check == f"permissions of {who}"]
        assert lack.verdict is DoctorVerdict.PROBLEM
        assert f"{who} is not declared under principals, so it logs in as User:plan, which lacks" in lack.text
        assert "kafka-acls" not in " ".join(lack.todo)
        assert lack.todo[0].startswith(f"Declare principals: {who} under cluster east")


def test_a_principal_that_is_declared_gets_its_grants_though_it_is_the_same_login() -> None:
    plan = rights(Principal.PLAN, {})
    apply = replace(rights(Principal.APPLY, {}, denied=frozenset({"orders"})), kafka_principal="User:plan")
    world = replace(WORLD, clusters=dict(WORLD.clusters))
    declared = replace(world.clusters["east"], principals={Principal.APPLY: {"client.id": "x"}})
    world = replace(world, clusters={**world.clusters, "east": declared})
    found = list(permission_findings(world, "east", [plan, apply], find_routes(world, live()).routes))
    lacks = [one for one in found if one.check == "permissions of apply"]
    told = [line for one in lacks for line in one.todo]
    assert told
    assert all("it is plan's login, too: with these rights the login of each pull request" in one.why for one in lacks)
    assert all(line.startswith("kafka-acls.sh") for line in told)
    by_role = replace(apply, granted="in IAM, by actions of kafka-cluster for its role")
    found = list(permission_findings(world, "east", [plan, by_role], find_routes(world, live()).routes))
    told = [line for one in found if one.check == "permissions of apply" for line in one.todo]
    assert told
    assert all(line.startswith("Allow it in IAM, by actions of kafka-cluster for its role: ") for line in told)


VIEW = ("DESCRIBE", "DESCRIBE_CONFIGS")


def markers(held: bool | Unknown | None, world: Topology) -> list[Finding]:
    given = rights(Principal.MIRROR, {}, markers=held)
    found = permission_findings(world, "west", [given], find_routes(world, live()).routes)
    return [one for one in found if one.check == "markers of mirror"]


def test_whether_markers_may_be_written_is_asked_and_reported_for_flows_that_keep_offsets() -> None:
    asked = asks(WORLD, live(), find_routes(WORLD, live()).routes)
    assert not any(ask.markers for ask in asked.values())
    world = replace(WORLD, flows={"f": replace(WORLD.flows["f"], offsets=OffsetsKept.SAME)})
    asked = asks(world, live(), find_routes(world, live()).routes)
    assert [key for key, ask in asked.items() if ask.markers] == [("west", Principal.MIRROR)]
    assert markers(None, world) == []
    (held,) = markers(True, world)
    assert (held.verdict, held.todo) == (DoctorVerdict.OK, ())
    (lacking,) = markers(False, world)
    assert lacking.verdict is DoctorVerdict.WARNING
    assert "offsets_diverged" in lacking.why
    assert lacking.todo[0].endswith(command("mirror", "ClusterAction --cluster"))
    (unknown,) = markers(LOST, world)
    assert (unknown.verdict, unknown.text) == (DoctorVerdict.UNKNOWN, LOST.error)


def test_where_git_declares_access_the_rule_is_reported_as_it_reads_there() -> None:
    world = replace(WORLD, flows={"f": replace(WORLD.flows["f"], offsets=OffsetsKept.SAME)}, access_declared=True)
    (lacking,) = markers(False, world)
    rule = '{principal: "User:mirror", clusters: [west], resource: cluster, operations: [cluster_action]}'
    assert lacking.todo[0].endswith(f"or, under access: - {rule}")


def command(principal: str, rest: str) -> str:
    return f"kafka-acls.sh --bootstrap-server a:9092 --add --allow-principal 'User:{principal}' --operation {rest}"


def test_what_is_asked_is_what_each_principal_needs() -> None:
    asked = asks(WORLD, live(), find_routes(WORLD, live()).routes)
    lock = ("__reconciler",)
    assert asked["east", Principal.PLAN] == Ask(
        ("orders", "other", "__reconciler", "new"), described=("reconciler-doctor",), reads=lock
    ), "also what is not listed: a topic that a Deny rule names is in no list"
    assert asked["east", Principal.APPLY] == Ask(
        ("orders",), ("__reconciler", "new"), (), ("reconciler.test",), reads=lock, writes=lock
    )
    assert asked["east", Principal.MIRROR] == Ask(("orders",))
    assert asked["west", Principal.MIRROR] == Ask(
        (OFFSETS_TOPIC, STATUS_TOPIC, "east.orders"),
        (),
        ("mirror.f",),
        ("mirror.f.0", "mirror.f.1"),
        reads=(OFFSETS_TOPIC,),
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
            rights(
                Principal.MIRROR, {"east.orders": ["READ", "WRITE"]}, writes={OFFSETS_TOPIC: False, STATUS_TOPIC: True}
            ),
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
            [command("mirror", f"{word} --topic east. --resource-pattern-type prefixed") for word in ("Write", "Read")],
        ),
        (
            "west",
            rights(Principal.MIRROR, {"east.orders": ["READ", "WRITE"], STATUS_TOPIC: ["READ"]}),
            [command("mirror", f"Write --topic {STATUS_TOPIC}")],
        ),
        (
            "west",
            rights(Principal.MIRROR, {"east.orders": ["READ", "WRITE"], STATUS_TOPIC: ["WRITE"]}),
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


@pytest.mark.parametrize("policy", ["default", "identity"])
def test_the_mirror_is_asked_for_every_right_on_topics_that_its_role_has(policy: str) -> None:
    """Brokers refuse a commit of positions of a topic that the principal may not read, and the job reads back what it
    wrote."""
    groups = Groups(sync_offsets=True)
    one = flow("east", "west", "orders", name="f", groups=groups, naming=Naming(policy))
    world = topology(cluster("east"), cluster("west"), one)
    routes = find_routes(world, live()).routes
    for on in ("east", "west"):
        needs = (
            *topic_needs(world, on, rights(Principal.MIRROR, {}), routes),
            *record_needs(world, on, Principal.MIRROR, routes),
        )
        asked = {(topic, need.operation) for need in needs for topic in need.topics}
        granted = [right for right in mirror_rights(world.flows.values(), world, routes, on) if right[0] is TOPIC]
        assert granted
        for _, name, operation in granted:
            of = {topic for topic, word in asked if word == operation.name}
            assert any(topic.startswith(name.name) for topic in of), (on, str(name), operation)


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
    assert (one.verdict, one.text, one.todo) == (DoctorVerdict.PROBLEM, "wrong password", ("check it",))


def test_what_could_not_be_asked_is_unknown_not_in_order() -> None:
    told = rights(Principal.MIRROR, {"east.orders": ["READ", "WRITE"], STATUS_TOPIC: ["READ", "WRITE"]}, groups=LOST)
    found = list(permission_findings(WORLD, "west", [told], find_routes(WORLD, live()).routes))
    assert [one.verdict for one in found] == [DoctorVerdict.OK, DoctorVerdict.UNKNOWN]


def test_moving_replicas_needs_rights_on_the_cluster() -> None:
    desired_names = topology(topic("orders", replication_factor=3))
    told = rights(Principal.APPLY, {}, cluster=frozenset({"DESCRIBE"}))
    todos = [todo for one in permission_findings(desired_names, "east", [told], ()) for todo in one.todo]
    assert todos == [command("apply", "Alter --cluster"), command("apply", "AlterConfigs --cluster")]


def test_quotas_need_rights_on_the_cluster_only_where_they_are_declared() -> None:
    whom = entity({"user": "orders-app"})
    desired_names = replace(
        topology(topic("orders", "east", "west")), quotas=(Quota(1, ("east",), whom, {QUOTA_KEYS[0]: 1.0}),)
    )
    for principal, lacking in (
        (Principal.PLAN, ["DescribeConfigs"]),
        (Principal.APPLY, ["DescribeConfigs", "AlterConfigs"]),
    ):
        told = rights(principal, {}, cluster=frozenset({"DESCRIBE"}))
        todos = [todo for one in permission_findings(desired_names, "east", [told], ()) for todo in one.todo]
        assert todos == [command(principal, f"{word} --cluster") for word in lacking]
        assert not [todo for one in permission_findings(desired_names, "west", [told], ()) for todo in one.todo]


def test_without_authorized_operations_only_certain_lacks_are_reported() -> None:
    """Without Describe a broker names none, although AlterConfigs may be there."""
    whom = entity({"user": "orders-app"})
    desired_names = replace(
        topology(topic("orders", "east", "west")), quotas=(Quota(1, ("east",), whom, {QUOTA_KEYS[0]: 1.0}),)
    )
    told = rights(Principal.APPLY, {}, cluster=frozenset())
    todos = [todo for one in permission_findings(desired_names, "east", [told], ()) for todo in one.todo]
    assert todos == [command(Principal.APPLY, "Describe --cluster")]


def test_scram_users_need_rights_on_the_cluster_and_on_the_record_where_they_are_declared() -> None:
    user = ScramUser(1, ("east",), "orders-app", 1, password="${env:APP}")
    desired_names = replace(topology(topic("orders", "east", "west")), users=(user,))
    for principal, lacking in ((Principal.PLAN, ["Describe"]), (Principal.APPLY, ["Describe", "Alter"])):
        told = rights(principal, {}, cluster=frozenset())
        found = [
            one for one in permission_findings(desired_names, "east", [told], ()) if "--cluster" in "".join(one.todo)
        ]
        assert [one.todo for one in found] == [(command(principal, f"{word} --cluster"),) for word in lacking]
        assert "SCRAM users" in found[-1].why
    told = rights(Principal.APPLY, {}, cluster=frozenset({"DESCRIBE"}))
    assert not [todo for one in permission_findings(desired_names, "west", [told], ()) for todo in one.todo]
    west = replace(desired_names, users=(replace(user, clusters=("west",)),))
    seen = rights(Principal.PLAN, {LOCK_TOPIC: ("DESCRIBE",)}, cluster=frozenset({"DESCRIBE"}))
    [finding] = [one for one in permission_findings(west, "west", [seen], ()) if LOCK_TOPIC in "".join(one.todo)]
    assert "which access rules, quotas and users are ours" in finding.why


def test_a_flow_that_keeps_offsets_needs_to_read_and_delete_its_copies_and_to_write_groups_back() -> None:
    groups = Groups(include=("billing",), sync_offsets=True, both_ways=True)
    kept = replace(WORLD.flows["f"], offsets=OffsetsKept.SAME, groups=groups)
    world = replace(WORLD, flows={"f": kept})
    names = {**dict.fromkeys((STATUS_TOPIC, OFFSETS_TOPIC), ("READ", "WRITE")), "east.orders": ("WRITE",)}
    of = {"mirror.f": True, "billing": True}
    commands = "\n".join(lacking("west", rights(Principal.MIRROR, names, groups=of), world))
    assert "--operation Read --topic east." in commands
    assert "--operation Delete --topic east." in commands
    plain = "\n".join(lacking("west", rights(Principal.MIRROR, names, groups=of)))
    assert "--operation Read --topic east." in plain, "positions are committed in the name of its copies"
    assert "--operation Delete" not in plain
    reads = rights(Principal.MIRROR, {"orders": ("READ",)}, groups={"billing": False})
    assert any("--operation Read --group billing" in line for line in lacking("east", reads, world))
