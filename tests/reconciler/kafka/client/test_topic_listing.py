"""A cluster that says the same as before is not looked through again: not its answer, not its topics, not the flow."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import patch

import pytest
from kafka.protocol.metadata import MetadataResponse
from reconciler_mirror.driver import discovery
from reconciler_mirror.driver.discovery import Discovery, SourceTopic
from reconciler_mirror.model.lane import Discovered

from reconciler.kafka.client.cluster import ClusterClient, TopicListing
from reconciler.kafka.client.errors import ConnectionLostError
from reconciler.kafka.client.frames import Frame
from reconciler.kafka.protocol import metadata_and_configs as topics
from reconciler.kafka.protocol.metadata_and_configs import PartitionOf, TopicOf
from reconciler.replication.handover_reader import parse
from tests.support.fakes.known_topics import Known
from tests.support.lanes.frames import metadata
from tests.support.lanes.handover import handover

ORDERS = TopicOf("orders", 0, bytes(16), False, (PartitionOf(0, 1, (1,), (1,)),))
BILLS = TopicOf("bills", 0, bytes(16), False, ())


@dataclass
class Broker:
    """One connection, and the cluster that gives it. ``lost``: so many requests die on their way."""

    found: list[TopicOf]
    throttle_ms: int = 0
    lost: int = 0
    learned: set[int] = field(default_factory=set)
    throttled_until: float = 0.0

    async def any_control(self) -> Broker:
        return self

    def learn(self, node: int, host: str, port: int) -> None:
        self.learned.add(node)

    def answered(self, cluster_id: str, connection: object) -> None:
        """Each answer is of the cluster that is meant."""

    def negotiated(self, *_: object) -> int:
        return topics.METADATA_NEWEST

    def throttle(self, milliseconds: int) -> None:
        self.throttle_ms = milliseconds

    async def send(self, *_: object) -> Frame:
        if self.lost:
            self.lost -= 1
            raise ConnectionLostError("idle for too long")
        return Frame(memoryview(bytes(metadata(self.found, topics.METADATA_NEWEST))), None)


def read(listing: TopicListing) -> Any:
    return asyncio.run(listing.read())


def test_an_answer_that_says_the_same_is_not_decoded() -> None:
    broker = Broker([ORDERS])
    listing = TopicListing(cast(ClusterClient, broker))
    with patch.object(topics, "unpack_topics", wraps=topics.unpack_topics) as decoded:
        first = read(listing)
        assert list(first) == [ORDERS]
        assert read(listing) is first
        assert decoded.call_count == 1
        broker.found = [ORDERS, BILLS]
        assert list(read(listing)) == [ORDERS, BILLS]
        assert decoded.call_count == 2
    assert broker.throttle_ms == 5, "the broker's wish to be left alone is heeded"


def test_a_connection_that_lay_idle_may_be_gone_once() -> None:
    broker = Broker([ORDERS], lost=1)
    listing = TopicListing(cast(ClusterClient, broker))
    assert list(read(listing)) == [ORDERS]
    broker.lost = 2
    with pytest.raises(ConnectionLostError):
        read(listing)


def test_the_brokers_before_the_topics_are_learned_and_may_differ() -> None:
    told = metadata([ORDERS], 12)
    reader, head = topics.open_metadata(told)
    expected = MetadataResponse.decode(bytes(told)[5:], version=12).brokers
    assert [(b.node_id, b.host, b.port) for b in expected] == [tuple(b[:3]) for b in head.brokers]
    assert topics.unpack_topics(reader) == [ORDERS]


@dataclass
class Steady(Known):
    """The same object while nothing changes, as the mirror's own connection gives it."""

    known: dict[str, SourceTopic] = field(default_factory=dict)

    def topics(self) -> Any:
        found = super().topics()
        if found != self.known:
            self.known = dict(found)
        return self.known


def test_a_look_that_shows_nothing_new_compares_nothing() -> None:
    flow = parse(json.dumps(handover())).flows[0]
    source, target = Steady({"orders": 3}), Steady({"east.orders": 3})
    looks = Discovery(flow, flow.selector(), (source, target))
    with patch.object(discovery, "_compare", wraps=discovery._compare) as compared:
        found = looks.look(Discovered())
        assert looks.look(found) is found
        assert compared.call_count == 1
        source.broken = True
        unread = looks.look(found)
        assert [condition.code for condition in unread.conditions] == ["source_unreachable"]
        source.broken = False
        assert looks.look(unread) == found, "the condition is over, though the topics are the same"
        target.counts = {"east.orders": 2}
        assert len(looks.look(found).specs) == 2
