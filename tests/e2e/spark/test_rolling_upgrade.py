"""A cluster of three brokers goes from Kafka 3.9.1 to 4.4.0, broker by broker, while a mirror reads from and writes to
it. Run by `make test-brokers`."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.brokers import cleanup, ports
from reconciler_sandbox.brokers.up_down import Launch, bring_up, prepare_broker
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.install import prerequisites
from reconciler_sandbox.profiles import PROFILES
from reconciler_sandbox.releases import NEWEST, RELEASES

from tests.support.jobs.flow_of_records import Arrivals, Load, flowing
from tests.support.jobs.mirror_job import Job, flow, handover, until
from tests.support.lanes.lane_runs import content

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.long]

PARTITIONS = 3
PATIENCE_S = 300.0


@pytest.fixture
def older() -> Iterator[tuple[Launch, ClusterHandle]]:
    with cleanup.guarded_home() as home:
        base, reserved = ports.reserve_block()
        with reserved:
            launch = Launch(replace(PROFILES["ha"], clusters=("east",)), home, base, release=RELEASES["3.9.1"])
            yield launch, bring_up(launch)["east"]


def topics(cluster: ClusterHandle, factor: int, *names: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient(cluster.client())
    asked = admin.create_topics([NewTopic(name, partitions, factor) for name in names])
    for future in asked.values():
        future.result(60)
    reader = Consumer({**cluster.client(), "group.id": "nobody"})
    for name in names:
        for partition in range(partitions):
            for _ in range(100):  # a broker may not know yet that it leads
                try:
                    reader.get_watermark_offsets(TopicPartition(name, partition), 10)
                    break
                except KafkaException:
                    time.sleep(0.2)
    reader.close()


def in_sync(cluster: ClusterHandle) -> bool:
    """Every partition has all its replicas, and every broker is up."""
    listed = AdminClient({**cluster.client(), "log_level": "0"}).list_topics(timeout=20)
    partitions = [partition for topic in listed.topics.values() for partition in topic.partitions.values()]
    return len(listed.brokers) == len(cluster.brokers) and all(len(p.isrs) == len(p.replicas) for p in partitions)


def raise_features(cluster: ClusterHandle) -> None:
    """To those of the newest release, with Kafka's own tool."""
    command = [prerequisites.java(), "-Xmx128m", "-cp", f"{NEWEST.jars}/*", "org.apache.kafka.tools.FeatureCommand"]
    command += ["--bootstrap-server", cluster.bootstrap_servers, "upgrade", "--release-version", "4.4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def assert_as_written(source: ClusterHandle, topic: str, load: Load, arrivals: Arrivals) -> None:
    """Each record of the source arrives once, in order. Its own producer, though idempotent, may write one twice to
    brokers that are upgraded: in two of four runs at load 25 to 40."""
    load.over.set()
    load.join(40)
    written = {
        place: [int(value or b"") for _, value, _, _ in records]
        for place, records in content(source, topic, PARTITIONS).items()
    }
    assert {number for numbers in written.values() for number in numbers} == {*range(load.sent[topic])}
    end = time.monotonic() + PATIENCE_S
    while len(arrivals.at[topic]) < sum(map(len, written.values())) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)  # a doubled record would come now
    assert {place: arrivals.numbers[topic, place] for place in written} == written


def test_a_cluster_is_upgraded_broker_by_broker_under_load(
    older: tuple[Launch, ClusterHandle], plain: Sandbox, tmp_path: Path
) -> None:
    (launch, east), west = older, plain["west"]
    out, back = (f"u{uuid.uuid4().hex[:6]}{way}" for way in ("out", "back"))
    topics(east, 3, out, f"west.{back}")
    topics(west, 1, back, f"east.{out}")
    topics(west, 1, f"status{out}", partitions=1)
    given = handover(west, out, [flow(out, east, west, [out], lanes=2), flow(back, west, east, [back], lanes=2)])
    given["status"]["topic"] = f"status{out}"
    job = Job(tmp_path / "run", given)

    try:
        job.start()
        with (
            flowing(east, west, {out: PARTITIONS}, rate=20) as (load_out, there),
            flowing(west, east, {back: PARTITIONS}, rate=20) as (load_back, here),
        ):
            until("both ways are copied", lambda: there.go_on() and here.go_on(), job, PATIENCE_S)
            for broker in east.brokers:
                east.stop(broker.node_id)
                prepare_broker(replace(launch, release=NEWEST), east, broker)
                east.start(broker.node_id)
                until(f"broker {broker.node_id} is in sync again", lambda: in_sync(east), job, PATIENCE_S)
            until("both ways are copied on", lambda: there.go_on() and here.go_on(), job, PATIENCE_S)
            raise_features(east)
            until("and with the new features", lambda: there.go_on() and here.go_on(), job, PATIENCE_S)
            assert_as_written(east, out, load_out, there)
            assert_as_written(west, back, load_back, here)
        assert job.stop() == 0
    finally:
        job.kill_group()
