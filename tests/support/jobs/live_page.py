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


@dataclass(frozen=True)
class Reading:
    """What was said between two moments (seconds of the monotonic clock)."""

    asked: float
    answered: float
    essentials: Essentials


@dataclass
class Compared:
    """``page`` and ``status``: what each said of the same values. ``rows``: the page's table of flows as text, where
    its values were the same before and after it."""

    page: list[Reading] = field(default_factory=list)
    rows: list[tuple[Reading, str]] = field(default_factory=list)
    status: list[Reading] = field(default_factory=list)

    def require_alike(self) -> None:
        assert len(self.status) >= 2, "status was asked while the other command ran"
        for said, shown in ((self.status, self.page), (self.page, self.status)):
            for part in said[0].essentials:
                for begin, end, value in lasting(said, part):
                    near = [r for r in shown if begin <= r.answered and r.asked <= end + WITHIN_S]
                    others = [(round(r.asked, 1), round(r.answered, 1), r.essentials[part]) for r in near]
                    assert value in (r.essentials[part] for r in near), (
                        f"{part} was {value} from {begin:.1f} to {end:.1f} s, the other said {others}"
                    )
        assert self.page[-1].essentials == self.status[-1].essentials
        assert len(self.rows) >= 2, "the table was read while nothing changed"
        for reading, text in self.rows:
            states = [each for flows in reading.essentials["flows"].values() for each in flows.items()]
            assert states
            texts = [other for near, other in self.rows if abs(near.answered - reading.answered) <= WITHIN_S]
            assert any(all(_row(each, flow, state) for flow, state in states) for each in texts), (
                f"{states} are not in the page without scripts: {text}"
            )


def lasting(readings: list[Reading], part: str) -> list[tuple[float, float, Any]]:
    """From when to when a value lasted for two seconds at least. A shorter one may lie between two readings of a page
    that asks each second. A reading was taken at an unknown moment between question and answer, so a value is sure
    from its first answer to its last question."""
    spans: list[tuple[float, float, Any]] = []
    for reading in readings:
        value = reading.essentials[part]
        if spans and spans[-1][2] == value:
            spans[-1] = (spans[-1][0], reading.asked, value)
        else:
            spans.append((reading.answered, reading.answered, value))
    return [span for span in spans if span[1] - span[0] >= WITHIN_S]


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
    both, done, no_more_status = Compared(), threading.Event(), threading.Event()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environ) as served:
        try:
            assert served.stdout is not None
            address = served.stdout.readline().partition(": ")[2].strip()
            _until_read(address)
            threads = [
                threading.Thread(target=_ask_page, args=(address, both, no_more_status)),
                threading.Thread(target=_ask_status, args=(running, both, done, no_more_status)),
            ]
            for thread in threads:
                thread.start()
            try:
                yield both
            finally:
                done.set()
                for thread in reversed(threads):
                    thread.join(60)
        finally:
            served.terminate()
            served.wait(30)
    both.require_alike()


def _got(address: str, path: str) -> str:
    with urllib.request.urlopen(f"{address}{path}", timeout=30) as answer:
        return str(answer.read().decode())


def _until_read(address: str) -> None:
    until = time.monotonic() + 60
    while "unknown" in json.dumps(essentials(json.loads(_got(address, "status.json")))):
        assert time.monotonic() < until, _got(address, "status.json")
        time.sleep(0.1)


def _ask_page(address: str, compared: Compared, no_more_status: threading.Event) -> None:
    """Until the page has answered later than all that status said has to be shown."""
    end = float("inf")
    while not compared.page or compared.page[-1].answered <= end:
        before = _reading(address)
        text = html.unescape(re.sub(r"<[^>]*>", " ", _got(address, "flows")))
        after = _reading(address)
        compared.page += [before, after]
        if before.essentials == after.essentials:  # else the table between them may show either
            compared.rows.append((after, text))
        if no_more_status.is_set():
            end = max((status.answered + WITHIN_S for status in compared.status), default=0.0)
        time.sleep(0.2)


def _reading(address: str) -> Reading:
    asked = time.monotonic()
    shown = essentials(json.loads(_got(address, "status.json")))
    return Reading(asked, time.monotonic(), shown)


def _ask_status(running: Running, compared: Compared, done: threading.Event, no_more_status: threading.Event) -> None:
    last = False
    try:
        while not last:
            last = done.is_set()
            asked = time.monotonic()
            command = [sys.executable, "-m", "reconciler", "status", str(running.folder), "--format", "json"]
            ended = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **running.environ}
            )
            compared.status.append(Reading(asked, time.monotonic(), essentials(json.loads(ended.stdout))))
    finally:
        no_more_status.set()
