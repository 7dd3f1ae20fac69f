"""What --help says: examples that are taken, exit codes that exist, words for every option; and what a slip gets."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from reconciler.cli.main import app, main
from reconciler.errors import ExitCode
from tests.support.commands import commands_of

PROGRAM: Any = get_command(app)
INTERRUPTED = 130


COMMANDS = dict(commands_of(PROGRAM))


def test_every_command_has_its_own_ending() -> None:
    assert all(command.epilog for command in COMMANDS.values())
    assert len({command.epilog for command in COMMANDS.values()}) == len(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_taken_and_exit_codes_exist(name: str) -> None:
    *examples, codes = COMMANDS[name].epilog.split("\n\n")
    assert examples
    for example in examples:
        words = shlex.split(example)
        assert " ".join(words).startswith(f"reconciler {name}")
        COMMANDS[name].make_context(name, words[1 + len(name.split()) :])
    told = [int(code) for code in re.findall(r"(?:Exit codes: |; )(\d+) ", codes)]
    assert told == sorted(set(told))
    assert told[:2] == [0, 1]
    assert set(told) <= set(ExitCode)


def test_the_help_lists_all_exit_codes() -> None:
    assert {int(code) for code in re.findall(r"(?:Exit codes: |; )(\d+) ", PROGRAM.epilog)} == {*ExitCode, INTERRUPTED}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_words(name: str) -> None:
    assert [one.name for one in COMMANDS[name].params if not one.help] == []
    assert "\n" not in COMMANDS[name].help, "one sentence or two, on one line"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["plam"], ["Did you mean 'plan'?", "Try: reconciler --help"]),
        (["plan", "e", "--fromat", "json"], ["--format", "Try: reconciler plan --help"]),
        (["mirror", "strt"], ["Did you mean 'start'?", "Try: reconciler mirror --help"]),
        (["drift"], ["Missing argument 'ENV'", "Try: reconciler drift --help"]),
        (["drift", "e", "--format"], ["requires an argument", "Try: reconciler drift --help"]),
        (["drift", "e", "--accept", "--format", "json"], ["--accept has no value", "--accept CLUSTER/TOPIC[:FIELD]"]),
        (["drill", "--format", "--help"], ["--format has no value", "--help follows it"]),
        (["run", "e", "--interval", "60"], ['--interval is "60"', "a duration such as"]),
        (["failover", "e", "f", "--drain", "1.5h"], ['--drain is "1.5h"', "whole numbers only"]),
    ],
)
def test_a_slip_is_an_error_that_says_where_to_look(
    words: list[str], told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == ExitCode.ERROR, "2 would mean changes"
    said = capsys.readouterr()
    assert said.out == ""
    assert all(one in said.err for one in told), said.err


@pytest.mark.parametrize("words", [["-h"], ["plan", "-h"], ["--version"]])
def test_help_and_version_are_no_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert "reconciler" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["-h"], ["plan", "-h"], ["mirror", "start", "-h"], ["offsets", "translate", "-h"]])
def test_a_flag_is_reported_without_a_type(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert "bool" not in capsys.readouterr().out


def test_a_shell_is_offered_what_completes_the_word() -> None:
    asked = {"_RECONCILER_COMPLETE": "complete_bash", "COMP_WORDS": "reconciler mirror s", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "reconciler"], env=os.environ | asked, capture_output=True, text=True, timeout=120
    )
    assert sorted(done.stdout.split()) == ["seek", "start", "stop"]
