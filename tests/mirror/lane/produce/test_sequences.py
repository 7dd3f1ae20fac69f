"""Sequences of a producer that pass 2^31 on a real broker: nothing lost, nothing doubled.

A lane gets there after 2^31 records of one partition; here its partitions begin shortly before. With KIP-890 version 2
it never does: sequences begin at 0 in each transaction.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest
from reconciler_mirror.lane import session as batch_session
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client import transactions
from tests.support.lanes.lane_runs import Content, Flow, fill
from tests.support.lanes.load import FIRST, shortly_before

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)
RECORDS: list[Content] = [(b"k", b"%d" % i, (), NOW + i) for i in range(1000)]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch) -> Flow:
    made = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(made.source, made.topic, 2)
    create_topic(made.target, made.remote, 2)
    for partition in range(2):  # batches of 40, so that the wrap lies within one
        fill(made.source, made.topic, RECORDS, partition, batch_num_messages=40, linger_ms=50, compression_type="lz4")
    monkeypatch.setattr(batch_session, "Partition", shortly_before)
    return made


@pytest.mark.parametrize("mode", ["classic", "at_least_once"])
def test_they_wrap_in_the_midst_of_a_batch(flow: Flow, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode == "classic":
        monkeypatch.setattr(transactions, "speaks_version_2", lambda _: False)
    report, _ = flow.run(batch_path, delivery="at_least_once" if mode == "at_least_once" else "exactly_once")
    assert report.progress.retries == 0, "the broker took them as they came"
    assert flow.target_content() == flow.source_content()
    for partition in range(2):
        written = _sequences(flow, partition)
        assert written[0][0] == FIRST
        assert any(first > 2**31 - 41 and first + records > 2**31 for first, records in written), written
        after = [first for first, _ in written if first < FIRST]
        assert after, written
        assert max(after) < len(RECORDS)


def _sequences(flow: Flow, partition: int) -> list[tuple[int, int]]:
    """First sequence and records of each batch of the target's log with records, as it lies on its broker's disk."""
    folder = flow.target.folder / "broker-1" / "data" / f"{flow.remote}-{partition}"
    (log,) = folder.glob("*.log")
    raw, at, found = log.read_bytes(), 0, []
    while at < len(raw):
        (length,) = struct.unpack_from(">i", raw, at + 8)
        first, records = struct.unpack_from(">ii", raw, at + 53)
        if first >= 0:
            found.append((first, records))
        at += 12 + length
    return found
