"""The whole job on Spark and two brokers: one application for most cases, three in a row for the faults."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from prometheus_client.parser import text_string_to_metric_families
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.jobs.free_ports import free_port
from tests.support.jobs.mirror_job import Job, flow, handover, status, until
from tests.support.jobs.records import digest, ends, producer, total, write_awkward, write_transactions
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

COLD_START_S = 180.0
"""Until Spark has a driver: 33 s were seen at load 18 on two cores."""


@dataclass
class Mirror:
    """A mirror of this module: its flows, its hand-over, the applications that ran it."""

    east: ClusterHandle
    west: ClusterHandle
    name: str
    folder: Path
    flows: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    metrics_port: int = field(default_factory=free_port)

    def start(self) -> Job:
        told = handover(self.west, self.name, self.flows) | {"metrics_port": self.metrics_port}
        job = Job(self.folder / f"run{len(self.jobs)}", told)
        self.jobs.append(job)
        return job.start()

    @property
    def job(self) -> Job:
        return self.jobs[-1]

    def topic(self, cluster: ClusterHandle, topic: str, partitions: int = 1) -> str:
        admin = AdminClient(cluster.client())  # kept: a client that is collected answers nothing
        keep = {"retention.ms": "-1"}  # awkward records are as old as 1970
        made = admin.create_topics([NewTopic(topic, partitions, 1, config=keep)], operation_timeout=20)
        made[topic].result(30)
        return topic

    def both(self, topic: str, partitions: int = 1) -> str:
        self.topic(self.west, f"east.{topic}", partitions)
        return self.topic(self.east, topic, partitions)

    def conditions(self, of: str) -> dict[str, dict[str, Any]]:
        """code -> condition, of one topic."""
        newest = status(self.west, self.name) or {"flows": {}}
        return {
            condition["code"]: condition
            for told in newest["flows"].values()
            for condition in told["conditions"]
            if condition.get("topic") == of
        }

    def metrics(self) -> dict[tuple[str, str], float]:
        """(name, flow) -> the sum of its samples. Empty while nobody serves them."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        found: dict[tuple[str, str], float] = {}
        for metric in text_string_to_metric_families(text):
            for one in metric.samples:
                key = one.name, one.labels.get("flow", one.labels.get("application_id", ""))
                found[key] = found.get(key, 0.0) + one.value
        return found

    def until_equal(self, topic: str, count: int, seconds: float = 90.0) -> None:
        try:
            until(f"{count} records in east.{topic}", lambda: self._has(topic, count), self.job, seconds)
        except AssertionError as error:
            told = json.dumps((status(self.west, self.name) or {}).get("flows"), indent=1)
            here = f"{total(digest(self.east, topic))} at the source, {self._count(topic)} at the target"
            raise AssertionError(f"{error}\n{here}; status: {told}") from None
        source = digest(self.east, topic)
        assert total(source) == count
        assert source == digest(self.west, f"east.{topic}")

    def _has(self, topic: str, count: int) -> bool:
        """All is read only where there may be enough: markers count in ends, too."""
        return self.reached(topic) >= count and self._count(topic) >= count

    def _count(self, topic: str) -> int:
        return total(digest(self.west, f"east.{topic}"))

    def reached(self, topic: str) -> int:
        """Records and markers of its copy."""
        return sum(ends(self.west, f"east.{topic}").values())

    def running(self) -> dict[str, Any]:
        def ours() -> dict[str, Any] | None:
            newest = status(self.west, self.name)
            mine = newest and newest["application_id"] == self.job.application_id and newest["state"] == "running"
            return newest if mine else None

        until("driver.json", lambda: (self.job.folder / "driver.json").exists(), self.job, COLD_START_S)
        found: dict[str, Any] = until("status running", ours, self.job)
        return found


@pytest.fixture(scope="module")
def mirror(plain: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """Topics that must be there before the first start are made here, then the application is started."""
    east, west = plain.clusters["east"], plain.clusters["west"]
    name = f"m{uuid.uuid4().hex[:6]}"
    made = Mirror(east, west, name, tmp_path_factory.mktemp("mirror"))
    made.flows = [
        flow(f"{name}-main", east, west, [f"{name}-main-.*"]),
        flow(f"{name}-late", east, west, [f"{name}-late-.*"], start={"kind": "latest"}, lanes=2),
        flow(f"{name}-once", east, west, [f"{name}-once-.*"], delivery="at_least_once", lanes=1),
    ]
    try:
        made.topic(west, "__mirror_status")
    except KafkaException as error:
        assert "already exists" in str(error)  # noqa: PT017  # shared by the run
    made.both(f"{name}-main-early", 3)
    write_awkward(east, f"{name}-main-early", 3, 1500)
    made.both(f"{name}-late-old", 2)
    write_awkward(east, f"{name}-late-old", 2, 100)
    made.start()
    try:
        yield made
    finally:
        for job in made.jobs:
            job.kill_group()


@pytest.mark.long
def test_status_says_who_runs_and_follows_its_schema(mirror: Mirror) -> None:
    told = mirror.running()
    jsonschema.validate(told, json.loads((ROOT / "schemas" / "status.schema.json").read_text()))
    assert told["pid"] == mirror.job.driver_pid
    assert set(told["flows"]) == {flow["name"] for flow in mirror.flows}


def test_awkward_records_are_equal_on_both_sides(mirror: Mirror) -> None:
    mirror.running()  # alone in test-brokers: Spark's start is no part of the time that copies may take
    mirror.until_equal(f"{mirror.name}-main-early", 1500)

    def no_lag() -> bool:
        told = (status(mirror.west, mirror.name) or {})["flows"][f"{mirror.name}-main"]
        return told["records_lag"] == 0 and told["records_total"] == 1500 and told["seconds_lag"] == 0

    until("no lag", no_lag, mirror.job)


def test_metrics_count_what_was_copied(mirror: Mirror) -> None:
    flow = f"{mirror.name}-main"
    mirror.until_equal(f"{mirror.name}-main-early", 1500)
    until("all is counted", lambda: mirror.metrics().get(("mirror_flow_records_total", flow), 0) >= 1500, mirror.job)
    oldest = ("mirror_flow_oldest_unread_seconds", flow)
    until("no record is left unread", lambda: mirror.metrics().get(oldest) == 0, mirror.job)
    found = mirror.metrics()
    for level in ("topic", "partition"):
        for figure in ("records_total", "bytes_total"):
            assert found[f"mirror_{level}_{figure}", flow] == found[f"mirror_flow_{figure}", flow], (level, figure)
    assert found["mirror_flow_transactions_total", flow] > 0
    assert time.time() - 600 < found["mirror_flow_last_commit_timestamp_seconds", flow] <= time.time()
    assert found["mirror_flow_path_partitions", flow] == found["mirror_flow_partitions", flow] >= 3
    assert ("mirror_replication_latency_seconds_count", flow) in found
    assert found["mirror_leases", ""] == 2
    assert found["mirror_info", mirror.job.application_id] == 1


def test_a_new_topic_is_picked_up_without_a_restart(mirror: Mirror) -> None:
    topic = mirror.both(f"{mirror.name}-main-new", 2)
    committed = write_transactions(mirror.east, topic, 2, 5, f"{mirror.name}-writer")
    mirror.until_equal(topic, committed)
    assert len(mirror.jobs) == 1


def test_latest_skips_the_past_once_and_new_topics_come_whole(mirror: Mirror) -> None:
    old, new = f"{mirror.name}-late-old", f"{mirror.name}-late-new"
    mirror.running()
    write_awkward(mirror.east, old, 2, 40, seed=5)
    mirror.topic(mirror.east, new)
    write_awkward(mirror.east, new, 1, 40)
    mirror.topic(mirror.west, f"east.{new}")
    mirror.until_equal(new, 40)
    until("40 late records", lambda: total(digest(mirror.west, f"east.{old}")) >= 40, mirror.job)
    assert total(digest(mirror.west, f"east.{old}")) == 40


def test_at_least_once_copies_the_same_records(mirror: Mirror) -> None:
    topic = mirror.both(f"{mirror.name}-once-a", 2)
    write_awkward(mirror.east, topic, 2, 600)
    mirror.until_equal(topic, 600)


def test_a_missing_and_a_smaller_target_are_reported_and_fixed(mirror: Mirror) -> None:
    topic = mirror.topic(mirror.east, f"{mirror.name}-main-grown", 3)
    write_awkward(mirror.east, topic, 3, 90)
    missing = until("missing", lambda: mirror.conditions(topic).get("target_topic_missing"), mirror.job)
    assert "reconciler apply" in missing["todo"]
    told = (status(mirror.west, mirror.name) or {})["flows"][f"{mirror.name}-main"]
    assert told["records_lag"] is None, "what waits in it is not known"
    until("metrics", lambda: mirror.metrics().get(("mirror_flow_lag_known", f"{mirror.name}-main")) == 0, mirror.job)
    mirror.topic(mirror.west, f"east.{topic}", 2)
    smaller = until("smaller", lambda: mirror.conditions(topic).get("target_topic_smaller"), mirror.job)
    assert "has 3 partitions" in smaller["text"]
    assert "has 2" in smaller["text"]
    until("two of three", lambda: total(digest(mirror.west, f"east.{topic}")) == 60, mirror.job)
    admin = AdminClient(mirror.west.client())
    admin.create_partitions([NewPartitions(f"east.{topic}", 3)])[f"east.{topic}"].result(20)
    mirror.until_equal(topic, 90)
    until("told no more", lambda: not mirror.conditions(topic), mirror.job)


def test_a_deleted_source_topic_is_reported(mirror: Mirror) -> None:
    topic = mirror.both(f"{mirror.name}-main-gone")
    write_awkward(mirror.east, topic, 1, 10)
    mirror.until_equal(topic, 10)
    admin = AdminClient(mirror.east.client())
    admin.delete_topics([topic])[topic].result(20)
    until("deleted", lambda: "source_topic_deleted" in mirror.conditions(topic), mirror.job)


class Load:
    """Numbered records at a steady rate, until ``stop`` gives how many there were."""

    def __init__(self, cluster: ClusterHandle, topic: str, partitions: int) -> None:
        self._end = threading.Event()
        self._count = 0
        self._thread = threading.Thread(target=self._run, args=(cluster, topic, partitions))
        self._thread.start()

    def _run(self, cluster: ClusterHandle, topic: str, partitions: int) -> None:
        maker = producer(cluster, compression_type="lz4")
        while not self._end.is_set():
            for _ in range(40):
                maker.produce(topic, b"%d" % self._count * 20, b"k", self._count % partitions)
                self._count += 1
            maker.flush()
            time.sleep(0.05)

    def stop(self) -> int:
        self._end.set()
        self._thread.join()
        return self._count


def _said_frozen(mirror: Mirror) -> bool:
    """The lag of the flow is unknown, and the condition that says why is there."""
    told = (status(mirror.west, mirror.name) or {})["flows"][f"{mirror.name}-main"]
    return told["records_lag"] is None and any(c["code"] == "lane_unresponsive" for c in told["conditions"])


def goes_on(mirror: Mirror, topic: str) -> Callable[[], bool]:
    """Whether each partition has more records at the target than now: a marker alone is one offset."""
    before = ends(mirror.west, f"east.{topic}")

    def look() -> bool:
        return all(end > before[number] + 1 for number, end in ends(mirror.west, f"east.{topic}").items())

    return look


def test_frozen_and_killed_workers_and_a_killed_driver_lose_and_double_nothing(mirror: Mirror) -> None:
    """In one row, because every start of Spark costs its time: the load never pauses. Before the third application,
    another client commits a position of a topic that is copied. With executors: clusters/test_standalone.py."""
    topic, moved = mirror.both(f"{mirror.name}-main-load", 4), mirror.both(f"{mirror.name}-main-moved")
    maker = producer(mirror.east)
    for number in range(100):
        maker.produce(moved, b"%d" % number)
    maker.flush()
    first = mirror.job
    load = Load(mirror.east, topic, 4)
    try:
        until("the load flows", lambda: mirror.reached(topic) > 0, mirror.job)
        workers = until("workers", first.worker_pids, first)
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        try:
            until("a frozen lane", lambda: _said_frozen(mirror), first)
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGCONT)
        until("it is heard of again", lambda: not _said_frozen(mirror), first)
        os.kill(workers[0], signal.SIGKILL)
        time.sleep(2)
        second = mirror.start()
        assert first.wait(90) == 3, first.log[-2000:]
        mirror.running()
        until("its metrics", lambda: ("mirror_info", second.application_id) in mirror.metrics(), second)
        until("it continues", goes_on(mirror, topic), second)
        os.kill(second.driver_pid, signal.SIGKILL)
        second.wait(60)
        mirror.until_equal(moved, 100)
        reset_offsets(mirror, moved, 50)
        mirror.start()
        mirror.running()
        until("it says whose position that is", lambda: "position_foreign" in mirror.conditions(moved), mirror.job)
        time.sleep(2)
    finally:
        count = load.stop()
    mirror.until_equal(topic, count)
    mirror.until_equal(moved, 100)


def reset_offsets(mirror: Mirror, topic: str, offset: int) -> None:
    """As kafka-consumer-groups --reset-offsets does for the flow's group."""
    with closing(Consumer({**mirror.west.client(), "group.id": f"mirror.{mirror.name}-main"})) as client:
        client.commit(offsets=[TopicPartition(f"east.{topic}", 0, offset)], asynchronous=False)


def test_a_graceful_stop_commits_and_says_stopped(mirror: Mirror) -> None:
    topic = mirror.both(f"{mirror.name}-main-last", 2)
    load = Load(mirror.east, topic, 2)
    until("the load flows", lambda: mirror.reached(topic) > 0, mirror.job)
    job = mirror.job
    os.kill(job.driver_pid, signal.SIGTERM)
    assert job.wait(60) == 0, job.log[-2000:]
    load.stop()
    told = status(mirror.west, mirror.name)
    assert told is not None
    assert told["state"] == "stopped"
    assert {flow["state"] for flow in told["flows"].values()} == {"stopped"}
    assert "Traceback" not in job.log


@pytest.mark.long
def test_a_hand_over_of_another_format_is_one_clear_sentence(mirror: Mirror) -> None:
    job = Job(mirror.folder / "format", {**handover(mirror.west, "x", mirror.flows), "format_version": 7})
    job.start()
    assert job.wait() == 1
    assert "format_version 7" in job.log
    assert "Traceback" not in job.log
