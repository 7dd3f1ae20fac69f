"""Every lane on real brokers is watched: what it tells, made of what changed, is what a look at everything tells, and
positions are in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from reconciler_mirror.lane.progress import ProgressReports, row
from reconciler_mirror.model.lane import LaneProgress


@pytest.fixture(autouse=True)
def _nothing_is_kept_back(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.node.get_closest_marker("kafka") is None:
        yield
        return
    kept: list[str] = []
    progress = ProgressReports.progress

    def watched(telling: ProgressReports) -> LaneProgress:
        told = progress(telling)
        lane = telling._lane
        rows = {(one.topic, one.partition): one for one in told.partitions}
        kept.extend(f"{key} still told" for key in rows.keys() - lane.partitions.keys())
        for key, partition in lane.partitions.items():
            if rows.get(key) != row(lane, partition):
                kept.append(f"{rows.get(key)} instead of {row(lane, partition)}")
            log = partition.log
            undecided = partition in lane.dirty or partition in lane.touched
            if log.covered >= 0 and not (log.reached <= log.covered if undecided else log.in_order):
                kept.append(f"{key} is out of order: {log.committed}, {log.reached}, {log.covered}")
            if partition.hold.condition is not None and partition.hold.condition not in told.conditions:
                kept.append(f"{partition.hold.condition} is not told")
        return told

    monkeypatch.setattr(ProgressReports, "progress", watched)
    yield
    assert kept == []
