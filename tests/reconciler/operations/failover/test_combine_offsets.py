"""What bounds of both sides add to a translated offset."""

from __future__ import annotations

from reconciler.backends.clusters.groups import PartitionBounds
from reconciler.model.reports.failover import GroupOffset, TranslatedPartition
from reconciler.operations.failover.combine_offsets import settled


def test_an_offset_beyond_the_end_of_the_log_is_no_lag_of_the_mirror() -> None:
    lag = "the mirror has not copied more than up to source offset 100 yet"
    offset = GroupOffset(("orders", 0), ("east.orders", 0), 5_000, "", TranslatedPartition(100, False, lag), None)
    reason = settled(offset, PartitionBounds(0, 100, 100), PartitionBounds(0, 100, 100)).translated.reason
    assert reason.startswith("the group's offset 5000 is beyond the log of orders-0, which ends at 100")
    within = settled(offset, PartitionBounds(0, 5_000, 5_000), PartitionBounds(0, 100, 100)).translated.reason
    assert within == lag
