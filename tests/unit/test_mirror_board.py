"""What the status record says: counts over leases, lag unknown until it is known, conditions with their time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from mirror.board import Board
from mirror.discovery import Discovered
from mirror.lanes import Condition, LaneProgress, PartitionProgress, PartitionSpec, lane_of
from mirror.settings import FlowSettings, Settings, parse
from mirror.status import Application, record

from tests.unit.test_mirror_settings import handover

ROOT = Path(__file__).parents[2]
SPECS = tuple(PartitionSpec("orders", number, "east.orders", "id") for number in range(2))


@pytest.fixture
def settings() -> Settings:
    return parse(json.dumps(handover()))


@pytest.fixture
def flow(settings: Settings) -> FlowSettings:
    return settings.flows[0]


@pytest.fixture
def board(settings: Settings) -> Board:
    made = Board(settings.flows)
    made.discovered("orders", Discovered(SPECS, (), 1, complete=True))
    made.taken_over("orders")
    return made


def told(number: int, position: int | None, end: int | None, records: int = 0, *more: Condition) -> LaneProgress:
    partition = PartitionProgress("orders", number, position, end, records, records * 10, 1000)
    return LaneProgress("orders", lane_of("orders", number, 4), (partition,), more)


def test_the_lag_is_unknown_until_every_partition_is_known(board: Board) -> None:
    board.progress(told(0, 5, 9))
    assert board.view()[0].records_lag is None
    board.progress(told(1, 3, 3))
    [view] = board.view()
    assert view.records_lag == 4
    assert view.seconds_lag is not None
    assert view.seconds_lag > 0
    board.progress(told(0, 9, 9))
    [view] = board.view()
    assert (view.records_lag, view.seconds_lag) == (0, 0.0)


def test_records_count_on_over_leases_and_are_never_counted_twice(board: Board) -> None:
    key = ("orders", lane_of("orders", 0, 4))
    for records in (10, 10, 25):
        board.progress(told(0, records, 100, records))
    board.lease_begins(key)
    for records in (0, 5, 5):
        board.progress(told(0, 25 + records, 100, records))
    assert board.view()[0].records_total == 30


def test_a_stopped_partition_does_not_hide_the_lag_of_the_others(board: Board) -> None:
    stop = Condition("source_topic_recreated", "text", "todo", "orders", 0, stops=True)
    board.progress(told(0, None, None, 0, stop))
    board.progress(told(1, 1, 4))
    assert board.view()[0].records_lag == 3


def test_a_condition_keeps_the_time_it_was_first_seen(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Condition("record_refused", "text", "todo", "orders", 0, stops=True)
    board.progress(told(0, 1, 4, 0, stop))
    [(_, since)] = board.view()[0].conditions
    monkeypatch.setattr("mirror.board.time.time", lambda: since / 1000 + 60)
    [(_, again)] = board.view()[0].conditions
    assert again == since
    board.progress(told(0, 4, 4))
    assert board.view()[0].conditions == ()
    board.progress(told(0, 1, 4, 0, stop))
    [(_, later)] = board.view()[0].conditions
    assert later == since + 60_000


@pytest.mark.parametrize(
    ("state", "condition", "shown"),
    [
        ("running", None, "running"),
        ("running", Condition("a", "b", "c", stops=True), "degraded"),
        ("running", Condition("a", "b", "c", "orders", 1), "running"),
        ("stopped", Condition("a", "b", "c", stops=True), "stopped"),
    ],
)
def test_the_record_follows_its_schema(
    board: Board, settings: Settings, state: str, condition: Condition | None, shown: str
) -> None:
    if condition is not None:
        board.set_condition("orders", "x", condition)
    made = record(settings, Application("app-1", 1, "host", 2), state, board.view(), 3, "why")
    jsonschema.validate(made, json.loads((ROOT / "schemas" / "status.schema.json").read_text()))
    assert made["flows"]["orders"]["state"] == shown


def test_importing_the_package_needs_no_spark_and_starts_nothing() -> None:
    program = (
        "import sys, threading, mirror.driver, mirror.record_path, mirror.discovery, mirror.leases\n"
        "assert not [m for m in sys.modules if m.startswith(('pyspark', 'reconciler'))], 'imported'\n"
        "assert threading.active_count() == 1, 'started'\n"
    )
    path = {"PYTHONPATH": f"{ROOT}:{ROOT / 'spark'}"}
    subprocess.run([sys.executable, "-c", program], check=True, env=path)
