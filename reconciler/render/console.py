"""Console output of all commands, and the arguments they share."""

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.exceptions import TyperException

from reconciler.errors import ExitCode, ReconcilerError, TopologyError
from reconciler.model.options import ReportFormat
from reconciler.render import completion
from reconciler.render.markup import NARROWEST, Style, lines_of, markdown, no_command, page, wrapped
from reconciler.render.markup import Format as Page
from reconciler.replication.allowed import allowed, permit_policies
from reconciler.text import command_of, duration_ms, in_shell, printable_json


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class _Command(TyperCommand):
    """Treats help like any other output: a closed pipe, or a full disk, ends it with a message."""

    def invoke(self, ctx: Any) -> Any:
        # Commands that write a folder (``import``, ``adopt``, ``takeover``) are given it as an option.
        given: dict[str | None, Any] = {}
        written: list[Path] = []
        for entry in self.params:
            value = ctx.params[str(entry.name)]
            if isinstance(entry, TyperArgument):
                given[entry.metavar] = value
            elif entry.metavar in ("ENV", "FOLDER") and value is not None:
                written.append(value)
        folders = given.get("ENV") or given.get("ENV...") or written
        _GIVEN[:] = [folders] if isinstance(folders, Path) else folders, given.get("FLOW") or "FLOW"
        return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Raises ReconcilerError if an option would take the next option's name as its value."""
        options = {
            name: entry for entry in self.get_params(ctx) if isinstance(entry, TyperOption) for name in entry.opts
        }
        before_names = args[: args.index("--")] if "--" in args else args
        for name, follows in () if ctx.resilient_parsing else pairwise(before_names):
            if name in options and follows in options and not options[name].is_flag:
                problem, why = f"{name} has no value", f"{follows} follows it: an option, not a value."
                todo = f"Add the value: {name} {options[name].metavar or 'VALUE'}; or leave {name} out."
                raise ReconcilerError(problem, why, todo)
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            vars(error)["ctx"] = vars(error).get("ctx") or ctx  # an option without a value names no command
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        return without_types_of_flags(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with _writing():
            super().format_help(ctx, formatter)


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return without_types_of_flags(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with _writing():
            super().format_help(ctx, formatter)


def without_types_of_flags(entries: list[Any]) -> list[Any]:
    """Typer 0.29 shows the type of a flag, ``<bool>``, as if it took a value."""
    for entry in entries:
        if isinstance(entry, TyperOption) and entry.is_flag and entry.metavar is None:
            entry.metavar = ""
    return entries


class App(typer.Typer):
    """Commands with our own help. ``settings``: Typer's."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]}, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=_Command, **settings)


PROGRAM = "reconciler"
_PROBLEMS = 1_000
"""Most problems of one edit, so that a stranger's pull request cannot flood a log."""
_GIVEN: list[Any] = [(), "FLOW"]
"""Folders of environments, and the flow, as the command that runs was given them."""
_SHOWN = Style(colour=True, full=True)
"""Style of finished texts: keeps their colours and full lists."""
INTERRUPTED = 130
EVERY_S = 5.0
"""Between two lines of progress in a log."""
_ERASE = "\r\x1b[K"
_ERASE_ABOVE = "\x1b[A\x1b[K"
Env = Annotated[
    Path,
    typer.Argument(
        metavar="ENV", help="environment folder, such as environments/sandbox", autocompletion=completion.environments
    ),
]
FormatOption = Annotated[OutputFormat, typer.Option("--format", help="text for people, json for machines")]
ReportOption = Annotated[
    ReportFormat, typer.Option("--format", help="text for people, json for machines, html for one page")
]
PageOption = Annotated[Page, typer.Option("--format", help="markdown for a comment, html for one page")]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="also write it to FILE")]
PruneOption = Annotated[
    bool, typer.Option("--prune", help="also delete unmanaged topics that match the cluster's prune list")
]
YesOption = Annotated[bool, typer.Option("--yes", help="do not ask")]
StealOption = Annotated[
    str,
    typer.Option("--steal-lock", metavar="REASON", help="take the lock from a running holder; recorded in the audit"),
]


def terminal_width(out: TextIO | None, environ: Mapping[str, str] = os.environ) -> int | None:
    """Columns of the terminal ``out``, or COLUMNS; None if it is no terminal, or too narrow for breaking lines."""
    if out is None or not out.isatty():
        return None
    given = environ.get("COLUMNS", "")
    try:
        width = int(given) if given.isdecimal() and len(given) < 6 else os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        return None
    return width if width >= NARROWEST else None


_NUMBER = re.compile(r"[0-9][0-9.,]*")


class MovingLine:
    """Progress in words: on a terminal each text replaces the last, in a log one line every few seconds.

    Other writers to the same terminal call ``erase`` first. The first text, and the first after a pause, appear at
    once. In a log texts that differ in more than numbers say different things, and do not keep each other back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, environ: Mapping[str, str] = os.environ) -> None:
        self._clock, self._environ = clock, environ
        self._rows = 0
        self._next: dict[str, float] = {}

    def tell(self, text: str, out: TextIO) -> None:
        """Raises OSError."""
        width = terminal_width(out, self._environ)
        if width is None or self._environ.get("TERM") == "dumb":
            words, now = _NUMBER.sub("", text), self._clock()
            if now >= self._next.get(words, now):
                self._next[words] = now + EVERY_S
                out.write(f"{text}\n")
                out.flush()
            return
        # One column less: a terminal wraps after its last column by itself.
        shown = wrapped(" ".join(text.split("\n")), width - 1)
        out.write(f"{self._erased()}{shown}")
        out.flush()
        self._rows = shown.count("\n") + 1

    def erase(self, out: TextIO) -> None:
        """Raises OSError."""
        if self._rows:
            out.write(self._erased())
            self._rows = 0

    def _erased(self) -> str:
        return _ERASE + _ERASE_ABOVE * (self._rows - 1) if self._rows else ""


@contextmanager
def counting_seconds(text: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Calls ``tell`` with ``text`` and the seconds it has taken, each second while the body runs."""
    ended, began = threading.Event(), time.monotonic()

    def count() -> None:
        tell(text)
        while not ended.wait(1.0):
            tell(f"{text}: {time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=count, name="seconds", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


MOVING = MovingLine()
"""The one of this process's standard error."""


def seconds(option: str, text: str) -> float:
    """The duration that ``option`` was given. Raises ReconcilerError."""
    try:
        return duration_ms(text) / 1000
    except ValueError as error:
        raise ReconcilerError(f'{option} is "{text}"', "It is no duration.", f"{str(error).capitalize()}.") from None


def style() -> Style:
    shows = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return Style(colour=shows and "NO_COLOR" not in os.environ, width=terminal_width(sys.stdout))


def say(*lines: str) -> None:
    """What people follow while they wait. Each of ``lines`` stays one: no name, value or error of others begins
    another, which a log of CI might obey, or steers the terminal."""
    say_document(lines_of(lines).removesuffix("\n"))


def say_document(text: str, form: str = "text") -> None:
    """Like ``say``, for a text rendered by ``render``; never mixed into the output. A closed pipe (``2>&1 | head``) or
    a full disk ends nothing: an apply must reach a known state, and complete its audit record."""
    if sys.stderr is None:  # closed at the start (``2>&-``); print would take the output for it
        return
    try:
        MOVING.erase(sys.stderr)
        print(wrapped(filled_in(text, form), terminal_width(sys.stderr)), file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        _discard(sys.stderr)


def say_now(text: str) -> None:
    """Shows progress: on a terminal one changing line, until the next ``say`` or ``show`` replaces it; elsewhere a line
    every few seconds."""
    if sys.stderr is None:
        return
    try:
        MOVING.tell(lines_of([text]).removesuffix("\n"), sys.stderr)
    except OSError:
        _discard(sys.stderr)


def show(text: str, form: str = "text") -> None:
    """``form``: of ``text``, as ``--format`` names it; any other than text is a document, whose lines stay whole on
    terminals, too. Raises BrokenPipeError when its reader is gone, and ReconcilerError when it cannot be written."""
    if sys.stdout is None:  # closed at the start (``>&-``)
        return
    with _writing():
        if sys.stderr is not None:  # otherwise progress stays in the middle of the output
            MOVING.erase(sys.stderr)
        text = filled_in(text, form)
        if form == "text":
            text = wrapped(lines_of(text.split("\n"), _SHOWN).removesuffix("\n"), terminal_width(sys.stdout))
        elif form == "json":
            text = no_command(text)
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()


def now_of(folder: Path) -> None:
    """Announces that further output is about ``folder``, one of several arguments."""
    _GIVEN[0] = [folder]


def filled_in(text: str, form: str) -> str:
    """``text`` with the folder of the environment in its commands, where this command was given one. ``form``: as
    ``--format`` names it, or as a file ends."""
    folders, flow = _GIVEN
    if len(folders) != 1:
        return text
    folder = in_shell(str(folders[0]))
    match form.lstrip("."):
        case "json":
            folder = printable_json(folder)[1:-1]
        case "markdown" | "md":
            folder = markdown(folder)
        case "html" | "svg":
            folder = page(folder)
    return command_of(text, folder, flow)


@contextmanager
def _writing() -> Iterator[None]:
    """Raises BrokenPipeError and ReconcilerError as ``show`` does."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard(sys.stdout)
        raise ReconcilerError(
            f"the output cannot be written: {error.strerror or error}",
            "What this run found and did is not shown anywhere.",
            "Make space, or send it somewhere else, and run the command again.",
        ) from None


def show_last(text: str, form: str = "text") -> None:
    """Like ``show``, after the work: a closed pipe does not change the exit code of the work."""
    try:
        show(text, form)
    except BrokenPipeError:
        _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    """Discards further output of a stream without a reader, so that the exit raises no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def run_app(app: typer.Typer, arguments: Sequence[str] | None = None) -> None:
    """Every expected error ends here as words and an exit code; a usage error is 1, because 2 means changes."""
    # Names and labels are Unicode in any locale: files and pipes get UTF-8, terminals the characters that they can
    # show.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
    _GIVEN[:] = (), "FLOW"
    columns = os.environ.get("COLUMNS", "")
    if not (columns.isdecimal() and len(columns) < 6 and int(columns) >= NARROWEST):
        os.environ.pop("COLUMNS", None)  # help would have no room for a word
    try:
        try:
            permit_policies(allowed(os.environ))
        except ValueError as error:
            why = "What the word was to limit would not be limited."
            raise ReconcilerError(str(error), why, "Correct the variable where this program runs.") from None
        words = list(arguments if arguments is not None else sys.argv[1:])
        if any(not word and not before.startswith("-") for before, word in pairwise(words)):
            why = "An unset variable leaves it so, and an empty ENV would be the current folder."
            todo = f"Set the variable; . names this folder: {PROGRAM} {words[0]} --help"
            raise ReconcilerError("An argument is empty", why, todo)
        code = app(args=words, prog_name=PROGRAM, standalone_mode=False)
    except TyperException as error:
        context = getattr(error, "ctx", None)
        say(*error.format_message().replace("Value error, ", "").split("\n"))
        say(f"Try: {PROGRAM if context is None else context.command_path} --help")
        code = ExitCode.ERROR
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except ReconcilerError as error:
        code = say_error(error)
    except BrokenPipeError:
        _discard(sys.stdout)
        code = ExitCode.ERROR
    except OSError as error:  # each command itself reports problems of its files
        why = "The folder of the shell may be gone, no folder may take temporary files, or a limit is reached."
        todo = "Check pwd, TMPDIR, df and ulimit -a, and run the command again."
        code = say_error(ReconcilerError(f"this machine refused what the command needs: {error}", why, todo))
    if code == INTERRUPTED:  # also what typer makes of Ctrl-C, silently
        say("interrupted")
    sys.exit(int(code or 0))


def say_error(error: ReconcilerError) -> int:
    """The words of an error; returns its exit code."""
    if isinstance(error, TopologyError):
        # A problem is one line, whatever its name and its values hold.
        shown, more = [str(each) for each in error.problems[:_PROBLEMS]], len(error.problems) - _PROBLEMS
        left = [f"and {more:,} more; reconciler validate ENV --format json has all of them"] if more > 0 else []
        say(*shown, *left, error.what)
    else:
        say(*str(error).split("\n"))
    return error.exit_code


def agrees(question: str, undone: str, why: str, todo: str) -> bool:
    """The answer of the user at the terminal. ``undone``: what did not happen, such as ``nothing was applied``.

    Raises ReconcilerError without a terminal.
    """
    if sys.stdin is None or not sys.stdin.isatty():  # None: closed at the start (``<&-``)
        raise ReconcilerError(f"{undone}: cannot ask for confirmation: standard input is not a terminal", why, todo)
    return typer.confirm(lines_of([question]).removesuffix("\n"), err=True)


def require_agreement(question: str, undone: str, why: str, todo: str) -> None:
    """Like ``agrees``, but raises ReconcilerError for the answer no, too."""
    if not agrees(question, undone, why, todo):
        raise ReconcilerError(f"cancelled; {undone}")
