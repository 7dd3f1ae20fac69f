"""The mirror on a real standalone cluster, with Python from the archive, while its workers and executors are killed."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from reconciler_mirror.model.lane import lane_of
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.mirror_jobs.runner.command_line import spark_secret
from reconciler.backends.mirror_jobs.runner.machine import spark_master
from reconciler.backends.mirror_jobs.runner.python_archive import pack
from reconciler.model.environment.topology import Mirror
from reconciler.replication.handover import Deployment, ExecutorPython
from tests.support.access.spellings import kept, spellings
from tests.support.commands import two_clusters
from tests.support.jobs.flow_of_records import assert_all_once_in_order, copying, flowing
from tests.support.jobs.mirror_job import Job, command_lines, create_topics, flow, handover, status, until
from tests.support.jobs.records import digest, total, write_awkward
from tests.support.jobs.standalone.cluster import QUICK, Standalone, mirror_on
from tests.support.paths import ROOT
from tests.support.waiting import until as until_true

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]

LANES = 2
PARTITIONS = 8  # of four, CRC-32 gives all to one of two lanes; losing the other is rightly not told
SECRET = "5ec7e7c4" * 4
PATIENCE_S = 300.0
LOST = '"code": "lane_without_task", "stops": true'


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
    mirror = mirror_on(cluster, name, tmp_path)
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


def test_master_and_driver_are_lost_and_then_all_at_once(plain: Sandbox, cluster: Standalone, tmp_path: Path) -> None:
    east, west = plain.clusters["east"], plain.clusters["west"]
    name = f"s{uuid.uuid4().hex[:6]}"
    create_topics(west, "__mirror_status")
    create_topics(east, name, partitions=PARTITIONS)
    create_topics(west, f"east.{name}", partitions=PARTITIONS)
    workers = [cluster.worker("a"), cluster.worker("b")]
    content = handover(west, name, [flow(name, east, west, [name], lanes=LANES)])
    job = Job(tmp_path / "run", content, mirror=mirror_on(cluster, name, tmp_path), supervised=True)
    try:
        job.start()
        with flowing(east, west, {name: PARTITIONS}, rate=20) as (load, arrivals):
            copies = copying(load, arrivals, name, job, PATIENCE_S)
            copies("every partition is copied")
            master = cluster.daemons[0]
            master.kill()
            copies("without a master")
            cluster.start_master()
            until("workers are back", lambda: cluster.log("master").count("Registering worker") >= 4, job, PATIENCE_S)
            time.sleep(5)  # a master that knows nothing of the application has its executors ended
            copies("with a new master")

            job.kill_driver()
            copies("after kill -9 of the driver")

            cluster.stop()
            job.kill_driver()
            cluster.start_master()
            workers += [cluster.worker("c"), cluster.worker("d")]
            copies("after kill -9 of master, workers, executors and driver")
            assert_all_once_in_order(load, arrivals, {name: PARTITIONS}, PATIENCE_S)
        assert job.stop() == 0
    finally:
        job.kill_group()


def test_two_workers_copy_what_one_copies(plain: Sandbox, cluster: Standalone, tmp_path: Path) -> None:
    """Awkward records of one topic under two names, by one worker of one core and by two."""
    east, west = plain.clusters["east"], plain.clusters["west"]
    name, for_ever = f"s{uuid.uuid4().hex[:6]}", {"retention.ms": "-1"}
    copies = {1: (f"east.{name}", "."), 2: (f"east-{name}", "-")}
    create_topics(west, "__mirror_status")
    create_topics(east, name, partitions=PARTITIONS, **for_ever)
    create_topics(west, *(copy for copy, _ in copies.values()), partitions=PARTITIONS, **for_ever)
    write_awkward(east, name, PARTITIONS, 600)
    source = digest(east, name)
    for workers, (copy, separator) in copies.items():
        daemons = [*cluster.daemons[1:], cluster.worker(f"worker{workers}")]
        assert len(daemons) == workers
        naming = {"policy": "default", "separator": separator}
        flows = [flow(f"{name}-{workers}", east, west, [name], lanes=LANES, naming=naming)]
        content = handover(west, f"{name}-{workers}", flows) | {"parallelism": workers}
        folder = tmp_path / f"of{workers}"
        folder.mkdir()
        job = Job(folder / "run", content, mirror=mirror_on(cluster, f"{name}-{workers}", folder, executors=workers))
        try:
            job.start()
            until("all is copied", lambda: total(digest(west, copy)) >= total(source), job, PATIENCE_S)  # noqa: B023
            until("each task is there", lambda: job.log.count("executor looked at") >= workers, job, PATIENCE_S)  # noqa: B023
            assert all(daemon.executors() for daemon in daemons), "each worker has its part"
            assert job.stop() == 0
        finally:
            job.kill_group()
        assert digest(west, copy) == source


def test_three_environments_share_one_cluster(plain: Sandbox, cluster: Standalone, tmp_path: Path) -> None:
    """Each gets the cores that it declares and no more, and copies its own topic; the master's page tells it."""
    east, west = plain.clusters["east"], plain.clusters["west"]
    names = [f"s{uuid.uuid4().hex[:6]}" for _ in range(3)]
    create_topics(west, "__mirror_status")
    create_topics(east, *names, partitions=2)
    create_topics(west, *(f"east.{name}" for name in names), partitions=2)
    for worker in ("a", "b"):
        cluster.worker(worker, cores=2)
    jobs = []
    for name in names:
        content = handover(west, name, [flow(name, east, west, [name], lanes=2)])
        content |= {"environment": name, "parallelism": 1, "status": content["status"] | {"key": f"{name}/{name}"}}
        jobs.append(Job(tmp_path / name, content, mirror=mirror_on(cluster, name, tmp_path, executors=1)))
    try:
        for job in jobs:
            job.start()
        topics = dict.fromkeys(names, 2)
        with flowing(east, west, topics, rate=20) as (load, arrivals):
            for name, job in zip(names, jobs, strict=True):
                until("its topic is copied", partial(arrivals.have_all_from, name, 0), job, PATIENCE_S)
            for name in names:
                seen = spark_master(cluster.master, f"mirror {name}/{name}", 5.0, cluster.page)
                assert (seen.workers, seen.free_cores, seen.own_cores) == (2, 1, 1), seen
            assert_all_once_in_order(load, arrivals, topics, PATIENCE_S)
        assert [job.stop() for job in jobs] == [0, 0, 0]
        seen = spark_master(cluster.master, f"mirror {names[0]}/{names[0]}", 5.0, cluster.page)
        assert (seen.free_cores, seen.own_cores) == (4, 0)
    finally:
        for job in jobs:
            job.kill_group()


def test_the_secret_of_the_cluster_is_nowhere_but_in_its_file_and_in_variables(
    plain: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked for in logs, run folder, event log, status, command lines of the machine, and on the pages of the
    application and of the cluster, while a task runs."""
    east, west = plain.clusters["east"], plain.clusters["west"]
    name = f"s{uuid.uuid4().hex[:6]}"
    create_topics(west, "__mirror_status")
    create_topics(east, name, partitions=PARTITIONS)
    create_topics(west, f"east.{name}", partitions=PARTITIONS)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    events = tmp_path / "events"
    events.mkdir()
    mirror = Mirror(
        name,
        (name,),
        master="",
        deployment=Deployment(
            executors=1, cores=1, memory="480m", python=ExecutorPython(str(pack(tmp_path / "python.tar.gz").path))
        ),
        spark_conf={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
            "spark.executor.extraJavaOptions": QUICK,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
            "spark.authenticate.secret": "${env:SPARK_CLUSTER_SECRET}",
        },
    )
    spark = Standalone(tmp_path / "spark", secret=SECRET)
    job: Job | None = None
    try:
        mirror = replace(mirror, master=spark.start().master)
        worker = spark.worker("a")
        secret = spark_secret(mirror, mirror.master, {"SPARK_CLUSTER_SECRET": SECRET})
        content = handover(west, name, [flow(name, east, west, [name], lanes=LANES)])
        job = Job(tmp_path / "run", content, environment=secret, mirror=mirror)
        job.start()
        with flowing(east, west, {name: PARTITIONS}, rate=20) as (_, arrivals):
            until("every partition is copied", arrivals.go_on, job, PATIENCE_S)
            assert worker.executors(), "tasks run on the cluster, which lets nobody in without the secret"
            addresses = [f"http://127.0.0.1:{port}/{path}" for path in ("environment/", "executors/")]
            addresses += re.findall(r"started at (http://[a-z0-9.:-]+)", spark.log("master") + spark.log("a"))
            pages = {address: opened(address) for address in addresses}
            found = {f"command line of {pid}": text for pid, text in command_lines().items()}
            assert any("CoarseGrainedExecutorBackend" in text for text in found.values())
        assert job.stop() == 0
    finally:
        if job is not None:
            job.kill_group()
        spark.stop()
    assert "spark.authenticate.secret" in pages[addresses[0]], "the page tells settings, and this one by its name"
    assert len(addresses) == 4, "the pages of the master and of the worker"
    found |= pages | kept(tmp_path / "run") | kept(events) | kept(spark.folder)
    assert SECRET in found.pop(str(spark.properties)), "it is the one that is looked for"
    assert any("SparkListenerTaskEnd" in text for text in kept(events).values())
    found["status"] = json.dumps(status(west, name))
    for place, text in found.items():
        assert [each for each in spellings(SECRET) if each in text] == [], place


def opened(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return str(answer.read().decode(errors="replace"))


def test_doctor_asks_the_master_and_each_executor(
    plain: Sandbox, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fit ones, full ones, a secret and a package that they lack, a Python that is not there, a master that is gone."""
    monkeypatch.setenv("RECONCILER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("DOCTOR_CANARY", SECRET)
    spark = Standalone(tmp_path / "spark")
    archive = pack(tmp_path / "python.tar.gz").path
    lacking = tmp_path / "lacking.tar.gz"
    with tarfile.open(archive) as whole, tarfile.open(lacking, "w:gz") as part:
        for entry in whole:
            if "structlog" not in entry.name:
                part.addfile(entry, whole.extractfile(entry))

    def doctor(python: str, **clusters: str) -> tuple[str, dict[str, list[tuple[str, str]]]]:
        """All that it says, and of the mirror by check: verdicts and texts."""
        environment = tmp_path / unique
        environment.mkdir(exist_ok=True)
        (environment / "all.yaml").write_text(
            two_clusters(plain, **clusters)
            + f"flows: {{{unique}: {{source: east, target: west, topics: ['{unique}'], replication_factor: 1}}}}\n"
            f"mirrors:\n  {unique}:\n    flows: [{unique}]\n    master: {spark.master}\n"
            "    executors: 2\n    cores: 1\n    memory: 480m\n"
            f"    python: {python}\n"
            "    spark_conf: {spark.driver.host: 127.0.0.1, spark.driver.bindAddress: 127.0.0.1, "
            f"spark.master.ui.port: '{spark.page}'}}\n"
        )
        words = [sys.executable, "-m", "reconciler", "doctor", str(environment), "--executors", "--format", "json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False, cwd=ROOT)
        assert done.returncode in (0, 1), done.stderr
        assert done.stdout, done.stderr
        checks: dict[str, list[tuple[str, str]]] = {}
        for finding in json.loads(done.stdout)["findings"]:
            if finding["subject"] == f"mirror {unique}":
                checks.setdefault(finding["check"], []).append((finding["verdict"], finding["text"]))
        return done.stdout + done.stderr, checks

    try:
        spark.start()
        spark.worker("a")
        spark.worker("b")
        until_true(lambda: spark.log("master").count("Registering worker") == 2)
        checks = doctor(f"{{archive: {archive}}}")[1]
        assert checks["spark master"][0][0] == "ok"
        assert checks["free cores"][0][1].startswith("2 free on 2 workers")
        assert [verdict for verdict, _ in checks["executors"]] == ["ok"], checks
        assert checks["executors"][0][1].startswith("2 executors on ")

        login = "security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: m"
        mirror = f", principals: {{mirror: {{{login}, sasl.password: '${{env:DOCTOR_CANARY}}'}}}}"
        said, checks = doctor(f"{{archive: {archive}}}", west=mirror)
        assert [verdict for verdict, _ in checks["executors"]] == ["problem"], checks
        assert "${env:DOCTOR_CANARY}" in checks["executors"][0][1]
        assert SECRET not in said

        checks = doctor(f"{{archive: {lacking}}}")[1]
        assert checks["executors"][0][0] == "problem"
        assert "lacks structlog: name an archive made by `reconciler mirror pack`" in checks["executors"][0][1]

        checks = doctor("{executable: /nowhere/python}")[1]
        assert checks["executors"][0][0] == "problem"
        assert "/nowhere/python" in checks["executors"][0][1]

        spark.stop()
        checks = doctor(f"{{archive: {archive}}}")[1]
        assert checks["spark master"][0][0] == "problem"
        assert checks["executors"] == [("unknown", "not looked at: the Spark master cannot be used")]
    finally:
        spark.stop()
