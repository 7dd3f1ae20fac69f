"""Filters standard error of Spark's Python workers: no tracebacks about the end of their JVM.

A worker waits for its next task after each one. When its application ends it sees its socket close, and PySpark's
daemon prints a traceback (``BrokenPipeError``) unless it kills the worker first; on a busy machine it does not.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_STANDARD_ERROR = 2
_held: int | None = None


@contextmanager
def stderr_while_at_work() -> Iterator[None]:
    """Discards standard error from the end of the task until the next one. Spark still hands a failed task's exception
    to the driver."""
    global _held
    if _held is None:
        _held = os.dup(_STANDARD_ERROR)
    os.dup2(_held, _STANDARD_ERROR)
    try:
        yield
    finally:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STANDARD_ERROR)
        os.close(nowhere)
