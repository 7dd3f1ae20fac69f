"""Sides that stay connected from visit to visit, and see what has changed since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from reconciler.backends.clusters.groups import Side, visited
from reconciler.backends.connections import own
from reconciler.backends.connections.own import Visits
from reconciler.errors import ClusterError
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError
from reconciler.model.environment.topology import Cluster, Principal


@dataclass
class Client:
    topics: dict[str, str] = field(default_factory=dict)
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    made: list[Client] = []

    def opens(_: Cluster, __: Principal) -> Client:
        made.append(Client())
        return made[-1]

    monkeypatch.setattr(own, "cluster_of", opens)
    return made


def side(name: str, visits: Visits | None, principal: Principal = Principal.MIRROR) -> Side:
    return Side(Cluster(name, (f"{name}:1",)), principal, visits=visits)


async def look(clients: Sequence[Any]) -> list[list[str]]:
    seen = [sorted(client.topics) for client in clients]
    for client in clients:
        client.topics["orders"] = "as it was"
    return seen


def test_a_side_is_connected_once_and_remembers_no_topic(opened: list[Client]) -> None:
    visits = Visits()
    both = side("east", visits), side("west", visits)
    assert visited(both, look) == visited(both, look) == [[], []]
    assert len(opened) == 2
    visited((side("east", visits, Principal.APPLY),), look)
    assert len(opened) == 3, "another login is another connection"
    assert not any(client.closed for client in opened)
    visits.close()
    assert all(client.closed for client in opened)


def test_without_visits_each_closes_what_it_has_opened(opened: list[Client]) -> None:
    for _ in range(2):
        visited((side("east", None),), look)
    assert [client.closed for client in opened] == [True, True]


def test_a_broker_that_hung_up_since_is_asked_once_more_and_one_that_refuses_is_not(opened: list[Client]) -> None:
    visits = Visits()
    errors: list[Exception] = []

    async def fails(clients: Sequence[Any]) -> list[list[str]]:
        if errors:
            raise errors.pop()
        return await look(clients)

    errors.append(ConnectionLostError("the first visit"))
    with pytest.raises(ClusterError, match="The first visit"):
        visited((side("east", visits),), fails)
    visited((side("east", visits),), fails)
    errors.append(ConnectionLostError("idle for too long"))
    assert visited((side("east", visits),), fails) == [[]]
    errors.append(BrokerError(29, "groups of east"))
    with pytest.raises(ClusterError, match="may not do this"):
        visited((side("east", visits),), fails)
    assert [client.closed for client in opened] == [True, True, True]
    visits.close()
