"""``reconciler serve`` beside another command: what it shows, held against ``status --format json``."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.jobs.environments import Running
from tests.support.paths import ROOT

WITHIN_S = 2.0
"""How much later the page may show what status says."""
Essentials = dict[str, Any]


@dataclass
class Compared:
    """``page``: when it was asked, and what it showed. ``status``: from when to when the command ran, and its words."""

    page: list[tuple[float, Essentials, str]] = field(default_factory=list)
    status: list[tuple[float, float, Essentials]] = field(default_factory=list)

    def require_alike(self) -> None:
        assert len(self.status) >= 2, "status was asked while the other command ran"
        for began, ended, told in self.status:
            shown = [page for at, page, _ in self.page if began - WITHIN_S <= at <= ended + WITHIN_S]
            assert told in shown, f"status said {told}, the page {shown}"
        last = self.page[-1][0]
        for at, told, _ in self.page:
            texts = [text for when, _, text in self.page if at <= when <= at + WITHIN_S]
            states = [(flow, state) for flows in told["flows"].values() for flow, state in flows.items()]
            alike = any(all(_row(text, flow, state) for flow, state in states) for text in texts)
            assert alike or at > last - WITHIN_S, f"{states} are not in the page without scripts: {texts}"


def essentials(status: dict[str, Any]) -> Essentials:
    """What does not move by itself from one moment to the next, as lags and ages do."""
    mirrors = status["mirrors"]
    return {
        "lock": (status["lock"]["state"], status["lock"].get("purpose")),
        "clusters": {name: each["state"] for name, each in status["clusters"].items()},
        "mirrors": {name: (each["state"], each.get("application_id")) for name, each in mirrors.items()},
        "flows": {
            name: {flow: told["state"] for flow, told in each.get("flows", {}).items()}
            for name, each in mirrors.items()
        },
    }


def _row(text: str, flow: str, state: str) -> bool:
    """Whether the flow's row of the page has its state: behind its name and its two clusters."""
    return re.search(rf"\b{flow}\s+\S+\s+\S+\s+\S+\s+{state}\b", text) is not None


@contextmanager
def compared(running: Running) -> Iterator[Compared]:
    """While the body runs, both are asked again and again; at the end once more, and they have to be alike."""
    command = [sys.executable, "-m", "reconciler", "serve", str(running.folder), "--port", "0"]
    environ = {**os.environ, **running.environ}
    found, done = Compared(), threading.Event()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environ) as served:
        try:
            assert served.stdout is not None
            address = served.stdout.readline().partition(": ")[2].strip()
            _until_read(address)
            threads = [
                threading.Thread(target=_ask_page, args=(address, found, done)),
                threading.Thread(target=_ask_status, args=(running, found, done)),
            ]
            for thread in threads:
                thread.start()
            try:
                yield found
            finally:
                done.set()
                for thread in reversed(threads):
                    thread.join(60)
        finally:
            served.terminate()
            served.wait(30)
    found.require_alike()


def _got(address: str, path: str) -> str:
    with urllib.request.urlopen(f"{address}{path}", timeout=30) as answer:
        return str(answer.read().decode())


def _until_read(address: str) -> None:
    until = time.monotonic() + 60
    while "unknown" in json.dumps(essentials(json.loads(_got(address, "status.json")))):
        assert time.monotonic() < until, _got(address, "status.json")
        time.sleep(0.1)


def _ask_page(address: str, found: Compared, done: threading.Event) -> None:
    """A while longer than asked, for what status said until then."""
    end = float("inf")
    while time.monotonic() < end:
        at = time.monotonic()
        told = essentials(json.loads(_got(address, "status.json")))
        text = html.unescape(re.sub(r"<[^>]*>", " ", _got(address, "flows")))
        again = essentials(json.loads(_got(address, "status.json")))
        if told == again:  # else the page between them may show either
            found.page.append((at, told, text))
        if done.is_set() and end == float("inf"):
            end = time.monotonic() + WITHIN_S + 0.5
        time.sleep(0.2)


def _ask_status(running: Running, found: Compared, done: threading.Event) -> None:
    last = False
    while not last:
        last = done.is_set()
        began = time.monotonic()
        command = [sys.executable, "-m", "reconciler", "status", str(running.folder), "--format", "json"]
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **running.environ}
        )
        found.status.append((began, time.monotonic(), essentials(json.loads(ended.stdout))))
