"""``python -m bench.copy.cutover [--events] [--hold 2s]``: how long writes stop at a cut-over of 10 MB/s with
``offsets: same``.

Secure clusters, Spark's local master, the command as a user runs it. Kafka's own ProducerPerformance writes records of
1 KB to the origin until it is refused; the hook *switch* starts another one on the destination, whose JVM's start
counts. A group with one member reads all the time, where the hook says. ``--events``: records of 10 KB that lz4 makes
smaller, in batches of 256 KB, which two cores carry at the full rate. Rates are those of uncompressed records. Writes
are refused from the first record that the producer lost until the hook has given it the other address.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from reconciler_sandbox.brokers.up_down import running
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.install import jars, prerequisites

from bench.copy.figures import DataSet
from bench.records.load import records

TOPIC, GROUP, PARTITIONS, BYTES_A_SECOND = "orders", "billing", 6, 12_000_000
PROGRAM = "org.apache.kafka.tools.ProducerPerformance"
SETTLE_S = 25.0


@dataclass(frozen=True, slots=True)
class Load:
    """``events``: how many different records there are, each of made-up text; 0 for random letters."""

    record_bytes: int = 1024
    settings: Mapping[str, object] = field(default_factory=dict)
    events: int = 0

    def words(self, folder: Path) -> list[str]:
        """Arguments of ProducerPerformance."""
        words = ["--throughput", str(BYTES_A_SECOND // self.record_bytes), "--num-records", str(10**9)]
        if not self.events:
            return [*words, "--record-size", str(self.record_bytes)]
        data, payload = DataSet("events", self.record_bytes, 1, "lz4", keyed=False), folder / "events.txt"
        payload.write_bytes(b"\n".join(value for _, _, value, _ in records(data, self.events, 0)))
        return [*words, "--payload-file", str(payload)]


LETTERS = Load()
EVENTS = Load(10_240, {"compression.type": "lz4", "batch.size": 262_144, "linger.ms": 100}, events=500)


class Application:
    """A producer of Java and a consumer, which go where the file ``address`` says."""

    def __init__(self, sandbox: Sandbox, folder: Path, load: Load) -> None:
        self.sandbox, self.folder, self.address, self.load = sandbox, folder, folder / "address", load
        self.address.write_text("east")
        self.over, self.read, self.refused_s = threading.Event(), 0, 0.0
        self.threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(60)

    def _produce(self) -> None:
        at = self.address.read_text()
        while not self.over.is_set():
            process = self._producer(self.sandbox[at])
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    if self.over.is_set() or "AuthorizationException" in line:
                        break
            finally:
                began = time.monotonic()
                process.kill()
                process.wait(30)
            while self.address.read_text() == at and not self.over.wait(0.02):
                pass
            at, self.refused_s = self.address.read_text(), self.refused_s or time.monotonic() - began

    def _producer(self, handle: ClusterHandle) -> subprocess.Popen[str]:
        login = "org.apache.kafka.common.security.scram.ScramLoginModule"
        settings = {
            "bootstrap.servers": handle.bootstrap_servers, "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(handle.ca),
            "sasl.jaas.config": f'{login} required username="user" password="{handle.passwords["user"]}";',
            **self.load.settings,
        }  # fmt: skip
        file = self.folder / f"{handle.name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [prerequisites.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars.ensure()}{os.sep}*"]
        command += [PROGRAM, "--topic", TOPIC, "--producer.config", str(file), "--reporting-interval", "1000"]
        command += self.load.words(self.folder)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def _consume(self) -> None:
        while not self.over.is_set():
            at = self.address.read_text()
            settings = {"group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
            consumer = Consumer({**self.sandbox[at].client("user"), **settings, "session.timeout.ms": 6000})
            consumer.subscribe([TOPIC])
            while not self.over.is_set() and self.address.read_text() == at:
                if some := consumer.consume(2_000, 0.1):
                    self.read += sum(message.error() is None for message in some)
                    consumer.commit(asynchronous=True)
            consumer.close()


def environment(sandbox: Sandbox, folder: Path) -> Path:
    env, lines = folder / "env", ["clusters:"]
    for handle in sandbox.clusters.values():
        os.environ |= handle.secrets()
        prefix = f"SANDBOX_{handle.name.upper()}"
        login = f'{{sasl.username: admin, sasl.password: "${{env:{prefix}_ADMIN_PASSWORD}}"}}'
        lines += [
            f"  {handle.name}:",
            f"    bootstrap_servers: [{handle.bootstrap_servers}]",
            f"    cluster_id: {json.dumps(handle.cluster_id)}",
            "    client: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512, "
            f'ssl.ca.location: "${{env:{prefix}_CA}}"}}',
            f"    principals: {{plan: {login}, apply: {login}, mirror: {login}}}",
        ]
    lines += [
        f"topics: {{{TOPIC}: {{clusters: [east], partitions: {PARTITIONS}, replication_factor: 1}}}}",
        f"flows: {{east-to-west: {{source: east, target: west, topics: [{TOPIC}], naming: {{policy: identity}}, "
        f"replication_factor: 1, offsets: same, groups: {{include: [{GROUP}]}}, copies: read_only}}}}",
        "mirrors: {west: {}}",
        f"cutover: {{hooks: {{switch: {{file: {{path: {folder / 'address'}, text: west}}}}}}}}",
    ]
    env.mkdir()
    (env / "topology.yaml").write_text("\n".join(lines) + "\n")
    return env


def allow(handle: ClusterHandle) -> None:
    """The application may write and read."""
    mine = [
        (ResourceType.TOPIC, TOPIC, AclOperation.WRITE), (ResourceType.TOPIC, TOPIC, AclOperation.READ),
        (ResourceType.GROUP, GROUP, AclOperation.READ),
    ]  # fmt: skip
    rules = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:user", "*", operation, AclPermissionType.ALLOW)
        for kind, name, operation in mine
    ]
    admin = AdminClient(handle.super_client())
    for made in admin.create_acls(rules).values():
        made.result(30)


def reconciler(*words: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "reconciler", *words], capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def mirrored(sandbox: Sandbox, folder: Path) -> Iterator[Path]:
    for handle in sandbox.clusters.values():
        allow(handle)
    env = environment(sandbox, folder)
    os.environ |= {"RECONCILER_STATE": str(folder / "state"), "RECONCILER_ALLOW": f"hook:{folder}/*"}
    reconciler("apply", str(env), "--yes")
    try:
        yield env
    finally:
        reconciler("mirror", "stop", str(env))


def measured(env: Path, plan: Path, hold: tuple[str, ...]) -> dict[str, Any]:
    reconciler("cutover", "plan", str(env), "east-to-west", "--out", str(plan), *hold, code=2)
    (topic,) = json.loads(plan.read_text())["topics"]
    report: dict[str, Any] = json.loads(
        reconciler("cutover", "apply", str(env), "--plan", str(plan), "--yes", "--format", "json")
    )
    return report | {"rate": topic["rate"]}


def main(load: Load, hold: tuple[str, ...]) -> None:
    folder = Path(tempfile.mkdtemp())
    with running("secure") as sandbox, mirrored(sandbox, folder) as env:
        application = Application(sandbox, folder, load)
        try:
            time.sleep(SETTLE_S)
            report, load_there = measured(env, folder / "cutover.json", hold), os.getloadavg()[0]
        finally:
            application.stop()
    each = {step["name"]: step["seconds"] for step in report["steps"]}
    rate = report["rate"] * load.record_bytes / 1e6
    print(f"{rate:.1f} MB/s; load {load_there:.1f}; {application.read:,} records read")
    print(f"writes refused for {application.refused_s:.1f} s; clients seen after {report['writes_stopped_s']:.1f} s")
    print(", ".join(f"{name} {seconds:.2f}" for name, seconds in each.items()))
    shutil.rmtree(folder)


if __name__ == "__main__":
    chosen = [word for word in sys.argv[1:] if word != "--events"]
    main(EVENTS if "--events" in sys.argv else LETTERS, tuple(chosen))
