"""A lane that is begun before its flow is taken over waits for the claim; nothing is fenced before."""

from __future__ import annotations

import time
from dataclasses import replace

from mirror.lanes import AWAITED, Control, LaneSpec

LOOK_S = 0.01


def leaving(control: Control) -> bool:
    return control.stopping() or control.lease_over()


def with_claim(lane: LaneSpec, control: Control) -> LaneSpec | None:
    """For a path that has nothing to get ready. None: the lane must leave before the flow is taken over."""
    if lane.claim == AWAITED:
        control.prepared()
    while lane.claim == AWAITED:
        if leaving(control):
            return None
        time.sleep(LOOK_S)
        lane = replace(lane, claim=control.claim())
    return lane
