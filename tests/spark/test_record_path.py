"""The record path against real brokers, without Spark: what must hold for one lane."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from mirror.discovery import LiveCluster
from mirror.lanes import Claim, Endpoint, LaneEnd, LaneProgress, LaneReport, LaneSpec, PartitionSpec
from mirror.positions import Position, as_topic_partition, decode
from mirror.record_path import record_path

from sandbox.handles import ClusterHandle, Sandbox
from tests.spark.records import digest, producer, total, write_awkward, write_transactions

pytestmark = pytest.mark.kafka
CreateTopic = Callable[..., str]


def endpoint(cluster: ClusterHandle) -> Endpoint:
    client = cluster.client()
    return Endpoint(cluster.name, tuple(client.pop("bootstrap.servers").split(",")), client)


@dataclass
class Steered:
    """A ``Control`` in the hands of a test."""

    specs: tuple[PartitionSpec, ...]
    stop: threading.Event = field(default_factory=threading.Event)
    latest: LaneProgress | None = None

    def stopping(self) -> bool:
        return self.stop.is_set()

    def claim(self) -> Claim:
        raise AssertionError("the lane was begun with a claim")

    def prepared(self) -> None:
        raise AssertionError("the lane was begun with a claim")

    def paused(self) -> frozenset[tuple[str, int]]:
        return frozenset()

    def rate(self) -> float:
        return 0.0

    def lease_over(self) -> bool:
        return False

    def partitions(self) -> tuple[PartitionSpec, ...]:
        return self.specs

    def report(self, progress: LaneProgress) -> None:
        self.latest = progress


class Running:
    """A lane in a thread. ``until`` waits for what its progress must show."""

    def __init__(self, lane: LaneSpec) -> None:
        self.control = Steered(lane.partitions)
        self._reports: list[LaneReport] = []
        self._thread = threading.Thread(target=lambda: self._reports.append(record_path(lane, self.control)))
        self._thread.start()

    def until(self, wanted: Callable[[LaneProgress], bool], seconds: float = 40.0) -> LaneProgress:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.control.latest is not None and wanted(self.control.latest):
                return self.control.latest
            time.sleep(0.02)
        raise AssertionError(f"never seen; the last progress was {self.control.latest}, {self._reports}")

    def end(self, seconds: float = 40.0) -> LaneReport:
        self._thread.join(seconds)
        assert self._reports, "the lane did not end"
        return self._reports[0]

    def stop(self) -> LaneReport:
        self.control.stop.set()
        return self.end()


def caught_up(progress: LaneProgress) -> bool:
    return bool(progress.partitions) and all(
        p.position is not None and p.position == p.end for p in progress.partitions
    )


def codes(progress: LaneProgress) -> set[str]:
    return {condition.code for condition in progress.conditions}


@dataclass
class Bench:
    east: ClusterHandle
    west: ClusterHandle
    create: CreateTopic
    flow: str
    running: list[Running] = field(default_factory=list)

    def topic(self, name: str, partitions: int = 1, target: dict[str, str] | None = None, **configs: str) -> str:
        """Kept for ever, because awkward records are as old as 1970."""
        self.create(self.west, f"east.{name}", partitions, retention_ms="-1", **(target or {}))
        return self.create(self.east, name, partitions, retention_ms="-1", **configs)

    def specs(self, *topics: str) -> tuple[PartitionSpec, ...]:
        cluster = LiveCluster(endpoint(self.east))
        listed, ids = cluster.topics(), cluster.topic_ids(topics)
        return tuple(
            PartitionSpec(topic, number, f"east.{topic}", ids[topic])
            for topic in topics
            for number in range(listed[topic].partitions)
        )

    def lane(self, *topics: str, **changes: object) -> LaneSpec:
        lane = LaneSpec(
            self.flow, 0, f"mirror.{self.flow}.0", f"mirror.{self.flow}", endpoint(self.east), endpoint(self.west),
            "exactly_once", "read_committed", "earliest", None, self.specs(*topics), Claim(1, "one"),
        )  # fmt: skip
        return replace(lane, **changes)  # type: ignore[arg-type]

    def start(self, *topics: str, **changes: object) -> Running:
        self.running.append(Running(self.lane(*topics, **changes)))
        return self.running[-1]

    def position(self, topic: str, partition: int = 0) -> Position | None:
        group = self._group()
        entry = group.committed([TopicPartition(f"east.{topic}", partition)], timeout=20)[0]
        group.close()
        return decode(entry.offset, entry.metadata) if entry.offset >= 0 else None

    def set_position(self, topic: str, position: Position, partition: int = 0) -> None:
        group = self._group()
        group.commit(offsets=[as_topic_partition(f"east.{topic}", partition, position)], asynchronous=False)
        group.close()

    def equal(self, topic: str) -> int:
        """The number of records, once both sides are proved equal."""
        source = digest(self.east, topic)
        assert source == digest(self.west, f"east.{topic}")
        return total(source)

    def _group(self) -> Consumer:
        settings = {"group.id": f"mirror.{self.flow}", "enable.auto.commit": False, "isolation.level": "read_committed"}
        return Consumer({**self.west.client(), **settings})


@pytest.fixture
def bench(plain: Sandbox, create_topic: CreateTopic, unique: str) -> Iterator[Bench]:
    made = Bench(plain.clusters["east"], plain.clusters["west"], create_topic, unique)
    yield made
    for running in made.running:
        running.control.stop.set()
        running.end()


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_every_record_arrives_as_it_was(bench: Bench, delivery: str) -> None:
    topic = bench.topic(f"{bench.flow}awkward", 3)
    write_awkward(bench.east, topic, 3, 3000)
    lane = bench.start(topic, delivery=delivery)
    lane.until(caught_up)
    assert lane.stop().end is LaneEnd.STOPPED
    assert bench.equal(topic) == 3000


def test_aborted_data_is_not_copied_and_the_lag_ends_at_zero(bench: Bench) -> None:
    topic = bench.topic(f"{bench.flow}tx", 2)
    lane = bench.start(topic)
    committed = write_transactions(bench.east, topic, 2, 7, f"{bench.flow}-writer")
    high = {number: _end(bench.east, topic, number) for number in range(2)}
    lane.until(lambda p: {q.partition: q.position for q in p.partitions} == high)
    assert sum(p.records for p in lane.stop().progress.partitions) == committed
    assert bench.equal(topic) == committed


def _end(cluster: ClusterHandle, topic: str, partition: int) -> int:
    reader = Consumer({**cluster.client(), "group.id": "ends"})
    _, high = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
    reader.close()
    return int(high)


def test_a_trickle_is_committed_at_once(bench: Bench) -> None:
    topic = bench.topic(f"{bench.flow}trickle")
    lane = bench.start(topic)
    lane.until(caught_up)
    maker = producer(bench.east, linger_ms=0)
    for number in range(5):
        maker.produce(topic, b"one", partition=0)
        maker.flush()
        lane.until(lambda p, n=number: caught_up(p) and p.partitions[0].records == n + 1, seconds=10)
    assert lane.stop().progress.transactions >= 5


def test_a_restart_goes_on_where_the_target_says(bench: Bench) -> None:
    topic = bench.topic(f"{bench.flow}resume", 2)
    write_awkward(bench.east, topic, 2, 200, seed=1)
    bench.start(topic).until(caught_up)
    bench.running[-1].stop()
    write_awkward(bench.east, topic, 2, 200, seed=2)
    second = bench.start(topic)
    progress = second.until(caught_up)
    second.stop()
    assert sum(p.records for p in progress.partitions) == 200
    assert bench.equal(topic) == 400


def test_partitions_join_and_leave_while_it_runs(bench: Bench) -> None:
    first, second = bench.topic(f"{bench.flow}first"), bench.topic(f"{bench.flow}second")
    lane = bench.start(first)
    write_awkward(bench.east, first, 1, 100)
    write_awkward(bench.east, second, 1, 100)
    lane.control.specs = bench.specs(first, second)
    lane.until(lambda p: caught_up(p) and sum(q.records for q in p.partitions) == 200)
    lane.control.specs = bench.specs(second)
    lane.until(lambda p: [q.topic for q in p.partitions] == [second])
    assert bench.equal(first) == bench.equal(second) == 100


@pytest.mark.parametrize(
    ("why", "target", "key", "value"),
    [
        ("too large", {"max_message_bytes": "20000"}, b"k", random.Random(1).randbytes(50_000)),
        ("no key in a compacted topic", {"cleanup_policy": "compact"}, None, b"x"),
        ("too old", {"message_timestamp_before_max_ms": "3600000"}, b"k", b"x"),
    ],
)
def test_a_refused_record_stops_its_partition_only(
    bench: Bench, why: str, target: dict[str, str], key: bytes | None, value: bytes
) -> None:
    bad = bench.topic(f"{bench.flow}bad", 2, target=target)
    good = bench.topic(f"{bench.flow}good", 1)
    maker = producer(bench.east)
    for number in range(10):
        maker.produce(bad, b"fine", b"k%d" % number, 0)
    maker.produce(bad, value, key, 0, timestamp=5 if why == "too old" else 0)
    maker.produce(bad, b"behind it", b"k", 0)
    maker.produce(bad, b"beside it", b"k", 1)
    maker.flush()
    write_awkward(bench.east, good, 1, 50)
    lane = bench.start(bad, good)
    lane.until(lambda p: "record_refused" in codes(p) and sum(q.records for q in p.partitions) == 61)
    [condition] = lane.stop().progress.conditions
    assert (condition.topic, condition.partition, condition.stops) == (bad, 0, True)
    assert "offset 10" in condition.text
    copied = digest(bench.west, f"east.{bad}")
    assert (copied[0][0], copied[1][0]) == (10, 1)
    held = bench.position(bad)
    assert held is not None
    assert held.offset == 10
    assert bench.equal(good) == 50


def test_timestamp_zero_is_never_changed_silently(bench: Bench) -> None:
    topic = bench.topic(f"{bench.flow}zero")
    _produce_at_epoch(bench, topic)
    lane = bench.start(topic)
    lane.until(lambda p: "record_refused" in codes(p))
    [condition] = lane.stop().progress.conditions
    assert "timestamp 0" in condition.text
    assert digest(bench.west, f"east.{topic}")[0][0] == 1


def _produce_at_epoch(bench: Bench, topic: str) -> None:
    from kafka import KafkaProducer

    java_like = KafkaProducer(bootstrap_servers=bench.east.bootstrap_servers)
    java_like.send(topic, b"before", partition=0, timestamp_ms=7).get(20)
    java_like.send(topic, b"at the epoch", partition=0, timestamp_ms=0).get(20)
    java_like.close()


def test_records_that_retention_took_are_a_condition_with_their_number(bench: Bench) -> None:
    lost, good = bench.topic(f"{bench.flow}lost"), bench.topic(f"{bench.flow}good")
    write_awkward(bench.east, lost, 1, 30)
    write_awkward(bench.east, good, 1, 30)
    admin = AdminClient(bench.east.client())
    [deleted] = admin.delete_records([TopicPartition(lost, 0, 20)]).values()
    deleted.result(20)
    bench.set_position(lost, Position(5))
    lane = bench.start(lost, good)
    lane.until(lambda p: "source_retention_passed" in codes(p) and sum(q.records for q in p.partitions) == 30)
    [condition] = lane.stop().progress.conditions
    assert "15 offsets" in condition.text
    assert bench.equal(good) == 30
    assert digest(bench.west, f"east.{lost}")[0][0] == 0


def test_a_source_shorter_than_the_position_was_truncated(bench: Bench) -> None:
    topic = bench.topic(f"{bench.flow}short")
    write_awkward(bench.east, topic, 1, 10)
    bench.set_position(topic, Position(500))
    lane = bench.start(topic)
    lane.until(lambda p: "source_truncated" in codes(p))
    [condition] = lane.stop().progress.conditions
    assert "500" in condition.text
    assert "10" in condition.text


def test_a_recreated_topic_is_not_mixed_with_the_old_one(bench: Bench) -> None:
    topic = bench.topic(f"{bench.flow}again")
    write_awkward(bench.east, topic, 1, 10)
    bench.set_position(topic, Position(3, topic_id="AAAAAAAAAAAAAAAAAAAAAA"))
    lane = bench.start(topic)
    lane.until(lambda p: "source_topic_recreated" in codes(p))
    lane.stop()
    assert digest(bench.west, f"east.{topic}")[0][0] == 0


def test_a_later_claim_supersedes_a_running_lane_and_nothing_doubles(bench: Bench) -> None:
    topic = bench.topic(f"{bench.flow}claim", 2)
    first = bench.start(topic)
    first.until(caught_up)
    second = bench.start(topic, claim=Claim(2, "two"))
    second.until(caught_up)
    write_awkward(bench.east, topic, 2, 500)
    assert first.end().end is LaneEnd.SUPERSEDED
    second.until(lambda p: sum(q.records for q in p.partitions) == 500)
    third = bench.start(topic)  # a late lease of the first application
    assert third.end().end is LaneEnd.SUPERSEDED
    second_report = second.stop()
    assert second_report.end in (LaneEnd.STOPPED, LaneEnd.FAILED)  # fenced once, without a later claim
    assert bench.equal(topic) == 500


def test_one_application_may_fence_itself_and_go_on(bench: Bench) -> None:
    topic = bench.topic(f"{bench.flow}zombie")
    zombie = bench.start(topic)
    zombie.until(caught_up)
    fresh = bench.start(topic)
    fresh.until(caught_up)
    write_awkward(bench.east, topic, 1, 100)
    report = zombie.end()
    assert report.end is LaneEnd.FAILED
    assert "no later application" in report.error
    fresh.until(lambda p: caught_up(p) and p.partitions[0].records == 100)
    assert bench.equal(topic) == 100


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_start_is_committed_before_the_first_record(bench: Bench, delivery: str) -> None:
    topic = bench.topic(f"{bench.flow}latest")
    write_awkward(bench.east, topic, 1, 20)
    lane = bench.start(topic, start_kind="latest", delivery=delivery)
    lane.until(caught_up)
    held = bench.position(topic)
    assert held is not None
    assert held.offset == 20
    assert held.claim == Claim(1, "one")
    assert lane.stop().end is LaneEnd.STOPPED
