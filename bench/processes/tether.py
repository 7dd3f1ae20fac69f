"""Kills what a run left, however the benchmark ended. A process of its own whose standard input is a pipe from the
benchmark: the kernel closes it even after SIGKILL."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.processes.cpu import MARK_VARIABLE, PASSED_ON, marked

ROOT = Path(__file__).resolve().parents[2]


def kill_marked(mark: str) -> None:
    """SIGKILL to every process that carries the mark, until none is left: supervisors start killed jobs again."""
    deadline = time.monotonic() + 30
    while (found := marked(mark)) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


@contextlib.contextmanager
def tethered(mark: str) -> Iterator[dict[str, str]]:
    """The environment for processes of the run. After the block, or after our death, none of them is left."""
    tether = subprocess.Popen(
        [sys.executable, "-m", "bench.processes.tether", mark], stdin=subprocess.PIPE, start_new_session=True, cwd=ROOT
    )
    try:
        yield {**os.environ, **PASSED_ON, MARK_VARIABLE: mark}
    finally:
        kill_marked(mark)
        assert tether.stdin is not None
        tether.stdin.close()
        tether.wait()


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    kill_marked(sys.argv[1])


if __name__ == "__main__":
    main()
