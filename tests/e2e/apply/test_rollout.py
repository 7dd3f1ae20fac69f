"""A rollout over three real clusters: killed in a soak, gone on with in two steps, halted by a cluster that is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import Sandbox

from tests.support.commands import Ended, two_clusters

Cli = Callable[..., Ended]
APPLY = "import sys; from reconciler.cli.main import main; main(sys.argv[1:])"
SOAKS = "of its soak are left"


def folder(write: Callable[..., Path], trio: Sandbox, topic: str, partitions: int, soak: str) -> Path:
    regions = {"east": ", region: eu", "west": ", region: us"}
    return write(
        two_clusters(trio, **regions)
        + f"topics:\n  {topic}: {{clusters: [east, west, hub], partitions: {partitions}, replication_factor: 1}}\n"
        + f"rollout:\n  soak: {soak}\n  gates: {{wait: 1s}}\n"
        + "  waves:\n    - {name: canary, regions: [eu]}\n"
        + "    - {name: rest, regions: [us], clusters: [hub], soak: 0s}\n",
        topic,
    )


def begun(env: Path) -> subprocess.Popen[str]:
    """An apply that has come to the soak of its first wave."""
    command = [sys.executable, "-c", APPLY, "apply", str(env), "--yes"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if SOAKS in line:
            return process
    raise AssertionError(process.communicate())


def partitions(trio: Sandbox, topic: str) -> dict[str, int]:
    found = {}
    for name, cluster in trio.clusters.items():
        topics = AdminClient(cluster.super_client()).list_topics(timeout=20).topics
        found[name] = len(topics[topic].partitions) if topic in topics else 0
    return found


@pytest.fixture
def kept(trio: Sandbox) -> Iterator[Sandbox]:
    """The trio, whole again afterwards."""
    try:
        yield trio
    finally:
        if not _answers(trio):
            trio["hub"].start()


def _answers(trio: Sandbox) -> bool:
    try:
        AdminClient({**trio["hub"].super_client(), "log_level": "0"}).list_topics(timeout=5)
    except KafkaException:
        return False
    return True


@pytest.mark.long
def test_killed_or_stopped_in_a_soak_it_is_gone_on_with(
    cli: Cli, write: Callable[..., Path], trio: Sandbox, unique: str
) -> None:
    env = folder(write, trio, unique, 1, "60s")
    killed = begun(env)
    killed.kill()
    killed.communicate()
    assert partitions(trio, unique) == {"east": 1, "hub": 0, "west": 0}
    told = cli("status", env)
    assert "rollout: under way" in told.words
    assert "wave canary: its changes are done, " in told.words
    assert "wave rest: not begun" in told.words
    shown = json.loads(cli("status", env, "--format", "json").out)["rollout"]
    assert [wave["state"] for wave in shown["waves"]] == ["soaking", "not begun"]

    stopped = begun(env)
    stopped.terminate()
    out, err = stopped.communicate(timeout=120)
    assert stopped.returncode == 5, out + err
    assert "Rollout halted: SIGTERM ended the run before its waves were over" in out
    assert "Nothing is to fix: run apply again" in out
    assert "Fix it" not in out
    assert "Traceback" not in out + err

    folder(write, trio, unique, 1, "2s")
    first = cli("apply", env, "--yes", "--until-wave", "canary")
    assert first.code == 2, first.words
    assert "wave canary: passed" in first.words
    assert "Later waves are left." in first.words
    assert partitions(trio, unique) == {"east": 1, "hub": 0, "west": 0}
    ended = cli("apply", env, "--yes")
    assert ended.code == 0, ended.words
    assert partitions(trio, unique) == {"east": 1, "hub": 1, "west": 1}
    assert "rollout: none under way" in cli("status", env).words


@pytest.mark.long
def test_a_cluster_that_is_lost_in_a_soak_halts(
    cli: Cli, write: Callable[..., Path], kept: Sandbox, unique: str
) -> None:
    trio = kept
    env = folder(write, trio, unique, 1, "60s")
    halted = begun(env)
    trio["hub"].kill()
    out, err = halted.communicate(timeout=120)
    assert halted.returncode == 5, out + err
    assert "Rollout halted: wave rest may not begin: gates do not hold after wave canary: cluster hub" in out
    assert "Traceback" not in out + err
    trio["hub"].start()
    assert partitions(trio, unique) == {"east": 1, "hub": 0, "west": 0}
    assert "halted: wave rest may not begin" in cli("status", env).words

    hurried = cli("apply", env, "--yes", "--ignore-gates", "the region burns")
    assert hurried.code == 0, hurried.words
    assert partitions(trio, unique) == {"east": 1, "hub": 1, "west": 1}
    assert "gates and soaks are left out: the region burns" in hurried.out
    assert "Gates and soaks were left out: the region burns" in hurried.out
    assert "gates before the first wave" not in hurried.out
    assert "then its gates" not in hurried.out
    audit = (env.parent / ".reconciler" / env.name / "audit.jsonl").read_text(encoding="utf-8")
    assert '"ignoring_gates": "the region burns"' in audit.replace('":"', '": "')


@pytest.mark.long
def test_a_wave_that_is_missing_is_reported(cli: Cli, write: Callable[..., Path], trio: Sandbox, unique: str) -> None:
    env = folder(write, trio, unique, 1, "1s")
    wrong = cli("apply", env, "--yes", "--until-wave", "canari")
    assert wrong.code == 1
    assert "Perhaps you mean canary" in wrong.words
    assert partitions(trio, unique) == {"east": 0, "hub": 0, "west": 0}
