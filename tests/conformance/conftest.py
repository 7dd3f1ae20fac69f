"""Each case runs against the fake and against a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from reconciler.edges.kafka.admin import KafkaCluster
from reconciler.topology import Cluster, Principal
from sandbox.handles import ClusterHandle
from tests.conformance.subjects import BrokerStranger, FakeStranger, Subject
from tests.fakes import FakeCluster

CreateTopic = Callable[..., str]


def real_cluster(handle: ClusterHandle, principal: str = "admin", **settings: str) -> Cluster:
    """The noun for a running cluster; ``settings`` with ``_`` for ``.`` lie over the principal's."""
    client = handle.client(principal) | {key.replace("_", "."): value for key, value in settings.items()}
    servers = client.pop("bootstrap.servers")
    return Cluster(handle.name, tuple(servers.split(",")), client=client)


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka)])
def subject(request: pytest.FixtureRequest, unique: str, create_topic: CreateTopic) -> Iterator[Subject]:
    if request.param == "fake":
        fake = FakeCluster("east")
        yield Subject(fake, FakeStranger(fake), len(fake.brokers), unique)
        return
    east = request.getfixturevalue("plain").clusters["east"]
    with KafkaCluster(real_cluster(east), Principal.APPLY) as admin:
        yield Subject(admin, BrokerStranger(east, create_topic, admin), len(east.brokers), unique)
