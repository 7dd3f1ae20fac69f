"""Each case runs against the fake and a real broker, at night also against one that is logged in to by Kerberos."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from reconciler_sandbox.handles import ClusterHandle

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.ports import ClusterAdmin
from tests.support.clusters import CreateTopic, kerberos_cluster, real_cluster
from tests.support.fakes.cluster import FakeCluster
from tests.support.fakes.subjects import BrokerStranger, FakeStranger, Subject

_WORLDS = (
    "fake",
    pytest.param("plain", marks=pytest.mark.kafka, id="broker"),
    pytest.param("kerberos", marks=[pytest.mark.kafka, pytest.mark.long]),
)


def _east(request: pytest.FixtureRequest) -> tuple[ClusterHandle, Cluster]:
    east: ClusterHandle = request.getfixturevalue(request.param).clusters["east"]
    return east, real_cluster(east) if request.param == "plain" else kerberos_cluster(east)


@pytest.fixture(params=_WORLDS)
def subject(request: pytest.FixtureRequest, unique: str, create_topic: CreateTopic) -> Iterator[Subject]:
    if request.param == "fake":
        fake = FakeCluster("east")
        yield Subject(fake, FakeStranger(fake), len(fake.brokers), unique)
        return
    east, cluster = _east(request)
    with KafkaCluster(cluster, Principal.APPLY) as admin:
        yield Subject(admin, BrokerStranger(east, create_topic, admin), len(east.brokers), unique)


@pytest.fixture(params=_WORLDS)
def admin(request: pytest.FixtureRequest, unique: str) -> Iterator[ClusterAdmin]:
    if request.param == "fake":
        yield FakeCluster("east")
        return
    with KafkaCluster(_east(request)[1], Principal.APPLY, unique) as cluster:
        yield cluster
