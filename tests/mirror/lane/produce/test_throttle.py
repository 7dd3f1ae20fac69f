"""The rate limit on real brokers: used to nine tenths at least, kept at every moment, and the same for each
partition."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import pytest
from reconciler_mirror.lane.produce.throttle import BURST_S
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneProgress
from reconciler_sandbox.handles import Sandbox

from tests.support.lanes.lane_runs import Flow, UntilControl, fill

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)
RATE = 1_500_000.0
SECONDS = 10.0
LARGEST = 100_000
"""More than the bytes of any batch here; the limit is overdrawn by one."""


@dataclass
class Timed(UntilControl):
    """``told``: when a report told of a commit, on the monotonic clock, and the bytes committed by then. What a commit
    holds was written before it began, and it began after the one before it: two of these times ago, or later."""

    told: list[tuple[float, int]] = field(default_factory=list)

    def report(self, progress: LaneProgress) -> None:
        super().report(progress)
        copied = sum(one.bytes for one in progress.partitions)
        if copied > (self.told[-1][1] if self.told else 0):
            self.told.append((time.monotonic(), copied))


@pytest.mark.long
def test_a_limit_is_held_smoothly_and_shared_evenly(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    flow = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(flow.source, flow.topic, 2, retention_ms="-1")
    create_topic(flow.target, flow.remote, 2, retention_ms="-1")
    for partition, batch in ((0, 5), (1, 60)):  # one of small batches, one of big ones
        records = [(b"k", os.urandom(1000), (), NOW) for _ in range(16_000)]
        fill(flow.source, flow.topic, records, partition, batch_num_messages=batch, linger_ms=50)
    lane = flow.lane(rate=RATE)
    control = Timed(lane.partitions, lambda _: False, 120.0, bytes_per_second=RATE)
    thread = threading.Thread(target=batch_path, args=(lane, control))
    thread.start()
    try:
        while thread.is_alive() and (len(control.told) < 5 or control.told[-1][0] - control.told[0][0] < SECONDS):
            time.sleep(0.05)
    finally:
        control.finished = True
        thread.join(30)
    told = control.told
    assert told[-1][1] - told[0][1] >= 0.9 * RATE * (told[-3][0] - told[0][0])
    for one, other in combinations(range(2, len(told)), 2):
        assert told[other][1] - told[one][1] <= RATE * (told[other][0] - told[one - 2][0] + BURST_S) + LARGEST
    last = control.reports[-1]
    each = [p.bytes for p in last.partitions]
    # Batch for batch one would get twelve times as much. Bytes are shared while both have some: on a busy machine the
    # next fetch of one may be late, and the other then has its part too.
    assert max(each) <= 2 * min(each), each
    assert last.throttled_ms > 3_000
