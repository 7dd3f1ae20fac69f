"""What bounds of both sides add to a translated offset."""

from __future__ import annotations

import pytest

from reconciler.backends.clusters.groups import PartitionBounds
from reconciler.model.reports.failover import GroupOffset, Leg, TranslatedPartition
from reconciler.operations.failover.combine_offsets import Chart, of_both, settled
from reconciler.replication.offsets.map import CopiedRun, Exactness, Gap, PartitionMap, Stretch, Translation


@pytest.mark.parametrize("known", [None, 100])
def test_a_partition_without_a_record_is_exact_but_for_an_offset_beyond_its_log(known: int | None) -> None:
    why = "offset 5000 is beyond the log of orders-0 on east, which ends at 100"
    empty = PartitionBounds(100, 100, 100)
    beyond = GroupOffset(("orders", 0), ("east.orders", 0), 5_000, "", TranslatedPartition(known, False, why), None)
    told = settled(beyond, empty, empty).translated
    assert (told.offset, told.exact, told.reason) == (100, False, why)
    within = GroupOffset(("orders", 0), ("east.orders", 0), 100, "", TranslatedPartition(known, False, why), None)
    assert settled(within, empty, empty).translated == TranslatedPartition(100, True)


@pytest.mark.parametrize("final", [True, False])
def test_between_two_flows_an_offset_beyond_the_log_is_not_called_behind(final: bool) -> None:
    """Of a topic that both clusters write under one name."""
    leg_out, leg_back = Leg("out", forward=True), Leg("back", forward=False)
    key, why = ("orders", 0), "offset 5000 is beyond the log"
    copied = PartitionMap([Stretch(0, 10, (CopiedRun(0, 0, 10),))])
    gap = None if final else Gap(10, 10, None, None)
    out = Chart(leg_out, {key: copied}, {key: 10}, {(key, 5_000): Translation(10, Exactness.EARLIER, why, gap)})
    back = Chart(leg_back, {key: copied}, {key: 20}, {(key, 5_000): Translation(10, Exactness.EARLIER, "late", gap)})
    offer = GroupOffset(key, key, 5_000, "", TranslatedPartition(10, False, why), None)
    (both,) = of_both([(back, offer), (out, offer)])
    assert (both.translated.exact, both.translated.reason == why) == (False, final)
