"""A transaction that stays open at the source is told: lag counts what can be read, so it would stay 0 for ever."""

from __future__ import annotations

import pytest
from reconciler_mirror.lane.fetch.open_transactions import OPEN_AFTER, OpenTransactions
from reconciler_mirror.lane.partition import Hold, Partition, Phase
from reconciler_mirror.model.lane import Condition, PartitionSpec


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("reconciler_mirror.lane.state.time.monotonic", lambda: now[0])
    return now


def copying() -> Partition:
    return Partition(PartitionSpec("orders", 3, "east.orders", ""), hold=Hold(phase=Phase.COPYING))


def test_a_transaction_that_lasts_is_reported_with_its_place_and_what_it_hides(clock: list[float]) -> None:
    held, partition = OpenTransactions(), copying()
    held.seen(partition, 40, 41)
    clock[0] += OPEN_AFTER
    held.seen(partition, 40, 1_240)  # others write on behind it
    assert held.look(clock[0]) == []
    clock[0] += 0.1
    assert held.look(clock[0]) == [partition]
    assert held.look(clock[0]) == [], "told once"
    told = partition.hold.condition
    assert told is not None
    assert (told.code, told.topic, told.partition, told.stops) == ("source_transaction_open", "orders", 3, False)
    assert "orders-3 is not copied further than source offset 40" in told.text
    assert "1,200 offsets so far" in told.text
    assert "abort --topic orders --partition 3 --start-offset 40" in told.todo
    held.seen(partition, 1_241, 1_241)
    assert partition.hold.condition is None
    assert held.look(clock[0] + 1e6) == []


def test_transactions_that_follow_one_another_are_ordinary(clock: list[float]) -> None:
    """There is always one open, but none for long."""
    held, partition = OpenTransactions(), copying()
    for stable in range(0, 1000, 10):
        held.seen(partition, stable, stable + 50)
        clock[0] += OPEN_AFTER / 2
        assert held.look(clock[0]) == []
    assert partition.hold.condition is None


@pytest.mark.parametrize("phase", [Phase.STOPPED, Phase.PAUSED, Phase.LEAVING])
def test_partitions_that_are_not_fetched_report_nothing(clock: list[float], phase: Phase) -> None:
    """What stops it is told already, and nobody looks whether the transaction has ended."""
    held, partition = OpenTransactions(), copying()
    held.seen(partition, 40, 41)
    partition.hold.phase = phase
    partition.hold.condition = other = Condition("record_refused", "text", "todo", "orders", 3, stops=True)
    assert held.look(clock[0] + 1e6) == []
    assert partition.hold.condition is other
    partition.hold.phase, partition.hold.condition = Phase.COPYING, None
    assert held.look(clock[0] + 1e6) == []


def test_another_condition_is_not_taken_away_or_overwritten(clock: list[float]) -> None:
    held, partition = OpenTransactions(), copying()
    held.seen(partition, 40, 41)
    partition.hold.condition = other = Condition("source_unavailable", "text", "todo", "orders", 3, stops=True)
    assert held.look(clock[0] + 1e6) == []
    held.seen(partition, 41, 41)
    assert partition.hold.condition is other
