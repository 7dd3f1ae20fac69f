"""Plays the tasks of many leases: ``python -m bench.processes.lane_reports FILE``, over the real control channel.

``FILE`` holds a pickled ``ManyLanes``. Each lane tells all of its partitions as often as a busy lane does, with numbers
that grow, at most ``rows_per_s`` rows a second and lease. The rows are rendered once and the numbers put in, so that
this process costs less than the driver that it loads.
Ends when the driver closes its lines.
"""

from __future__ import annotations

import heapq
import json
import pickle
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from reconciler_mirror.lane.progress import report_pause
from reconciler_mirror.leases.channel import ROWS, ChannelClient
from reconciler_mirror.leases.task import ALIVE_S
from reconciler_mirror.model.lane import Condition, LaneProgress, PartitionProgress, PartitionSpec

_POSITION, _END, _RECORDS, _BYTES = 10**15 + 1, 10**15 + 2, 10**15 + 3, 10**15 + 4
"""Stand for the numbers in what is rendered once."""


@dataclass(frozen=True, slots=True)
class OneLane:
    lease: str
    flow: str
    lane: int
    partitions: tuple[PartitionSpec, ...]


@dataclass(frozen=True, slots=True)
class ManyLanes:
    """``conditions``: each partition tells one, as in an outage."""

    address: tuple[str, int]
    token: str
    lanes: tuple[OneLane, ...]
    rows_per_s: float
    conditions: bool = False


def _rendered(lane: OneLane, *, conditions: bool) -> str:
    rows = tuple(
        PartitionProgress(spec.topic, spec.partition, _POSITION, _END, _RECORDS, _BYTES) for spec in lane.partitions
    )
    told = tuple(
        Condition(
            "record_refused",
            f"{spec.topic}-{spec.partition}: the broker answered NOT_ENOUGH_REPLICAS for 30 s",
            "Check the target's brokers and min.insync.replicas; it is retried automatically.",
            spec.topic,
            spec.partition,
            stops=True,
        )
        for spec in lane.partitions
        if conditions
    )
    return json.dumps({"progress": ROWS.encoded(LaneProgress(lane.flow, lane.lane, rows, told))}, separators=(",", ":"))


def _numbered(text: str, number: int) -> bytes:
    for mark, value in ((_POSITION, 100 * number), (_END, 100 * number + 7), (_RECORDS, 100 * number)):
        text = text.replace(str(mark), str(value))
    return text.replace(str(_BYTES), str(100_000 * number)).encode()


def play(work: ManyLanes) -> None:
    texts = [_rendered(lane, conditions=work.conditions) for lane in work.lanes]
    leases = sorted({lane.lease for lane in work.lanes})
    lines = {lease: ChannelClient(work.address, work.token, lease, lambda _: None) for lease in leases}
    for lane in work.lanes:
        lines[lane.lease].send({"prepared": [lane.flow, lane.lane]})
    start, numbers, alive = time.monotonic(), [0] * len(texts), [0.0] * len(texts)
    rows = Counter({lane.lease: 0 for lane in work.lanes})
    for lane in work.lanes:
        rows[lane.lease] += len(lane.partitions)
    pauses = [
        max(report_pause(len(lane.partitions), len(lane.partitions)), rows[lane.lease] / work.rows_per_s)
        for lane in work.lanes
    ]
    due = [(start + pauses[index] * index / len(texts), index) for index in range(len(texts))]  # spread from the start
    heapq.heapify(due)
    while all(line.lines == 1 for line in lines.values()):
        at, index = due[0]
        time.sleep(max(0.0, at - time.monotonic()))
        numbers[index] += 1
        lane = work.lanes[index]
        line = lines[lane.lease]._line
        if line is None or not line.send_raw(_numbered(texts[index], numbers[index])):
            return
        now = time.monotonic()
        if now - alive[index] > ALIVE_S:
            alive[index] = now
            line.send({"alive": [[lane.flow, lane.lane]]})
        heapq.heapreplace(due, (now + pauses[index], index))


if __name__ == "__main__":
    play(pickle.loads(Path(sys.argv[1]).read_bytes()))  # bench.processes.driver wrote it
