"""The entry point of the program: starts ``plan`` without importing what only other commands need."""

import gc
import os
import signal
import sys

CHANGE_NOTHING = ("validate", "plan", "explain")
ENDS_AT_ONCE = (*CHANGE_NOTHING, "doctor")
"""Nothing has been begun that would have to be ended; threads may still wait for a cluster that is silent."""


def main() -> None:
    """Starts the command. Commands that change nothing end at once on Ctrl-C, and import less of the program."""
    open_standard_streams()
    changes_nothing = sys.argv[1:2] and sys.argv[1] in CHANGE_NOTHING
    if changes_nothing:
        signal.signal(signal.SIGINT, _leave)
        gc.disable()  # commands end within seconds, and keep nearly all objects until then
    try:
        from reconciler.render.console import run_app

        if changes_nothing:
            from reconciler.cli.commands.review import app
        else:
            from reconciler.cli.main import app
    except KeyboardInterrupt:
        _leave()
    try:
        run_app(app)
    except SystemExit as over:
        if sys.argv[1:2] and sys.argv[1] in ENDS_AT_ONCE:
            _end(over.code)
        raise


def open_standard_streams() -> None:
    """Opens a standard stream that our parent process closed (``2>&-``, as some schedulers do) on the null device. Else
    the next file or connection would get its number, and a library's output would go to the audit record or a broker.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: those before it are open by now
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - to the very end


def _end(code: object) -> None:
    """Exits at once: connections are closed and output is written, and freeing a million objects would only take
    time."""
    if not isinstance(code, int):
        return
    for out in (sys.stdout, sys.stderr):
        try:
            out.flush()
        except (OSError, ValueError, AttributeError):  # without a reader, closed, or never open
            return
    os._exit(code)


def _leave(*_: object) -> None:
    """Ctrl-C: at once, also while a cluster keeps us waiting. Nothing has been begun that would have to be ended."""
    os.write(2, b"interrupted\n")
    os._exit(130)
