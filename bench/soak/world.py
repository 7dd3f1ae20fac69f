"""The clusters, proxies and the mirror of a soak, and what faults may do to them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from bench.processes.cpu import MARK_VARIABLE, marked
from bench.processes.fault_proxy import FaultProxy, before
from bench.soak.load import PARTITIONS, TOPIC
from reconciler.sandbox.brokers import processes
from reconciler.sandbox.brokers.start_stop import running_nodes
from reconciler.sandbox.brokers.up_down import Launch, bring_up, take_down
from reconciler.sandbox.handles import ClusterHandle, Sandbox
from reconciler.sandbox.paths import ROOT
from reconciler.sandbox.profiles import PROFILES, layout

SIDES: Mapping[str, str] = {"source": "east", "target": "west"}
KEPT = f"{TOPIC}-kept"
"""A second topic, for what is announced as lost and moved by hand."""
DISK = "1g"
TUNED = {"log.retention.check.interval.ms": "2000", "log.segment.bytes": "1048576", "file.delete.delay.ms": "1000"}
WAIT_S = 120.0


class SoakError(Exception):
    """The soak itself cannot go on."""


@dataclass(frozen=True, slots=True)
class World:
    """``disk``: the target's log folder where it is a small file system of its own."""

    sandbox: Sandbox
    proxies: Mapping[str, FaultProxy]
    env: Path
    environ: Mapping[str, str]
    log: Path
    chance: random.Random
    disk: Path | None

    def cluster(self, side: str) -> ClusterHandle:
        return self.sandbox[SIDES[side]]

    def admin(self, side: str) -> AdminClient:
        """Callers keep it until they are answered: a client that is collected answers nothing."""
        return AdminClient({**self.cluster(side).super_client(), "log_level": 0})

    def cli(self, *words: str, check: bool = True) -> int:
        """Raises SoakError when it fails and ``check``."""
        with self.log.open("ab") as out:
            done = subprocess.run(
                [sys.executable, "-m", "reconciler", *words], cwd=ROOT, env=dict(self.environ), stdout=out, stderr=out
            )
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
        processes.send(running_nodes(self.sandbox.home, f"{SIDES[side]}/{node}"), number)

    def start_broker(self, side: str, node: int = 1) -> None:
        self.cluster(side).start(node)

    def configure(self, side: str, topic: str, **values: str) -> None:
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin = self.admin(side)
        admin.incremental_alter_configs([resource])[resource].result(30)

    def delete_topic(self, side: str, topic: str) -> None:
        admin = self.admin(side)
        admin.delete_topics([topic])[topic].result(30)

    def write(
        self, side: str, topic: str, records: Sequence[tuple[bytes | None, bytes | None]], partition: int = 0
    ) -> None:
        producer = Producer({**self.cluster(side).super_client(), "log_level": 0, "message.max.bytes": 5_000_000})
        for key, value in records:
            producer.produce(topic, value, key, partition)
        producer.flush(30)

    def first_offset(self, side: str, topic: str) -> int:
        admin, part = self.admin(side), TopicPartition(topic, 0)
        return int(admin.list_offsets({part: OffsetSpec.earliest()})[part].result(30).offset)


@contextlib.contextmanager
def world(home: Path, port: int, environ: Mapping[str, str], folder: Path, chance: random.Random) -> Iterator[World]:
    """Two clusters of one broker each, behind proxies, and a mirror that copies. Needs no network; root for a disk of
    its own at the target."""
    profile = PROFILES["plain"]
    brokers = layout(profile, port)
    with contextlib.ExitStack() as stack:
        disk = _disk(home / "west" / "broker-1" / "data", stack)
        stack.callback(take_down, home)
        sandbox = bring_up(Launch(profile, home, port, "512m"), print)
        for name in SIDES.values():
            _tune(sandbox[name])
        proxies = {
            side: stack.enter_context(before({broker.port: broker.port + 5 for broker in brokers[name]}))
            for side, name in SIDES.items()
        }
        env = folder / "soak"
        env.mkdir()
        (env / "topology.yaml").write_text(json.dumps(_topology(sandbox, proxies)))
        made = World(sandbox, proxies, env, dict(environ), folder / "commands.log", chance, disk)
        admin, topics = made.admin("source"), [NewTopic(TOPIC, PARTITIONS, 1), NewTopic(KEPT, 1, 1)]
        for created in admin.create_topics(topics, operation_timeout=30).values():
            created.result(60)
        made.apply()
        yield made
        made.cli("mirror", "stop", str(env), check=False)


def _topology(sandbox: Sandbox, proxies: Mapping[str, FaultProxy]) -> dict[str, object]:
    clusters = {
        name: {"bootstrap_servers": list(proxies[side].servers), "cluster_id": sandbox[name].cluster_id}
        for side, name in SIDES.items()
    }
    flow = {"source": "east", "target": "west", "topics": [TOPIC, KEPT], "replication_factor": 1, "lanes": 2}
    return {"clusters": clusters, "flows": {"soak": flow}, "mirrors": {"west": {"flows": ["soak"]}}}


def _tune(cluster: ClusterHandle) -> None:
    """Retention by time passes within seconds, not minutes."""
    settings = cluster.folder / "broker-1" / "server.properties"
    settings.write_text(settings.read_text() + "".join(f"{key}={value}\n" for key, value in TUNED.items()))
    cluster.restart()


def _disk(folder: Path, stack: contextlib.ExitStack) -> Path | None:
    """A file system of its own for ``folder``, small enough to be filled; None where nobody may mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "soak", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode:
        return None
    stack.callback(subprocess.run, ["umount", "-l", str(folder)], check=False)
    return folder
