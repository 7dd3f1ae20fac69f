"""The rate limit on real brokers: held within 10 % over 10 s, smooth, and the same for each partition."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import pytest
from mirror.batch_path import batch_path
from mirror.lanes import LaneProgress

from sandbox.handles import Sandbox
from tests.wire.lane_runs import Flow, UntilControl, fill

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)
RATE = 1_500_000.0
SECONDS = 10.0


@dataclass
class Timed(UntilControl):
    """``told``: when each report came, on the monotonic clock, and the bytes copied by then. On a busy machine reports
    come in lumps, so a rate is measured from report to report."""

    told: list[tuple[float, int]] = field(default_factory=list)

    def report(self, progress: LaneProgress) -> None:
        super().report(progress)
        copied = sum(one.bytes for one in progress.partitions)
        if copied:
            self.told.append((time.monotonic(), copied))


def test_a_limit_is_held_smoothly_and_shared_evenly(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    flow = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(flow.source, flow.topic, 2, retention_ms="-1")
    create_topic(flow.target, flow.remote, 2, retention_ms="-1")
    for partition, batch in ((0, 5), (1, 60)):  # one of small batches, one of big ones
        records = [(b"k", os.urandom(1000), (), NOW) for _ in range(10_000)]
        fill(flow.source, flow.topic, records, partition, batch_num_messages=batch, linger_ms=50)
    lane = flow.lane(rate=RATE)
    control = Timed(lane.partitions, lambda _: False, 120.0, bytes_per_second=RATE)
    thread = threading.Thread(target=batch_path, args=(lane, control))
    thread.start()
    try:
        while thread.is_alive() and (len(control.told) < 2 or control.told[-1][0] - control.told[0][0] < SECONDS):
            time.sleep(0.05)
    finally:
        control.finished = True
        thread.join(30)
    told = control.told
    (began, before), (ended, after) = told[0], told[-1]
    assert (after - before) / (ended - began) == pytest.approx(RATE, rel=0.1)
    for (then, size), (later, more) in combinations(told, 2):  # never ahead of the limit by more than a second's worth
        assert more - size <= RATE * (later - then + 1.0)
    last = control.reports[-1]
    each = [p.bytes for p in last.partitions]
    assert max(each) <= 1.3 * min(each), each
    assert last.throttled_ms > 3_000
