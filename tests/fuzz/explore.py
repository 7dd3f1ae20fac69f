"""Looks for inputs that lead somewhere new, and keeps them: ``python -m tests.fuzz.explore --minutes 60``.

New is a line of the readers that no input reached before, or an outcome that none had. Minutes are of CPU. What a
reader does not document to raise, more than ``SECONDS`` for one input, or more than ``MEMORY``, is a defect: its bytes
are written down, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.inputs import Maker
from tests.fuzz.targets import MEMORY, SECONDS, TARGETS

CORPUS = Path(__file__).with_name("corpus.txt")
"""A line each: the target, and the bytes in base64."""
_WEIGHTS = {"batches": 8, "fetch11": 2, "fetch13": 2, "codecs": 2, "chunk": 2}
_LONGEST = 2 << 10
"""Bytes of an input that is kept."""
_TRACED = 25
"""One of so many inputs has its lines looked at, which takes ten times as long."""
_HANGS_S = 60.0
MOST_MEMORY = 4 << 30
"""What takes more ends with a MemoryError, which is a defect too."""
_READERS = ("/reconciler/kafka/", "/reconciler/replication/", "/reconciler/model/state/", "/reconciler_mirror/")


class HangError(Exception):
    pass


class Exploration:
    def __init__(self, seed: int, corpus: Path, defects: Path) -> None:
        self.maker = Maker(seed)
        self.corpus, self.folder = corpus, defects
        self.kept: dict[str, list[bytes]] = defaultdict(list)
        self.known: set[object] = set()
        self.runs: Counter[str] = Counter()
        self.added: Counter[str] = Counter()
        self.defects: Counter[str] = Counter()
        self._peak = _rss()

    def replay(self) -> None:
        for target, data in inputs(self.corpus):
            self.kept[target].append(data)
            self.known |= self._feed(target, data, traced=True)

    def explore(self, cpu_s: float) -> None:
        names = [name for name in TARGETS for _ in range(_WEIGHTS.get(name, 1))]
        until = time.process_time() + cpu_s
        rnd = self.maker.random
        while time.process_time() < until:
            target = rnd.choice(names)
            kept = self.kept[target]
            data = self.maker.mutated(rnd.choice(kept), 4) if kept and rnd.random() < 0.4 else self.maker.fresh(target)
            traced = rnd.randrange(_TRACED) == 0
            fresh = self._feed(target, data, traced=traced) - self.known
            if fresh and not traced:
                fresh |= self._feed(target, data, traced=True) - self.known
            if fresh and len(data) <= _LONGEST:
                self.known |= fresh
                self._keep(target, data)

    def tidy(self) -> int:
        """Leaves the smallest of those that lead to the same places. How many were removed."""
        known: set[object] = set()
        every, mine = inputs(self.corpus), []
        for target, data in sorted(every, key=lambda entry: (len(entry[1]), entry)):
            reached = self._feed(target, data, traced=True)
            if not reached <= known:
                mine.append((target, data))
            known |= reached
        self.corpus.write_text("".join(sorted(line_of(*entry) for entry in mine)), encoding="ascii")
        return len(every) - len(mine)

    def _keep(self, target: str, data: bytes) -> None:
        self.kept[target].append(data)
        self.added[target] += 1
        with self.corpus.open("a", encoding="ascii") as file:
            file.write(line_of(target, data))

    def _feed(self, target: str, data: bytes, *, traced: bool) -> set[object]:
        """What was reached."""
        self.runs[target] += 1
        reached: set[object] = set()
        began = time.thread_time()
        try:
            with _lines(reached) if traced else _no_hang():
                outcome = TARGETS[target](data)
            reached |= {(target, part) for part in outcome.split(" | ")}
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit would be a defect, too
            self._defect(target, data, f"{type(error).__name__}: {error}", error)
        took = time.thread_time() - began
        if took > SECONDS and not traced:
            self._defect(target, data, f"took {took:.1f} s")
        if _rss() > self._peak + MEMORY:
            self._peak = _rss()
            self._defect(target, data, f"took memory: {self._peak >> 20} MiB")
        return reached

    def _defect(self, target: str, data: bytes, what: str, error: BaseException | None = None) -> None:
        frames = traceback.extract_tb(error.__traceback__) if error else []
        place = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-4:]))
        signature = f"{target}: {what.split(':')[0]} {place}"
        self.defects[signature] += 1
        if self.defects[signature] == 1:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{target}-{hashlib.sha256(data).hexdigest()[:12]}"
            path.write_bytes(data)
            _say(f"DEFECT {target}: {what[:300]} at {place}\n  in {path}: {data[:600].hex()}")


def inputs(corpus: Path) -> list[tuple[str, bytes]]:
    """(target, bytes) of those that are kept."""
    if not corpus.exists():
        return []
    lines = corpus.read_text(encoding="ascii").splitlines()
    return [(line.partition(" ")[0], base64.b64decode(line.partition(" ")[2])) for line in lines]


def line_of(target: str, data: bytes) -> str:
    return f"{target} {base64.b64encode(data).decode()}\n"


@contextmanager
def _no_hang() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_VIRTUAL, _HANGS_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@contextmanager
def _lines(reached: set[object]) -> Iterator[None]:
    def of_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return of_line

    def of_call(frame: FrameType, _: str, __: Any) -> Any:
        return of_line if any(part in frame.f_code.co_filename for part in _READERS) else None

    with _no_hang():
        sys.settrace(of_call)
        try:
            yield
        finally:
            sys.settrace(None)


def _rss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _hangs(*_: object) -> None:
    raise HangError(f"it was not done in {_HANGS_S:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2, help="of CPU")
    parser.add_argument("--tidy", action="store_true", help="remove kept inputs that lead nowhere of their own")
    parser.add_argument("--seed", type=int, default=None, help="else another one each time")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--defects", type=Path, default=Path("build/fuzz"), help="where inputs of defects are written")
    given = parser.parse_args()
    seed = int.from_bytes(os.urandom(4), "big") if given.seed is None else given.seed
    signal.signal(signal.SIGVTALRM, _hangs)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    began = time.process_time()
    exploration = Exploration(seed, given.corpus, given.defects)
    exploration.replay()
    kept = sum(map(len, exploration.kept.values()))
    _say(f"seed {seed}; {kept} inputs kept, {len(exploration.known)} lines and outcomes known")
    exploration.explore(given.minutes * 60)
    cpu_s = time.process_time() - began
    _say(f"{sum(exploration.runs.values()):,} inputs in {cpu_s:.0f} s of CPU, peak {_rss() >> 20} MiB")
    _say("  of them " + ", ".join(f"{name} {count:,}" for name, count in exploration.runs.most_common()))
    _say(
        f"{sum(exploration.added.values())} led somewhere new and are kept; {len(exploration.defects)} kinds of defects"
    )
    for signature, count in exploration.defects.most_common():
        _say(f"  {count:,} times {signature}")
    if given.tidy:
        _say(f"{exploration.tidy()} removed; {len(inputs(given.corpus))} are kept")
    return 1 if exploration.defects else 0


if __name__ == "__main__":
    sys.exit(main())
