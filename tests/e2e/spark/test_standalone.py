"""The mirror on a real standalone cluster, with Python from the archive, while its workers and executors are killed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from reconciler_mirror.model import lane_of

from reconciler.backends.mirror_jobs.runner.python_archive import pack
from reconciler.model.environment.topology import Mirror
from reconciler.replication.deployment import Deployment, ExecutorPython
from reconciler.sandbox.handles import Sandbox
from tests.support.jobs.flow_of_records import assert_all_once_in_order, flowing
from tests.support.jobs.mirror_job import Job, create_topics, flow, handover, status, until
from tests.support.jobs.standalone import Standalone

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]

LANES = 2
PARTITIONS = 8  # of four, CRC-32 gives all to one of two lanes; losing the other is rightly not told
PATIENCE_S = 300.0
LOST = '"code": "lane_without_task", "stops": true'
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    spark = Standalone(tmp_path / "spark")
    try:
        yield spark.start()
    finally:
        spark.stop()


def test_workers_and_executors_are_lost_and_come_back(plain: Sandbox, cluster: Standalone, tmp_path: Path) -> None:
    east, west = plain.clusters["east"], plain.clusters["west"]
    name = f"s{uuid.uuid4().hex[:6]}"
    assert {lane_of(name, number, LANES) for number in range(PARTITIONS)} == set(range(LANES)), "each lane has some"
    create_topics(west, "__mirror_status")
    create_topics(east, name, partitions=PARTITIONS)
    create_topics(west, f"east.{name}", partitions=PARTITIONS)
    workers = {worker: cluster.worker(worker) for worker in ("a", "b")}
    mirror = Mirror(
        name,
        (name,),
        master=cluster.master,
        deployment=Deployment(
            executors=2, cores=1, memory="480m", python=ExecutorPython(str(pack(tmp_path / "python.tar.gz").path))
        ),
        spark_conf={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.executor.extraJavaOptions": QUICK,
        },
    )
    job = Job(tmp_path / "run", handover(west, name, [flow(name, east, west, [name], lanes=LANES)]), mirror=mirror)

    def lag() -> int | None:
        """As the newest status record has it."""
        record = status(west, name)
        assert record is not None
        figure: int | None = record["flows"][name]["records_lag"]
        return figure

    try:
        job.start()
        with flowing(east, west, {name: PARTITIONS}, rate=20) as (load, arrivals):
            until("every partition is copied", arrivals.go_on, job, PATIENCE_S)
            assert all(worker.executors() for worker in workers.values()), "one executor on each"

            workers["a"].kill()
            until("the lag is unknown", lambda: lag() is None, job, PATIENCE_S)
            until("a condition names it", lambda: LOST in job.log, job, PATIENCE_S)
            until("lanes move", lambda: "lanes go to leases that have a task" in job.log, job, PATIENCE_S)
            until("the other worker copies all", arrivals.go_on, job, PATIENCE_S)

            workers["b"].kill_executors()
            until("a new executor copies all", arrivals.go_on, job, PATIENCE_S)

            cluster.worker("a")
            until("lanes are spread again", lambda: "lanes come back" in job.log, job, PATIENCE_S)
            until("every partition is copied", arrivals.go_on, job, PATIENCE_S)
            assert_all_once_in_order(load, arrivals, {name: PARTITIONS}, PATIENCE_S)
        assert job.stop() == 0
    finally:
        job.kill_group()
