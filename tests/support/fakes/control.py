"""The control topic in memory, and a mirror host on it with a clock that only tests move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.backends.mirror_jobs.host.accept import AllowList
from reconciler.backends.mirror_jobs.host.jobs import JobLook
from reconciler.backends.mirror_jobs.host.keeper import HostProcess, Keeper
from reconciler.errors import ClusterError
from reconciler.model.state.mirror_control import (
    DESIRED,
    DesiredMirror,
    DesiredState,
    HostLease,
    read_lease,
)
from reconciler.replication.handover import fingerprint
from reconciler.replication.names import desired_key, host_key

ENVIRONMENT, MIRROR = "test", "west"
SUBMISSION: dict[str, Any] = {"master": "local[2]", "spark_conf": {"spark.driver.memory": "512m"}}


class FakeControl:
    """``ControlStore`` in memory. ``silent``: the cluster does not answer."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.missing = False
        self.silent = False

    def read(self) -> Mapping[str, bytes]:
        self._require_heard()
        return {} if self.missing else dict(self.entries)

    def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        self._require_heard()
        if self.missing or self.entries.get(key) != before:
            return False
        self.write(key, after)
        return True

    def write(self, key: str, value: bytes | None) -> None:
        """As one who asks nobody."""
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = value

    def close(self) -> None:
        """It has no connection."""

    def _require_heard(self) -> None:
        if self.silent:
            raise ClusterError("west", "unreachable", "west does not answer", "It is silent", "Start it.")


def document(lanes: object = 1, **flow: Any) -> dict[str, Any]:
    """A hand-over, all but its fingerprint."""
    east, west = (
        {"name": name, "bootstrap_servers": [f"{name}:9092"], "client": {"security.protocol": "PLAINTEXT"}}
        for name in ("east", "west")
    )
    settings = {
        "name": "east-to-west",
        "fingerprint": "0123456789abcdef",
        "source": east,
        "target": west,
        "topics": ["orders"],
        "exclude_topics": [],
        "naming": {"policy": "default", "separator": "."},
        "delivery": "exactly_once",
        "isolation": "read_committed",
        "start": {"kind": "earliest"},
        "lanes": lanes,
    }
    return {
        "format_version": 1,
        "environment": ENVIRONMENT,
        "mirror": MIRROR,
        "parallelism": 2,
        "refresh_interval_ms": 300,
        "status_interval_ms": 500,
        "status": {"cluster": west, "topic": "__mirror_status", "key": f"{ENVIRONMENT}/{MIRROR}"},
        "flows": [settings | flow],
    }


def desired(
    generation: int,
    state: DesiredState = DesiredState.RUNNING,
    handover: dict[str, Any] | None = None,
    submission: dict[str, Any] = SUBMISSION,
    **fields: Any,
) -> DesiredMirror:
    """What ``apply`` would write."""
    settings = handover or document()
    mark = fingerprint({**settings, **submission})
    told = {**settings, "fingerprint": mark}
    record = DesiredMirror(ENVIRONMENT, MIRROR, generation, state, mark, told, submission, "ann", "c0ffee", 1)
    return replace(record, **fields)


@dataclass
class FakeJobs:
    """``Jobs`` in memory: what is begun runs at once, until it crashes."""

    look_now: JobLook = field(default_factory=JobLook)
    log: list[str] = field(default_factory=list)
    fails: str = ""
    hangs: bool = False
    """A start takes longer than the test."""

    def look(self) -> JobLook:
        return self.look_now

    def begin(self, wanted: DesiredMirror) -> None:
        self.log.append(f"begin {wanted.generation}")
        if self.hangs:
            self.look_now = JobLook(busy=True, words="Spark is starting")
        elif self.fails:
            self.look_now = replace(self.look_now, failed=self.fails)
        else:
            self.look_now = JobLook(
                alive=True, ready=True, application_id=f"app-{len(self.log)}", fingerprint=wanted.fingerprint
            )

    def end(self) -> None:
        self.log.append("end")
        self.look_now = JobLook()

    def crash(self) -> None:
        self.look_now = JobLook()


class FakeHost:
    """One host process that keeps the mirror of the tests."""

    def __init__(self, world: HostWorld, name: str, accepted: AllowList) -> None:
        self.world, self.name, self.jobs = world, name, FakeJobs()
        self.said: list[str] = []
        process = HostProcess(f"id-{name}", name, 7, "0.1")
        self.keeper = Keeper(
            process,
            ENVIRONMENT,
            MIRROR,
            accepted,
            world.control,
            self.jobs,
            lambda: world.now,
            lambda: 1,
            self.said.append,
        )

    def step(self) -> None:
        self.keeper.step(self.world.control.read())

    @property
    def has_it(self) -> bool:
        return self.keeper.lease is not None


@dataclass
class HostWorld:
    """Hosts on one control topic; ``now`` in seconds."""

    control: FakeControl = field(default_factory=FakeControl)
    now: float = 1000.0

    def host(self, name: str, masters: tuple[str, ...] = ("local*",)) -> FakeHost:
        return FakeHost(self, name, AllowList((ENVIRONMENT,), masters))

    def ask(self, wanted: DesiredMirror) -> None:
        self.control.write(desired_key(ENVIRONMENT, MIRROR), DESIRED.dumps(wanted))

    def lease(self) -> HostLease:
        found = read_lease(self.control.entries.get(host_key(ENVIRONMENT, MIRROR)), ENVIRONMENT, MIRROR)
        assert found is not None
        return found

    def run(self, seconds: float, *hosts: FakeHost) -> None:
        for _ in range(int(seconds)):
            self.now += 1
            for host in hosts:
                host.step()
