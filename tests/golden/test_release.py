"""What a release leaves on its users' machines and the next one still has to read: help, a saved plan, hand-overs.

``help/`` may change with the words of a command (``UPDATE_GOLDEN=1``); what is in ``release/`` never does.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from reconciler.backends.files import read_environment
from reconciler.cli.main import app
from reconciler.engine.plan import file as planfile
from reconciler.environment.load import load
from reconciler.replication.handover import document
from reconciler.replication.handover_reader import parse
from reconciler.resources.mirrors.handover import handovers
from tests.support.commands import commands_of
from tests.support.paths import ROOT

HELP = Path(__file__).parent / "help"
FOLDERS = {
    **dict.fromkeys(("map", "serve", "status", "version"), "look"),
    **dict.fromkeys(("import", "init", "takeover"), "begin"),
}
"""Of commands that only show how things are, or write a first environment, as one folder holds sixteen files."""
RELEASE = Path(__file__).parent / "release"
PROGRAM: Any = get_command(app)
ENVIRONMENTS = sorted(path.name.removesuffix(".handovers.json") for path in RELEASE.glob("*.handovers.json"))


@pytest.mark.parametrize("name", ["", *dict(commands_of(PROGRAM))], ids=lambda name: name or "reconciler")
def test_help(name: str) -> None:
    shown = CliRunner().invoke(
        app, [*name.split(), "--help"], env={"COLUMNS": "100", "NO_COLOR": "1"}, terminal_width=100
    )
    assert shown.exit_code == 0
    text = "\n".join(line.rstrip() for line in shown.output.splitlines()) + "\n"
    group, _, word = name.rpartition(" ")
    folder = group or FOLDERS.get(word, "commands")
    path = HELP / folder / f"{word}.txt" if name else HELP / "reconciler.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def test_a_plan_that_was_saved_by_the_release_before_is_read() -> None:
    """What it says in words, and the digest of them, may be worded anew."""
    text = (RELEASE / "plan.json").read_text("utf-8")
    was, read = json.loads(text), json.loads(planfile.dumps(planfile.loads(text)))
    assert {name for name in was.keys() | read.keys() if was.get(name) != read.get(name)} <= {"verdict", "digest"}


def test_there_are_recorded_hand_overs() -> None:
    assert len(ENVIRONMENTS) >= 6


def _covered(text: str) -> Any:
    """Without cluster ids, which later releases hand over and no fingerprint covers (decision 289)."""
    return json.loads(text, object_hook=lambda value: {k: v for k, v in value.items() if k != "cluster_id"})


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_running_jobs_of_the_release_before_keep_their_fingerprints(name: str) -> None:
    """A hand-over that differs by a character would restart every mirror when the program is upgraded."""
    folder = next(place / name for place in (ROOT / "environments", RELEASE) if (place / name).is_dir())
    recorded = json.loads((RELEASE / f"{name}.handovers.json").read_text("utf-8"))
    now = handovers(load(read_environment(folder), name))
    assert {mirror: _covered(text) for mirror, text in now.items()} == {m: json.loads(t) for m, t in recorded.items()}
    for text in recorded.values():
        assert document(parse(text)) == json.loads(text), "the job reads all of it"
