"""Each case runs against the fake and against a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.model.environment.topology import Principal
from reconciler.model.ports import ClusterAdmin
from tests.support.clusters import CreateTopic, real_cluster
from tests.support.fakes.cluster import FakeCluster
from tests.support.fakes.subjects import BrokerStranger, FakeStranger, Subject


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka("plain"))])
def subject(request: pytest.FixtureRequest, unique: str, create_topic: CreateTopic) -> Iterator[Subject]:
    if request.param == "fake":
        fake = FakeCluster("east")
        yield Subject(fake, FakeStranger(fake), len(fake.brokers), unique)
        return
    east = request.getfixturevalue("plain").clusters["east"]
    with KafkaCluster(real_cluster(east), Principal.APPLY) as admin:
        yield Subject(admin, BrokerStranger(east, create_topic, admin), len(east.brokers), unique)


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka("plain"))])
def admin(request: pytest.FixtureRequest, unique: str) -> Iterator[ClusterAdmin]:
    if request.param == "fake":
        yield FakeCluster("east")
        return
    east = request.getfixturevalue("plain").clusters["east"]
    with KafkaCluster(real_cluster(east), Principal.APPLY, unique) as cluster:
        yield cluster
