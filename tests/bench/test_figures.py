"""The benchmark's arithmetic and its data: what a table says is what was measured."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.__main__ import turns
from bench.copy.figures import CASES, Case, Copied, Failed
from bench.copy.latency import percentile
from bench.processes.cpu import MARK_VARIABLE, marked
from bench.records.load import SPAN_MS, records
from bench.report import BASE, BASE_EXACTLY_ONCE, COPY_HEAD, copy_rows, markdown, tables

COPIED = Copied(
    case="1kb-lz4",
    system=BASE,
    exactly_once=False,
    repeat=0,
    records=1_000_000,
    verified=True,
    start_s=9.0,
    start_cpu_s=12.0,
    copy_s=10.0,
    cpu_s=20.0,
    cpu_by_program={"java": 20.0},
    broker_cpu_s={"east/1": 1.0, "west/1": 2.0},
    peak_pss_mib=900.0,
    peak_rss_mib_by_program={"java": 900.0},
    log_bytes=500_000_000,
)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_enough_others_do_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, share)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= share * len(ordered)
    assert sum(value < found for value in ordered) < share * len(ordered)


def test_ratios_are_of_medians_against_both_baselines() -> None:
    slow = replace(COPIED, system=BASE_EXACTLY_ONCE, exactly_once=True, cpu_s=25.0, copy_s=20.0)
    ours = [
        replace(COPIED, system="ours", repeat=repeat, cpu_s=cpu_s, copy_s=5.0)
        for repeat, cpu_s in enumerate((10.0, 2.0, 1.0))
    ]
    row = dict(zip(range(len(COPY_HEAD)), copy_rows([COPIED, slow, *ours])[-1], strict=True))
    assert row[2] == "500.0 k (100.0 k to 1,000 k)"
    assert (row[3], row[4], row[5], row[6]) == ("10.00", "2.00", "12.50", "4.00")


def test_one_unequal_copy_spoils_the_row_and_a_failure_is_reported() -> None:
    rows = copy_rows([COPIED, replace(COPIED, repeat=1, verified=False)])
    assert rows[0][-1] == "NO"
    text = markdown([COPIED, Failed("single", "ours", 0, "ended early")], {"cores": "2"})
    assert "single, ours, repeat 0: ended early" in text


def test_columns_that_say_nothing_are_left_out() -> None:
    (table,) = tables([COPIED])
    assert "idle cores" not in table.head
    (table,) = tables([COPIED, replace(COPIED, repeat=1, idle_cores=0.25)])
    assert table.rows[0][table.head.index("idle cores")] == "0.250"


def test_alternating_rounds_give_every_system_both_ends() -> None:
    assert list(turns(["a", "b"], 2, alternate=True)) == [(0, "a"), (0, "b"), (1, "b"), (1, "a")]
    assert list(turns(["a", "b"], 2, alternate=False)) == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert list(turns(["a"], 2, alternate=False, warm_up=1)) == [(-1, "a"), (0, "a"), (1, "a")]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_data_has_the_size_it_claims_and_is_the_same_each_time(case: Case) -> None:
    data = case.data
    made = list(records(data, 1000, end_ms=1_700_000_000_000))
    assert made == list(records(data, 1000, end_ms=1_700_000_000_000))
    assert {len(value) for _, _, value, _ in made} == {data.value_bytes}
    assert len({value for _, _, value, _ in made}) == 1000
    assert {partition for partition, *_ in made} == set(range(data.partitions))
    assert all(1_700_000_000_000 - SPAN_MS <= stamp < 1_700_000_000_000 for *_, stamp in made)


def test_what_a_killed_benchmark_started_is_killed_too() -> None:
    mark = f"test-{secrets.token_hex(6)}"
    script = (
        "import subprocess, sys, time\n"
        "from bench.processes.tether import tethered\n"
        f"with tethered('{mark}') as environ:\n"
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], env=environ,"
        " start_new_session=True)\n"
        "    print('up', flush=True)\n"
        "    time.sleep(600)\n"
    )
    environ = {name: value for name, value in os.environ.items() if name != MARK_VARIABLE}
    benchmark = subprocess.Popen([sys.executable, "-c", script], env=environ, stdout=subprocess.PIPE)
    assert benchmark.stdout is not None
    assert benchmark.stdout.readline() == b"up\n"
    deadline = time.monotonic() + 90
    while not marked(mark):  # a process shows its mark once it has become another program
        assert time.monotonic() < deadline
        time.sleep(0.05)
    benchmark.kill()
    benchmark.wait()
    deadline = time.monotonic() + 90
    while marked(mark):
        assert time.monotonic() < deadline
        time.sleep(0.05)
