"""The release before and this one, each from its wheel, take turns under load: hosts or the command first, and back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from reconciler_sandbox.handles import Sandbox

from tests.support.commands import two_clusters
from tests.support.jobs.flow_of_records import Arrivals, Load, assert_all_once_in_order, flowing
from tests.support.jobs.hosts.installed import installed, previous
from tests.support.jobs.hosts.mirror_hosts import Hosts, Program
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1500), pytest.mark.long]

PARTITIONS = 2
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return installed(previous(), tmp_path_factory.mktemp("before"))


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return installed("", tmp_path_factory.mktemp("now"))


@pytest.fixture
def hosts(plain: Sandbox, tmp_path: Path, unique: str) -> Iterator[Hosts]:
    name = f"up{unique}"
    made = Hosts(tmp_path / name, plain, name, tmp_path)
    made.environment.mkdir()
    yield made
    for machine in made.machines.values():
        machine.lose()


class Upgrade:
    """The steps of one, each with records that arrive after it."""

    def __init__(self, hosts: Hosts, hosted: bool) -> None:
        self.hosts = hosts
        self.env = str(hosts.environment)
        self.serving = ""
        self._hosted = str(hosted).lower()

    def declare(self, lanes: int) -> None:
        name = self.hosts.topic
        (self.hosts.environment / "all.yaml").write_text(
            two_clusters(self.hosts.sandbox)
            + f"topics: {{{name}: {{clusters: [east], partitions: {PARTITIONS}, replication_factor: 1}}}}\n"
            f"flows: {{{name}-flow: {{source: east, target: west, topics: ['{name}'], replication_factor: 1, "
            f"lanes: {lanes}}}}}\n"
            f"mirrors: {{{name}: {{flows: [{name}-flow], hosted: {self._hosted}, "
            "spark_conf: {spark.driver.memory: 480m}}}\n",
            "utf-8",
        )

    def applied(self, program: Program, lanes: int) -> None:
        """A changed definition, which replaces the application."""
        was = self.hosts.application()
        self.declare(lanes)
        said = self.hosts.reconciler("apply", self.env, "--yes", program=program)
        assert "checked: a new plan is empty" in said, said
        self.hosts.until("another application runs", lambda: self.hosts.application() not in ("", was))

    def agrees(self, program: Program) -> None:
        """An upgrade alone restarts nothing: the plan is empty (exit code 0)."""
        self.hosts.reconciler("plan", self.env, program=program)

    def served_by(self, name: str, program: Program) -> None:
        """As docs/change/upgrading.md has it: the next host starts beside the one that leaves."""
        machine, was = self.hosts.start(name, program), self.hosts.application()
        self.hosts.until("the host is ready", lambda: "waiting for" in machine.log)
        if leaving := self.serving and self.hosts.machines[self.serving].process:
            leaving.terminate()
            self.hosts.until("the next one has the mirror", lambda: self.hosts.application() not in ("", was))
            assert leaving.wait(190) == 0, self.hosts.machines[self.serving].log
        self.serving = name

    def is_ready(self, program: Program) -> None:
        """By the probe of docs/mirror/deploy, in a folder that has clusters alone."""
        folder = self.hosts.folder / "ready" / self.hosts.environment.name
        folder.mkdir(parents=True)
        (folder / "clusters.yaml").write_text(two_clusters(self.hosts.sandbox), "utf-8")
        manifest = next(yaml.safe_load_all((ROOT / "docs/mirror/deploy/kubernetes/host.yaml").read_text("utf-8")))
        [container] = manifest["spec"]["template"]["spec"]["containers"]
        words = [
            word.replace("/etc/reconciler/environments/prod", str(folder))
            for word in container["readinessProbe"]["exec"]["command"]
        ]
        path = f"{Path(program.command[0]).parent}:{program.environ['PATH']}"
        environ = {**program.environ, "PATH": path, "RECONCILER_STATE": str(self.hosts.folder / "ready" / "state")}
        done = subprocess.run(words, env=environ, cwd=program.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def copies(self, load: Load, arrivals: Arrivals) -> None:
        sent = load.sent[self.hosts.topic]
        self.hosts.until("records continue", lambda: arrivals.have_all_from(self.hosts.topic, sent))


@pytest.mark.parametrize("first", ["hosts", "command"])
def test_hosts_and_the_command_are_upgraded_in_either_order_and_back(
    hosts: Hosts, before: Program, now: Program, first: str
) -> None:
    upgrade = Upgrade(hosts, hosted=True)
    upgrade.declare(lanes=2)
    upgrade.served_by("one", before)
    upgrade.applied(before, lanes=2)
    topics = {hosts.topic: PARTITIONS}
    with flowing(hosts.sandbox["east"], hosts.sandbox["west"], topics) as (load, arrivals):
        upgrade.copies(load, arrivals)
        if first == "hosts":
            upgrade.served_by("two", now)
            upgrade.copies(load, arrivals)
            upgrade.agrees(before)
            upgrade.applied(before, lanes=3)
        upgrade.copies(load, arrivals)
        upgrade.agrees(now)
        upgrade.is_ready(now)
        upgrade.applied(now, lanes=1)
        upgrade.copies(load, arrivals)
        if first == "command":
            upgrade.served_by("two", now)
            upgrade.copies(load, arrivals)
        upgrade.served_by("three", before)
        upgrade.copies(load, arrivals)
        upgrade.agrees(before)
        upgrade.applied(before, lanes=2)
        upgrade.copies(load, arrivals)
        assert_all_once_in_order(load, arrivals, topics, PATIENCE_S)
    assert "stopped" in hosts.reconciler("mirror", "stop", upgrade.env, program=before)


def test_a_mirror_without_a_host_goes_to_the_next_release_and_back(hosts: Hosts, before: Program, now: Program) -> None:
    """One state folder: the run folders of one release are read by the other."""
    hosts.variables = {"RECONCILER_STATE": str(hosts.folder / "machine" / "state")}
    upgrade = Upgrade(hosts, hosted=False)
    try:
        upgrade.applied(before, lanes=2)
        topics = {hosts.topic: PARTITIONS}
        with flowing(hosts.sandbox["east"], hosts.sandbox["west"], topics) as (load, arrivals):
            upgrade.copies(load, arrivals)
            upgrade.agrees(now)
            upgrade.applied(now, lanes=3)
            upgrade.copies(load, arrivals)
            upgrade.agrees(before)
            upgrade.applied(before, lanes=2)
            upgrade.copies(load, arrivals)
            assert_all_once_in_order(load, arrivals, topics, PATIENCE_S)
    finally:
        hosts.reconciler("mirror", "stop", upgrade.env, program=now)
