"""Processes of this machine, identified by pid and command line, since pids are reused."""

import contextlib
import os
import subprocess
from pathlib import Path


def command_line(pid: int) -> str:
    """The command line of a running process; empty if there is none (a zombie counts as none)."""
    proc = Path(f"/proc/{pid}")
    if Path("/proc/self").exists():
        try:
            if (proc / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return ""
            return (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    listed = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()


def is_running(pid: int | None, *marks: str) -> bool:
    """Whether ``pid`` runs with one of ``marks`` in its command line."""
    if pid is None:
        return False
    words = command_line(pid)
    return any(mark in words for mark in marks)


def works_in(pid: int | None, folder: Path) -> bool:
    """Whether ``pid`` runs with exactly ``folder`` as one of its arguments."""
    return pid is not None and f" {folder} " in f" {command_line(pid)} "


def terminate(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
