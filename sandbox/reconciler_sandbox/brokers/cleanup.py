"""Ends a temporary sandbox when its owner is gone, and cleans up after killed ones.

Runs as a process of its own: its standard input is a pipe from the owner, whose end the kernel closes even after
SIGKILL.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from reconciler_sandbox.brokers import processes

PREFIX = f"kafka-sandbox-{os.getuid()}-"
_LOCK = "guarded"
_YOUNG_SECONDS = 30.0


def destroy(home: Path) -> None:
    """Kills the brokers of ``home`` and removes the folder."""
    processes.stop(lambda: processes.find(home), grace=0)
    shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def guarded_home() -> Iterator[Path]:
    """A temporary folder for a sandbox. Its brokers and the folder are gone after the block, or after our death."""
    sweep()
    home = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    lock = os.open(home / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # The guardian inherits the lock: the folder counts as owned until both of us are gone.
    guardian = subprocess.Popen(
        [sys.executable, "-m", "reconciler_sandbox.brokers.cleanup", str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=(lock,),
        start_new_session=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    os.close(lock)
    try:
        yield home
    finally:
        assert guardian.stdin is not None
        guardian.stdin.close()
        guardian.wait()
        processes.reap()


def sweep(parent: Path | None = None) -> tuple[Path, ...]:
    """Destroys throw-away sandboxes that nobody guards any more; returns their folders."""
    swept = []
    for home in (parent or Path(tempfile.gettempdir())).resolve().glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - home.stat().st_mtime > _YOUNG_SECONDS and _abandoned(home):
                destroy(home)
                swept.append(home)
    return tuple(swept)


def _abandoned(home: Path) -> bool:
    lock = os.open(home / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def main() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    home = Path(sys.argv[1])
    sys.stdin.buffer.read()  # returns when the owner's end of the pipe is closed
    destroy(home)


if __name__ == "__main__":
    main()
