"""Two mirror hosts and an ``apply`` that ends: the machine of one is lost, and the other one has the mirror running.

Then that one is asked to leave, and hands the mirror on to a third.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.replication.names import STATUS_TOPIC
from reconciler.sandbox.handles import Sandbox
from tests.support.commands import two_clusters
from tests.support.jobs.records import digest, total, write_awkward
from tests.support.paths import ROOT
from tests.support.reading import to_the_end

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1500)]


@dataclass
class Machine:
    """A state folder and the processes that work in it."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "RECONCILER_STATE": str(self.folder / "state")}

    @property
    def log(self) -> str:
        return (self.folder / "host.log").read_text("utf-8", errors="replace")

    def host(self, environment: Path, accept: Path) -> None:
        self.folder.mkdir()
        words = ["mirror", "host", str(environment), "--accept", str(accept)]
        with (self.folder / "host.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "reconciler", *words], stdout=log, stderr=log, cwd=ROOT, env=self.environ
            )

    def pids(self) -> list[int]:
        """Every process with the state folder among its words or in its environment."""
        mark, found = str(self.folder / "state").encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if mark in (entry / "cmdline").read_bytes() or mark in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def lose(self) -> None:
        """As when the power goes."""
        while pids := self.pids():
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if self.process is not None:
                self.process.poll()
            time.sleep(0.1)
        if self.process is not None:
            self.process.wait(20)


@dataclass
class Hosts:
    environment: Path
    sandbox: Sandbox
    topic: str
    folder: Path
    machines: dict[str, Machine] = field(default_factory=dict)

    def start(self, name: str) -> Machine:
        accept = self.folder / "accept.yaml"
        accept.write_text(f"environments: [{self.environment.name}]\nmasters: ['local[[]*']\n", "utf-8")
        self.machines[name] = machine = Machine(self.folder / name)
        machine.host(self.environment, accept)
        return machine

    def reconciler(self, *words: str, code: int = 0) -> str:
        """From a machine that is thrown away afterwards."""
        command = [sys.executable, "-m", "reconciler", *words]
        environ = {**os.environ, "RECONCILER_STATE": str(self.folder / f"ci{len([*self.folder.iterdir()])}")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, cwd=ROOT, env=environ)
        logs = "\n".join(f"{name}:\n{machine.log}" for name, machine in self.machines.items())
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}\n{logs}"
        return done.stdout + done.stderr

    def until(self, what: str, holds: Callable[[], bool], seconds: float = 400.0) -> None:
        end = time.monotonic() + seconds
        while not holds():
            logs = "\n".join(f"{name}:\n{machine.log}" for name, machine in self.machines.items())
            assert time.monotonic() < end, f"{what}\n{logs}"
            time.sleep(0.3)

    def application(self) -> str:
        """That reports itself running; empty while none does."""
        key, newest = f"{self.environment.name}/{self.environment.name}".encode(), b"{}"
        for message in to_the_end(self.sandbox["west"], STATUS_TOPIC):
            newest = message.value() or newest if message.key() == key else newest
        record = json.loads(newest)
        return str(record["application_id"]) if record.get("state") == "running" else ""

    def another_runs(self, before: str, what: str) -> None:
        """Waits until an application other than ``before`` reports itself running, and tells how long that took."""
        began = time.monotonic()
        self.until("another application runs", lambda: self.application() not in ("", before))
        sys.stdout.write(f"{what}: {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.0f}\n")

    def until_equal(self, count: int) -> None:
        """The same records in the same order in each partition, none twice."""
        copy = f"east.{self.topic}"
        self.until(f"{count} records", lambda: total(digest(self.sandbox["west"], copy)) >= count)
        source = digest(self.sandbox["east"], self.topic)
        assert total(source) == count
        assert source == digest(self.sandbox["west"], copy)


@pytest.fixture
def hosts(plain: Sandbox, tmp_path: Path, unique: str) -> Iterator[Hosts]:
    name = f"hosted{unique}"
    environment = tmp_path / name
    environment.mkdir()
    text = two_clusters(plain) + (
        f"topics: {{{name}: {{clusters: [east], partitions: 2, replication_factor: 1, "
        "configs: {retention.ms: '-1'}}}\n"
        f"flows: {{{name}-flow: {{source: east, target: west, topics: ['{name}'], replication_factor: 1}}}}\n"
        f"mirrors: {{{name}: {{flows: [{name}-flow], hosted: true, spark_conf: {{spark.driver.memory: 480m}}}}}}\n"
    )
    (environment / "all.yaml").write_text(text, "utf-8")
    made = Hosts(environment, plain, name, tmp_path)
    yield made
    for machine in made.machines.values():
        machine.lose()


def test_a_lost_machine_is_replaced_by_the_standby_and_each_record_is_copied_once(hosts: Hosts) -> None:
    env = str(hosts.environment)
    hosts.start("first")
    hosts.until("the host waits for the topic", lambda: "waiting for its topic" in hosts.machines["first"].log)
    answer = hosts.reconciler("apply", env, "--yes")
    assert "generation 1 is written" in answer, answer
    assert "checked: a new plan is empty" in answer, answer
    write_awkward(hosts.sandbox["east"], hosts.topic, 2, 300)
    hosts.until_equal(300)
    before = hosts.application()
    hosts.start("standby")
    hosts.until("the standby is there", lambda: "waiting for desired records" in hosts.machines["standby"].log)
    assert "taken" not in hosts.machines["standby"].log

    hosts.machines["first"].lose()
    hosts.another_runs(before, "after the loss of the machine")
    write_awkward(hosts.sandbox["east"], hosts.topic, 2, 300, seed=1)
    hosts.until_equal(600)

    hosts.reconciler("plan", env)  # exit code 0: it is as declared, whatever machine asks
    before, leaving = hosts.application(), hosts.machines["standby"].process
    third = hosts.start("third")
    hosts.until("a third one is there", lambda: "waiting for desired records" in third.log)
    assert leaving is not None
    leaving.terminate()
    write_awkward(hosts.sandbox["east"], hosts.topic, 2, 300, seed=2)
    hosts.another_runs(before, "after SIGTERM to the host")
    hosts.until_equal(900)
    assert leaving.wait(190) == 0
    assert hosts.machines["standby"].pids() == [], "it left none of its application"

    assert "stopped" in hosts.reconciler("mirror", "stop", env)
    assert hosts.application() == ""
    assert third.process is not None
    third.process.terminate()
    assert third.process.wait(60) == 0
