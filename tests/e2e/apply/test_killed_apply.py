"""An apply that dies at any line of its record: a new plan shows what is left, and the next apply completes it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import Sandbox

from tests.support.commands import Ended, two_clusters

Cli = Callable[..., Ended]
CreateTopic = Callable[..., str]

# SIGKILL to itself when the numbered line is about to be written: what it tells has happened, the record lacks it.
DIES = """
import os, signal, sys
from reconciler.backends.state.audit import AuditFile
from reconciler.cli.main import main
write, left = AuditFile.write, [int(sys.argv.pop(1))]
def dying(self, line):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    write(self, line)
AuditFile.write = dying
main(sys.argv[1:])
"""
LINES = 7  # begin, five changes, end


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=[pytest.mark.long] if line % 4 != 2 else []) for line in range(LINES)]
)
def test_killed_at_every_line_and_completed(
    cli: Cli, write: Callable[..., Path], plain: Sandbox, unique: str, create_topic: CreateTopic, line: int
) -> None:
    east, west = plain["east"], plain["west"]
    for cluster, name, count in ((east, "grown", 2), (west, "grown", 2), (east, "set", 1), (west, "gone", 1)):
        create_topic(cluster, f"{unique}-{name}", count)
    doomed = _topic_id(west.super_client(), f"{unique}-gone")
    env = write(
        two_clusters(plain)
        + "topics:\n"
        + f"  {unique}-new: {{clusters: [east, west], partitions: 2}}\n"
        + f"  {unique}-grown: {{clusters: [east], partitions: 3}}\n"
        + f"  {unique}-set: {{clusters: [east], configs: {{retention.ms: 2d}}}}\n"
        + "deletions:\n"
        + f"  - {{cluster: west, topic: {unique}-gone, topic_id: {doomed}, reason: test, expires: 2099-01-01}}\n",
        unique,
    )
    command = [sys.executable, "-c", DIES, str(line), "apply", str(env), "--yes"]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr

    left = json.loads(cli("plan", env, "--format", "json").out)
    assert not left["refused"]
    ids = {one["id"] for one in left["changes"]}
    ended = cli("apply", env, "--yes")
    assert ended.code == 0, ended.words
    assert "checked: a new plan is empty" in ended.words or not ids
    assert cli("plan", env).code == 0
    if line == 0:
        assert len(ids) == LINES - 2, "killed before anything was begun"
    if line == LINES - 1:
        assert not ids, "killed after everything was done"
    assert f"{unique}-gone" not in AdminClient(west.super_client()).list_topics(timeout=20).topics


def _topic_id(client: dict[str, str], topic: str) -> str:
    admin = AdminClient(client)
    found = str(admin.describe_topics(TopicCollection([topic]))[topic].result(20).topic_id)
    return found.replace("/", "_").replace("+", "-")
