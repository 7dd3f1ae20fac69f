"""Chains and fan-out of lanes that keep offsets, over three clusters: every copy has the number of the first source.
And a checkpoint that a job keeps in a file goes on at any of the copies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.lanes.lane_runs import Flow, Lane, producer, running
from tests.support.lanes.load import mixed
from tests.support.lanes.truth import assert_equal, ends, records
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

CreateTopic = Callable[..., str]
PARTITIONS = 2
ALWAYS = 1 << 62


@pytest.fixture
def flows(trio: Sandbox, unique: str, create_topic: CreateTopic) -> tuple[Flow, Flow, Flow]:
    """east -> west, west -> hub behind it, and east -> hub beside it."""
    east, west, hub = trio["east"], trio["west"], trio["hub"]
    first = Flow(east, west, unique, PARTITIONS)
    second = Flow(west, hub, first.remote, PARTITIONS)
    direct = Flow(east, hub, unique, PARTITIONS)
    create_topic(east, unique, PARTITIONS)
    for flow in (first, second, direct):
        create_topic(flow.target, flow.remote, PARTITIONS)
    return first, second, direct


def test_chain_and_fan_out_keep_the_number_and_a_checkpoint_in_a_file_continues(
    flows: tuple[Flow, Flow, Flow], tmp_path: Path
) -> None:
    """All three run while the source is written to, with transactions committed and aborted, one left open for a while,
    and a first record that is not at 0."""
    first, second, direct = flows
    source, topic = first.source, first.topic
    mixed(first, 4)
    admin, cut = AdminClient(source.super_client()), TopicPartition(topic, 0, 23)
    admin.delete_records([cut])[cut].result(30)
    held = producer(source, transactional_id=f"{topic}-held")
    held.init_transactions()
    held.begin_transaction()
    held.produce(topic, b"held", b"held", 1)
    held.flush()
    with ExitStack() as stack:
        lanes = [stack.enter_context(running(Lane(first.lane(keeps_offsets=True))))]
        # A flow that begins at 0 while these offsets are filled and deleted finds them passed by retention, and stops.
        until(lambda: begins(first.target, first.remote) == 23)
        lanes += [stack.enter_context(running(Lane(flow.lane(keeps_offsets=True)))) for flow in (second, direct)]
        writing = threading.Thread(target=mixed, args=(first, 20, 2))
        writing.start()
        writing.join()
        held.abort_transaction()
        plain = producer(source)
        for partition in range(PARTITIONS):
            plain.produce(topic, b"last-%d" % partition, b"last", partition)
        assert plain.flush(20) == 0
        until_ends_are_equal(flows, lanes)
    assert_equal(first)
    assert_equal(second)
    assert_equal(direct)

    copies = (
        (first.target, first.remote),
        (second.target, second.remote),
        (direct.target, direct.remote),
    )
    placed = records(source, topic)
    for number, (cluster, remote) in enumerate(copies):
        file = tmp_path / f"checkpoint-{number}.json"
        before = Job(file).run(source, topic, 37 + 90 * number)
        after = Job(file).run(cluster, remote, ALWAYS)
        assert after, "the copy has records behind the checkpoint"
        assert before.keys() | after.keys() == placed.keys()
        assert not before.keys() & after.keys(), "no record is read twice"
        assert {**before, **after} == {place: (key, value) for place, (key, value, _) in placed.items()}


def until_ends_are_equal(flows: tuple[Flow, ...], lanes: list[Lane]) -> None:
    wanted, deadline = ends(flows[0].source, flows[0].topic), time.monotonic() + 120
    for flow, lane in zip(flows, lanes, strict=True):
        while (found := ends(flow.target, flow.remote)) != wanted:
            assert time.monotonic() < deadline, (flow.remote, found, wanted, lane.control.reports[-1:], lane.got)
            time.sleep(0.1)


def begins(cluster: ClusterHandle, topic: str) -> int:
    admin, asked = AdminClient(cluster.super_client()), TopicPartition(topic, 0)
    return admin.list_offsets({asked: OffsetSpec.earliest()})[asked].result(30).offset


class Job:
    """Reads as a job of Flink or Spark does: partitions are assigned, no group is asked, and the next offset of each
    is kept in a file."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint

    def run(self, cluster: ClusterHandle, topic: str, most: int) -> Mapping[tuple[int, int], tuple[object, object]]:
        """At most so many records, or up to the end of every partition; by partition and offset."""
        settings = {**cluster.super_client(), "group.id": "none", "enable.auto.commit": False}
        settings |= {"enable.partition.eof": True, "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
        # An offset that is not there is an error, and no jump to an end of the log.
        consumer = Consumer({**settings, "auto.offset.reset": "error"})
        read: dict[tuple[int, int], tuple[object, object]] = {}
        deadline = time.monotonic() + 60
        try:
            consumer.assign([TopicPartition(topic, number, at) for number, at in self._restored(consumer, topic)])
            ended: set[int] = set()
            while len(read) < most and len(ended) < PARTITIONS:
                assert time.monotonic() < deadline, f"{topic} on {cluster.name}: {len(read)} records"
                for message in consumer.consume(1, 0.1):
                    if (error := message.error()) is not None:
                        assert error.code() == KafkaError._PARTITION_EOF, error
                        ended.add(_number(message))
                        continue
                    read[_number(message), message.offset() or 0] = (message.key(), message.value())
            places = consumer.position([TopicPartition(topic, number) for number in range(PARTITIONS)])
            self._keep({place.partition: place.offset for place in places})
        finally:
            consumer.close()
        return read

    def _restored(self, consumer: Consumer, topic: str) -> list[tuple[int, int]]:
        if not self._checkpoint.exists():
            lows = ((n, consumer.get_watermark_offsets(TopicPartition(topic, n), 20)) for n in range(PARTITIONS))
            return [(number, bounds[0]) for number, bounds in lows]
        kept = json.loads(self._checkpoint.read_text(encoding="utf-8"))
        return [(int(number), offset) for number, offset in kept.items()]

    def _keep(self, positions: Mapping[int, int]) -> None:
        before = {}
        if self._checkpoint.exists():
            before = {int(number): at for number, at in json.loads(self._checkpoint.read_text("utf-8")).items()}
        # A partition of which nothing was read has no position yet.
        now = {number: at if at >= 0 else before.get(number, 0) for number, at in positions.items()}
        self._checkpoint.write_text(json.dumps(now), encoding="utf-8")


def _number(message: Message) -> int:
    number = message.partition()
    assert number is not None
    return number
