"""A source whose older segments lie in remote storage (KIP-405), and a target that has none."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.brokers import cleanup as guardian
from reconciler_sandbox.brokers import ports
from reconciler_sandbox.brokers import server_properties as properties
from reconciler_sandbox.brokers.up_down import Launch, bring_up
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.profiles import QUICK_START, Profile

from tests.support.fakes.java_agent import agent
from tests.support.fakes.services import brokers as service_brokers
from tests.support.jobs.environments import Running
from tests.support.jobs.records import digest, total, write_awkward
from tests.support.jobs.verify_runs import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
RECORDS = 2_000
_SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "RemoteStorage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
}
OF_TOPIC = {"remote.storage.enable": "true", "local.retention.ms": "500", "retention.ms": "-1"}


@pytest.fixture(scope="module")
def tiered() -> Iterator[tuple[ClusterHandle, Path]]:
    """A cluster of one broker, and the folder of its remote storage."""
    with contextlib.ExitStack() as stack:
        patch, home = stack.enter_context(pytest.MonkeyPatch.context()), stack.enter_context(guardian.guarded_home())
        plain = properties._plain_listeners
        patch.setattr(properties, "_plain_listeners", lambda broker: plain(broker) | _SETTINGS)
        storage = home / "remote"
        storage.mkdir()
        source = Path(service_brokers.__file__).with_name("RemoteStorage.java")
        jvm = (*QUICK_START, f"-javaagent:{agent(home, source)}", f"-Dremote.storage={storage}")
        profile = Profile("tiered", 1, 1, 1, secure=False, heap="256m", jvm=jvm, clusters=("east",))
        base, reserved = ports.reserve_block()
        with reserved:
            east = bring_up(Launch(profile, home, base))["east"]
        yield east, storage


def test_what_lies_in_remote_storage_is_copied(
    plain: Sandbox, tiered: tuple[ClusterHandle, Path], tmp_path: Path, unique: str
) -> None:
    east, storage = tiered
    west, remote = plain["west"], f"east.{unique}"
    admin = AdminClient(east.client())
    for made in admin.create_topics([NewTopic(unique, 2, 1, config=OF_TOPIC)]).values():
        made.result(30)
    write_awkward(east, unique, 2, RECORDS)
    until("both partitions in remote storage", lambda: len(list(storage.glob("*/log"))) >= 2, 60)
    logs = [path for path in storage.parent.rglob("*.log") if path.parent.name.startswith(f"{unique}-")]
    until("nothing on the broker's own disk", lambda: sum(each.stat().st_size for each in _left(logs)) == 0, 60)

    folder = tmp_path / unique
    folder.mkdir()
    running = Running(folder, {"east": east, "west": west}, {"RECONCILER_STATE": str(tmp_path / "state")})
    clusters = {
        name: {"bootstrap_servers": handle.bootstrap_servers.split(","), "cluster_id": handle.cluster_id}
        for name, handle in (("east", east), ("west", west))
    }
    flow = {"source": "east", "target": "west", "topics": [unique], "lanes": 1, "start": "earliest"}
    environment = {"clusters": clusters, "flows": {unique: flow}, "mirrors": {"west": {}}}
    (folder / "topology.yaml").write_text(json.dumps(environment))
    try:
        told = running.reconciler("plan", str(folder), code=2, told=True)
        assert "bytes unknown" in told, told
        assert f"the brokers of west refuse remote.storage.enable, which the source topic of west/{remote} has" in told
        running.reconciler("apply", str(folder), "--yes", "--first-contact")
        until("all records", lambda: total(digest(west, remote)) == RECORDS, 120)
        assert digest(west, remote) == digest(east, unique)
        running.reconciler("verify", str(folder))
        told = running.reconciler("plan", str(folder), told=True)
        assert "No changes" in told, told
    finally:
        running.stop()


def _left(logs: list[Path]) -> list[Path]:
    """The active segment moves on when older ones are gone."""
    return [path for folder in {log.parent for log in logs} for path in folder.glob("*.log")]
