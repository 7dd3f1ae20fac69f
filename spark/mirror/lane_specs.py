"""What a lane is given, made of its flow's settings, and what Spark's pages call the lease it is in."""

from __future__ import annotations

from mirror.lanes import AWAITED, LaneSpec
from mirror.settings import FlowSettings
from replication.names import position_group, transactional_id


def lane_spec(flow: FlowSettings, lane: int) -> LaneSpec:
    """Without partitions or claim. The start is earliest: any other but offsets was committed at the takeover."""
    return LaneSpec(
        flow=flow.name,
        lane=lane,
        transactional_id=transactional_id(flow.name, lane),
        group=position_group(flow.name),
        source=flow.source,
        target=flow.target,
        delivery=flow.delivery,
        isolation=flow.isolation,
        start_kind="earliest",
        start_timestamp_ms=None,
        partitions=(),
        claim=AWAITED,
        start_offsets=flow.start_offsets,
        continue_on=flow.continue_on,
        work=flow.work,
        offset_syncs=flow.mirrormaker.offset_syncs,
    )


def describe(slot: int, lanes: tuple[LaneSpec, ...]) -> str:
    """What the Spark UI shows: ``lease 1: orders lanes 0-3, payments lane 2``."""
    flows: dict[str, list[int]] = {}
    for lane in lanes:
        flows.setdefault(lane.flow, []).append(lane.lane)
    parts = [f"{flow} lane{'s' if len(n) > 1 else ''} {','.join(map(str, sorted(n)))}" for flow, n in flows.items()]
    return f"lease {slot}: {', '.join(parts)}"
