"""Where the program starts. ``plan`` is what people wait for most, and needs less than all commands together import."""

from __future__ import annotations

import os
import signal
import sys

CHANGE_NOTHING = ("plan", "explain")


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in CHANGE_NOTHING:
        signal.signal(signal.SIGINT, _leave)
    try:
        from reconciler.terminal import run_app

        if sys.argv[1:2] and sys.argv[1] in CHANGE_NOTHING:
            from reconciler.cli_review import app
        else:
            from reconciler.cli import app
    except KeyboardInterrupt:
        _leave()
    run_app(app)


def _leave(*_: object) -> None:
    """Ctrl-C: at once, also while a cluster keeps us waiting. Nothing has been begun that would have to be ended."""
    os.write(2, b"interrupted\n")
    os._exit(130)
