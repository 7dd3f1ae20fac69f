"""``python -m bench.copy.verify``: what a proof costs beside the copy, by whole batches and record by record.

Records of 1 KB, lz4, copied by a lane of this process; CPU seconds are those of this process alone (no Spark, no
brokers). Both proofs read the same records in one run, once with producer batches of 16 KB and once of 1 MB.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace

from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Claim, LaneProgress, PartitionSpec, lane_spec
from reconciler_mirror.verify.bounds import bounds_of
from reconciler_mirror.verify.in_order.compare import Continued, compared
from reconciler_mirror.verify.model import PartitionRange, TimeWindow
from reconciler_mirror.verify.read_partition import Readers
from reconciler_sandbox.brokers.up_down import running
from reconciler_sandbox.handles import Sandbox

from bench.copy.figures import CASES
from bench.groups import UntilCopied, endpoint
from bench.records.load import records
from reconciler.replication.handover import FlowSettings, Naming, Start

RECORDS, PARTITIONS, BATCH_BYTES = 400_000, 8, (16_384, 1_000_000)


class UntilAllCopied(UntilCopied):
    def report(self, progress: LaneProgress) -> None:
        if sum(p.position or 0 for p in progress.partitions) >= RECORDS:
            self.ended.set()


def prepared(sandbox: Sandbox, topic: str, batch_bytes: int) -> FlowSettings:
    east, west = sandbox["east"], sandbox["west"]
    for handle, name in ((east, topic), (west, f"east.{topic}")):
        admin = AdminClient(handle.client())
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    settings = {"compression.type": "lz4", "batch.size": batch_bytes, "linger.ms": 50}
    producer = Producer({**east.client(), **settings, "queue.buffering.max.messages": 1_000_000})
    data = replace(CASES["1kb-lz4"].data, partitions=PARTITIONS)
    for partition, key, value, timestamp in records(data, RECORDS, int(time.time() * 1000)):
        producer.produce(topic, value, key, partition=partition, timestamp=timestamp)
        producer.poll(0)
    producer.flush(120)
    return FlowSettings(
        name=topic, fingerprint="0" * 16, source=endpoint(east), target=endpoint(west), topics=(topic,),
        exclude_topics=(), naming=Naming(), delivery="exactly_once", isolation="read_committed", start=Start(), lanes=1,
        groups=None,
    )  # fmt: skip


def copied(flow: FlowSettings, sandbox: Sandbox) -> None:
    topic = flow.topics[0]
    admin = AdminClient(sandbox["east"].client())
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(20)
    topic_id = str(described.topic_id).replace("+", "-").replace("/", "_")
    specs = tuple(PartitionSpec(topic, p, f"east.{topic}", topic_id) for p in range(PARTITIONS))
    lane = replace(lane_spec(flow, 0), partitions=specs, claim=Claim(1, "bench"))
    report = batch_path(lane, UntilAllCopied(specs))
    if report.error:
        sys.exit(f"the records were not copied: {report.error}")


def proof(ranges: Iterable[PartitionRange]) -> int:
    """How many records equal batches prove."""
    with closing(Readers()) as readers:
        readings = [reading for one in ranges for reading in compared(Continued(one), readers)]
    if any(reading.error or reading.differing for reading in readings):
        sys.exit(f"not proved: {readings}")
    return sum(reading.by_bytes for reading in readings)


def measured(turn: Callable[[], object]) -> tuple[object, float]:
    began = time.process_time()
    answer = turn()
    return answer, time.process_time() - began


def main() -> None:
    with running("plain") as sandbox:
        for batch_bytes in BATCH_BYTES:
            flow = prepared(sandbox, f"batches-{batch_bytes}", batch_bytes)
            _, copying = measured(lambda flow=flow: copied(flow, sandbox))  # type: ignore[misc]
            ranges = bounds_of(flow, TimeWindow(), {}, 0).ranges
            by_bytes, batches = measured(lambda ranges=ranges: proof(ranges))  # type: ignore[misc]
            # A range of time is compared record by record.
            timed = [replace(one, window=TimeWindow(from_ms=0)) for one in ranges]
            _, each = measured(lambda timed=timed: proof(timed))  # type: ignore[misc]
            sys.stdout.write(
                f"{RECORDS:,} records of 1 KB, lz4, producer batches of {batch_bytes:,} bytes, {by_bytes:,} by bytes\n"
                f"  records a CPU-second: {RECORDS / batches:,.0f} by whole batches, {RECORDS / each:,.0f} one by one,"
                f" {RECORDS / copying:,.0f} copied\n"
                f"  whole batches cost {batches / each:.2f} of record by record, {batches / copying:.2f} of copying\n"
            )


if __name__ == "__main__":
    main()
