"""Machines with mirror hosts: state folders and processes of this one, which are lost as a whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler_sandbox.handles import Sandbox

from reconciler.replication.names import STATUS_TOPIC
from tests.support.jobs.records import digest, total
from tests.support.paths import ROOT
from tests.support.reading import to_the_end


@dataclass(frozen=True)
class Program:
    """The command, and where it starts. ``environ``: of its processes."""

    command: tuple[str, ...]
    folder: Path
    environ: Mapping[str, str]


CHECKOUT = Program((sys.executable, "-m", "reconciler"), ROOT, os.environ)


@dataclass
class HostMachine:
    """A state folder and the processes that work in it."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    program: Program = CHECKOUT
    process: subprocess.Popen[bytes] | None = None

    @property
    def environ(self) -> dict[str, str]:
        return {**self.program.environ, **self.variables, "RECONCILER_STATE": str(self.folder / "state")}

    @property
    def log(self) -> str:
        return (self.folder / "host.log").read_text("utf-8", errors="replace")

    def host(self, environment: Path, accept: Path) -> None:
        self.folder.mkdir()
        words = ["mirror", "host", str(environment), "--accept", str(accept)]
        with (self.folder / "host.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*self.program.command, *words], stdout=log, stderr=log, cwd=self.program.folder, env=self.environ
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

    def failed(self) -> bool:
        """Its host ended by itself, and not as it was asked to."""
        return self.process is not None and (self.process.poll() or 0) > 0

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
    accepted: str = "masters: ['local[[]*']"
    """What the hosts' configuration has besides the environment."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of all machines."""
    machines: dict[str, HostMachine] = field(default_factory=dict)

    def start(self, name: str, program: Program = CHECKOUT) -> HostMachine:
        accept = self.folder / "accept.yaml"
        accept.write_text(f"environments: [{self.environment.name}]\n{self.accepted}\n", "utf-8")
        self.machines[name] = machine = HostMachine(self.folder / name, self.variables, program)
        machine.host(self.environment, accept)
        return machine

    def reconciler(self, *words: str, code: int = 0, program: Program = CHECKOUT) -> str:
        """From a machine that is thrown away afterwards."""
        command = [*program.command, *words]
        state = {"RECONCILER_STATE": str(self.folder / f"ci{len([*self.folder.iterdir()])}")}
        environ = {**program.environ, **state, **self.variables}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=400, check=False, cwd=program.folder, env=environ
        )
        logs = "\n".join(f"{name}:\n{machine.log}" for name, machine in self.machines.items())
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}\n{logs}"
        return done.stdout + done.stderr

    def until(self, what: str, holds: Callable[[], bool], seconds: float = 400.0) -> None:
        end = time.monotonic() + seconds
        while not holds():
            logs = "\n".join(f"{name}:\n{machine.log}" for name, machine in self.machines.items())
            assert time.monotonic() < end, f"{what}\n{logs}"
            ended = [name for name, machine in self.machines.items() if machine.failed()]
            assert ended == [], f"{what}: {', '.join(ended)} ended\n{logs}"
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
