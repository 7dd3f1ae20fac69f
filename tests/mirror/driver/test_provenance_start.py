"""Where marked copies begin, as the positions of arriving flows say, and where they do not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from reconciler_mirror.driver import provenance_start
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.start import Starter
from reconciler_mirror.model.lane import Claim, Condition, PartitionSpec, ProvenanceSettings

from reconciler.replication.offsets.position_metadata import Owner

POSITIONS = {
    ("orders", 0): LanePosition(9, "id", marked=(40, 9)),
    ("orders", 1): LanePosition(3, proved=False),
    ("orders", 2): LanePosition(9, "id", claim=Claim(3, "app", owner=Owner("test", "another")), marked=(70, 9)),
}


def test_a_position_that_another_client_committed_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_all(*_: object) -> dict[tuple[str, int], LanePosition]:
        return POSITIONS

    monkeypatch.setattr(provenance_start, "read_all", read_all)
    flow: Any = SimpleNamespace(name="back", provenance=SimpleNamespace(arriving=("there",)), source=None)
    assert asyncio.run(provenance_start._floors(flow, cast(Any, None), "W")) == (
        {("orders", 0): 40, ("orders", 2): 70},
        {("orders", 1): "there"},
        {("orders", 0): 40},
    )


def test_a_first_copy_does_not_begin_where_that_is_not_known() -> None:
    """At its beginning copies without a header would return, further on records would be left out."""
    ground = ProvenanceSettings(unknown={("orders", 1): "there"})
    stopped: list[Condition] = []
    lane: Any = SimpleNamespace(
        spec=SimpleNamespace(claim=Claim(2, "app", ground)), stop=lambda _, condition: stopped.append(condition)
    )
    Starter(lane)._begin_first(partition := Partition(PartitionSpec("orders", 1, "orders", "id")), 0)
    assert partition.log.covered < 0
    [condition] = stopped
    assert (condition.code, condition.partition, condition.stops) == ("provenance_not_yet_marked", 1, True)
    assert "committed the position of there" in condition.text
