"""CPU time and memory of everything one run started, read from /proc.

A process belongs to the run when its environment carries the run's mark, or when its parent belongs to it. Ended
children count: by what their parent gathered of them, or by their last sample. Orphans come to us (subreaper) and
stay readable until ``ProcessTree`` reaps them, so that nothing of them is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.backends.mirror_jobs.runner.command_line import JOB_VARIABLES

MARK_VARIABLE = "RECONCILER_BENCH_RUN"
PASSED_ON = {JOB_VARIABLES: MARK_VARIABLE}
"""A mirror's job gets only variables that are named: its processes are found by this one."""
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
_PR_SET_CHILD_SUBREAPER = 36
_YOUNG_TICKS = 2 * TICKS

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/PID/stat. ``own`` and ``children`` are user+system ticks, of ended children once waited for."""

    pid: int
    started: int
    parent: int
    state: str
    program: str
    own: int
    children: int
    rss: int

    @property
    def key(self) -> Key:
        return self.pid, self.started


@dataclass(frozen=True, slots=True)
class Usage:
    """``by_program`` splits ``cpu_s`` by the program that used it; what nobody saw alive is ``(ended children)``."""

    cpu_s: float
    by_program: dict[str, float]
    processes: int

    def since(self, earlier: Usage) -> Usage:
        split = {name: spent - earlier.by_program.get(name, 0.0) for name, spent in self.by_program.items()}
        return replace(self, cpu_s=self.cpu_s - earlier.cpu_s, by_program=split)


def parse_stat(text: str) -> Process:
    """The program name stands in brackets and may itself hold blanks and brackets."""
    head, _, tail = text.rpartition(")")
    pid, _, program = head.partition("(")
    fields = tail.split()
    return Process(
        pid=int(pid),
        started=int(fields[19]),
        parent=int(fields[1]),
        state=fields[0],
        program=program,
        own=int(fields[11]) + int(fields[12]),
        children=int(fields[13]) + int(fields[14]),
        rss=int(fields[21]) * PAGE,
    )


def read_process(pid: int) -> Process | None:
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text(errors="replace"))
    except OSError:
        return None


def read_processes() -> dict[int, Process]:
    found = (read_process(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {process.pid: process for process in found if process is not None}


def program(pid: int) -> str:
    """``java``, ``python mirror_job.py`` and such; empty for a process that ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    name = Path(words[0]).name
    if not name.startswith("python"):
        return name
    if "-m" in words[1:-1]:
        return f"python {words[words.index('-m') + 1]}"
    return " ".join(["python", *(Path(word).name for word in words[1:] if word.endswith(".py"))][:2])


def pss(pid: int) -> int:
    """Bytes, of those that it shares with others its part; 0 when it is gone."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/smaps_rollup").read_text().partition("\nPss:")[2].split(maxsplit=1)[0]) * 1024
    return 0


def carries(pid: int, mark: str) -> bool:
    with contextlib.suppress(OSError):
        return f"{MARK_VARIABLE}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def marked(mark: str) -> list[int]:
    """Living processes whose environment carries the mark."""
    return [p.pid for p in read_processes().values() if p.state != "Z" and carries(p.pid, mark)]


def cpu_seconds(pid: int) -> float:
    """User and system time of one process with the children it waited for; 0 when it is gone."""
    process = read_process(pid)
    return (process.own + process.children) / TICKS if process else 0.0


def adopt_orphans() -> None:
    """Makes this process the parent of every orphan below it. Raises OSError where Linux refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class ProcessTree:
    """The processes of one run. ``sample`` reads now; as a context manager it also samples in the background.

    Orphans of the run that became our children are reaped; children that we started ourselves are left to whoever
    waits for them, until the end.
    """

    def __init__(self, mark: str, interval_s: float = 0.25) -> None:
        self.mark = mark
        self.interval_s = interval_s
        self.peak_pss = 0
        self.peak_rss_by_program: dict[str, int] = {}
        self._members: dict[Key, Process] = {}
        self._adopted: set[Key] = set()
        self._strangers: set[Key] = set()
        self._ended: set[Key] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cpu", daemon=True)

    def __enter__(self) -> ProcessTree:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._adopted |= {key for key, member in self._members.items() if member.parent == os.getpid()}
        self.sample()

    def _watch(self) -> None:
        while not self._over.wait(self.interval_s):
            self.sample()

    def sample(self) -> Usage:
        with self._lock:
            now = read_processes()
            alive = {process.key for process in now.values()}
            self._ended |= self._members.keys() - alive
            self._strangers &= alive
            # Parents start before their children, unless the numbers tie; the mark finds those.
            for process in sorted(now.values(), key=lambda p: (p.started, p.pid)):
                if self._belongs(process, now):
                    self._note(process)
            self._reap(now)
            return self._usage(alive)

    def _belongs(self, process: Process, now: dict[int, Process]) -> bool:
        if process.key in self._members:
            return True
        if process.key in self._strangers or process.pid == os.getpid():
            return False
        parent = now.get(process.parent)
        if (parent is not None and parent.key in self._members) or carries(process.pid, self.mark):
            return True
        # A young process may still be between fork and exec, with the environment of its parent.
        if time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS - process.started > _YOUNG_TICKS:
            self._strangers.add(process.key)
        return False

    def _note(self, process: Process) -> None:
        before = self._members.get(process.key)
        if before is not None and before.parent != process.parent == os.getpid():
            self._adopted.add(process.key)
        name = program(process.pid) or (before.program if before else process.program)
        self._members[process.key] = replace(process, program=name)

    def _reap(self, now: dict[int, Process]) -> None:
        for process in now.values():
            if process.state == "Z" and process.key in self._adopted:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)

    def _usage(self, alive: set[Key]) -> Usage:
        spent: defaultdict[str, int] = defaultdict(int)
        waited: defaultdict[int, int] = defaultdict(int)
        for key, member in self._members.items():
            spent[member.program] += member.own
            if key in self._ended:
                waited[member.parent] += member.own + member.children
        for member in self._members.values():
            unseen = member.children - waited[member.pid]
            if unseen > 0:
                spent["(ended children)"] += unseen
        self.peak_pss = max(self.peak_pss, sum(pss(pid) for pid, _ in self._members.keys() & alive))
        for member in self._members.values():
            largest = self.peak_rss_by_program.get(member.program, 0)
            self.peak_rss_by_program[member.program] = max(largest, member.rss)
        split = {name: ticks / TICKS for name, ticks in spent.items()}
        return Usage(sum(split.values()), split, len(self._members.keys() & alive))
