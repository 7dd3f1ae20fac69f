"""The benchmark's accounts: no CPU second of a run is lost or counted twice, whoever's child it became.

Processes are told, not started: what /proc says at each look, in ticks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.processes import cpu
from bench.processes.cpu import TICKS, Process, ProcessTree, Usage, parse_stat

MARK = "a-run"


def process(pid: int, parent: int = 1, own: int = 0, children: int = 0) -> Process:
    return Process(pid, pid, parent, "S", f"program-{pid}", own * TICKS, children * TICKS, 0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Process]]]:
    """What each look finds, the first one first. Process 100 carries the mark of the run."""
    given: list[list[Process]] = []
    monkeypatch.setattr(cpu, "read_processes", lambda: {each.pid: each for each in given.pop(0)})
    monkeypatch.setattr(cpu, "carries", lambda pid, mark: (pid, mark) == (100, MARK))
    monkeypatch.setattr(cpu, "program", lambda pid: "")
    yield given
    assert given == []


def usage(looks: list[list[Process]], *seen: list[Process]) -> Usage:
    looks.extend(seen)
    tree = ProcessTree(MARK)
    return [tree.sample() for _ in seen][-1]


def test_a_child_that_burns_a_known_time(looks: list[list[Process]]) -> None:
    spent = usage(looks, [process(100, own=1)], [process(100, own=3)], [])
    assert (spent.cpu_s, spent.processes) == (3.0, 0)


def test_a_double_fork_into_a_session_of_its_own(looks: list[list[Process]]) -> None:
    """Its parents end, and it becomes a child of ours."""
    first = [process(100), process(101, parent=100, own=1)]
    spent = usage(looks, first, [process(101, parent=os.getpid(), own=4)])
    assert (spent.cpu_s, spent.processes) == (4.0, 1)


def test_children_that_no_one_saw_alive_are_counted_through_their_parent(looks: list[list[Process]]) -> None:
    spent = usage(looks, [process(100, own=1)], [process(100, own=1, children=5)], [])
    assert spent.by_program == {"program-100": 1.0, "(ended children)": 5.0}


def test_a_child_its_parent_waited_for_is_counted_once(looks: list[list[Process]]) -> None:
    seen = [process(100), process(101, parent=100, own=2)]
    spent = usage(looks, seen, [process(100, children=3)])
    assert spent.by_program == {"program-100": 0.0, "program-101": 2.0, "(ended children)": 1.0}


def test_a_child_that_dropped_the_environment_is_found_by_its_parent(looks: list[list[Process]]) -> None:
    assert usage(looks, [process(100), process(101, parent=100, own=7)]).cpu_s == 7.0


def test_others_are_not_counted(looks: list[list[Process]]) -> None:
    assert usage(looks, [process(100), process(200, own=9)]).cpu_s == 0


def test_usage_between_two_moments_and_the_peak_of_memory(
    looks: list[list[Process]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter([50, 30, 20])
    monkeypatch.setattr(cpu, "pss", lambda pid: next(sizes))
    looks.extend([[process(100, own=2), process(101, parent=100)], [process(100, own=5)]])
    tree = ProcessTree(MARK)
    first, second = tree.sample(), tree.sample()
    assert (second.since(first).cpu_s, tree.peak_pss) == (3.0, 80)


def test_memory_that_is_shared_counts_once() -> None:
    """What it has to itself, at least; nothing of what is gone."""
    assert 1 << 20 < cpu.pss(os.getpid()) <= cpu.PAGE * int(Path("/proc/self/statm").read_text().split()[1])
    assert cpu.pss(2**22 + 1) == 0


def test_stat_lines_with_awkward_program_names() -> None:
    fields = ["S", "7", *["0"] * 9, "11", "12", "13", "14", *["0"] * 4, "4242", "0", "3"]
    found = parse_stat(f"99 (a) b (c) {' '.join(fields)}\n")
    assert (found.pid, found.parent, found.program, found.state) == (99, 7, "a) b (c", "S")
    assert (found.own, found.children, found.started) == (23, 27, 4242)
