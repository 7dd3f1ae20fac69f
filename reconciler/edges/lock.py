"""One apply at a time for an environment on this host: a file lock that a killed holder gives back by itself."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.errors import LockHeld


@contextmanager
def environment_lock(state: Path, purpose: str) -> Iterator[None]:
    """Raises LockHeld with the holder's process, purpose and age."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise _held(state, handle.read()) from None
        handle.truncate(0)
        handle.write(json.dumps({"pid": os.getpid(), "purpose": purpose, "since": int(time.time())}))
        handle.flush()
        yield
        handle.truncate(0)


def _held(state: Path, text: str) -> LockHeld:
    try:
        holder = json.loads(text)
        who = f"process {holder['pid']} ({holder['purpose']}), for {int(time.time()) - holder['since']} s"
    except (ValueError, KeyError, TypeError):
        who = "another process"
    return LockHeld(
        f"environment {state.name} is locked by {who}",
        "Two applies at once would act on plans that each other makes stale.",
        "Wait until it has ended, then run the command again.",
    )
