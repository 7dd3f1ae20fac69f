"""The benchmark's accounts: no CPU second of a run is lost or counted twice, whoever's child it became."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from bench.cpu import MARK_VARIABLE, ProcessTree, Usage, adopt_orphans, marked, parse_stat
from bench.tether import kill_marked

# Burns CPU until exactly that much was used; wall time depends on who else uses the machine.
BURN = """
import os, resource, sys, time
def burn(seconds):
    while time.process_time() < seconds: sum(range(1000))
"""
TOLERANCE_S = 0.15


@pytest.fixture
def mark() -> Iterator[str]:
    adopt_orphans()
    made = f"test-{secrets.token_hex(6)}"
    yield made
    kill_marked(made)


def spawn(mark: str, script: str) -> subprocess.Popen[bytes]:
    environ = {**os.environ, MARK_VARIABLE: mark}
    return subprocess.Popen([sys.executable, "-c", BURN + script], env=environ, stdout=subprocess.PIPE)


def run_to_end(mark: str, script: str, tree: ProcessTree) -> Usage:
    with tree:
        child = spawn(mark, script)
        assert child.wait(60) == 0
        deadline = time.monotonic() + 60
        while marked(mark):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    return tree.sample()


def test_a_child_that_burns_a_known_time(mark: str) -> None:
    usage = run_to_end(mark, "burn(1.0)", ProcessTree(mark, 0.05))
    assert usage.cpu_s == pytest.approx(1.0, abs=TOLERANCE_S)
    assert usage.processes == 0


def test_a_double_fork_into_a_session_of_its_own(mark: str) -> None:
    script = "if os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nburn(1.0)"
    usage = run_to_end(mark, script, ProcessTree(mark, 0.05))
    assert usage.cpu_s == pytest.approx(1.0, abs=TOLERANCE_S)


def test_children_that_nobody_saw_alive_are_counted_through_their_parent(mark: str) -> None:
    script = """
for _ in range(20):
    if os.fork() == 0:
        burn(0.05); os._exit(0)
    os.wait()
time.sleep(1)
"""
    usage = run_to_end(mark, script, ProcessTree(mark, interval_s=0.5))
    assert usage.cpu_s == pytest.approx(1.0, abs=TOLERANCE_S)


def test_a_child_its_parent_waited_for_is_counted_once(mark: str) -> None:
    script = "if os.fork() == 0:\n    burn(1.0); os._exit(0)\nos.wait()\ntime.sleep(0.5)"
    usage = run_to_end(mark, script, ProcessTree(mark, 0.05))
    assert usage.cpu_s == pytest.approx(1.0, abs=TOLERANCE_S)


def test_a_child_that_dropped_the_environment_is_found_by_its_parent(mark: str) -> None:
    inner = (BURN + "burn(1.0)").replace("\n", "\\n")
    script = f'import subprocess\nsubprocess.run([sys.executable, "-c", "{inner}"], env={{}}, check=True)'
    usage = run_to_end(mark, script, ProcessTree(mark, 0.02))
    assert usage.cpu_s == pytest.approx(1.0, abs=TOLERANCE_S)


def test_others_are_not_counted(mark: str) -> None:
    with ProcessTree(mark, 0.05) as tree:
        stranger = spawn("another-run", "burn(0.5)")
        assert stranger.wait(60) == 0
    assert tree.sample().cpu_s == 0


def test_usage_between_two_moments_and_the_peak_of_memory(mark: str) -> None:
    script = "print('up', flush=True)\nheld = b'x' * 80_000_000\nburn(0.3)\ntime.sleep(30)"
    with ProcessTree(mark, 0.05) as tree:
        child = spawn(mark, script)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        first = tree.sample()
        time.sleep(1.5)
        spent = tree.sample().since(first)
        assert spent.cpu_s <= 0.3 + TOLERANCE_S
        assert spent.processes == 1
        assert 80_000_000 < tree.peak_rss < 200_000_000
        kill_marked(mark)
        child.wait(10)


def test_stat_lines_with_awkward_program_names() -> None:
    fields = ["S", "7", *["0"] * 9, "11", "12", "13", "14", *["0"] * 4, "4242", "0", "3"]
    process = parse_stat(f"99 (a) b (c) {' '.join(fields)}\n")
    assert (process.pid, process.parent, process.program, process.state) == (99, 7, "a) b (c", "S")
    assert (process.own, process.children, process.started) == (23, 27, 4242)
