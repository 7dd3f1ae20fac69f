"""On call: what `status`, its exit code, the live page and a Prometheus say of a real job in trouble, and that it ends.

Prometheus is Debian's, with the rules of docs/grafana/alerts.yml at seconds instead of minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from reconciler_sandbox.handles import Sandbox

from tests.support.jobs.environments import Running
from tests.support.jobs.free_ports import free_port
from tests.support.jobs.frozen_broker import freeze, thaw
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.long]
PATIENCE_S = 180
LARGE = 60_000


def environment(place: Path, plain: Sandbox, orders: str, metrics_port: int) -> Running:
    folder = place / "oncall"
    folder.mkdir()
    clusters = {
        alias: {
            "bootstrap_servers": plain[alias].bootstrap_servers.split(","),
            "cluster_id": plain[alias].cluster_id,
            "defaults": {"partitions": 2, "replication_factor": 1},
        }
        for alias in ("east", "west")
    }
    flow = {"source": "east", "target": "west", "topics": [orders], "replication_factor": 1, "lanes": 2}
    flow["groups"] = {"sync_offsets": True, "include": [orders]}
    declared = {
        "clusters": clusters,
        "topics": {orders: {"clusters": ["east"], "configs": {"max.message.bytes": 1048588}}},
        "flows": {"east-to-west": flow},
        "mirrors": {"west": {"flows": ["east-to-west"], "metrics_port": metrics_port, "status_interval": "1s"}},
        "docs_url": "https://docs.example.net/reconciler",
    }
    (folder / "all.yaml").write_text(json.dumps(declared))
    return Running(folder, dict(plain.clusters), {"RECONCILER_STATE": str(place / "state")})


def in_seconds(rules: str) -> str:
    for minutes, seconds in (("for: [125]m", "for: 2s"), (r"\[2m\]", "[8s]"), ("> 120", "> 8"), ("> 86400", "> 5")):
        rules = re.sub(minutes, seconds, rules)
    return rules


@contextmanager
def prometheus(place: Path, metrics_port: int) -> Iterator[Callable[[], set[str]]]:
    """What is firing, by name."""
    program = shutil.which("prometheus")
    assert program, "prometheus is not installed: apt-get install prometheus"
    place.mkdir()
    (place / "rules.yml").write_text(in_seconds((ROOT / "docs/grafana/alerts.yml").read_text()))
    targets = f"[{{targets: ['127.0.0.1:{metrics_port}']}}]"
    (place / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n"
        f"scrape_configs:\n  - {{job_name: mirror, static_configs: {targets}}}\n"
    )
    port = free_port()
    options = {"config.file": place / "prometheus.yml", "storage.tsdb.path": place / "data"}
    command = [program, *(f"--{name}={value}" for name, value in options.items())]
    command.append(f"--web.listen-address=127.0.0.1:{port}")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:

        def firing() -> set[str]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/alerts", timeout=10) as answer:
                    alerts = json.load(answer)["data"]["alerts"]
            except (urllib.error.URLError, ConnectionError):
                return set()
            return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

        try:
            yield firing
        finally:
            server.terminate()
            server.wait(30)


@contextmanager
def page(running: Running) -> Iterator[Callable[[], str]]:
    port = free_port()
    command = [sys.executable, "-m", "reconciler", "serve", str(running.folder), "--port", str(port)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, env={**os.environ, **running.environ}
    ) as served:

        def shown() -> str:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
                    return str(answer.read().decode())
            except (urllib.error.URLError, ConnectionError):
                return ""

        try:
            yield shown
        finally:
            served.terminate()
            served.wait(30)


def checked(running: Running) -> tuple[int, str]:
    """`status --check`."""
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", "status", str(running.folder), "--check"],
        capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, **running.environ},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def comes(what: str, holds: Callable[[], Any], show: Callable[[], object] = lambda: "") -> Any:
    began = time.monotonic()
    while not (found := holds()):
        assert time.monotonic() - began < PATIENCE_S, f"{what}: {show()}"
        time.sleep(0.3)
    told(f"\n--- {what}: after {time.monotonic() - began:.0f} s")
    return found


def told(what: object) -> None:
    """For ``pytest -s``: what somebody on call would read."""
    sys.stdout.write(f"{what}\n")


def headline(html: str) -> str:
    found = re.search(r"<h1>(.*?)</h1>", html)
    return found[1] if found else ""


def test_each_trouble_is_said_by_all_and_ends(plain: Sandbox, tmp_path: Path, unique: str) -> None:
    orders, port = f"{unique}-orders", free_port()
    running = environment(tmp_path, plain, orders, port)
    seen: dict[str, tuple[int, str]] = {}

    def verdict(code: int, *words: str) -> Callable[[], bool]:
        def holds() -> bool:
            seen["last"] = checked(running)
            return seen["last"][0] == code and all(word in seen["last"][1] for word in words)

        return holds

    def said() -> object:
        return seen["last"]

    source = Producer(plain["east"].client())

    def write(count: int, size: int = 10) -> None:
        for number in range(count):
            source.produce(orders, b"x" * size, key=b"%d" % number, partition=number % 2)
        source.flush(30)

    with prometheus(tmp_path / "prometheus", port) as firing, page(running) as shown:
        code, text = checked(running)
        assert code == 2, text
        assert text.startswith("STOPPED: mirror west has no job; ")
        comes("not seen", lambda: firing() >= {"MirrorNotSeen", "MirrorTargetDown"}, firing)
        running.apply()
        try:
            write(100)
            comes("OK", verdict(0, "OK: 1 of 1 mirror running; 0 records behind; 0 conditions"), said)
            comes("no alert", lambda: not firing(), firing)
            comes("page OK", lambda: headline(shown()).startswith("OK: "), lambda: headline(shown()))

            # A record too large for the copy, whose limit somebody lowered.
            admin = AdminClient(plain["west"].client())
            entry = ConfigEntry("max.message.bytes", "50000", incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.TOPIC, f"east.{orders}", incremental_configs=[entry])
            admin.incremental_alter_configs([resource])[resource].result(30)
            write(1, LARGE)
            wanted = ("STOPPED: flow east-to-west: record_refused", "50000", f"reconciler apply {running.folder}")
            comes("record refused", verdict(2, *wanted, "git declares", "1048588"), said)
            told(said())
            assert "https://docs.example.net/reconciler/mirror/conditions.html#record_refused" in seen["last"][1]
            comes("alert", lambda: "MirrorPartitionStopped" in firing(), firing)
            comes("page", lambda: headline(shown()).startswith("STOPPED: "), lambda: headline(shown()))
            assert "stops copying" in shown()
            assert running.command(f"reconciler status environments/{running.name}")["exit_code"] == 0
            running.apply()
            comes("healed", verdict(0), said)
            comes("no alert", lambda: not firing(), firing)

            # The whole source is stopped.
            freeze(plain["east"])
            try:
                comes("source stopped", verdict(2, "STOPPED: ", "source_unreachable", "waiting"), said)
                told(said())
                comes("alert", lambda: "MirrorLagUnknown" in firing(), firing)
                stopped = comes("page", lambda: (it := shown()) and headline(it).startswith("STOPPED: ") and it)
                assert "copying continues" not in stopped
                assert 'class="tile unknown" href="/flows"><small>lag</small>' in stopped
                dry = running.reconciler(
                    "failover", str(running.folder), "east-to-west", "--unplanned", "--dry-run", code=2
                )
                told(dry)
                assert re.search(
                    r"may be lost: at most 0 records as of \d\d:\d\d:\d\d UTC on .*, then \d+ (s|min)", dry
                ), dry
            finally:
                thaw(plain["east"])
            comes("healed", verdict(0), said)
            comes("no alert", lambda: not firing(), firing)

            # The target is killed.
            plain["west"].kill()
            try:
                comes("target killed", verdict(1, "UNKNOWN: cluster west is unknown"), said)
                told(said())
                comes(
                    "page", lambda: headline(shown()).startswith(("UNKNOWN: ", "STOPPED: ")), lambda: headline(shown())
                )
            finally:
                plain["west"].start()
            comes("healed", verdict(0), said)
            comes("no alert", lambda: not firing(), firing)

            # A planned failover: the origin is written to, and nothing is wrong.
            running.reconciler("failover", str(running.folder), "east-to-west", "--yes")
            write(700)
            paused = ("PAUSED: flow east-to-west is failed over to west", f"reconciler failback {running.folder}")
            comes("failed over", verdict(3, *paused, "700 records of the flow wait"), said)
            told(said())
            failed_over = comes("page", lambda: (it := shown()) and headline(it).startswith("PAUSED: ") and it)
            assert 'class="tile idle"' in failed_over
            comes("paused too long", lambda: firing() == {"MirrorPausedTooLong"}, firing)
            until = time.monotonic() + 15  # longer than any window of the rules
            while time.monotonic() < until:
                assert firing() <= {"MirrorPausedTooLong"}
                time.sleep(0.5)
            running.reconciler("mirror", "resume", str(running.folder), "east-to-west")
            comes("resumed", verdict(0), said)
            comes("no alert", lambda: not firing(), firing)
        finally:
            running.stop()
        code, text = checked(running)
        assert code == 2
        assert text.startswith("STOPPED: mirror west is stopped; ")
        comes("job absent", lambda: firing() >= {"MirrorNotSeen", "MirrorTargetDown"}, firing)
