"""A produce connection whose session ends (KIP-368) is followed by another, also within a transaction; one that is lost
begins the lane again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from reconciler_mirror.lane.produce.sender import Sender
from reconciler_mirror.lane.state import RestartError

EXPIRED = SimpleNamespace(in_flight=0, closed=None, expired=True)
LOST = SimpleNamespace(in_flight=0, closed=ConnectionError("gone"), expired=True)
STILL_ASKED = SimpleNamespace(in_flight=1, closed=None, expired=True)


def _connected(before: object) -> object:
    partition, made = SimpleNamespace(target=("t", 0)), SimpleNamespace(where="west:9092")

    async def connection(_node: int, _purpose: str) -> object:
        return made

    target = SimpleNamespace(connection=connection, leader=lambda *_: SimpleNamespace(node=1))
    lane = SimpleNamespace(
        target=target,
        identity=SimpleNamespace(transactional=True),
        partitions={("t", 0): partition},
        touched=[partition],
        added=[],
        tuning=SimpleNamespace(bytes_in_flight=1, requests_in_flight=1),
    )

    async def ask() -> object:
        sender = Sender(cast(Any, lane), 1)
        sender._connection = cast(Any, before)
        found = await sender._connected()
        return cast(object, found) is made

    return asyncio.run(ask())


@pytest.mark.parametrize("before", [None, EXPIRED])
def test_another_connection_takes_over(before: object) -> None:
    assert _connected(before)


@pytest.mark.parametrize("before", [LOST, STILL_ASKED])
def test_a_connection_that_went_within_a_transaction_begins_again(before: object) -> None:
    with pytest.raises(RestartError, match="lost within a transaction"):
        _connected(before)
