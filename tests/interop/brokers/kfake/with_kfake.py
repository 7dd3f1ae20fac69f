"""Brokers that are no Apache Kafka: franz-go's kfake, as source and as target of the real job, beside Kafka and alone.

Its modules are those of go.sum here; Go builds it once. Part of ``make test-brokers``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from reconciler_sandbox.brokers import ports
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.paths import STATE
from reconciler_sandbox.profiles import SandboxBroker

from tests.support.clusters import CreateTopic
from tests.support.jobs.environments import Running
from tests.support.jobs.records import digest, total, write_awkward, write_transactions
from tests.support.jobs.verify_runs import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]
_HERE = Path(__file__).parent
BINARY = STATE / f"kfake-{hashlib.sha256((_HERE / 'go.sum').read_bytes()).hexdigest()[:12]}"
RECORDS, PARTITIONS = 600, 3


def built() -> Path:
    if not BINARY.exists():
        go = shutil.which("go")
        assert go is not None, (
            "kfake is built by Go 1.26 or newer, which is not on the PATH: install it for this target"
        )
        draft = BINARY.with_suffix(f".{os.getpid()}")
        words = [go, "build", "-mod=readonly", "-trimpath", "-o", str(draft), "."]
        made = subprocess.run(words, cwd=_HERE, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr[-3000:]
        draft.replace(BINARY)
    return BINARY


@contextlib.contextmanager
def kfake(name: str, folder: Path) -> Iterator[ClusterHandle]:
    base, reserved = ports.reserve_block()
    data = folder / f"kfake-{name}"
    data.mkdir()
    with reserved, (folder / f"{name}.log").open("wb") as log:
        words = [str(built()), str(base), str(data)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            until(f"kfake {name} listens", lambda: ports.answers(base), 30)
            yield ClusterHandle(name, folder, f"kfake-{base}", (SandboxBroker(1, base, 0, 0, ""),))
        finally:
            process.kill()
            process.wait()


@pytest.fixture(params=["both", "source", "target"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, ClusterHandle]]:
    """``east`` and ``west``: kfake, and Kafka where it is not."""
    fakes = {"both": ("east", "west"), "source": ("east",), "target": ("west",)}[request.param]
    with contextlib.ExitStack() as stack:
        clusters = {name: stack.enter_context(kfake(name, tmp_path)) for name in fakes}
        if len(fakes) == 1:
            plain: Sandbox = request.getfixturevalue("plain")
            clusters |= {name: handle for name, handle in plain.clusters.items() if name not in clusters}
        yield clusters


@pytest.fixture
def running(pair: dict[str, ClusterHandle], tmp_path: Path, unique: str) -> Iterator[Running]:
    folder = tmp_path / unique
    folder.mkdir()
    environment = {
        "clusters": {
            name: {"bootstrap_servers": [handle.bootstrap_servers], "cluster_id": handle.cluster_id}
            for name, handle in pair.items()
        },
        "topics": {
            unique: {
                "clusters": ["east"],
                "partitions": PARTITIONS,
                "replication_factor": 1,
                "configs": {"retention.ms": "-1", "max.message.bytes": "2097152"},
            }
        },
        "flows": {
            unique: {
                "source": "east",
                "target": "west",
                "topics": [unique],
                "replication_factor": 1,
                "groups": {"sync_offsets": True},
            }
        },
        "mirrors": {"west": {}},
    }
    (folder / "topology.yaml").write_text(json.dumps(environment))
    made = Running(folder, pair, {"RECONCILER_STATE": str(tmp_path / "state")})
    yield made
    made.stop()


def test_records_are_mirrored_verified_and_failed_over(
    running: Running, pair: dict[str, ClusterHandle], create_topic: CreateTopic, unique: str
) -> None:
    env, east, west = str(running.folder), pair["east"], pair["west"]
    running.reconciler("plan", env, code=2)
    running.apply()
    running.reconciler("plan", env)
    write_awkward(east, unique, PARTITIONS, RECORDS)
    committed = write_transactions(east, unique, PARTITIONS, 5, unique)
    remote = f"east.{unique}"
    until("all records", lambda: total(digest(west, remote)) == RECORDS + committed, 180)
    assert digest(west, remote) == digest(east, unique)

    group = f"group-{unique}"
    read = [running.read("east", group, unique, 200)]
    report = json.loads(running.reconciler("status", env, "--format", "json"))
    assert '"conditions": []' in json.dumps(report), report
    running.reconciler("verify", env)
    running.reconciler("doctor", env, told=True)
    running.reconciler("failover", env, unique, "--yes")
    read.append(running.read("west", group, rf"east\.{unique}", 10_000))
    assert sum(map(len, read)) == RECORDS + committed
