"""The lock of an environment as a file on this host; a killed holder releases it by itself."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from reconciler.backends.mirror_jobs.runner.run_folder import private_files, required
from reconciler.errors import LockHeld, ReconcilerError
from reconciler.replication.json_codec import parsed


@contextmanager
def environment_lock(state: Path, purpose: str) -> Iterator[None]:
    """Raises LockHeld with the holder's process, purpose and age, ReconcilerError when the folder is not writable."""
    with _file(required(state) / "lock") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise _held(state, handle.read()) from None
        handle.truncate(0)
        holder = json.dumps({"pid": os.getpid(), "purpose": purpose, "since": int(time.time())})
        with contextlib.suppress(OSError):  # a full disk: the lock holds, it only does not say whose it is
            os.write(handle.fileno(), holder.encode())
        yield
        handle.truncate(0)


def _file(path: Path) -> TextIO:
    try:
        with private_files():
            return path.open("a+", encoding="utf-8")
    except OSError as error:
        raise ReconcilerError(
            f"the lock {path} cannot be opened: {error.strerror or error}",
            "Without it two runs could act at once. Nothing was started.",
            "Let this user write there, or name another place: RECONCILER_STATE=FOLDER in the environment.",
        ) from None


def _held(state: Path, text: str) -> LockHeld:
    end = "or end that process"
    try:
        holder = parsed(text)
        who = (
            f"process {holder['pid']} of this machine ({holder['purpose']}), for {int(time.time()) - holder['since']} s"
        )
        end = f"or end it: kill {holder['pid']}"
    except (ValueError, KeyError, TypeError, OverflowError):
        who = "another process of this machine"
    return LockHeld(
        f"environment {state.name} is locked by {who}",
        "Two applies at once would make each other's plans stale. --steal-lock takes the lock from other"
        " machines only: here the holder can be ended, and gives it back by that.",
        f"Wait until it has ended, {end}; then run the command again.",
    )
