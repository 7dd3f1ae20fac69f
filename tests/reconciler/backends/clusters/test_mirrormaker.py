"""A topic of Kafka Connect that may not be read: who may not, and the command that grants it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import pytest

from reconciler.backends.clusters import mirrormaker
from reconciler.backends.clusters.groups import Side
from reconciler.errors import ClusterError
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import BrokerError
from reconciler.model.environment.topology import Cluster as DeclaredCluster
from reconciler.model.environment.topology import Principal

Answer = TypeVar("Answer")


class Denying(Side):
    def ask(self, question: Callable[[ClusterClient], Awaitable[Answer]]) -> Answer:
        async def asked() -> Answer:
            return await question(cast("ClusterClient", None))

        return asyncio.run(asked())


def test_a_missing_right_is_reported_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object) -> None:
        raise BrokerError(29, "topic mm2-offsets.east.internal on west")

    monkeypatch.setattr("reconciler.kafka.client.small_topics.leaders", refused)
    declared = DeclaredCluster("west", ("west:9092",), client={"sasl.username": "reader"})
    with pytest.raises(ClusterError) as told:
        mirrormaker.read_records(Denying(declared, Principal.PLAN), "mm2-offsets.east.internal")
    assert told.value.kind == "denied"
    assert "principal plan may not read the records of topic mm2-offsets.east.internal on west" in str(told.value)
    assert "--bootstrap-server west:9092 --add --allow-principal 'User:reader' --operation Read" in str(told.value)
