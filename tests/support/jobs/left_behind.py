"""Mirror jobs that a command under test has started, and that outlive it: they are ended with their test."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def end_jobs(folder: Path) -> None:
    """Kills every process whose command line names ``folder``: a job's supervisor first, since it starts the job again
    and again, then what it has started. On a machine without /proc nothing is found."""
    named = str(folder).encode()
    processes: list[tuple[bool, int]] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if named in words and int(entry.name) != os.getpid():
            processes.append((b"supervisor" not in words, int(entry.name)))
    for _, process in sorted(processes):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
