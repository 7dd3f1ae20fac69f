"""Runs and prints commands of the demo as a person would; progress bars.

On a terminal in colour; in a log as plain lines without control codes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.paths import ROOT

_RECONCILER = Path(sys.executable).parent / "reconciler"
_LOG_STEPS = 4

Update = Callable[[int, int], None]


def shown(path: Path) -> str:
    """As a person would type it from the project's folder."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


class Shell:
    """Everything the demo prints goes through here."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True, emoji=False, markup=False)

    def chapter(self, title: str) -> None:
        self.console.print()
        self.console.print(Text(f"== {title}", style="bold"))

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style))

    def diff(self, text: str) -> None:
        for line in text.splitlines():
            style = {"+": "green", "-": "red"}.get(line[:1], "dim")
            self.console.print(Text(f"  {line}", style=style))

    def run(self, *words: str, expect: Sequence[int] = (0,)) -> int:
        """``reconciler WORDS``, its output as it comes. Raises SandboxError for an exit code that is not expected."""
        self.console.print()
        self.console.print(Text(f"$ reconciler {' '.join(words)}", style="bold cyan"))
        command, pipe = [str(_RECONCILER), *words], subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self.console.print(Text(f"  {line.rstrip()}"))
            code = process.wait()
        if code not in expect:
            raise _failed(words, code, expect, "Its output is above.")
        if code:
            self.say(f"  (exit code {code})", "dim")
        return code

    def ask(self, *words: str) -> dict[str, Any]:
        """``reconciler WORDS`` without showing it; its JSON. Raises SandboxError with its output."""
        done = subprocess.run([str(_RECONCILER), *words], capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode != 0:
            raise _failed(words, done.returncode, (0,), (done.stdout + done.stderr).strip())
        document = json.loads(done.stdout)
        assert isinstance(document, dict)
        return document

    @contextmanager
    def progress(self, title: str) -> Iterator[Update]:
        """Gives ``update(done, of)``. In a log: a line for every quarter."""
        if self.console.is_terminal:
            words = TextColumn("{task.fields[words]}")
            columns = (TextColumn("  {task.description}"), BarColumn(), words, TimeElapsedColumn())
            with Progress(*columns, console=self.console) as bars:
                task = bars.add_task(title, total=None, words="")

                def draw(done: int, of: int) -> None:
                    said = f"{done:,} of {of:,}" if of else "nothing was left to do"
                    bars.update(task, completed=done if of else 1, total=of or 1, words=said)

                yield draw
            return
        began, said = time.monotonic(), 0

        def update(done: int, of: int) -> None:
            nonlocal said
            step = _LOG_STEPS * done // of if of else 0
            if step > said:
                said = step
                self.say(f"  {title}: {done:,} of {of:,}, {time.monotonic() - began:.0f} s")

        yield update


def _failed(words: Sequence[str], code: int, expected: Sequence[int], output: str) -> SandboxError:
    wanted = " or ".join(map(str, expected))
    todo = "Fix what it names, then run the demo again: it continues from what is there. `make down` stops everything."
    return SandboxError(f"reconciler {' '.join(words)}: exit code {code}, expected {wanted}", output, todo)
