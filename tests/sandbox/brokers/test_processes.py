"""Nothing outlives its owner: not after a clean end, not after SIGKILL of the owner, not after SIGKILL of both."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from reconciler_sandbox.brokers import cleanup as guardian
from reconciler_sandbox.brokers import processes

OWNER = """
import time
from reconciler_sandbox.brokers.up_down import running
with running("plain", heap="256m", quick=True) as sandbox:
    print(sandbox.home, flush=True)
    time.sleep(600)
"""


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.kafka
def test_brokers_and_data_are_gone_after_the_owner_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        home = Path(owner.stdout.readline().strip())
        assert len(processes.find(home)) == 2
        owner.send_signal(signal.SIGKILL)
    assert eventually(lambda: not processes.find(home) and not home.exists())


def linger(home: Path) -> None:
    """A process that carries the sandbox's marks and stays."""
    command = [sys.executable, "-c", "import time; time.sleep(600)", *processes.marks(home, "east/1")]
    processes.start(command, home / "log")


def test_processes_and_data_are_gone_after_the_block() -> None:
    with guardian.guarded_home() as home:
        linger(home)
        assert len(processes.find(home)) == 1
    assert not processes.find(home)
    assert not home.exists()


def left_behind(parent: Path, name: str) -> Path:
    """A throw-away sandbox, some minutes old, with one process that is still there."""
    home = parent / f"{guardian.PREFIX}{name}"
    home.mkdir()
    linger(home)
    minutes_ago = time.time() - 600
    os.utime(home, (minutes_ago, minutes_ago))
    return home


def test_what_a_killed_guardian_left_is_swept(tmp_path: Path) -> None:
    home = left_behind(tmp_path, "orphan")
    assert len(processes.find(home)) == 1
    assert guardian.sweep(tmp_path) == (home,)
    assert not processes.find(home)
    assert not home.exists()


def test_a_guarded_sandbox_is_not_swept(tmp_path: Path) -> None:
    home = left_behind(tmp_path, "guarded")
    with (home / "guarded").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        minutes_ago = time.time() - 600
        os.utime(home, (minutes_ago, minutes_ago))
        try:
            assert guardian.sweep(tmp_path) == ()
            assert len(processes.find(home)) == 1
        finally:
            guardian.destroy(home)


def test_stopping_one_sandbox_leaves_its_neighbour(tmp_path: Path) -> None:
    one, other = left_behind(tmp_path, "one"), left_behind(tmp_path, "one-more")
    try:
        guardian.destroy(one)
        assert len(processes.find(other)) == 1
    finally:
        guardian.destroy(other)


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(600)"
    log = tmp_path / "log"
    processes.start([sys.executable, "-c", deaf, *processes.marks(tmp_path, "east/1")], log)
    assert eventually(lambda: log.read_text() == "x\n")
    processes.stop(lambda: processes.find(tmp_path), grace=0.5)
    assert not processes.find(tmp_path)
