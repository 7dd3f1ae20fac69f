"""Access waves against real authorizers: what a stranger does in the middle, and a run that dies there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation, AdminClient, ResourceType
from confluent_kafka.admin import AclPermissionType as Permission
from confluent_kafka.admin import ResourcePatternType as Pattern
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.errors import RunnerError
from reconciler.model.changes import AclChange
from reconciler.model.live import LiveMirror
from reconciler.model.plan import Planned
from tests.support.clusters import secured_clusters
from tests.support.commands import Ended, Write, audit

Cli = Callable[..., Ended]
CreateTopic = Callable[..., str]
Rule = tuple[ResourceType, str, str, AclOperation]

# SIGKILL to itself once the rules of a wave are made.
DIES = """
import os, signal, sys
from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.cli.main import main
perform = KafkaCluster.perform
def dying(self, *words):
    perform(self, *words)
    os.kill(os.getpid(), signal.SIGKILL)
KafkaCluster.perform = dying
main(sys.argv[1:])
"""


@pytest.fixture
def env_of(
    write: Write, secure: Sandbox, monkeypatch: pytest.MonkeyPatch, create_topic: CreateTopic, unique: str
) -> Callable[[str], Path]:
    """``env_of(access)``: a flow of one topic that is there on both sides, as every principal of the sandbox."""
    lines = secured_clusters(secure, monkeypatch)
    create_topic(secure["east"], f"{unique}-orders")
    lines += [f"topics: {{{unique}-orders: {{clusters: [east]}}}}"]

    def make(access: str) -> Path:
        return write("\n".join([*lines, access]) + "\n", unique)

    return make


def consumer(unique: str, *principals: str) -> str:
    entries = [
        f'  - {{role: consumer, principal: "User:{one}", clusters: [east], topics: [{unique}-orders], groups: []}}'
        for one in principals
    ]
    return "\n".join(["access:", *entries])


@contextmanager
def denying(cluster: ClusterHandle, *rules: Rule) -> Iterator[Callable[[], None]]:
    """What it gives makes these denials; they are gone afterwards."""
    admin = AdminClient({**cluster.super_client(), "log_level": "0"})
    everywhere, deny = Pattern.LITERAL, Permission.DENY

    def make() -> None:
        bindings = [AclBinding(kind, name, everywhere, who, "*", op, deny) for kind, name, who, op in rules]
        for future in admin.create_acls(bindings).values():
            future.result(20)

    try:
        yield make
    finally:
        filters = [AclBindingFilter(kind, name, everywhere, who, "*", op, deny) for kind, name, who, op in rules]
        for future in admin.delete_acls(filters).values():
            future.result(20)


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Once, right after the rules of a wave were made."""
    perform, left = KafkaCluster.perform, [act]

    def performed(self: KafkaCluster, changes: Sequence[Planned], *words: Any) -> Sequence[Any]:
        told = perform(self, changes, *words)
        if left and isinstance(changes[0].change, AclChange):
            left.pop()()
        return told

    monkeypatch.setattr(KafkaCluster, "perform", performed)


def shown(cluster: ClusterHandle, unique: str) -> set[str]:
    """Principals of rules about the topics of this test."""
    admin = AdminClient({**cluster.super_client(), "log_level": "0"})
    anything = AclBindingFilter(ResourceType.TOPIC, None, Pattern.ANY, None, None, AclOperation.ANY, Permission.ANY)
    return {one.principal for one in admin.describe_acls(anything).result(20) if one.name == f"{unique}-orders"}


def results(ended: Ended) -> dict[str, str]:
    return {
        one["id"].partition("User:")[2].partition(" ")[0]: one["result"] for one in json.loads(ended.out)["outcomes"]
    }


@pytest.mark.long
def test_probed_and_done_is_reported_in_every_place(cli: Cli, env_of: Callable[[str], Path], unique: str) -> None:
    env = env_of(consumer(unique, f"{unique}-a"))
    saved = env.parent / "plan.json"
    assert cli("plan", env, "--out", saved).code == 2
    ended = cli("apply", env, "--plan", saved, "--yes", "--format", "json")
    assert ended.code == 0, ended.words
    [probe] = json.loads(ended.out)["probes"]
    assert (probe["cluster"], probe["stage"], probe["verdict"]) == ("east", "access", "passed")
    told = {one["subject"]: one for one in probe["checks"]}
    assert told["apply principal User:apply"]["verdict"] == "passed", "by the brokers' own word"
    assert "checked: a new plan is empty" in ended.err
    kinds = [line["kind"] for line in audit(env)]
    assert kinds == ["begin", "probe", "change", "end"], "the probe is over before the change counts"


def test_who_loses_alter_in_the_middle_learns_what_to_put_back(
    cli: Cli, env_of: Callable[[str], Path], secure: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, east = env_of(consumer(unique, f"{unique}-a")), secure["east"]
    own = (ResourceType.BROKER, "kafka-cluster", "User:apply", AclOperation.ALTER)
    with denying(east, own) as strike:
        meanwhile(monkeypatch, strike)
        ended = cli("apply", env, "--yes", "--format", "json")
        assert (ended.code, results(ended)) == (5, {f"{unique}-a": "left"}), ended.words
        first = east.bootstrap_servers
        for words in (
            "apply principal User:apply may no longer do what it works with: alter on cluster",
            f"kafka-acls.sh --bootstrap-server {first} --remove --force --deny-principal 'User:apply' --operation Alter"
            " --cluster",
            f"--remove --force --allow-principal 'User:{unique}-a' --operation Read --topic {unique}-orders",
        ):
            assert words in ended.out, ended.words
        assert shown(east, unique) == {f"User:{unique}-a"}
        again = cli("plan", env, "--format", "json")
        assert [one["change"]["reason"]["code"] for one in json.loads(again.out)["changes"]] == ["not-probed"]
    ended = cli("apply", env, "--yes")
    assert ended.code == 0, ended.words
    assert "checked: a new plan is empty" in ended.words, "it continues from there"


def test_a_wave_in_which_the_mirror_loses_a_right_is_undone_to_the_last_rule(
    cli: Cli, env_of: Callable[[str], Path], secure: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    east, flow = secure["east"], f"flows: {{{unique}: {{source: east, target: west, topics: [{unique}-orders]}}}}\n"
    env = env_of(flow + consumer(unique, f"{unique}-a", f"{unique}-b"))
    before = shown(east, unique)
    monkeypatch.setattr(SparkRunner, "start", not_now)
    with denying(east, (ResourceType.TOPIC, f"{unique}-orders", "User:mirror", AclOperation.READ)) as strike:
        meanwhile(monkeypatch, strike)
        ended = cli("apply", env, "--yes", "--format", "json")
        told = results(ended)
        assert ended.code == 5, ended.words
        assert (told[f"{unique}-a"], told[f"{unique}-b"]) == ("undone", "undone")
        assert "mirror principal User:mirror may no longer do what it works with" in ended.out
        assert shown(east, unique) == before | {"User:mirror"}, "theirs alone is left"
    lines = [line for line in audit(env) if line["kind"] == "probe"]
    assert [line["verdict"] for line in lines] == ["failed"]


def not_now(_self: SparkRunner, _mirror: str, _handover: str, _progress: Any) -> LiveMirror:
    raise RunnerError("no Spark here")


def test_killed_before_the_probe_and_gone_on_with(
    cli: Cli, env_of: Callable[[str], Path], secure: Sandbox, unique: str
) -> None:
    """Between any two other steps: on the fake, in tests/reconciler/resources/acls/probe."""
    env = env_of(consumer(unique, f"{unique}-a", f"{unique}-b"))
    command = [sys.executable, "-c", DIES, "apply", str(env), "--yes"]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    left = json.loads(cli("plan", env, "--format", "json").out)["changes"]
    assert len(left) == 2, "nothing unconfirmed is forgotten"
    assert {one["change"]["reason"]["code"] for one in left} == {"not-probed"}
    ended = cli("apply", env, "--yes", "--steal-lock", "it was killed")
    assert ended.code == 0, ended.words
    assert cli("apply", env_of("access: []"), "--yes", "--allow-shrink").code == 0
    assert shown(secure["east"], unique) == set(), "what the killed run made was ours"
