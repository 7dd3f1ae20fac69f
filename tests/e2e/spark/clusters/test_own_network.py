"""A worker on a machine of its own: another address, no project folder, a line that is cut, and a driver behind NAT."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from reconciler_sandbox.brokers import ports, server_properties, up_down
from reconciler_sandbox.handles import Sandbox

from tests.support.jobs.flow_of_records import assert_all_once_in_order, flowing
from tests.support.jobs.mirror_job import Job, create_topics, flow, handover, status, until
from tests.support.jobs.records import digest, total, write_awkward
from tests.support.jobs.standalone.cluster import Standalone, mirror_on
from tests.support.jobs.standalone.network_namespace import NetworkNamespace, forwarding, network_namespace
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]

PARTITIONS, RECORDS = 8, 900
PATIENCE_S = 240.0
CUT_S = 40.0


@dataclass(frozen=True)
class Networks:
    """Two clusters and a master on an address that the other machine reaches; ``driver``: a folder it does not see."""

    machine: NetworkNamespace
    sandbox: Sandbox
    spark: Standalone
    driver: Path


@pytest.fixture
def networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Networks]:
    driver = tmp_path / "driver"
    driver.mkdir()
    with network_namespace(tmp_path / "spark-there", Path(pyspark.__file__).parent, (ROOT, driver)) as machine:
        for module in ("reconciler_sandbox.handles", ports.__name__, server_properties.__name__):
            monkeypatch.setattr(f"{module}.HOST", machine.here)
        with up_down.running("plain", quick=True) as sandbox:
            spark = Standalone(tmp_path / "spark", host=machine.here)
            try:
                yield Networks(machine, sandbox, spark.start(), driver)
            finally:
                spark.stop()


def start(networks: Networks, name: str, channel: Mapping[str, Any]) -> Job:
    """A mirror of one lane of work whose only worker is the other machine."""
    east, west = networks.sandbox["east"], networks.sandbox["west"]
    create_topics(west, "__mirror_status")
    for_ever = {"retention.ms": "-1"}  # awkward records are old
    create_topics(east, name, partitions=PARTITIONS, **for_ever)
    create_topics(west, f"east.{name}", partitions=PARTITIONS, **for_ever)
    networks.spark.worker("there", machine=networks.machine)
    content = handover(west, name, [flow(name, east, west, [name], lanes=2)])
    content |= {"parallelism": 1, "channel": dict(channel)}
    mirror = mirror_on(networks.spark, name, networks.driver, executors=1)
    return Job(networks.driver / "run", content, mirror=mirror)


def assert_executors_are_there(networks: Networks, job: Job) -> None:
    """They look from their own machine: no file of the project, and this machine's loopback is not theirs."""
    seen = {}
    for pid in networks.spark.daemons[-1].executors():
        with contextlib.suppress(OSError):  # Spark starts small processes there, too, which end at once
            seen[pid] = (Path(f"/proc/{pid}/ns/net").stat().st_ino, list(Path(f"/proc/{pid}/root{ROOT}").iterdir()))
    assert seen, "the worker has an executor"
    for network, project in seen.values():
        assert network != Path("/proc/self/ns/net").stat().st_ino
        assert project == [], "the project is hidden from it"
    assert "executor looked at" in job.log


def test_executors_of_another_network_copy_and_a_line_that_is_cut_costs_nothing(networks: Networks) -> None:
    east, west = networks.sandbox["east"], networks.sandbox["west"]
    name = f"n{uuid.uuid4().hex[:6]}"
    here = networks.machine.here
    channel = {"bind_address": here, "advertised_address": here, "first_port": 17090, "last_port": 17093}
    job = start(networks, name, channel)

    def flow_status() -> Mapping[str, Any]:
        record = status(west, name)
        found: Mapping[str, Any] = record["flows"][name] if record else {}
        return found

    def is_told() -> bool:
        seen = flow_status()
        return seen["records_lag"] is None and bool(seen["conditions"])

    def timed(what: str, wanted: Callable[[], Any], within_s: float) -> None:
        began = time.monotonic()
        until(what, wanted, job, within_s)
        sys.stdout.write(f"{what}: {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.0f}\n")

    try:
        job.start()
        write_awkward(east, name, PARTITIONS, RECORDS)
        copied = f"east.{name}"
        until("all are copied", lambda: total(digest(west, copied)) >= RECORDS, job, PATIENCE_S)
        assert digest(west, copied) == digest(east, name)
        assert_executors_are_there(networks, job)

        networks.machine.cut()
        cut_at = time.monotonic()
        write_awkward(east, name, PARTITIONS, RECORDS, seed=1)
        timed("lag unknown, and a condition, with the line cut", is_told, 30.0 - (time.monotonic() - cut_at))
        codes = {condition["code"] for condition in flow_status()["conditions"]}
        sys.stdout.write(f"conditions: {codes}\n")
        time.sleep(max(0.0, CUT_S - (time.monotonic() - cut_at)))
        assert total(digest(west, copied)) < 2 * RECORDS, "nobody else copied"
        networks.machine.connect()
        timed("all are copied after the line is back", lambda: total(digest(west, copied)) >= 2 * RECORDS, 60.0)
        assert digest(west, copied) == digest(east, name), "0 lost, 0 doubled"
        timed("the lag is known again", lambda: flow_status()["records_lag"] == 0, 60.0)
        assert job.stop() == 0
    finally:
        job.kill_group()


def test_the_channel_of_a_driver_behind_nat_is_reached_by_its_advertised_address(networks: Networks) -> None:
    """The channel listens on loopback, which the other machine cannot reach, and is told to be elsewhere."""
    east, west = networks.sandbox["east"], networks.sandbox["west"]
    name, port = f"n{uuid.uuid4().hex[:6]}", 17095
    channel = {"bind_address": "127.0.0.1", "advertised_address": networks.machine.extra}
    job = start(networks, name, channel | {"first_port": port, "last_port": port})
    try:
        with forwarding((networks.machine.extra, port), ("127.0.0.1", port)) as forwarder:
            job.start()
            topics = {name: PARTITIONS}
            with flowing(east, west, topics, rate=20) as (load, arrivals):
                until("every partition is copied", arrivals.go_on, job, PATIENCE_S)
                assert_executors_are_there(networks, job)
                assert_all_once_in_order(load, arrivals, topics, PATIENCE_S)
            assert forwarder.taken > 0, "tasks came through it"
            assert job.stop() == 0
    finally:
        job.kill_group()
