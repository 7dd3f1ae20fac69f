"""The rate limit on real brokers: held within 10 % over 6 s, smooth, and the same for each partition."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest
from mirror.batch_path import batch_path

from sandbox.handles import Sandbox
from tests.wire.lane_runs import Flow, UntilControl, fill

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)
RATE = 1_500_000.0
SECONDS = 6.0


def test_a_limit_is_held_smoothly_and_shared_evenly(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    flow = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(flow.source, flow.topic, 2, retention_ms="-1")
    create_topic(flow.target, flow.remote, 2, retention_ms="-1")
    for partition, batch in ((0, 5), (1, 60)):  # one of small batches, one of big ones
        records = [(b"k", os.urandom(1000), (), NOW) for _ in range(10_000)]
        fill(flow.source, flow.topic, records, partition, batch_num_messages=batch, linger_ms=50)
    lane = flow.lane(rate=RATE)
    control = UntilControl(lane.partitions, lambda _: False, 120.0, bytes_per_second=RATE)
    thread = threading.Thread(target=batch_path, args=(lane, control))
    thread.start()
    try:
        samples = [_total(control)]
        while samples[0][1] == 0:
            time.sleep(0.05)
            samples = [_total(control)]
        while samples[-1][0] - samples[0][0] < SECONDS:
            time.sleep(0.05)
            samples.append(_total(control))
    finally:
        control.finished = True
        thread.join(30)
    seconds, copied = samples[-1][0] - samples[0][0], samples[-1][1] - samples[0][1]
    assert copied / seconds == pytest.approx(RATE, rel=0.1)
    for at, size in samples:  # no window of a second has more than two seconds' worth
        later = [more for then, more in samples if at <= then <= at + 1.0]
        assert max(later) - size <= 2 * RATE
    last = control.reports[-1]
    each = [p.bytes for p in last.partitions]
    assert max(each) <= 1.3 * min(each), each
    assert last.throttled_ms > 3_000


def _total(control: UntilControl) -> tuple[float, int]:
    reports = control.reports
    return time.monotonic(), sum(p.bytes for p in reports[-1].partitions) if reports else 0
