"""Output of commands without a reader any more, or on a terminal with few characters."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

import git
import pytest
import typer

from reconciler.cli.main import main
from reconciler.errors import ReconcilerError
from reconciler.operations.apply.controller import logger
from reconciler.render.console import App, Env, now_of, run_app, say, show, show_last, style
from reconciler.text import in_shell
from tests.support.paths import ROOT


@pytest.fixture
def nobody() -> Iterator[TextIO]:
    """A pipe whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w", encoding="utf-8")
    yield stream
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def test_progress_that_no_one_reads_ends_nothing(nobody: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", nobody)
    say("one")
    say("two")
    nobody.flush()


def test_no_error_steers_the_terminal_or_begins_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log of GitHub takes a line that begins with two colons for an order."""
    (tmp_path / "a\n::error::b\x1b[2J.yaml").write_text('topics: "\\u202e"\nflows: |\n  x\n  ::set-output::y\n')
    with pytest.raises(SystemExit):
        main(["validate", str(tmp_path)])
    said = capsys.readouterr().err
    assert "::error::b\\x1b[2J" in said.replace("\\u001b", "\\x1b")
    assert "\\u202e" in said
    assert len(said.splitlines()) == 3, "two problems, and how many"
    assert not {"\x1b", "\u202e"} & set(said)


def test_progress_without_a_place_to_go_is_not_put_into_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    say("one")
    assert capsys.readouterr().out == ""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        say("two")
        say("three")


@pytest.mark.parametrize(
    ("is_terminal", "variables", "colour"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_colours_go_where_they_are_shown(
    is_terminal: bool, variables: dict[str, str], colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Screen())
    assert style().colour is colour


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_was_closed_before_leads_nowhere(closed: str, tmp_path: Path) -> None:
    """And no file or connection of ours gets its number: librdkafka writes to number 2, whatever that is."""
    said = tmp_path / "said"
    script = (
        "import os, sys\nfrom reconciler.cli.start import open_standard_streams as go\ngo()\n"
        f"found = os.open({str(said)!r}, os.O_WRONLY | os.O_CREAT)\n"
        "assert found > 2, found\nassert not sys.stdin.isatty()\nprint(1); print(2, file=sys.stderr)\n"
        "os.write(found, b'so far')\n"
    )
    done = subprocess.run(["sh", "-c", f'exec {sys.executable} -c "$1" {closed}', "sh", script], check=False)
    assert (done.returncode, said.read_text()) == (0, "so far")


def test_a_help_that_cannot_be_written_is_reported() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        words = [sys.executable, "-m", "reconciler", "plan", "--help"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.partition(":")[0]) == (1, "the output cannot be written")


@pytest.mark.parametrize("words", ["plan env --base HEAD --offline", "version"])
def test_a_machine_that_refuses_is_no_fault_of_the_program(words: str, tmp_path: Path) -> None:
    """No file may be written, or the folder of the shell is gone."""
    (tmp_path / "env").mkdir()
    (tmp_path / "env/a.yaml").write_text("clusters: {east: {bootstrap_servers: ['127.0.0.1:1']}}\n")
    git.Repo.init(tmp_path).git.execute(
        ["sh", "-c", "git add . && git -c user.name=a -c user.email=a@example commit -qm a"]
    )
    refused = 'mkdir gone && cd gone && rmdir "$PWD"' if words == "version" else "ulimit -f 0"
    script = f'{refused} && exec "{sys.executable}" -m reconciler {words}'
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "this machine refused what the command needs" in ended.stderr


@pytest.mark.parametrize("columns", ["", "0", "1", "-5", "many", "9" * 20])
def test_help_has_room_for_words_whatever_columns_says(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    assert "Compare git with the live clusters" in capsys.readouterr().out


def test_the_log_of_a_loop_that_no_one_reads_ends_nothing(
    nobody: TextIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logger("env")
    log.info("round", number=1)
    assert json.loads(capsys.readouterr().err)["number"] == 1
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        for stream in (None, full, nobody):
            monkeypatch.setattr(sys, "stderr", stream)
            for level in ("info", "warning", "error"):
                getattr(log, level)("round", number=2)
    assert capsys.readouterr().out == ""


def test_the_exit_code_of_finished_work_does_not_hang_on_a_reader(
    nobody: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer()

    @app.command()
    def finished() -> None:
        show_last("done")
        raise typer.Exit(5)

    monkeypatch.setattr(sys, "stdout", nobody)
    with pytest.raises(SystemExit) as ended:
        run_app(app, [])
    assert ended.value.code == 5
    nobody.flush()


def test_output_that_continues_for_ever_ends_with_its_reader(nobody: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()

    @app.command()
    def watch() -> None:
        while True:
            show("again")

    monkeypatch.setattr(sys, "stdout", nobody)
    with pytest.raises(SystemExit) as ended:
        run_app(app, [])
    assert ended.value.code == 1


def test_ctrl_c_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()

    @app.command()
    def work() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        run_app(app, [])
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_a_locale_without_a_character_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is piped is UTF-8 in any locale; a traceback after an apply would hide what it did."""
    app = typer.Typer()

    @app.command()
    def tell() -> None:
        show("\u017c\u00f3\u0142\u0107 \udcff")

    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    with pytest.raises(SystemExit) as ended:
        run_app(app, [])
    assert ended.value.code == 0
    assert written.getvalue().decode() == "\u017c\u00f3\u0142\u0107 \\udcff\n"


@pytest.mark.parametrize(
    ("folder", "shown", "form"),
    [
        ("prod", "prod", "text"),
        ("my prod", "'my prod'", "text"),
        ('a"b', r"'a\"b'", "json"),
        ("a<b", "&#x27;a&lt;b&#x27;", "html"),
    ],
)
def test_commands_name_the_folder_and_the_flow_that_were_given(
    folder: str, shown: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "See reconciler mirror seek ENV FLOW --to earliest, or reconciler plan ENV."
    app = App()

    @app.command()
    def look(envs: Annotated[list[Path], typer.Argument(metavar="ENV")]) -> None:
        show(words, form)

    @app.command()
    def fail(env: Env, flow: Annotated[str, typer.Argument(metavar="FLOW")]) -> None:
        raise ReconcilerError(words)

    with pytest.raises(SystemExit):
        run_app(app, ["look", folder])
    seen = f"See reconciler mirror seek {shown} FLOW --to earliest, or reconciler plan {shown}.\n"
    assert capsys.readouterr().out == seen
    with pytest.raises(SystemExit):
        run_app(app, ["fail", folder, "orders"])
    typed = in_shell(folder)
    said = f"See reconciler mirror seek {typed} orders --to earliest, or reconciler plan {typed}.\n"
    assert capsys.readouterr().err == said
    with pytest.raises(SystemExit):
        run_app(app, ["look", folder, "other"])
    assert capsys.readouterr().out == f"{words}\n", "which of them is not known"


def test_commands_that_write_a_folder_or_take_several_name_the_one_that_is_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = App()

    @app.command()
    def bring(out: Annotated[Path | None, typer.Option("--out", metavar="ENV")] = None) -> None:
        show("Then: reconciler plan ENV")

    @app.command()
    def each(envs: Annotated[list[Path], typer.Argument(metavar="ENV")]) -> None:
        for env in envs:
            now_of(env)
            show("Then: reconciler apply ENV")
        raise ReconcilerError("Check again with reconciler plan ENV.")

    for words in (["bring", "--out", "prod"], ["bring"], ["each", "a", "b"]):
        with pytest.raises(SystemExit):
            run_app(app, words)
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "Then: reconciler plan prod",
        "Then: reconciler plan ENV",
        "Then: reconciler apply a",
        "Then: reconciler apply b",
    ]
    assert said.err == "Check again with reconciler plan b.\n"
