"""Real clusters for the tests: one sandbox of each profile a run, started when a test first asks for it.

Tests share the clusters, so each takes its names from ``unique``. Order: no cluster, then Kafka, then Spark.
"""

from __future__ import annotations

import itertools
import signal
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, settings

from sandbox.brokers import running
from sandbox.handles import ClusterHandle, Sandbox

# Brokers beside it make any example slow now and then; what must hold does not depend on the clock.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")

_PROFILES = {"plain", "ha", "secure", "trio"}
_RUN = uuid.uuid4().hex[:4]
_counter = itertools.count(1)

CreateTopic = Callable[..., str]


def pytest_configure() -> None:
    """A shell that starts the tests in the background, and nohup, have them ignore signals, and with them the processes
    that tests interrupt. What has a handler here is not ignored there."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, lambda *_: None)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & _PROFILES:
            item.add_marker(pytest.mark.kafka)
    items.sort(key=lambda item: 2 if item.get_closest_marker("spark") else bool(item.get_closest_marker("kafka")))


@pytest.fixture(scope="session")
def plain() -> Iterator[Sandbox]:
    """One broker a cluster, no security."""
    with running("plain", quick=True) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def trio() -> Iterator[Sandbox]:
    """Three clusters, east, west and hub, of one broker each, no security."""
    with running("trio") as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def ha() -> Iterator[Sandbox]:
    """Three brokers a cluster in three racks, factor 3, min ISR 2. A test that stops a broker starts it again."""
    with running("ha") as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def secure() -> Iterator[Sandbox]:
    """One broker a cluster, SASL_SSL with SCRAM and mTLS, everything denied that sandbox/access.py does not grant."""
    with running("secure") as sandbox:
        yield sandbox


@pytest.fixture
def unique() -> str:
    """A prefix no other test uses, without ``.``, ``_`` or ``-``."""
    return f"t{_RUN}{next(_counter)}"


@pytest.fixture
def create_topic() -> CreateTopic:
    """``create_topic(cluster, name, partitions=1, replication=-1, **configs)`` as super user; returns the name when
    the topic exists. ``_`` in a config's name stands for ``.``."""

    def create(cluster: ClusterHandle, name: str, partitions: int = 1, replication: int = -1, **configs: str) -> str:
        admin = AdminClient({**cluster.super_client(), "log_level": "0"})
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dotted)
        admin.create_topics([topic], operation_timeout=20)[name].result(30)
        return name

    return create
