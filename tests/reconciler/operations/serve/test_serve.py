"""The command as a process: it answers before any cluster does, sends changes as they come, and ends cleanly."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.types import ASGIApp

from reconciler.operations.serve.connections import Access
from reconciler.operations.serve.run import LiveApp, Renderer, answering
from reconciler.render.live.view import JobsSeen, LiveReading, LiveView
from tests.support.commands import Ended
from tests.support.documents.live import seen_view, standings
from tests.support.documents.maps import copying, running
from tests.support.paths import ROOT

FILES = """
clusters:
  east: {bootstrap_servers: [127.0.0.1:1]}
  west: {bootstrap_servers: [127.0.0.1:2]}
topics:
  orders: {clusters: [east], partitions: 1}
flows:
  east-to-west: {source: east, target: west, topics: [orders]}
mirrors:
  west: {master: "local[2]"}
"""


@pytest.fixture
def env(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "all.yaml").write_text(FILES)
    return tmp_path / "shop"


@contextmanager
def served(env: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "reconciler", "serve", str(env), "--port", "0", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, env={**os.environ}) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


def got(address: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("asked", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_it_answers_while_clusters_are_silent_and_ends_when_it_is_asked_to(env: Path, asked: signal.Signals) -> None:
    with served(env) as (process, line):
        address = line.partition(": ")[2].strip()
        assert line.startswith("shop: http://127.0.0.1:")
        status, page = got(address, "/")
        assert status == 200
        assert "unknown" in page
        until = time.monotonic() + 60
        while "does not answer" not in got(address, "/")[1] and time.monotonic() < until:
            time.sleep(0.1)
        told = json.loads(got(address, "/status.json")[1])
        assert {cluster["state"] for cluster in told["clusters"].values()} == {"unknown"}
        listening = threading.Thread(target=got, args=(address, "/events/"))
        listening.start()
        time.sleep(0.5)
        process.send_signal(asked)
        assert process.wait(60) == 0
        listening.join(30)
        assert not listening.is_alive()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


@pytest.mark.slow
def test_its_token_is_shown_once_and_asked_for(env: Path) -> None:
    with served(env, "--token") as (_, line):
        address, _, token = line.partition(": ")[2].strip().partition("?token=")
        assert len(token) >= 40
        assert got(address, "/")[0] == 401
        assert got(address, "/status.json", {"authorization": f"Bearer {token}"})[0] == 200
        assert got(address, "/", {"authorization": f"Bearer {token}", "host": "evil.example.com"})[0] == 421


def test_a_port_that_is_taken_and_a_folder_that_is_wrong_are_reported(env: Path, cli: Callable[..., Ended]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = cli("serve", env, "--port", taken.getsockname()[1])
    assert ended.code == 1
    assert "cannot be served on 127.0.0.1:" in ended.err
    assert "Choose another --port" in ended.err
    (env / "all.yaml").write_text("topics: [")
    ended = cli("serve", env, "--port", 0)
    assert ended.code == 1
    assert "all.yaml" in ended.err


def test_a_browser_hears_of_a_change_as_it_comes() -> None:
    """Through the real server and a real socket."""
    views: list[LiveView] = [seen_view(now_ms())]
    stop = threading.Event()
    app = LiveApp(Renderer(lambda: views[-1], standings, now_ms), stop).application(Access())
    with listening(app) as address:
        connection = http.client.HTTPConnection("127.0.0.1", address, timeout=30)
        connection.request("GET", "/events/")
        stream = connection.getresponse()
        heard(stream, "1,234")
        job = running("east", copying("west-to-east", records_lag=4_321))
        assert views[-1].jobs.value is not None
        mirrors = {**views[-1].jobs.value.mirrors, "east": job}
        views.append(seen_view(now_ms(), jobs=LiveReading(JobsSeen(mirrors), now_ms())))
        began = time.monotonic()
        heard(stream, "4,321")
        took = time.monotonic() - began
        stop.set()
        connection.close()
    assert took < 30, "it looks each second; a busy machine takes longer"


def now_ms() -> int:
    return int(time.time() * 1000)


def heard(stream: http.client.HTTPResponse, words: str) -> None:
    while words not in stream.readline().decode():
        pass


@contextmanager
def listening(app: ASGIApp) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener, answering(app, listener):
        yield listener.getsockname()[1]
