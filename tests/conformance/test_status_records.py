"""Reading status records from a real topic: newest of each key, long topics, new records, topics that come and go."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from reconciler_sandbox.handles import ClusterHandle

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.mirror_jobs.status.records import TAIL_RECORDS, StatusRecords
from reconciler.errors import ClusterError, Unknown
from reconciler.model.environment.topology import Cluster
from reconciler.model.live import JobState, LiveMirror
from reconciler.replication.names import status_key
from tests.support.clusters import CreateTopic, kerberos_cluster, kraft, real_cluster
from tests.support.fakes.subjects import BrokerStranger
from tests.support.jobs.frozen_broker import freeze, thaw
from tests.support.jobs.status_records import NOW, record

pytestmark = pytest.mark.kafka


class Job:
    """Writes status records as a mirror job does."""

    def __init__(self, topic: StatusTopic, environment: str = "test") -> None:
        self.topic = topic
        self.environment = environment
        self.producer = Producer({**topic.cluster.super_client(), "linger.ms": 5, "log_level": 0})

    def tell(self, mirror: str, **fields: object) -> None:
        kafka_ms = int(str(fields.pop("kafka_ms", 0)))
        self.tell_raw(mirror, record(mirror=mirror, environment=self.environment, **fields), kafka_ms)

    def tell_raw(self, mirror: str, value: bytes | None, kafka_ms: int = 0) -> None:
        """``kafka_ms``: the timestamp of the record; 0 is now."""
        key = status_key(self.environment, mirror)
        self.producer.produce(self.topic.name, value, key, timestamp=kafka_ms, on_delivery=_fail)
        self.producer.poll(0)

    def flush(self) -> None:
        assert self.producer.flush(30) == 0


@dataclass(frozen=True)
class StatusTopic:
    name: str
    cluster: ClusterHandle
    login: Cluster
    stranger: BrokerStranger

    def make(self) -> None:
        self.stranger.make(self.name, 3, cleanup_policy="compact")

    def delete(self) -> None:
        if self.name in self.stranger.admin.read([self.name]).topics:
            self.stranger.delete(self.name)


def _fail(error: object, _message: object) -> None:
    assert error is None, error


@pytest.fixture(params=["plain", pytest.param("kerberos", marks=pytest.mark.long)])
def topic(request: pytest.FixtureRequest, unique: str, create_topic: CreateTopic) -> Iterator[StatusTopic]:
    """A status topic of this test alone, new and empty, with three partitions."""
    west: ClusterHandle = request.getfixturevalue(request.param).clusters["west"]
    login = real_cluster(west) if request.param == "plain" else kerberos_cluster(west)
    cluster = KafkaCluster(login)
    found = StatusTopic(f"__status-{unique}", west, login, BrokerStranger(west, create_topic, cluster))
    found.make()
    yield found
    found.delete()
    cluster.close()


@pytest.fixture
def records(topic: StatusTopic) -> Iterator[StatusRecords]:
    reader = StatusRecords(topic.login, "test", topic=topic.name)
    yield reader
    reader.close()


def known(found: LiveMirror | None) -> LiveMirror:
    assert found is not None
    return found


def test_without_the_topic_or_a_record_there_is_nothing(topic: StatusTopic, records: StatusRecords) -> None:
    assert records.read("west", NOW) is None
    assert dict(records.read_all(NOW)) == {}
    assert not records.topic_missing
    topic.delete()
    records.close()
    assert records.read("west", NOW) is None
    assert records.topic_missing
    assert dict(records.read_all(NOW)) == {}


def test_the_newest_record_of_each_mirror_counts(topic: StatusTopic, records: StatusRecords) -> None:
    job = Job(topic)
    for number in range(20):
        job.tell("west", application_id=f"local-{number}", status_interval_ms=100)
        job.tell("gone-from-git", state="stopped", application_id=f"other-{number}")
    Job(topic, "another").tell("west", application_id="not-ours")
    job.flush()
    assert known(records.read("west", NOW)).application_id == "local-19"
    assert known(records.read("west", NOW + 10_000_000)).state is JobState.STALE
    found = records.read_all(NOW)
    assert set(found) == {"west", "gone-from-git"}
    assert found["gone-from-git"].state is JobState.STOPPED  # type: ignore[union-attr]


def test_a_reader_that_stays_open_sees_what_is_new(topic: StatusTopic, records: StatusRecords) -> None:
    job = Job(topic)
    assert records.read("west", NOW) is None
    for number in range(5):
        job.tell("west", application_id=f"local-{number}")
        job.flush()
        assert known(records.read("west", NOW)).application_id == f"local-{number}"
    job.tell_raw("west", None)
    job.flush()
    assert records.read("west", NOW) is None


def test_a_quiet_mirror_is_found_far_from_the_end_of_a_long_topic(topic: StatusTopic, records: StatusRecords) -> None:
    job = Job(topic)
    job.tell("quiet", application_id="once")
    for number in range(4 * 3 * TAIL_RECORDS):
        job.tell(f"busy-{number % 12}", application_id=f"local-{number}")
    job.flush()
    began = time.monotonic()
    assert known(records.read("busy-3", NOW)).application_id.startswith("local-")  # type: ignore[union-attr]
    tail = time.monotonic() - began
    assert known(records.read("quiet", NOW)).application_id == "once"
    assert set(records.read_all(NOW)) == {"quiet", *(f"busy-{number}" for number in range(12))}
    last = 4 * 3 * TAIL_RECORDS - 1
    assert known(records.read(f"busy-{last % 12}", NOW)).application_id == f"local-{last}"
    assert tail < 5


@kraft  # ZooKeeper forgets a deleted name later than it says
def test_a_recreated_status_topic_is_read_from_its_start(topic: StatusTopic, records: StatusRecords) -> None:
    job = Job(topic)
    for number in range(30):
        job.tell("west", application_id=f"old-{number}")
    job.flush()
    assert known(records.read("west", NOW)).application_id == "old-29"
    topic.delete()
    topic.make()
    fresh = Job(topic)
    fresh.tell("west", application_id="new")
    fresh.flush()
    assert known(records.read("west", NOW)).application_id == "new"


def test_a_malformed_record_is_an_error_and_others_are_read(topic: StatusTopic, records: StatusRecords) -> None:
    job = Job(topic)
    job.tell_raw("broken", json.dumps({"format_version": 99}).encode())
    job.tell("west")
    job.flush()
    with pytest.raises(ClusterError, match="test/broken") as caught:
        records.read("broken", NOW)
    assert caught.value.kind == "invalid"
    assert known(records.read("west", NOW)).state is JobState.RUNNING
    found = records.read_all(NOW)
    assert isinstance(found["broken"], Unknown)
    assert isinstance(found["west"], LiveMirror)


def test_a_clock_that_was_set_back_hides_no_later_record(topic: StatusTopic, records: StatusRecords) -> None:
    job = Job(topic)
    for ahead_ms in (1_800_000, 0):
        job.tell("west", updated_at_ms=NOW + ahead_ms, kafka_ms=int(time.time() * 1000) + ahead_ms)
    job.flush()
    assert known(records.read("west", NOW)).updated_at_ms == NOW


@pytest.mark.parametrize(("off_ms", "told"), [(-3_600_000, "3,600 s behind"), (3_600_000, "3,600 s ahead of")])
def test_a_job_with_a_wrong_clock_is_alive_while_it_writes(
    topic: StatusTopic, records: StatusRecords, off_ms: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, over = Job(topic), threading.Event()

    def work() -> None:
        while not over.wait(0.2):
            job.tell("west", updated_at_ms=NOW + off_ms)
            job.flush()

    job.tell("west", updated_at_ms=NOW + off_ms)
    job.flush()
    thread = threading.Thread(target=work)
    thread.start()
    try:
        found = known(records.read("west", NOW))
    finally:
        over.set()
        thread.join()
    assert found.state is JobState.RUNNING
    assert found.detail == f"host driver.example; its clock is {told} this machine's"
    until = time.monotonic() + 60
    while known(records.read("west", NOW)).state is not JobState.STALE:
        assert time.monotonic() < until, "it writes no more"
    monkeypatch.setattr("reconciler.backends.mirror_jobs.status.records.time", None)  # it waits no more
    assert known(records.read("west", NOW)).state is JobState.STALE


def test_no_one_waits_for_an_application_that_is_known_to_be_gone(topic: StatusTopic, records: StatusRecords) -> None:
    job = Job(topic)
    job.tell("west", updated_at_ms=NOW - 3_600_000, application_id="local-7")
    job.flush()
    asked: list[str | None] = []

    def lost(found: LiveMirror) -> bool:
        asked.append(found.application_id)
        return True

    assert known(records.read("west", NOW, lost)).state is JobState.STALE
    assert asked == ["local-7"], "it is asked once, and its answer counts"


def recovered(records: StatusRecords) -> LiveMirror:
    """A broker that was away registers again before its partitions have a leader."""
    until = time.monotonic() + 60
    while True:
        try:
            return known(records.read("west", NOW))
        except ClusterError:
            assert time.monotonic() < until, "the reader does not recover"


@pytest.mark.long
def test_a_silent_cluster_is_reported_in_time_and_the_reader_recovers(
    topic: StatusTopic, records: StatusRecords
) -> None:
    job = Job(topic)
    job.tell("west")
    job.flush()
    assert known(records.read("west", NOW)).name == "west"
    freeze(topic.cluster)
    time.sleep(0.3)  # a broker of many threads does not stop in one moment
    try:
        began = time.monotonic()
        with pytest.raises(ClusterError) as caught:
            records.read("west", NOW)
        assert time.monotonic() - began < 30, "librdkafka alone would wait a minute"
        assert caught.value.kind == "unreachable"
        began = time.monotonic()
        # Closed, since librdkafka aborts the process if the garbage collector destroys it on its own thread.
        with KafkaCluster(topic.login) as cluster, pytest.raises(ClusterError) as caught:
            cluster.read()
        assert time.monotonic() - began < 30
        assert caught.value.kind == "unreachable"
    finally:
        thaw(topic.cluster)
    assert recovered(records).name == "west"
