"""``doctor`` on the secure clusters: nothing missing where all is granted, and the command for each ACL removed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.access.granted import granted_on_cluster
from tests.support.clusters import newest, secured_clusters
from tests.support.commands import Ended, Write

Cli = Callable[..., Ended]
CreateTopic = Callable[..., str]
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED

Rule = tuple[ResourceType, str, ResourcePatternType, str, AclOperation]


@contextmanager
def without(cluster: ClusterHandle, *rules: Rule) -> Iterator[None]:
    """The cluster while it lacks these rules, each of which must have been there."""
    admin = AdminClient({**cluster.super_client(), "log_level": "0"})
    allow = AclPermissionType.ALLOW
    try:
        for kind, name, pattern, user, operation in rules:
            wanted = AclBindingFilter(kind, name, pattern, f"User:{user}", "*", operation, allow)
            [future] = admin.delete_acls([wanted]).values()
            assert len(future.result(20)) == 1, "it was not there; others of this run would miss what was taken before"
        yield
    finally:
        bindings = [AclBinding(k, n, p, f"User:{user}", "*", operation, allow) for k, n, p, user, operation in rules]
        for future in admin.create_acls(bindings).values():
            future.result(20)


@pytest.fixture
def env(write: Write, secure: Sandbox, monkeypatch: pytest.MonkeyPatch, create_topic: CreateTopic, unique: str) -> Path:
    lines = secured_clusters(secure, monkeypatch)
    lines += [f"topics: {{{unique}-new: {{clusters: [east], partitions: 1}}}}"]
    flow = f"source: east, target: west, topics: [{unique}-orders], groups: {{sync_offsets: true}}"
    lines += [f"flows: {{{unique}: {{{flow}}}}}"]
    create_topic(secure["east"], f"{unique}-orders")
    create_topic(secure["west"], f"east.{unique}-orders")
    return write("\n".join(lines) + "\n")


def findings(ended: Ended) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ended.out)["findings"]
    return found


def problems(ended: Ended) -> list[str]:
    return [line for one in findings(ended) if one["verdict"] == "problem" for line in one["todo"]]


def acl(cluster: ClusterHandle, principal: str, rest: str) -> str:
    first = cluster.bootstrap_servers.split(",")[0]
    return f"kafka-acls.sh --bootstrap-server {first} --add --allow-principal 'User:{principal}' --operation {rest}"


@newest  # transaction.version, and a clock
def test_where_everything_is_granted_there_is_no_problem_and_every_part_was_asked(
    cli: Cli, env: Path, secure: Sandbox
) -> None:
    ended = cli("doctor", env, "--within", "5m", "--format", "json")
    assert (ended.code, problems(ended)) == (0, []), ended.words
    found = {(one["subject"], one["check"]): one for one in findings(ended)}
    for name in ("east", "west"):
        assert found[f"cluster {name}", "certificate"]["verdict"] == "ok"
        assert "127.0.0.1" in found[f"cluster {name}", "certificate"]["text"]
        assert found[f"cluster {name}", "cluster id"]["verdict"] == "ok"
        assert "transaction.version" in found[f"cluster {name}", "features"]["text"]
        assert found[f"cluster {name}", "authorizer"]["verdict"] == "ok"
        assert found[f"cluster {name}", "clock"]["verdict"] == "ok", "the same machine's clock"
        for who in ("plan", "apply", "mirror"):
            assert found[f"cluster {name}", f"permissions of {who}"]["text"] == "nothing is missing"
    secrets = [value for handle in secure.clusters.values() for value in handle.passwords.values()]
    assert not any(secret in ended.words for secret in secrets)
    assert cli("doctor", env, "--within", "5m").out.startswith("No problem found")


def test_each_right_that_was_taken_away_is_reported_as_the_command_that_gives_it_back(
    cli: Cli, env: Path, secure: Sandbox, unique: str
) -> None:
    east, west = secure["east"], secure["west"]
    topic, group, transactional_id = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
    on_east = [
        (topic, "*", LITERAL, "plan", AclOperation.DESCRIBE_CONFIGS),
        (topic, "*", LITERAL, "apply", AclOperation.CREATE),
        (topic, "*", LITERAL, "mirror", AclOperation.READ),
        (group, "*", LITERAL, "plan", AclOperation.DESCRIBE),
        (group, "*", LITERAL, "mirror", AclOperation.DESCRIBE),
        (group, "*", LITERAL, "mirror", AclOperation.READ),
        (topic, "__reconciler", LITERAL, "plan", AclOperation.READ),
        (transactional_id, "reconciler.", PREFIXED, "apply", AclOperation.WRITE),
    ]
    on_west = [
        (topic, "east.", PREFIXED, "mirror", AclOperation.WRITE),
        (group, "*", LITERAL, "mirror", AclOperation.READ),
        (transactional_id, "mirror.", PREFIXED, "mirror", AclOperation.WRITE),
        (ResourceType.BROKER, "kafka-cluster", LITERAL, "plan", AclOperation.DESCRIBE),
    ]
    with without(east, *on_east), without(west, *on_west):
        ended = cli("doctor", env, "--within", "5m", "--format", "json")
    assert ended.code == 1
    told = problems(ended)
    assert acl(east, "plan", "DescribeConfigs --topic '*'") in told
    assert acl(east, "apply", "Create --topic '*'") in told
    assert acl(east, "mirror", f"Read --topic {unique}-orders") in told
    assert acl(east, "apply", f"Write --transactional-id reconciler.{env.name}") in told
    assert acl(west, "mirror", "Write --topic east. --resource-pattern-type prefixed") in told
    assert acl(east, "plan", "Describe --group '*'") in told
    assert acl(east, "mirror", "Describe --group '*'") in told
    assert acl(west, "mirror", f"Read --group mirror.{unique}") in told
    assert acl(west, "mirror", "Read --group '*'") in told
    assert acl(west, "mirror", f"Write --transactional-id mirror.{unique}. --resource-pattern-type prefixed") in told
    assert acl(west, "plan", "Describe --cluster") in told, "a broker that names no operation at all"
    # whether something was applied before or not: rights on topics that are not there yet are asked for, too
    assert acl(east, "plan", "Read --topic __reconciler") in told
    assert acl(west, "mirror", "Write --topic east.checkpoints.internal") in told
    assert len(told) == 13, told


def test_a_wrong_password_and_a_silent_address_are_distinguished(
    cli: Cli, env: Path, secure: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_EAST_APPLY_PASSWORD", "not-the-password")
    file = env / "topology.yaml"
    servers = secure["west"].bootstrap_servers
    file.write_text(file.read_text().replace(f"[{servers}]", f"[{servers}, 127.0.0.1:1]"))
    ended = cli("doctor", env, "--within", "5m", "--format", "json")
    assert ended.code == 1
    found = [(one["subject"], one["check"]) for one in findings(ended) if one["verdict"] == "problem"]
    assert found == [("cluster east", "login of apply"), ("cluster west", "address")]
    assert "not-the-password" not in ended.words


def test_rights_on_the_audit_topic_are_asked_for_before_it_is_there(
    cli: Cli, env: Path, secure: Sandbox, unique: str
) -> None:
    name = f"{unique}-audit"
    with (env / "topology.yaml").open("a") as file:
        file.write(f"audit: {{topic: {name}}}\n")
    ended = cli("doctor", env, "--within", "5m", "--format", "json")
    east = secure["east"]
    assert set(problems(ended)) == {
        acl(east, "plan", f"Read --topic {name}"),
        acl(east, "apply", f"Write --topic {name}"),
        acl(east, "apply", f"Read --topic {name}"),
    }, ended.words


@newest  # plan refuses targets before 3.0
def test_doctor_and_plan_say_whether_markers_may_be_written_where_offsets_are_kept(
    cli: Cli, env: Path, secure: Sandbox
) -> None:
    file, command = env / "topology.yaml", acl(secure["west"], "mirror", "ClusterAction --cluster")

    def told() -> dict[str, Any] | None:
        found = findings(cli("doctor", env, "--within", "5m", "--format", "json"))
        return next((one for one in found if one["check"] == "markers of mirror"), None)

    assert told() is None
    assert "marker" not in cli("plan", env).out
    file.write_text(file.read_text().replace("source: east, target", "offsets: same, source: east, target"))
    lacking = told()
    assert lacking is not None
    assert (lacking["subject"], lacking["verdict"]) == ("cluster west", "warning")
    assert command in lacking["todo"][0]
    planned = cli("plan", env).out
    assert "User:mirror may not write transaction markers" in planned
    assert command in planned
    with granted_on_cluster(secure["west"], "mirror", AclOperation.CLUSTER_ACTION):
        held = told()
        assert held is not None
        assert held["verdict"] == "ok"
        assert "may not write transaction markers" not in cli("plan", env).out
