"""What the tests of the batch path share: a flow between two clusters, a control that ends it, a stranger who reads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Claim, Condition, Control, LaneProgress, LaneReport, LaneSpec, PartitionSpec
from reconciler_sandbox.handles import ClusterHandle
from reconciler_sandbox.releases import release_of

from reconciler.kafka.client.cluster import CommittedPosition
from reconciler.kafka.client.errors import UNSTABLE, BrokerError
from reconciler.kafka.client.transactions import Identity
from reconciler.replication.handover import Endpoint
from reconciler.replication.offsets.position_metadata import END, moved
from tests.support.lanes.lane_spec import ClaimedControl
from tests.support.lanes.raw import cluster_of
from tests.support.reading import to_the_end

Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


@dataclass
class UntilControl(ClaimedControl):
    """Ends the lane when ``done`` says so of a report, or fails the test after ``seconds``."""

    specs: tuple[PartitionSpec, ...]
    done: Callable[[LaneProgress], bool]
    seconds: float = 60.0
    reports: list[LaneProgress] = field(default_factory=list)
    finished: bool = False
    began: float = field(default_factory=time.monotonic)
    bytes_per_second: float = 0.0
    left_alone: frozenset[tuple[str, int]] = frozenset()
    wake: Callable[[], None] = lambda: None
    over: object = None
    """What ``copy`` ended with."""

    def copy(self, lane: LaneSpec) -> None:
        """For a thread beside the test."""
        try:
            self.over = batch_path(lane, self)
        except BaseException as error:
            self.over = error
            raise

    def stopping(self) -> bool:
        return self.finished or time.monotonic() - self.began > self.seconds

    def paused(self) -> frozenset[tuple[str, int]]:
        return self.left_alone

    def rate(self) -> float:
        return self.bytes_per_second

    def partitions(self) -> tuple[PartitionSpec, ...]:
        return self.specs

    def watch(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def until_all_copy(self, seconds: float = 150.0) -> None:
        """Returns when every partition has copied more than by now."""
        before, end = self._copied(), time.monotonic() + seconds
        while not all(self._copied()[place] > before[place] for place in before):
            assert self.over is None, (self.over, self.reports[-1:])
            assert time.monotonic() < end, self.reports[-1:]
            time.sleep(0.02)

    def _copied(self) -> dict[tuple[str, int], int]:
        told = self.reports[-1].partitions if self.reports else ()
        found = dict.fromkeys(((spec.topic, spec.partition) for spec in self.specs), 0)
        return found | {(one.topic, one.partition): one.records for one in told}

    def report(self, progress: LaneProgress) -> None:
        self.reports.append(progress)
        self.finished = self.finished or self.done(progress)
        if self.finished:
            self.wake()


def caught_up(progress: LaneProgress) -> bool:
    return bool(progress.partitions) and all(
        p.position is not None and p.end is not None and p.position >= p.end for p in progress.partitions
    )


def has(code: str) -> Callable[[LaneProgress], bool]:
    return lambda progress: any(condition.code == code for condition in progress.conditions)


@dataclass(frozen=True)
class Flow:
    """Topic ``topic`` of ``source`` copied to ``<source>.<topic>`` of ``target``."""

    source: ClusterHandle
    target: ClusterHandle
    topic: str
    partitions: int = 1
    clients: tuple[Mapping[str, str], Mapping[str, str]] | None = None

    @property
    def remote(self) -> str:
        return f"{self.source.name}.{self.topic}"

    def specs(self) -> tuple[PartitionSpec, ...]:
        admin = AdminClient(self.source.super_client())
        found = admin.describe_topics(TopicCollection([self.topic]), request_timeout=90)[self.topic].result(100)
        return tuple(PartitionSpec(self.topic, p, self.remote, str(found.topic_id)) for p in range(self.partitions))

    def lane(self, **changes: object) -> LaneSpec:
        source, target = self.clients or (self.source.super_client(), self.target.super_client())
        settings: dict[str, object] = {
            "flow": self.topic,
            "lane": 0,
            "transactional_id": f"mirror.{self.topic}.0",
            "group": f"mirror.{self.topic}",
            "source": endpoint(self.source.name, source),
            "target": endpoint(self.target.name, target),
            "delivery": "exactly_once",
            "isolation": "read_committed",
            "start_kind": "earliest",
            "start_timestamp_ms": None,
            "partitions": self.specs(),
            "claim": Claim(1, "test"),
        }
        return LaneSpec(**{**settings, **changes})  # type: ignore[arg-type]

    def run(
        self,
        path: Callable[[LaneSpec, Control], LaneReport],
        done: Callable[[LaneProgress], bool] = caught_up,
        **changes: object,
    ) -> tuple[LaneReport, UntilControl]:
        lane = self.lane(**changes)
        control = UntilControl(lane.partitions, done)
        report = path(lane, control)
        assert control.finished, f"the lane did not come that far in {control.seconds} s: {report}"
        return report, control

    def source_content(self, isolation: str = "read_committed") -> dict[int, list[Content]]:
        return content(self.source, self.topic, self.partitions, isolation)

    def at_end(self) -> Callable[[LaneProgress], bool]:
        """Done once every partition has reached the source's end as it is now, asked of the brokers.

        A lane's own idea of the end is as old as its last answer from the leader, and a leader may be away.
        """
        admin = AdminClient(self.source.super_client())
        asked = {TopicPartition(self.topic, p): OffsetSpec.latest() for p in range(self.partitions)}
        answers = admin.list_offsets(asked, request_timeout=90)
        ends = {one.partition: answer.result(100).offset for one, answer in answers.items()}

        def done(progress: LaneProgress) -> bool:
            positions = {p.partition: p.position for p in progress.partitions}
            return all((positions.get(partition) or 0) >= end for partition, end in ends.items())

        return done

    def target_content(self) -> dict[int, list[Content]]:
        """What counts there. Lane 0 may have ended a transaction just now: that is answered before its markers are
        written, and until then a reader sees nothing of it."""
        if release_of(self.target.name).number < (3,):
            self._until_stable()
        else:
            asyncio.run(self._until_decided(f"mirror.{self.topic}.0"))
        return content(self.target, self.remote, self.partitions)

    def _until_stable(self) -> None:
        """Brokers before 3.0 describe no transaction (KIP-664). One that is still open is not waited for longer."""
        admin, until = AdminClient(self.target.super_client()), time.monotonic() + 10
        asked = {TopicPartition(self.remote, p): OffsetSpec.latest() for p in range(self.partitions)}

        def ends(level: IsolationLevel) -> list[int]:
            answers = admin.list_offsets(asked, isolation_level=level, request_timeout=30)
            return [answer.result(40).offset for answer in answers.values()]

        while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED) and time.monotonic() < until:
            time.sleep(0.02)

    async def _until_decided(self, transactional_id: str) -> None:
        cluster, until = cluster_of(self.target), time.monotonic() + 30
        identity = Identity(cluster, transactional_id, "")
        try:
            while (state := await identity.state()) is not None and state.undecided:
                assert time.monotonic() < until, f"the markers of {transactional_id} are missing: {state}"
                await asyncio.sleep(0.005)
        finally:
            cluster.close()

    def position(self, partition: int = 0) -> CommittedPosition:
        """The committed position at the target, with its metadata."""
        return asyncio.run(self._position(partition))

    async def _position(self, partition: int) -> CommittedPosition:
        cluster, until = cluster_of(self.target), time.monotonic() + 30
        try:
            while True:
                try:
                    found = await cluster.positions(f"mirror.{self.topic}", [(self.remote, partition)])
                    return found[self.remote, partition]
                except BrokerError as error:  # an end is answered before all its markers are written
                    if error.code != UNSTABLE or time.monotonic() > until:
                        raise
                await asyncio.sleep(0.02)
        finally:
            cluster.close()

    def set_position(self, offset: int, partition: int = 0, metadata: str | None = None) -> None:
        """As ``mirror seek`` does; with empty ``metadata`` as kafka-consumer-groups --reset-offsets."""
        if metadata is None:
            metadata = moved((self.remote, partition), (-1, ""), offset, "", same=False).rstrip(END)
        consumer = Consumer({**self.target.super_client(), "group.id": f"mirror.{self.topic}"})
        consumer.commit(offsets=[TopicPartition(self.remote, partition, offset, metadata)], asynchronous=False)
        consumer.close()


class Lane:
    """A lane in a thread, steered by the test through its control."""

    def __init__(self, spec: LaneSpec) -> None:
        self.control = UntilControl(spec.partitions, lambda _: False, 120.0, left_alone=spec.paused)
        self.got: list[LaneReport] = []
        self.thread = threading.Thread(target=lambda: self.got.append(batch_path(spec, self.control)))

    def until(self, wanted: Callable[[LaneProgress], bool], seconds: float = 40.0) -> LaneProgress:
        end = time.monotonic() + seconds
        while not (self.control.reports and wanted(self.control.reports[-1])):
            assert time.monotonic() < end, (self.control.reports[-1:], self.got)
            time.sleep(0.05)
        return self.control.reports[-1]

    def end(self) -> LaneReport:
        """How it ends by itself."""
        self.thread.join(40)
        assert self.got, "the lane did not end"
        return self.got[0]

    def stop(self) -> LaneReport:
        self.control.finished = True
        return self.end()


@contextmanager
def running(lane: Lane) -> Iterator[Lane]:
    lane.thread.start()
    try:
        yield lane
    finally:
        lane.stop()


def endpoint(name: str, client: Mapping[str, str]) -> Endpoint:
    settings = dict(client)
    servers = settings.pop("bootstrap.servers")
    return Endpoint(name, tuple(servers.split(",")), settings)


def content(
    cluster: ClusterHandle, topic: str, partitions: int, isolation: str = "read_committed"
) -> dict[int, list[Content]]:
    """Every record of every partition, in order, as a stranger sees it."""
    found: dict[int, list[Content]] = {p: [] for p in range(partitions)}
    for message in to_the_end(cluster, topic, found, isolation):
        headers = tuple((name, value) for name, value in message.headers() or ())
        found[message.partition()].append((message.key(), message.value(), headers, message.timestamp()[1]))
    return found


def producer(cluster: ClusterHandle, **settings: object) -> Producer:
    """``settings`` with ``_`` for ``.``."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({**cluster.super_client(), "message.max.bytes": 10_000_000, **named})


def fill(
    cluster: ClusterHandle, topic: str, records: Sequence[Content], partition: int = 0, **settings: object
) -> None:
    made = producer(cluster, **settings)
    for key, value, headers, timestamp in records:
        made.produce(topic, value, key, partition, headers=list(headers), timestamp=timestamp)
        made.poll(0)
    assert made.flush(60) == 0


def conditions(reports: Sequence[LaneProgress]) -> list[Condition]:
    seen: dict[Condition, None] = {}
    for report in reports:
        seen.update(dict.fromkeys(report.conditions))
    return list(seen)


@contextmanager
def copied_while_written(
    flow: Flow, write: Callable[[Flow, threading.Event], None], seconds: float
) -> Iterator[UntilControl]:
    """A lane that keeps offsets copies while ``write`` writes, until its event is set. At the end, all is copied."""
    enough = threading.Event()
    writing = threading.Thread(target=write, args=(flow, enough))
    writing.start()
    lane = flow.lane(keeps_offsets=True, claim=Claim(1, "application"))
    control = UntilControl(lane.partitions, lambda _: False, seconds)
    copying = threading.Thread(target=control.copy, args=(lane,))
    copying.start()
    try:
        control.until_all_copy()
        yield control
    finally:
        enough.set()
        writing.join()
        control.done = flow.at_end()
        copying.join(200)
        control.finished = True
    assert control.reports[-1].conditions == ()
