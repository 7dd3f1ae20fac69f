"""``run`` as a process of its own against real brokers: it mirrors what is new, survives a broken edit, and ends."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from tests.support.clusters import topics
from tests.support.commands import Ended, Write, running, two_clusters
from tests.support.fakes.receiver import receiving
from tests.support.jobs.free_ports import free_port

Cli = Callable[..., Ended]


def flow(sandbox: Sandbox, unique: str) -> str:
    text = two_clusters(sandbox)
    return text + f"flows:\n  f: {{source: east, target: west, topics: ['{unique}-.*'], replication_factor: 1}}\n"


def test_a_new_topic_is_mirrored_within_an_interval_and_a_broken_edit_hurts_no_one(
    write: Write, plain: Sandbox, unique: str, create_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = write(flow(plain, unique) + "webhooks: [{url: '${env:HOOK}', events: [apply, verdict]}]\n")
    port, words = free_port(), ("--interval", "2s", "--autonomy", "safe")
    with receiving() as receiver, monkeypatch.context() as changed:
        changed.setenv("HOOK", receiver.url)
        _mirrors(env, port, words, plain, unique, create_topic)
    events = [(body["event"], body["state"]) for _, body in receiver.got]
    assert events.count(("verdict", "STOPPED")) == 1, "its mirror is not started, said once"
    done = [change for _, body in receiver.got if body["event"] == "apply" for change in body["details"]]
    assert {f"create:west/east.{unique}-a", f"create:west/east.{unique}-b"} <= set(done)


def _mirrors(
    env: Path, port: int, words: Sequence[str], plain: Sandbox, unique: str, create_topic: Callable[..., str]
) -> None:
    with running(env, *words, "--metrics-port", str(port)) as run:
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


def test_its_live_page_shows_the_lock_that_it_holds(write: Write, plain: Sandbox, unique: str) -> None:
    env = write(flow(plain, unique))
    port = free_port()
    with running(env, "--interval", "2s", "--serve", "--port", str(port)) as run:
        run.until("round")
        until, told = time.monotonic() + 60, ""
        while "(run)" not in told and time.monotonic() < until:
            told = urllib.request.urlopen(f"http://127.0.0.1:{port}/audit", timeout=30).read().decode()
            time.sleep(0.2)
        assert "(run)" in told
        assert str(run.process.pid) in told
        status = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/status.json", timeout=30).read())
        assert {cluster["state"] for cluster in status["clusters"].values()} == {"answers"}
        assert run.ends() == 0
        assert run.lines()[-1]["event"] == "stopped"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--token",), ("--token", "--serve")),
        (("--serve", "--tls-key", "page.key"), ("--tls-key is given alone",)),
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
