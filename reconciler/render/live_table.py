"""Shows a table and what belongs to it again and again until Ctrl-C: in place on a terminal, else one by one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, RenderableType
from rich.live import Live

REFRESH_SECONDS = 2.0
PLAIN_WIDTH = 160
"""Columns where there is no terminal that has a width."""


def columns(out: TextIO) -> int:
    """How wide ``out`` is."""
    return Console(file=out).width if out.isatty() else PLAIN_WIDTH


def watch(frame: Callable[[], RenderableType], out: TextIO, pause: Callable[[float], None] = time.sleep) -> None:
    """Returns at Ctrl-C; what was shown last stays."""
    console = Console(file=out, width=None if out.isatty() else PLAIN_WIDTH)
    if not console.is_terminal:
        repeat(lambda: console.print(frame()), pause)
        return
    with Live(console=console, auto_refresh=False) as live:
        repeat(lambda: live.update(frame(), refresh=True), pause)


def repeat(do: Callable[[], None], pause: Callable[[float], None] = time.sleep) -> None:
    """Returns at Ctrl-C."""
    try:
        while True:
            do()
            pause(REFRESH_SECONDS)
    except KeyboardInterrupt:
        return
