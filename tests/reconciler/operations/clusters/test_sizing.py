"""Rates for sizing: what a job reports that keeps up, else how its topics grow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.cli.main import main
from reconciler.engine.sizing import MirrorSize
from reconciler.errors import Unknown
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.plan import ImpactQuery, Stakes
from reconciler.operations.clusters import sizing
from reconciler.render import console
from reconciler.replication.status import FlowStatus
from tests.support.builders import flow, topology, world

DECLARED = topology(flow("east", "west", "orders", name="f", replication_factor=3))
Answers = Sequence[int | None]


def sized(
    monkeypatch: pytest.MonkeyPatch, job: FlowStatus | None, held: Answers, silent: Unknown | None = None
) -> MirrorSize:
    """``held``: bytes of the source topic's one replica, look after look. ``silent``: in place of the source."""
    seen = world()
    seen.clusters["east"].put("orders", partitions=4)
    live = seen.look(DECLARED)
    mirror = LiveMirror("west", JobState.RUNNING, flows={} if job is None else {"f": job})
    live = LiveState({**live.clusters, **({"east": silent} if silent else {})}, {"west": mirror})
    looks = iter(held)

    @contextmanager
    def session(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(observe=lambda: live, topology=DECLARED)

    def stakes(_: object, __: object, queries: Sequence[ImpactQuery]) -> Mapping[str, Stakes]:
        return {query.topic: Stakes(bytes=next(looks)) for query in queries}

    clock = iter((100.0, 100.0, 110.0))
    monkeypatch.setattr(sizing, "open_session", session)
    monkeypatch.setattr(sizing, "read_stakes", stakes)
    monkeypatch.setattr(sizing, "time", SimpleNamespace(monotonic=lambda: next(clock, 110.0), sleep=lambda _: None))
    environment, [size] = sizing.sizes(Path("env"), 2.0, 10.0)
    assert environment == DECLARED.environment
    return size


def status(**figures: Any) -> FlowStatus:
    return replace(FlowStatus("f", "x", bytes_per_second=5_000.0, seconds_lag=1.0), **figures)


def test_a_job_that_keeps_up_shows_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    [size] = sized(monkeypatch, status(), [1_000]).flows
    assert (size.rate, size.peak, size.disk_bytes) == (5_000.0, 10_000.0, 3_000)


@pytest.mark.parametrize("job", [None, status(seconds_lag=600.0), status(seconds_lag=None)])
def test_else_the_topics_are_checked_twice(job: FlowStatus | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job copies that is behind is what it can, not what comes."""
    [size] = sized(monkeypatch, job, [1_000, 21_000]).flows
    assert (size.rate, size.disk_bytes) == (2_000.0, 63_000)


@pytest.mark.parametrize("held", [(1_000, 900), (None, 900), (900, None)])
def test_what_shrank_or_was_not_read_is_unknown(held: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    [size] = sized(monkeypatch, None, held).flows
    assert isinstance(size.rate, Unknown)
    assert isinstance(size.disk_bytes, Unknown) == (held[1] is None)


def test_a_source_that_does_not_answer_is_unknown_and_not_without_records(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Unknown("cluster east", "cluster east does not answer")
    whole = sized(monkeypatch, None, (), silent)
    [size] = whole.flows
    assert [size.rate, size.peak, size.lanes, size.cores, size.disk_bytes] == [silent] * 5
    assert [whole.cores, whole.executors, *whole.line_bits.values()] == [silent] * 3
    [size] = sized(monkeypatch, status(), (), silent).flows
    assert (size.rate, size.disk_bytes) == (5_000.0, silent), "its job still reports a rate"


def test_json_on_a_terminal_keeps_its_lines_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What is pasted from there is parsed; text for people is broken at the terminal's width."""
    name = "an environment of many words " * 8
    monkeypatch.setattr(sizing, "sizes", lambda *_: (name, ()))
    monkeypatch.setattr(console, "terminal_width", lambda *_: 60)
    with pytest.raises(SystemExit):
        main(["size", str(tmp_path), "--format", "json"])
    assert json.loads(capsys.readouterr().out)["environment"] == name


@pytest.mark.parametrize(
    ("headroom", "seconds"), [("inf", "1"), ("nan", "1"), ("2", "inf"), ("2", "nan"), ("2", "1e12")]
)
def test_numbers_without_a_size_are_refused(
    headroom: str, seconds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["size", str(tmp_path), "--headroom", headroom, "--seconds", seconds])
    assert ended.value.code == 1
    option, given = ("--headroom", headroom) if seconds == "1" else ("--seconds", f"{float(seconds):g}")
    said = capsys.readouterr().err
    assert f"{option} is {given}" in said or (given == "nan" and f"Invalid value for '{option}'" in said)
