"""The clusters, proxies and the mirror of a soak, and what faults may do to them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import Signals
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from reconciler_sandbox.brokers import processes
from reconciler_sandbox.brokers.start_stop import running_nodes
from reconciler_sandbox.brokers.up_down import Launch, bring_up, take_down
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.paths import ROOT
from reconciler_sandbox.profiles import BLOCK, PROFILES, layout

from bench.processes.cpu import MARK_VARIABLE, marked
from bench.processes.fault_proxy import FaultProxy, before
from bench.soak.load import PARTITIONS, TOPIC
from reconciler.backends.mirror_jobs.runner.command_line import JOB_VARIABLES

SIDES: Mapping[str, str] = {"source": "east", "target": "west"}
KEPT = f"{TOPIC}-kept"
"""A second topic, for what is announced as lost and moved by hand."""
TWIN = f"{TOPIC}-twin"
"""A third one, copied at its own offsets."""
VOTING, ELECTED = "north", f"{TOPIC}-elected"
"""A cluster of three brokers, and its topic, whose leaders may be elected without having everything."""
DISK, SPARK_DISK = "1g", "192m"
CLOCK_SOURCE = Path(__file__).with_name("clock.c")
CLOCK_VARIABLES = PRELOADED, MOVED = "LD_PRELOAD", "SOAK_CLOCK"
TUNED = {"log.retention.check.interval.ms": "2000", "log.segment.bytes": "1048576", "file.delete.delay.ms": "1000"}
WAIT_S = 120.0
HEARD_S = 10.0
"""Until status knows of what was written."""


Record = tuple[bytes | None, bytes | None, int]
"""Key, value and timestamp."""


class SoakError(Exception):
    """The soak itself cannot go on."""


@dataclass(frozen=True, slots=True)
class World:
    """``disks``: the log folders of ``source`` and ``target``, and the folder of Spark's runs (``spark``), where they
    are small file systems of their own. ``clock``: the file that moves the clock of the mirror's processes, where there
    is a C compiler. ``state``: a link to the folder of Spark's runs. ``voting``: the cluster of three brokers.
    ``frozen``: processes of an application that was stopped, until they go on. ``right``: the position that another
    client moved, or when a stranger wrote."""

    sandbox: Sandbox
    proxies: Mapping[str, FaultProxy]
    env: Path
    environ: Mapping[str, str]
    log: Path
    chance: random.Random
    disks: Mapping[str, Path]
    clock: Path | None
    state: Path
    voting: ClusterHandle
    frozen: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)

    def cluster(self, side: str) -> ClusterHandle:
        return self.voting if side == VOTING else self.sandbox[SIDES[side]]

    def admin(self, side: str) -> AdminClient:
        """Callers keep it until they are answered: a client that is collected answers nothing."""
        return AdminClient({**self.cluster(side).super_client(), "log_level": 0})

    def cli(self, *words: str, check: bool = True) -> int:
        """Raises SoakError when it fails and ``check``."""
        moved = {} if self.clock is None else {PRELOADED: str(self.clock.with_suffix(".so")), MOVED: str(self.clock)}
        command = [sys.executable, "-m", "reconciler", *words]
        with self.log.open("ab") as out:
            done = subprocess.run(command, cwd=ROOT, env={**self.environ, **moved}, stdout=out, stderr=out, check=False)
        if done.returncode and check:
            raise SoakError(
                f"reconciler {' '.join(words)} ended with {done.returncode}:\n{self.log.read_text()[-2000:]}"
            )
        return done.returncode

    def apply(self) -> None:
        """Until it succeeds: a cluster may still be busy with what was done to it."""
        until = time.monotonic() + 2 * WAIT_S
        while self.cli("apply", str(self.env), "--yes", check=time.monotonic() > until):
            time.sleep(3)

    # processes of the mirror

    def pids(self, what: str) -> list[int]:
        """``driver``, ``jvm``, ``worker`` or ``supervisor``."""
        pids = []
        for pid in marked(self.environ[MARK_VARIABLE]):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                daemon = b"pyspark.daemon" in words
                fits = {
                    "jvm": b"org.apache.spark.deploy.SparkSubmit" in words,
                    "worker": daemon and b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes(),
                    "driver": any(word.endswith(b"mirror_job.py") for word in words) and b"java" not in words[0],
                    "supervisor": any(word.endswith(b"runner.supervisor") for word in words),
                }
                if fits[what]:
                    pids.append(pid)
        return pids

    def signal(self, number: Signals, *what: str, everyone: bool = True) -> None:
        """Waits until there is somebody to send it to."""
        until = time.monotonic() + WAIT_S
        while not (pids := [pid for kind in what for pid in self.pids(kind)]):
            if time.monotonic() > until:
                raise SoakError(f"there is no {' and no '.join(what)} to send {number.name} to")
            time.sleep(0.5)
        for pid in pids if everyone else [self.chance.choice(pids)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    # brokers

    def signal_broker(self, side: str, number: Signals, node: int = 1) -> None:
        cluster = self.cluster(side)
        processes.send(running_nodes(cluster.home, f"{cluster.name}/{node}"), number)

    def start_broker(self, side: str, node: int = 1) -> None:
        self.cluster(side).start(node)

    def configure(self, side: str, topic: str, **values: str | None) -> None:
        """None takes the override away: a lower limit that no file declares is one that an apply refuses to carry."""
        operation = AlterConfigOpType.SET, AlterConfigOpType.DELETE
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=operation[value is None])
            for name, value in values.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin = self.admin(side)
        admin.incremental_alter_configs([resource])[resource].result(30)

    def delete_topic(self, side: str, topic: str) -> None:
        admin = self.admin(side)
        admin.delete_topics([topic])[topic].result(30)

    def recreate_topic(self, side: str, topic: str) -> None:
        """With one partition, as soon as the controller has forgotten the former one."""
        self.delete_topic(side, topic)
        admin, until = self.admin(side), time.monotonic() + WAIT_S
        while True:
            try:
                admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=30)[topic].result(60)
            except KafkaException:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
            else:
                return

    def records(self, side: str, topic: str) -> list[Record]:
        """The committed ones of partition 0, in order; those read so far where it does not answer."""
        settings = {**self.cluster(side).super_client(), "log_level": 0, "group.id": "soak-records"}
        settings |= {"isolation.level": "read_committed", "enable.auto.commit": False, "enable.partition.eof": True}
        found: list[Record] = []
        until = time.monotonic() + WAIT_S
        with closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            while time.monotonic() < until:
                for message in consumer.consume(1000, 1):
                    if message.error() is not None:
                        return found
                    found.append((message.key(), message.value(), message.timestamp()[1]))
        return found

    def write(
        self,
        side: str,
        topic: str,
        records: Sequence[tuple[bytes | None, bytes | None]],
        partition: int = 0,
        timestamp: int = 0,
    ) -> None:
        """``timestamp`` 0: now."""
        producer = Producer({**self.cluster(side).super_client(), "log_level": 0, "message.max.bytes": 5_000_000})
        for key, value in records:
            producer.produce(topic, value, key, partition, timestamp=timestamp)
        producer.flush(30)

    def first_offset(self, side: str, topic: str) -> int:
        admin, part = self.admin(side), TopicPartition(topic, 0)
        return int(admin.list_offsets({part: OffsetSpec.earliest()})[part].result(30).offset)

    def position(self, flow: str, topic: str) -> int:
        """The committed one of partition 0 of a remote topic."""
        with closing(self._group(flow)) as group:
            return int(group.committed([TopicPartition(topic, 0)], 30)[0].offset)

    def commit(self, flow: str, topic: str, offset: int) -> None:
        """As kafka-consumer-groups --reset-offsets does for the group of a flow."""
        with closing(self._group(flow)) as group:
            group.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)

    def _group(self, flow: str) -> Consumer:
        return Consumer({**self.cluster("target").super_client(), "log_level": 0, "group.id": f"mirror.{flow}"})

    def leader(self, side: str, topic: str) -> int:
        """Of partition 0; -1 without one, or while nobody answers."""
        admin = self.admin(side)
        with contextlib.suppress(KafkaException, TimeoutError):
            described = admin.describe_topics(TopicCollection([topic]), request_timeout=10)[topic].result(20)
            node = described.partitions[0].leader
            return node.id if node is not None else -1
        return -1

    def await_copied(self, flow: str) -> None:
        def copied(document: dict[str, Any]) -> bool:
            told = document.get("mirrors", {}).get("west", {}).get("flows", {}).get(flow, {})
            return bool(told.get("records_lag") == 0)

        time.sleep(HEARD_S)
        self.await_said(f"all of {flow} is copied", copied)

    def has(self, needs: str) -> bool:
        """Whether what a fault needs is there: ``clock``, one of ``disks``, or nothing."""
        return not needs or needs in self.disks or (needs == "clock" and self.clock is not None)

    def status(self) -> dict[str, Any]:
        command = [sys.executable, "-m", "reconciler", "status", str(self.env), "--format", "json"]
        done = subprocess.run(command, cwd=ROOT, env=dict(self.environ), capture_output=True, text=True, check=False)
        with contextlib.suppress(ValueError):
            document: dict[str, Any] = json.loads(done.stdout)
            return document
        return {}

    def await_said(self, what: str, said: Callable[[dict[str, Any]], bool], patience_s: float = WAIT_S) -> None:
        """Raises SoakError when status does not say it in time."""
        until = time.monotonic() + patience_s
        while not said(document := self.status()):
            if time.monotonic() > until:
                raise SoakError(f"status did not say in {patience_s:.0f} s that {what}: {json.dumps(document)[:1500]}")
            time.sleep(2)

    def await_that(self, what: str, holds: Callable[[], bool], patience_s: float = WAIT_S) -> None:
        """Raises SoakError when it does not hold in time."""
        until = time.monotonic() + patience_s
        while not holds():
            if time.monotonic() > until:
                raise SoakError(f"after {patience_s:.0f} s it does not hold that {what}")
            time.sleep(1)


@contextlib.contextmanager
def world(home: Path, port: int, environ: Mapping[str, str], folder: Path, chance: random.Random) -> Iterator[World]:
    """Two clusters of one broker each, behind proxies, one of three brokers, and a mirror that copies. Needs no
    network; root for disks of their own."""
    profile = PROFILES["plain"]
    brokers = layout(profile, port)
    with contextlib.ExitStack() as stack:
        folders = {side: home / name / "broker-1" / "data" for side, name in SIDES.items()}
        disks = {side: disk for side in folders if (disk := _disk(folders[side], DISK, stack))}
        if spark := _disk(folder / "runs", SPARK_DISK, stack):
            disks["spark"] = spark
        stack.callback(take_down, home)
        sandbox = bring_up(Launch(profile, home, port, "512m"), print)
        for name in SIDES.values():
            _tune(sandbox[name])
        voting = _voting(home.with_name(f"{home.name}-voting"), port + BLOCK, stack)
        proxies = {
            side: stack.enter_context(before({broker.port: broker.port + 5 for broker in brokers[name]}))
            for side, name in SIDES.items()
        }
        state, clock = folder / "state", _clock(folder)
        (folder / "runs" / "1").mkdir(parents=True)
        state.symlink_to(folder / "runs" / "1")
        passed_on = " ".join((environ[JOB_VARIABLES], *CLOCK_VARIABLES))
        environ = {**environ, "RECONCILER_STATE": str(state), JOB_VARIABLES: passed_on}
        env = folder / "soak"
        env.mkdir()
        (env / "topology.yaml").write_text(json.dumps(_topology(sandbox, voting, proxies)))
        log = folder / "commands.log"
        made = World(sandbox, proxies, env, environ, log, chance, disks, clock, state, voting)
        _topics(made)
        made.apply()
        yield made
        made.cli("mirror", "stop", str(env), check=False)


def _topics(made: World) -> None:
    admin = made.admin("source")
    made_here = admin.create_topics(
        [NewTopic(TOPIC, PARTITIONS, 1), NewTopic(KEPT, 1, 1), NewTopic(TWIN, 1, 1)], operation_timeout=30
    )
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    there = made.admin(VOTING)
    made_there = there.create_topics(
        [NewTopic(ELECTED, 1, replica_assignment=[[2, 3]], config=unclean)], operation_timeout=30
    )
    for created in (*made_here.values(), *made_there.values()):
        created.result(60)


def _topology(sandbox: Sandbox, voting: ClusterHandle, proxies: Mapping[str, FaultProxy]) -> dict[str, object]:
    clusters = {
        name: {"bootstrap_servers": list(proxies[side].servers), "cluster_id": sandbox[name].cluster_id}
        for side, name in SIDES.items()
    }
    clusters[VOTING] = {"bootstrap_servers": voting.bootstrap_servers.split(","), "cluster_id": voting.cluster_id}
    common = {"target": "west", "replication_factor": 1}
    flows = {
        "soak": {"source": "east", "topics": [TOPIC, KEPT], "lanes": 2, **common},
        "twin": {"source": "east", "topics": [TWIN], "offsets": "same", "lanes": 1, **common},
        "elected": {"source": VOTING, "topics": [ELECTED], "lanes": 1, **common},
    }
    return {"clusters": clusters, "flows": flows, "mirrors": {"west": {"flows": list(flows)}}}


def _voting(home: Path, port: int, stack: contextlib.ExitStack) -> ClusterHandle:
    """Three brokers with copies of each record."""
    take_down(home, clear=True)
    stack.callback(take_down, home, clear=True)
    return bring_up(Launch(replace(PROFILES["ha"], clusters=("east",)), home, port), print)["east"]


def _tune(cluster: ClusterHandle) -> None:
    """Retention by time passes within seconds, not minutes."""
    settings = cluster.folder / "broker-1" / "server.properties"
    settings.write_text(settings.read_text() + "".join(f"{key}={value}\n" for key, value in TUNED.items()))
    cluster.restart()


def _disk(folder: Path, size: str, stack: contextlib.ExitStack) -> Path | None:
    """A file system of its own for ``folder``, small enough to be filled; None where nobody may mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "soak", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode:
        return None
    stack.callback(subprocess.run, ["umount", "-l", str(folder)], check=False)
    return folder


def _clock(folder: Path) -> Path | None:
    """The file that moves the clock; beside it the library that reads it. None without a C compiler."""
    compiler, clock = shutil.which("cc"), folder / "clock"
    if compiler is None:
        return None
    clock.write_bytes(struct.pack("=q", 0))
    words = [compiler, "-shared", "-fPIC", "-O2", "-o", str(clock.with_suffix(".so")), str(CLOCK_SOURCE), "-ldl"]
    subprocess.run(words, check=True)
    return clock
