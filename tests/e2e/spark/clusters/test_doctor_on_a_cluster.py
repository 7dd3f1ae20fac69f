"""``doctor`` about a real standalone cluster: its master, its cores, and what executors lack."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyspark
import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.mirror_jobs.runner.machine import spark_master
from reconciler.model.environment.topology import Mirror
from reconciler.replication.handover import ExecutorPython
from tests.support.access.spellings import kept, spellings
from tests.support.commands import Ended, two_clusters
from tests.support.jobs.mirror_job import Job, create_topics, flow, handover, status, until
from tests.support.jobs.standalone.cluster import Standalone, mirror_on
from tests.support.waiting import until as until_true

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]

Cli = Callable[..., Ended]
SECRET = "d0c70a5ec" * 4
PATIENCE_S = 240.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    spark = Standalone(tmp_path / "spark")
    try:
        yield spark.start()
    finally:
        spark.stop()


@dataclass
class Place:
    """An environment named test, as hand-overs of these tests have it, with one mirror on the cluster."""

    plain: Sandbox
    spark: Standalone
    name: str
    folder: Path
    cli: Cli
    setting: str = ""
    """Of both clusters' clients."""

    def mirror(self, **changes: Any) -> Mirror:
        made = mirror_on(self.spark, self.name, self.folder, executors=1)
        return replace(made, deployment=replace(made.deployment, **changes))

    def job(self, name: str, **changes: Any) -> Job:
        """Of the mirror, or of another one with its own topic: what holds the cores differs by its name."""
        east, west = self.plain["east"], self.plain["west"]
        create_topics(west, "__mirror_status")
        create_topics(east, name, partitions=2)
        create_topics(west, f"east.{name}", partitions=2)
        made = flow(name, east, west, [name], lanes=1)
        if self.setting:
            made["source"]["client"]["sasl.password"] = self.setting
        content = handover(west, name, [made]) | {"parallelism": 1}
        return Job(self.folder / f"run-{name}", content, mirror=self.mirror(**changes))

    def environment(self) -> Path:
        folder = self.folder / "test"
        folder.mkdir(exist_ok=True)
        name = self.name
        (folder / "all.yaml").write_text(
            two_clusters(self.plain)
            + f"flows: {{{name}: {{source: east, target: west, topics: ['{name}']}}}}\n"
            + f"mirrors: {{{name}: {{flows: [{name}], parallelism: 1, master: '{self.spark.master}', "
            + f"spark_conf: {{spark.master.ui.port: '{self.spark.page}'}}}}}}\n"
        )
        return folder

    def ask(self) -> tuple[Mapping[str, Mapping[str, Any]], Ended]:
        """What is said of the mirror, by the name of the check."""
        ended = self.cli("doctor", self.environment(), "--within", "3m", "--format", "json")
        mine = [each for each in json.loads(ended.out)["findings"] if each["subject"] == f"mirror {self.name}"]
        return {each["check"]: each for each in mine}, ended

    def verdicts(self) -> tuple[str, ...]:
        found, _ = self.ask()
        return tuple(found[check]["verdict"] for check in ("spark master", "free cores", "executors"))


@pytest.fixture
def place(plain: Sandbox, cluster: Standalone, tmp_path: Path, unique: str, cli: Cli) -> Place:
    return Place(plain, cluster, unique, tmp_path, cli)


def test_master_cores_and_executors_while_it_works_while_all_cores_are_busy_and_once_it_is_gone(place: Place) -> None:
    place.spark.worker("a")
    until_true(lambda: spark_master(place.spark.master, "", 5.0, place.spark.page).workers == 1, 120)
    found, _ = place.ask()
    assert found["spark master"]["verdict"] == "ok"
    address = place.spark.master.removeprefix("spark://")
    said = f"{place.spark.master}: {address} takes connections, Spark {pyspark.__version__}"
    assert found["spark master"]["text"] == said
    assert (found["free cores"]["verdict"], found["free cores"]["text"].split(";")[0]) == ("ok", "1 free on 1 worker")
    assert found["executors"]["verdict"] == "unknown"
    assert "it has not run yet" in found["executors"]["text"]

    job, other = place.job(place.name), place.job(f"{place.name}other")
    try:
        job.start()
        until("it copies", lambda: (status(place.plain["west"], place.name) or {}).get("state") == "running", job, 240)
        until("its executor has looked", lambda: "executor looked at" in job.log, job, PATIENCE_S)
        until("executors are well", lambda: place.ask()[0]["executors"]["verdict"] == "ok", job, PATIENCE_S)
        found, _ = place.ask()
        assert found["free cores"]["text"].startswith("0 free on 1 worker; the mirror holds 1; it runs 1 lease")
        assert found["free cores"]["verdict"] == "warning", "a restart would find no core"
        assert job.stop() == 0

        other.start()
        until("the other one has the core", lambda: "executor looked at" in other.log, other, PATIENCE_S)
        found, _ = place.ask()
        assert found["free cores"]["verdict"] == "problem"
        assert found["free cores"]["text"].startswith("0 free on 1 worker; it runs 1 lease")
        assert "Add workers" in found["free cores"]["todo"][0]
        assert found["executors"]["verdict"] == "unknown"
        assert "the mirror is stopped" in found["executors"]["text"]

        place.spark.daemons[0].kill()
        found, ended = place.ask()
        assert (found["spark master"]["verdict"], ended.code) == ("problem", 1)
        assert f"{place.spark.master} cannot be used: {address}: Connection refused" in found["spark master"]["text"]
        assert "Start it, or correct master under the mirror" in found["spark master"]["todo"][0]
        assert "free cores" not in found
    finally:
        for each in (job, other):
            each.kill_group()


def without(archive: Path, package: str) -> Path:
    """The archive of Python packages, but for one."""
    kept_files = io.BytesIO()
    with tarfile.open(archive) as whole, tarfile.open(fileobj=kept_files, mode="w") as part:
        for entry in whole:
            if not entry.name.startswith(f"site-packages/{package}"):
                part.addfile(entry, whole.extractfile(entry))
    made = archive.with_name(f"without-{package}.tar.gz")
    made.write_bytes(gzip.compress(kept_files.getvalue()))
    return made


def executors_are_a_problem(place: Place, job: Job, *words: str) -> Mapping[str, Any]:
    """What doctor says, once it says all of ``words``."""

    def told() -> Mapping[str, Any] | None:
        found = place.ask()[0]["executors"]
        return found if all(word in found["text"] for word in words) else None

    job.start()
    finding: Mapping[str, Any] = until(f"doctor says {words}", told, job, PATIENCE_S)
    assert finding["verdict"] == "problem"
    assert finding["todo"]
    return finding


def test_an_archive_without_a_package_is_named_with_the_package(place: Place) -> None:
    place.spark.worker("a")
    archive = place.mirror().deployment.python.archive
    job = place.job(place.name, python=ExecutorPython(str(without(Path(archive), "cramjam"))))
    try:
        executors_are_a_problem(place, job, "lacks cramjam: name an archive made by `reconciler mirror pack`")
    finally:
        job.kill_group()


def test_an_interpreter_that_does_not_exist_is_named(place: Place) -> None:
    place.spark.worker("a")
    job = place.job(place.name, python=ExecutorPython(executable="/opt/no-such/python3"))
    try:
        executors_are_a_problem(place, job, "/opt/no-such/python3", "No such file or directory")
    finally:
        job.kill_group()


def test_a_secret_that_the_executors_lack_is_named_and_its_value_is_nowhere(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has it. Workers of a real cluster are started elsewhere, by somebody else."""
    place.setting = "${env:DOCTOR_TEST_SECRET}"
    monkeypatch.setenv("DOCTOR_TEST_SECRET", SECRET)
    place.spark.worker("a")
    job = place.job(place.name)
    try:
        executors_are_a_problem(place, job, "DOCTOR_TEST_SECRET", "which the client settings of cluster east name")
        _, ended = place.ask()
    finally:
        job.kill_group()
        place.spark.stop()
    found = kept(job.folder) | kept(place.spark.folder) | {"doctor": ended.words}
    found["status"] = json.dumps(status(place.plain["west"], place.name))
    for where, text in found.items():
        assert [each for each in spellings(SECRET) if each in text] == [], where
