"""The example environments on sandbox clusters: the same flows; other addresses, one replica, local Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.handles import ClusterHandle
from ruamel.yaml import YAML

from tests.support.paths import ROOT

PATIENCE_S = 60.0


@dataclass
class Running:
    """One environment whose clusters are sandbox clusters. ``stop`` it, whatever happens."""

    folder: Path
    clusters: Mapping[str, ClusterHandle]
    environ: dict[str, str] = field(default_factory=dict)
    _written: int = 0

    @property
    def name(self) -> str:
        return self.folder.name

    def reconciler(self, *words: str, code: int = 0, told: bool = False) -> str:
        """What it shows; with ``told`` also what it tells beside."""
        done = subprocess.run(
            [sys.executable, "-m", "reconciler", *words],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            cwd=ROOT,
            env={**os.environ, **self.environ},
        )
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + (done.stderr if told else "")

    def command(self, line: str, code: int = 0) -> dict[str, Any]:
        """A command as the documentation prints it, on this copy of the environment."""
        words = [str(self.folder) if word == f"environments/{self.name}" else word for word in line.split()[1:]]
        found: dict[str, Any] = json.loads(self.reconciler(*words, "--format", "json", code=code))
        return found

    def apply(self) -> None:
        self.reconciler("apply", str(self.folder), "--yes")

    def stop(self) -> None:
        self.reconciler("mirror", "stop", str(self.folder))

    def make(self, cluster: str, topic: str, partitions: int) -> None:
        admin = AdminClient(self.clusters[cluster].client())
        made = admin.create_topics([NewTopic(topic, partitions, 1)], operation_timeout=20)
        made[topic].result(30)

    def write(self, cluster: str, topic: str, count: int) -> list[bytes]:
        """Unique values, in transactions of which every third is aborted; returns those that count."""
        writer = Producer({**self.clusters[cluster].client(), "transactional.id": f"{cluster}-{topic}"})
        writer.init_transactions(20)
        stands: list[bytes] = []
        for number in range(0, count, 20):
            values = [b"%d" % (self._written + i) for i in range(20)]
            self._written += 20
            writer.begin_transaction()
            for value in values:
                writer.produce(topic, value, key=value)
            writer.flush(20)  # else an abort drops what was not sent, and may end a transaction that never began
            if number // 20 % 3 == 2:
                writer.abort_transaction(20)
            else:
                writer.commit_transaction(20)
                stands += values
        return stands

    def read(self, cluster: str, group: str, pattern: str, most: int, least: int = 0) -> list[bytes]:
        """What the group reads next, and commits: ``most`` records, else up to the end of every partition; ``least``
        are waited for."""
        settings = {**self.clusters[cluster].client(), "group.id": group, "enable.auto.commit": False}
        settings |= {"auto.offset.reset": "earliest", "session.timeout.ms": 6000}
        settings |= {"enable.partition.eof": True, "fetch.wait.max.ms": 50}
        consumer = Consumer(settings)
        consumer.subscribe([f"^{pattern}$"])
        found: list[bytes] = []
        ended: set[tuple[str | None, int | None]] = set()
        give_up = time.monotonic() + PATIENCE_S
        try:
            while len(found) < most:
                assert time.monotonic() < give_up, f"{group} has read {len(found)} records on {cluster}"
                for message in consumer.consume(min(500, most - len(found)), 0.1):
                    place = (message.topic(), message.partition())
                    if (error := message.error()) is not None:
                        assert error.code() == KafkaError._PARTITION_EOF, error
                        ended.add(place)
                    else:
                        found.append(message.value())
                        ended.discard(place)
                here = {(one.topic, one.partition) for one in consumer.assignment()}
                if here and here <= ended and len(found) >= least:
                    break
            if found:
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return found


def on_sandbox(
    name: str,
    place: Path,
    clusters: Mapping[str, ClusterHandle],
    environ: dict[str, str],
    flows: Mapping[str, Mapping[str, Any]] | None = None,
) -> Running:
    """``clusters``: the environment's aliases -> running clusters. Topics and flows stay as they are written, but for
    what ``flows`` adds to some."""
    folder = place / name
    folder.mkdir()
    for file in sorted((ROOT / "environments" / name).glob("*.yaml")):
        content = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
        _adapt(content, clusters)
        for flow, more in (flows or {}).items():
            if flow in content.get("flows", {}):
                content["flows"][flow] |= more
        text = StringIO()
        plain = YAML(typ="safe", pure=True)
        plain.default_flow_style = False
        plain.dump(content, text)
        (folder / file.name).write_text(text.getvalue(), encoding="utf-8")
    return Running(folder, clusters, {"RECONCILER_STATE": str(place / "state"), **environ})


def _adapt(content: dict[str, Any], clusters: Mapping[str, ClusterHandle]) -> None:
    for alias in content.get("clusters", {}):
        content["clusters"][alias] = {
            "bootstrap_servers": clusters[alias].bootstrap_servers.split(","),
            "cluster_id": clusters[alias].cluster_id,
            "defaults": {"partitions": 3, "replication_factor": 1},
        }
    for topic in content.get("topics", {}).values():
        topic.pop("partitions", None)
    for flow in content.get("flows", {}).values():
        flow["replication_factor"] = 1
        flow["lanes"] = 1
    for mirror in content.get("mirrors", {}).values():
        for far in ("master", "parallelism", "spark_conf"):
            mirror.pop(far, None)


def exactly(read: Iterable[list[bytes]], wanted: Iterable[bytes]) -> bool:
    """Every record once, over all that a group has read anywhere."""
    return sorted(value for part in read for value in part) == sorted(wanted)
