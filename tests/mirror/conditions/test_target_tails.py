"""What is concluded from the records that a copy holds behind its known end, and from those of the source."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.lane import target_tails
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.target_tails import KnownEnd, Strange, TargetTails
from reconciler_mirror.model.lane import NO_WORK, Ahead, PartitionSpec, RecordWork, TargetLoss

from reconciler.kafka.client.errors import BrokerError
from reconciler.replication.expressions.record_filter import AddedHeader, Exists, Key
from reconciler.replication.offsets.close_gaps import Log, NotPairedError

FILTER = RecordWork(Key(Exists(True)))
HEADERS = RecordWork(headers=(AddedHeader("from", "east"),))
SOURCE = [(offset, offset) for offset in range(100)]
"""Offset, and the hash of what lies there."""


def concluded(
    monkeypatch: pytest.MonkeyPatch,
    copy: list[tuple[int, int]],
    position: int,
    known: KnownEnd,
    error: Exception | None = None,
    **changes: Any,
) -> object:
    logs = {"east": SOURCE, "west": copy}

    async def read_log(log: Log, begin: int, end: int) -> tuple[int, list[tuple[int, int]]]:
        if error is not None:
            raise error
        found = logs[log.cluster.name]
        return 0, [record for record in found if begin <= record[0] < end]

    monkeypatch.setattr(target_tails, "read_log", read_log)
    spec = SimpleNamespace(**{"delivery": "exactly_once", "work": NO_WORK, "continue_on": frozenset(), **changes})
    clusters = {"source": SimpleNamespace(name="east"), "target": SimpleNamespace(name="west")}
    lane: Any = SimpleNamespace(spec=spec, committed_only=True, **clusters)
    partition = Partition(PartitionSpec("orders", 0, "east.orders", "id"))
    return asyncio.run(TargetTails(lane).at_start(partition, LanePosition(position, "id"), known))


def test_records_of_the_source_behind_the_position_make_it_older_than_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = [*SOURCE[:10], *[(offset + 1, offset) for offset in range(10, 30)]]
    assert concluded(monkeypatch, copy, 10, KnownEnd(10, 10, 32)) == Ahead(10, 11, 30)


def test_other_records_are_a_stranger_s(monkeypatch: pytest.MonkeyPatch) -> None:
    assert concluded(monkeypatch, [*SOURCE[:10], (11, 555)], 10, KnownEnd(10, 10, 12)) == Strange(11)


@pytest.mark.parametrize("there", [5, 0])
def test_commits_that_the_map_does_not_know_yet_are_our_own(monkeypatch: pytest.MonkeyPatch, there: int) -> None:
    copy = [*SOURCE[:10], *[(offset + 1, offset) for offset in range(10, 10 + there)]]
    found = concluded(monkeypatch, copy, 15, KnownEnd(10, 10, 17 if there else 11))
    assert found == (None if there else TargetLoss(11, 16, 10))


def test_a_marker_is_expected_and_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert concluded(monkeypatch, SOURCE[:10], 10, KnownEnd(10, 10, 11), AssertionError("it is read")) is None


def test_a_filter_leaves_records_out_and_changes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert concluded(monkeypatch, [*SOURCE[:10], (11, 555)], 10, KnownEnd(10, 10, 12), work=FILTER) == Strange(11)
    assert concluded(monkeypatch, [*SOURCE[:10], (11, 12)], 10, KnownEnd(10, 10, 12), work=FILTER) == Ahead(12, 11, 13)
    assert concluded(monkeypatch, SOURCE[:10], 15, KnownEnd(10, 10, 11), work=FILTER) is None


@pytest.mark.parametrize("changes", [{"delivery": "at_least_once"}, {"work": HEADERS}])
def test_flows_whose_copies_may_differ_are_not_judged(monkeypatch: pytest.MonkeyPatch, changes: Any) -> None:
    assert concluded(monkeypatch, [(11, 555)], 10, KnownEnd(10, 10, 12), **changes) is None


@pytest.mark.parametrize("error", [NotPairedError("begins later"), BrokerError(29, "denied")])
def test_what_cannot_be_read_is_not_judged(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    assert concluded(monkeypatch, [(11, 555)], 10, KnownEnd(10, 10, 12), error) is None


def test_a_broker_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerError):
        concluded(monkeypatch, [(11, 555)], 10, KnownEnd(10, 10, 12), BrokerError(6, "moved"))
