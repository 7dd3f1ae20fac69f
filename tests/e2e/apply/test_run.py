"""``run`` as a process of its own against real brokers: it mirrors what is new, survives a broken edit, and ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from sandbox.handles import ClusterHandle, Sandbox
from tests.cli.conftest import Ended, Write, two_clusters

Cli = Callable[..., Ended]
WAIT = 60.0


class Running:
    """A ``reconciler run`` and what it logged."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]

    def until(self, event: str, seen: int = 0, **fields: Any) -> dict[str, Any]:
        """The first line of ``event`` after ``seen`` lines that holds ``fields``."""
        give_up = time.monotonic() + WAIT
        while time.monotonic() < give_up:
            for line in self.lines()[seen:]:
                if line["event"] == event and fields.items() <= line.items():
                    return line
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        raise AssertionError(f"no line {event} {fields}:\n{self.log.read_text()}")

    def ends(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def running(env: Path, *words: str) -> Iterator[Running]:
    log = env.parent / "run.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "reconciler", "run", str(env), *words]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=out)
    try:
        yield Running(process, log)
    finally:
        process.kill()
        process.wait()


def topics(cluster: ClusterHandle) -> set[str]:
    return set(AdminClient({**cluster.client(), "log_level": "0"}).list_topics(timeout=10).topics)


def flow(sandbox: Sandbox, unique: str) -> str:
    text = two_clusters(sandbox)
    return text + f"flows:\n  f: {{source: east, target: west, topics: ['{unique}-.*'], replication_factor: 1}}\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_new_topic_is_mirrored_within_an_interval_and_a_broken_edit_hurts_nobody(
    write: Write, plain: Sandbox, unique: str, create_topic: Callable[..., str]
) -> None:
    env = write(flow(plain, unique))
    port = free_port()
    with running(env, "--interval", "2s", "--autonomy", "safe", "--metrics-port", str(port)) as run:
        run.until("round")
        create_topic(plain["east"], f"{unique}-a", 3, retention_ms="70000")
        seen = len(run.lines())
        done = run.until("done", seen, change=f"create:west/east.{unique}-a")
        assert done["environment"] == "e"
        assert f"east.{unique}-a" in topics(plain["west"])

        (env / "topology.yaml").write_text("clusters: {east: [\n", encoding="utf-8")
        seen = len(run.lines())
        assert "topology.yaml:2" in run.until("topology kept", seen)["why"]
        create_topic(plain["east"], f"{unique}-b")
        run.until("done", seen, change=f"create:west/east.{unique}-b")

        figures = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
        assert 'reconciler_corrections_total{kind="create_topic"} 2.0' in figures
        assert "reconciler_topology_kept 1.0" in figures
        assert "reconciler_unknown_clusters 0.0" in figures
        assert 'reconciler_changes_pending{kind="start_mirror"} 1.0' in figures, "autonomy safe starts no job"
        assert run.ends() == 0
        assert run.lines()[-1]["event"] == "stopped"


def test_only_one_holds_the_lock(cli: Cli, write: Write, plain: Sandbox, unique: str) -> None:
    env = write(flow(plain, unique))
    with running(env, "--interval", "60s") as run:
        run.until("round")
        ended = cli("apply", env, "--yes")
        assert ended.code == 6
        assert "(run)" in ended.words
        assert str(run.process.pid) in ended.words
        assert f"east.{unique}-a" not in topics(plain["west"])
        began = time.monotonic()
        assert run.ends() == 0
        assert time.monotonic() - began < 50, "a wait of 60 s is not waited out"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--interval", "60"), ("--interval", "60")),
        (("--interval", "10ms"), ("10ms", "1s")),
        (("--metrics-port", "99999"), ("metrics-port",)),
        (("--autonomy", "some"), ("autonomy", "safe")),
    ],
)
def test_words_that_cannot_be_meant(cli: Cli, write: Write, words: tuple[str, ...], told: tuple[str, ...]) -> None:
    ended = cli("run", write("clusters:\n  east: {bootstrap_servers: [127.0.0.1:1]}\n"), *words)
    assert ended.code == 1
    for word in told:
        assert word in ended.words


def test_a_taken_metrics_port_is_said_before_anything_is_done(cli: Cli, write: Write, plain: Sandbox) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = cli("run", write(two_clusters(plain)), "--metrics-port", port)
    assert ended.code == 1
    assert str(port) in ended.words
