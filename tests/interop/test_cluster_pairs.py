"""Which flows MirrorMaker 2 runs of a properties file: what ``import`` writes beside its own MirrorMakerConfig."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from reconciler_sandbox.install import jars, prerequisites
from reconciler_sandbox.releases import MIRRORMAKER

from reconciler.environment.importers.mirrormaker.environment import environment

pytestmark = pytest.mark.slow

ENDS = ("clusters=A,B", "A.bootstrap.servers=a:1", "B.bootstrap.servers=b:1")
NAMES = ("enabled", "A->B.enabled", "emit.heartbeats.enabled", "A->B.emit.heartbeats.enabled")


def test_the_flows_are_those_that_mirrormaker_2_runs() -> None:
    asked = [
        (*ENDS, *(f"{name}={value}" for name, value in zip(NAMES, values, strict=True) if value))
        for values in itertools.product(("", "true", "false"), repeat=len(NAMES))
    ]
    program = Path(__file__).parent / "ClusterPairs.java"
    command = [
        prerequisites.java(),
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{jars.ensure(release=MIRRORMAKER)}/*",
        str(program),
    ]
    lines = "".join("\t".join(settings) + "\n" for settings in asked)
    done = subprocess.run(command, input=lines, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers = [line.removeprefix("pairs ") for line in done.stdout.splitlines() if line.startswith("pairs ")]
    for settings, answer in zip(asked, answers, strict=True):
        theirs = set(filter(None, answer.split(",")))
        ours = environment({"mm2.properties": "\n".join(settings)})
        assert set(ours.flows) == theirs, settings
        assert bool(ours.notes.mistakes) == (not theirs), settings
    assert sum(bool(answer) for answer in answers) > 20
