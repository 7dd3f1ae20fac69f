"""Whole batches from and to a real Kafka 2.8, the oldest supported release.

``python -m tests.support.lanes.old_brokers``

Not part of the test run, because it fetches that release with Maven and starts ZooKeeper. Message formats 0 and 1 are
written as an old broker stores them.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.brokers.up_down import running
from reconciler_sandbox.install import prerequisites
from reconciler_sandbox.paths import STATE

from tests.support.lanes.lane_runs import Flow

VERSION = "2.8.2"
ZOOKEEPER, BROKER = 30_980, 30_990
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>reconciler</groupId><artifactId>old-jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{VERSION}</version></dependency></dependencies></project>
"""
FORMATS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}
RECORDS = 500


@dataclass(frozen=True)
class Old:
    """As much of a cluster handle as a flow needs."""

    name: str = "old"

    def super_client(self) -> dict[str, str]:
        return {"bootstrap.servers": f"127.0.0.1:{BROKER}"}


def libraries() -> Path:
    folder = STATE / f"kafka-{VERSION}"
    if not list(folder.glob("kafka_*.jar")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(POM)
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        command = [
            prerequisites.maven(),
            "-q",
            "-B",
            "-f",
            str(folder / "pom.xml"),
            copy,
            f"-DoutputDirectory={folder}",
        ]
        subprocess.run(command, check=True)
    return folder


@contextmanager
def old_cluster(folder: Path) -> Iterator[Old]:
    settings = {
        "zookeeper": f"dataDir={folder}/zk\nclientPort={ZOOKEEPER}\nadmin.enableServer=false\n",
        "broker": f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{BROKER}\nzookeeper.connect=127.0.0.1:{ZOOKEEPER}\n"
        f"log.dirs={folder}/data\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=2\n"
        "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
        "transaction.state.log.num.partitions=2\nlog.retention.ms=-1\n",
    }
    mains = {"zookeeper": "org.apache.zookeeper.server.quorum.QuorumPeerMain", "broker": "kafka.Kafka"}
    with ExitStack() as stack:
        for name, text in settings.items():
            (folder / f"{name}.properties").write_text(text)
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            words = [prerequisites.java(), "-Xmx384m", "-cp", f"{libraries()}/*", mains[name]]
            process = subprocess.Popen([*words, str(folder / f"{name}.properties")], stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        _await(Old())
        yield Old()


def _await(old: Old) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            if AdminClient({**old.super_client(), "log_level": 0}).list_topics(timeout=5).brokers:
                return
        except KafkaException:
            if time.monotonic() > until:
                raise


def create(client: dict[str, str], name: str, **configs: str) -> None:
    admin = AdminClient({**client, "log_level": 0})
    wanted = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
    admin.create_topics([NewTopic(name, 1, 1, config=wanted)], operation_timeout=30)[name].result(60)


def fill(client: dict[str, str], topic: str, codec: str, headers: bool) -> None:
    producer = Producer({**client, "compression.type": codec, "linger.ms": 20, "log_level": 0})
    for number in range(RECORDS):
        text = b"%d" % number
        value, key = text if number % 7 else None, text if number % 5 else None
        producer.produce(
            topic, value, key, timestamp=1_700_000_000_000 + number, headers={"h": text} if headers else None
        )
    assert producer.flush(60) == 0


def compared(flow: Flow, timestamps: bool, **changes: object) -> bool:
    flow.run(batch_path, flow.at_end(), **changes)
    (source,), (target,) = flow.source_content().values(), flow.target_content().values()
    if not timestamps:  # format 0 has none
        source, target = [(*one[:3], 0) for one in source], [(*one[:3], 0) for one in target]
    return source == target and len(target) == RECORDS


def main() -> int:
    wrong = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        old_cluster(Path(folder)) as old,
        running("plain", quick=True) as sandbox,
    ):
        new = sandbox["east"]
        for (magic, written), codec in itertools.product(FORMATS.items(), ("none", "gzip", "snappy", "lz4")):
            flow = Flow(old, new, f"format{magic}{codec}")  # type: ignore[arg-type]
            create(old.super_client(), flow.topic, message_format_version=written)
            create(new.super_client(), flow.remote)
            fill(old.super_client(), flow.topic, codec, headers=magic == 2)
            equal = compared(flow, magic > 0)
            wrong += not equal
            sys.stdout.write(f"from {VERSION}, format {magic}, {codec}: {'equal' if equal else 'DIFFERENT'}\n")
        for delivery, codec in itertools.product(("exactly_once", "at_least_once"), ("none", "lz4", "zstd")):
            flow = Flow(new, old, f"{delivery.replace('_', '')}{codec}")  # type: ignore[arg-type]
            create(new.super_client(), flow.topic)
            create(old.super_client(), flow.remote)
            fill(new.super_client(), flow.topic, codec, headers=True)
            equal = compared(flow, True, delivery=delivery)
            wrong += not equal
            sys.stdout.write(f"to {VERSION}, {delivery}, {codec}: {'equal' if equal else 'DIFFERENT'}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
