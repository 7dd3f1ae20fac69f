"""Broker processes of this machine, found by their sandbox's folder on the command line.

No pid file can be stale, and a process id that was given to another program is never touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_HOME = "-Dsandbox.home="
_NODE = "-Dsandbox.node="

# Popen objects of brokers this process started: kept to reap them, since brokers outlive their handles.
_children: list[subprocess.Popen[bytes]] = []
_children_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """``node`` is ``east/1``."""

    pid: int
    home: str
    node: str


def marks(home: Path, node: str) -> tuple[str, str]:
    """JVM arguments by which the process is found again."""
    return f"{_HOME}{home}", f"{_NODE}{node}"


def start(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
    """Starts a process that survives this one, its session and Ctrl-C; output is appended to ``log``. Returns when
    ``find`` sees it, or when it has ended already."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
    with _children_lock:
        _children.append(child)
    # Popen returns a moment before the kernel shows the new command line.
    while child.poll() is None and all(process.pid != child.pid for process in find()):
        time.sleep(0.01)


def reap() -> None:
    with _children_lock:
        _children[:] = [child for child in _children if child.poll() is None]


def find(home: Path | None = None) -> tuple[BrokerProcess, ...]:
    """Running brokers of the sandbox in ``home``, or of every sandbox of this machine."""
    reap()
    processes = []
    for pid, arguments in _command_lines():
        values = {
            mark: argument.removeprefix(mark)
            for argument in arguments
            for mark in (_HOME, _NODE)
            if argument.startswith(mark)
        }
        if len(values) == 2 and (home is None or values[_HOME] == str(home)):
            processes.append(BrokerProcess(pid, values[_HOME], values[_NODE]))
    return tuple(processes)


def _command_lines() -> list[tuple[int, list[str]]]:
    if Path("/proc/self/cmdline").exists():
        lines = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                with contextlib.suppress(OSError):
                    raw = (process / "cmdline").read_bytes()
                    lines.append((int(process.name), os.fsdecode(raw).split("\0")))
        return lines
    listed = subprocess.run(["ps", "-axww", "-o", "pid=,args="], capture_output=True, text=True, check=False).stdout
    rows = (line.split(maxsplit=1) for line in listed.splitlines())
    # ps does not keep arguments apart; " -" does, as far as our two marks are concerned.
    return [(int(row[0]), ["-" + part.rstrip() for part in row[1].split(" -")]) for row in rows if len(row) == 2]


def send(processes: Sequence[BrokerProcess], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def wait_gone(search: Callable[[], Sequence[BrokerProcess]], seconds: float) -> bool:
    """True when the search finds nothing any more within ``seconds``."""
    deadline = time.monotonic() + seconds
    while search():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def stop(search: Callable[[], Sequence[BrokerProcess]], grace: float = 20.0) -> None:
    """SIGTERM to all that the search finds, SIGKILL after ``grace`` seconds; returns when they are gone.

    ``grace`` 0 kills at once.
    """
    if grace > 0:
        send(search(), signal.SIGTERM)
        send(search(), signal.SIGCONT)
        if wait_gone(search, grace):
            return
    while True:
        send(search(), signal.SIGKILL)
        if wait_gone(search, 0.5):
            return
