"""Deploy mode cluster on YARN: the driver is in a container; what follows it, and what runs it, are killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.backends.mirror_jobs.status.records import mirror_from_record
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState, LiveMirror
from reconciler.replication.runs.driver_records import ORDERS, RunOrders, run_key
from tests.support.jobs.flow_of_records import assert_all_once_in_order, copying, flowing
from tests.support.jobs.mirror_job import Job, create_topics, flow, handover, status, until
from tests.support.jobs.yarn.cluster import Yarn
from tests.support.jobs.yarn.mirror import NODE_MB, in_cluster_mode
from tests.support.reading import to_the_end
from tests.support.waiting import until as until_true

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.long]

PARTITIONS = 8
PATIENCE_S = 300.0
DRIVER = "mirror_job.py"
LONGEST_GAP_S = 3.0


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[Yarn]:
    cluster = Yarn(tmp_path / "yarn")
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def drivers(yarn: Yarn) -> list[int]:
    """Python processes of drivers in the containers of all nodes."""
    pids = [pid for node in yarn.nodes.values() for pid in node.containers(DRIVER)]
    return [pid for pid in pids if b"python" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]]


def test_driver_follower_and_nodes_are_lost(plain: Sandbox, yarn: Yarn, tmp_path: Path) -> None:
    east, west = plain.clusters["east"], plain.clusters["west"]
    name = f"c{uuid.uuid4().hex[:6]}"
    create_topics(west, "__mirror_status")
    create_topics(east, name, partitions=PARTITIONS)
    create_topics(west, f"east.{name}", partitions=PARTITIONS)
    for node in ("a", "b"):
        yarn.node(node, NODE_MB, 4)
    content = handover(west, name, [flow(name, east, west, [name], lanes=2)])
    job = Job(
        tmp_path / "run",
        content,
        mirror=in_cluster_mode(name, tmp_path),
        environment={"HADOOP_CONF_DIR": str(yarn.conf)},
        supervised=True,
    )
    try:
        job.start()
        with flowing(east, west, {name: PARTITIONS}, rate=20) as (load, arrivals):
            copies = copying(load, arrivals, name, job, PATIENCE_S)
            copies("every partition is copied")
            first = job.application_id
            os.kill(job.driver_pid, signal.SIGKILL)  # of the follower, with its spark-submit
            copies("after kill -9 of the follower")
            until("the driver is followed again", lambda: job.application_id == first, job)
            assert (status(west, name) or {})["application_id"] == first, "the driver continued"

            for pid in drivers(yarn):
                os.kill(pid, signal.SIGKILL)
            copies("after kill -9 of the driver")
            assert job.application_id != first

            with_driver = next(node for node in yarn.nodes.values() if node.containers(DRIVER))
            yarn.node("c", NODE_MB, 4)
            with_driver.lose()
            copies("after the loss of the machine with the driver")
            assert_all_once_in_order(load, arrivals, {name: PARTITIONS}, PATIENCE_S)
        assert job.stop() == 0
        until_true(lambda: not drivers(yarn))
        assert (status(west, name) or {})["state"] == "stopped"
    finally:
        sys.stdout.write(job.log[-3000:])
        job.kill_group()
    assert json.loads((job.folder / "supervisor.json").read_text())["state"] == "stopped"


class Machine:
    """One from which ``apply`` is called: a state folder, and what runs in it."""

    def __init__(self, name: str, mirror: Mirror, west: ClusterHandle, folder: Path) -> None:
        self.name, self.west = name, west
        self.said: list[str] = []
        self.runner = SparkRunner(folder, {name: mirror}, self.status, order_stop=self.order_stop)

    def status(self, mirror: str) -> LiveMirror | None:
        found = status(self.west, mirror)
        return mirror_from_record(json.dumps(found).encode(), int(time.time() * 1000)) if found else None

    def order_stop(self, reported: LiveMirror) -> None:
        key = run_key(f"test/{self.name}", reported.run, "orders")
        producer = Producer(self.west.client())
        producer.produce("__mirror_status", ORDERS.dumps(RunOrders(stop=True)), key)
        assert producer.flush(20) == 0

    def lose(self) -> None:
        folder = self.runner.folder(self.name)
        for pid in folder.pids():
            os.kill(pid, signal.SIGKILL)
        until_true(lambda: not folder.pids())

    @property
    def application_id(self) -> str:
        return self.runner.folder(self.name).word("driver.json", "application_id")


def test_definitions_change_and_machines_come_and_go(
    plain: Sandbox, yarn: Yarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``apply``, mirror hosts and ``mirror stop`` call it, from three machines."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
    east, west = plain.clusters["east"], plain.clusters["west"]
    name = f"d{uuid.uuid4().hex[:6]}"
    create_topics(west, "__mirror_status")
    create_topics(east, name, partitions=PARTITIONS)
    create_topics(west, f"east.{name}", partitions=PARTITIONS)
    for node in ("a", "b"):
        yarn.node(node, 2 * NODE_MB, 4)  # room for two applications beside each other
    mirror = in_cluster_mode(name, tmp_path)

    def definition(lanes: int) -> str:
        flows = [flow(name, east, west, [name], lanes=lanes, fingerprint=f"{lanes:016x}")]
        return json.dumps(handover(west, name, flows) | {"fingerprint": f"{lanes:016x}"})

    one, two, three = (Machine(name, mirror, west, tmp_path / machine) for machine in ("one", "two", "three"))
    try:
        first = one.runner.start(name, definition(2), one.said.append)
        with flowing(east, west, {name: PARTITIONS}, rate=50) as (load, arrivals):
            sent = load.sent[name]
            until_true(lambda: arrivals.have_all_from(name, sent))
            changed = one.runner.restart(name, definition(4), one.said.append)
            ago = time.time() - (one.runner.state / name / "current").stat().st_mtime
            gap = arrivals.longest_gap(name, time.monotonic() - ago - 2.0)
            sys.stdout.write(f"a changed definition: gap of {gap:.1f} s, load {os.getloadavg()[0]:.0f}\n")
            assert gap < LONGEST_GAP_S, one.said
            assert changed.application_id != first.application_id
            assert any("keeps copying" in line for line in one.said)
            assert one.runner.observe(name).state is JobState.RUNNING

            one.lose()
            assert one.runner.observe(name).state is JobState.RUNNING, "the driver does not need it"
            began = time.monotonic()
            followed = two.runner.start(name, definition(4), two.said.append)
            sys.stdout.write(f"followed from another machine after {time.monotonic() - began:.0f} s\n")
            assert followed.application_id == changed.application_id == two.application_id
            gap = arrivals.longest_gap(name, began)
            assert gap < LONGEST_GAP_S

            assert_all_once_in_order(load, arrivals, {name: PARTITIONS}, PATIENCE_S)
        three.runner.stop(name, three.said.append)
        assert three.said[-1] == f"mirror {name}: stopped"
        until_true(lambda: two.runner.folder(name).word("supervisor.json", "state") == "stopped")
        until_true(lambda: not drivers(yarn))
        kept = [message.key() for message in to_the_end(west, "__mirror_status") if message.value()]
        last = {message.key(): message.value() for message in to_the_end(west, "__mirror_status")}
        assert [key for key in kept if key.startswith(f"run/test/{name}/".encode()) and last[key]] == []
    finally:
        for machine in (one, two):
            log = machine.runner.folder(name).path / "job.log"
            sys.stdout.write(f"{log}\n{log.read_text()[-2000:] if log.exists() else ''}\n")
            machine.runner.end(machine.runner.other_folder(name))
            machine.runner.end(machine.runner.folder(name))
