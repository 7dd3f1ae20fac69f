"""What a move looks at: how much of a lag is of records that somebody can miss."""

from __future__ import annotations

import pytest

from reconciler.live import FlowStatus
from reconciler.routing import selector_of
from reconciler.surveying import _lag
from tests.builders import flow


@pytest.mark.parametrize(
    ("lag", "worst", "left"),
    [
        (None, (), None),
        (7, (), 7),
        (7, ({"topic": "heartbeats", "partition": 0, "records_lag": 3},), 4),
        (7, ({"topic": "orders", "partition": 0, "records_lag": 4}, {"topic": "heartbeats", "records_lag": 3}), 4),
        (3, ({"topic": "heartbeats", "partition": 0, "records_lag": None},), 3),
    ],
)
def test_the_last_known_lag_is_told_without_heartbeats(
    lag: int | None, worst: tuple[dict[str, object], ...], left: int | None
) -> None:
    told = FlowStatus("east-to-west", "", records_lag=lag, worst_partitions=worst)
    assert _lag(told, selector_of(flow("east", "west", "orders"))) == left
