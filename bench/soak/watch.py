"""What ``reconciler status --format json`` says, again and again, beside what is true at that moment."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler_sandbox.paths import ROOT

from bench.soak.threads import Beside
from bench.soak.truth import Truth

EVERY_S = 5.0
FLOW = "soak"
"""The flow under load; of the others only what is not well is told."""
STALLED_S, STANDS_RECORDS = 30.0, 100
"""A partition with so many records that wait and none copied for so long stands: status must not call that well."""


@dataclass(frozen=True, slots=True)
class Sample:
    """``at``: on our monotonic clock, when it was asked. ``stood``: records that stood then and still did after it."""

    at: float
    said: str
    well: bool
    stood: int

    @property
    def wrong(self) -> bool:
        return self.well and self.stood > 0


def judged(document: Mapping[str, Any]) -> tuple[str, bool]:
    """In a few words, and whether it says that all is well: every mirror runs, no flow lags or has a condition."""
    words, well = [], True
    for mirror in document.get("mirrors", {}).values():
        flows = mirror.get("flows", {})
        words += [mirror["state"]]
        well = well and mirror["state"] == "running" and bool(flows)
        if "clock" in mirror.get("detail", ""):
            words += ["a clock that differs"]
        for name, flow in flows.items():
            lag, codes = flow["records_lag"], [condition["code"] for condition in flow["conditions"]]
            of = "" if name == FLOW else f" of {name}"
            if lag != 0 or not of:
                words += [f"lag{of} {'unknown' if lag is None else lag}"]
            words += [f"{code}{of}" for code in codes]
            well = well and lag == 0 and not codes
    silent = [name for name, cluster in document.get("clusters", {}).items() if cluster.get("state") == "unknown"]
    words += [f"cluster {name} unknown" for name in silent]
    return ", ".join(dict.fromkeys(words)), well and not silent


class Watch(Beside):
    """Samples until it is closed."""

    def __init__(self, env: Path, environ: Mapping[str, str], truth: Truth) -> None:
        super().__init__(self._run, patience_s=120)
        self._command = [sys.executable, "-m", "reconciler", "status", str(env), "--format", "json"]
        self._environ = dict(environ)
        self._truth = truth
        self.samples: list[Sample] = []

    def until(self, moment: float) -> None:
        """Returns once what is true then was asked for, and answered."""
        while not self.samples or self.samples[-1].at < moment:
            time.sleep(0.2)

    def between(self, begin: float, end: float) -> list[Sample]:
        return [sample for sample in list(self.samples) if begin <= sample.at <= end]

    def _run(self) -> None:
        while not self.stop.wait(EVERY_S):
            self.samples.append(self._sample())

    def _sample(self) -> Sample:
        at, before = time.monotonic(), self._truth.stands(STANDS_RECORDS, STALLED_S)
        done = subprocess.run(self._command, cwd=ROOT, env=self._environ, capture_output=True, text=True, check=False)
        try:
            said, well = judged(json.loads(done.stdout))
        except (ValueError, KeyError):
            said, well = f"status ended with {done.returncode}: {done.stderr.strip()[-200:]}", False
        return Sample(at, said, well, min(before, self._truth.stands(STANDS_RECORDS, STALLED_S)))


def told(samples: list[Sample], begin: float) -> Iterator[str]:
    """What changed from sample to sample, with the seconds since ``begin``."""
    before = ""
    for sample in samples:
        shown = _without_figures(sample.said)
        if shown != before:
            before = shown
            yield f"{sample.at - begin:.0f} s: {shown}"


def _without_figures(said: str) -> str:
    parts = (re.sub(r"^lag((?: of \w+)?) [1-9]\d*$", r"behind\1", part) for part in said.split(", "))
    return ", ".join(dict.fromkeys(parts))
