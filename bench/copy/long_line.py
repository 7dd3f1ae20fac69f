"""The delaying proxy as its owner sees it: started, asked what each connection has carried, ended."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler_sandbox.brokers.ports import answers

from bench.copy.figures import BenchError
from bench.processes.proxy import HOST, Line
from bench.processes.tether import ROOT

DATA_SHARE = 0.01  # a connection with less than this of all bytes carries no records


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the line has carried: bytes of each connection towards the broker and from it, in the order they were
    opened, and the proxy's own CPU."""

    up: tuple[int, ...] = ()
    down: tuple[int, ...] = ()
    cpu_s: float = 0.0


def data_bytes(first: Sequence[int], last: Sequence[int]) -> tuple[int, ...]:
    """Bytes carried between two looks by each connection that carried records. ``last`` may have more connections."""
    moved = [now - before for now, before in zip(last, [*first, *[0] * (len(last) - len(first))], strict=True)]
    return tuple(size for size in moved if size > DATA_SHARE * sum(moved))


class LongLine:
    """A running proxy. ``address`` is the bootstrap address of the broker at its other end."""

    def __init__(self, process: subprocess.Popen[str], line: Line) -> None:
        self._process = process
        self.line = line
        self.address = f"{HOST}:{line.listen}"

    def traffic(self) -> Traffic:
        """Raises BenchError."""
        found = self._ask()
        up, down = (tuple(one[way] for one in found["connections"]) for way in ("up", "down"))
        return Traffic(up, down, found["cpu_s"])

    def together(self, api_key: int) -> int:
        """How many requests of a kind were on their way to the broker at once, on the connection that had most.
        Raises BenchError."""
        return max((one["together"].get(str(api_key), 0) for one in self._ask()["connections"]), default=0)

    def _ask(self) -> Any:
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        try:
            asked.write("\n")
            asked.flush()
            return json.loads(told.readline())
        except (OSError, ValueError) as error:
            raise BenchError(f"the delaying proxy has ended: {error}") from None


@contextlib.contextmanager
def far_away(line: Line) -> Iterator[LongLine]:
    """Raises BenchError."""
    words = [line.listen, line.broker, line.delay_s * 1000, line.bytes_per_s * 8 / 1e6]
    proxy = subprocess.Popen(
        [sys.executable, "-m", "bench.processes.proxy", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    assert proxy.stdin is not None
    try:
        for _ in range(100):
            if answers(line.listen):
                break
            if proxy.poll() is not None:
                raise BenchError(f"the delaying proxy could not listen on port {line.listen}")
            threading.Event().wait(0.1)
        yield LongLine(proxy, line)
    finally:
        proxy.stdin.close()
        proxy.wait(10)
