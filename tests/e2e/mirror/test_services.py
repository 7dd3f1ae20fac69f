"""A mirror to each service that a cluster can be declared as, whose brokers refuse what that service refuses.

Nothing that it refuses is asked of it: it is planned around, or refused before, by name. ``apache`` shows that the
brokers do refuse, and what a plan makes of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.model.environment.services import SERVICES as OFFERS
from tests.support.fakes.services.brokers import SERVICES, TRANSACTIONS, ServiceBrokers, service_brokers
from tests.support.jobs.environments import Running
from tests.support.jobs.records import digest, total, write_awkward
from tests.support.jobs.verify_runs import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
RECORDS = 300


@pytest.fixture(scope="module")
def services() -> Iterator[ServiceBrokers]:
    with service_brokers() as brokers:
        yield brokers


@pytest.fixture
def running(plain: Sandbox, services: ServiceBrokers, tmp_path: Path, unique: str) -> Iterator[Running]:
    folder = tmp_path / unique
    folder.mkdir()
    clusters = {"east": plain["east"], "west": services.cluster}
    made = Running(folder, clusters, {"RECONCILER_STATE": str(tmp_path / "state")})
    yield made
    if (tmp_path / "state").exists():
        made.stop()


def write(
    running: Running, services: ServiceBrokers, service: str, own: dict[str, str] | None = None, **of_topic: object
) -> str:
    """The environment: one topic, mirrored to ``service``. ``own``: configs of a topic of the service's own.
    ``of_topic``: keys of its declaration."""
    topic = running.name
    lacks = SERVICES.get(service)
    flow = {"source": "east", "target": "west", "topics": [topic], "lanes": 1, "groups": {"sync_offsets": True}}
    if lacks is not None and lacks.hidden >= TRANSACTIONS:
        flow["delivery"] = "at_least_once"
    east = running.clusters["east"]
    west = {"bootstrap_servers": services.address.split(","), "cluster_id": services.cluster.cluster_id}
    declared = {"clusters": ["east"], "partitions": 2, "replication_factor": 1, **of_topic}
    environment = {
        "clusters": {
            "east": {"bootstrap_servers": [east.bootstrap_servers], "cluster_id": east.cluster_id},
            "west": {**west, "service": service, "defaults": {"replication_factor": 3}},
        },
        "topics": {
            topic: declared,
            **({f"own-{topic}": {"clusters": ["west"], "partitions": 1, "configs": own}} if own else {}),
        },
        "flows": {topic: flow},
        "mirrors": {"west": {}},
    }
    (running.folder / "topology.yaml").write_text(json.dumps(environment))
    return str(running.folder)


@pytest.mark.parametrize("service", SERVICES)
def test_a_mirror_asks_a_service_for_nothing_that_it_refuses(
    running: Running, services: ServiceBrokers, service: str
) -> None:
    services.play(service)
    env, topic = write(running, services, service), running.name
    east, west = running.clusters["east"], running.clusters["west"]
    told = running.reconciler("doctor", env, told=True)
    told += running.reconciler("plan", env, code=2, told=True)
    running.apply()
    told += running.reconciler("plan", env, told=True)
    write_awkward(east, topic, 2, RECORDS)
    remote = f"east.{topic}"
    until("all records", lambda: total(digest(west, remote)) == RECORDS, 240)
    assert digest(west, remote) == digest(east, topic)

    configs = {"retention.ms": "-1", "segment.bytes": "1048576", "compression.type": "gzip", "delete.retention.ms": "9"}
    env = write(running, services, service, configs={**configs, "max.message.bytes": "2097152"})
    told += running.reconciler("plan", env, code=2, told=True)
    running.apply()
    told += running.reconciler("plan", env, told=True)
    more = write(running, services, service, partitions=3, configs={**configs, "max.message.bytes": "2097152"})
    if OFFERS[service].more_partitions is False:
        told += (refused := running.reconciler("plan", more, code=3, told=True))
        assert OFFERS[service].title in refused, refused
    else:
        running.reconciler("apply", more, "--yes")
        told += running.reconciler("plan", more, told=True)
        until("its third partition", lambda: len(digest(west, remote)) == 3, 60)
    offer = OFFERS[service]
    declared = (running.folder / "topology.yaml").read_text()
    fixed = [(key, "gzip" if key == "compression.type" else "2") for key in offer.fixed_configs]
    for key, value in (*fixed, *offer.values):
        refused = running.reconciler("plan", write(running, services, service, {key: value}), code=3, told=True)
        assert f"declares {key} " in refused, refused
        assert f", and west is on {offer.title}, which does not " in refused, refused
        told += refused
    (running.folder / "topology.yaml").write_text(declared)
    # The topic of the lock is tried with its wishes, and without them where brokers refuse one.
    assert [line for line in services.refused() if not line.startswith("__reconciler:")] == []
    status = running.reconciler("status", env, "--format", "json")
    assert '"conditions": []' in json.dumps(json.loads(status)), status
    running.reconciler("verify", env)
    if service != "hdinsight":
        assert "broker's log" not in told
        assert "upgrade them" not in told


def test_brokers_refuse_it_where_the_service_is_not_known(running: Running, services: ServiceBrokers) -> None:
    services.play("msk-serverless")
    told = running.reconciler("plan", write(running, services, "apache"), code=2, told=True)
    assert "a policy of the brokers refuses segment.bytes, segment.ms of west/__mirror_offsets" in told, told
    assert any("segment.bytes" in line for line in services.refused())
    env = write(running, services, "apache", configs={"segment.bytes": "1048576"})
    told = running.reconciler("plan", env, code=3, told=True)
    assert "segment.bytes cannot be set" in told, told
