"""A broker that answers for a group without offsets by an error, instead of naming none, as Kafka does."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.kafka.client.cluster import ClusterClient, CommittedPosition
from reconciler.kafka.client.errors import LEFT_OUT, BrokerError, MalformedResponseError
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol.groups.group_offsets import COMMIT_VERSION, MANY_GROUPS, CommittedOffset

KEYS = [("t", 0), ("t", 1)]


def positions(error: int, *partitions: tuple[int, int, int]) -> dict[Any, CommittedPosition]:
    """``partitions``: number, offset and error code of those that are answered."""
    named = [
        SimpleNamespace(partition_index=n, committed_offset=at, metadata="", error_code=code)
        for n, at, code in partitions
    ]
    answer = SimpleNamespace(error_code=error, topics=[SimpleNamespace(name="t", partitions=named)] if named else [])

    async def call(_: object) -> object:
        return answer

    async def node(*_: object) -> Any:
        return SimpleNamespace(call=call, version=lambda _: 7)

    cluster: Any = SimpleNamespace(name="west", coordinator=node, control=node)
    return asyncio.run(ClusterClient.positions(cluster, "mirror.f", KEYS))


def test_it_has_no_positions() -> None:
    nothing = dict.fromkeys(KEYS, CommittedPosition(-1, ""))
    assert positions(69) == nothing
    assert positions(0, (0, -1, 69), (1, -1, 69)) == nothing
    assert positions(0, (0, 5, 0), (1, -1, 0)) == {
        ("t", 0): CommittedPosition(5, ""),
        ("t", 1): CommittedPosition(-1, ""),
    }


def test_a_partition_that_an_answer_leaves_out_has_no_known_position() -> None:
    assert positions(0) == dict.fromkeys(KEYS, CommittedPosition(-1, "")), "it names none"
    with pytest.raises(BrokerError, match="leaves out t-1"):
        positions(0, (0, 5, 0))


def test_any_other_error_stays_one() -> None:
    for answer in ((30,), (0, (0, -1, 29))):
        with pytest.raises(BrokerError):
            positions(*answer)


def test_a_group_that_an_answer_leaves_out_is_not_one_without_offsets() -> None:
    async def ask(_: object, __: object, read: Callable[[memoryview], tuple[int, object]]) -> object:
        return read(memoryview(bytes(9) + b"\1\0"))[1]  # no group at all

    cluster = coordinated(SimpleNamespace(ask=ask, negotiated=lambda *_: MANY_GROUPS))
    with pytest.raises(MalformedResponseError, match=r"broker 3 of west left group mirror\.f out of its answer"):
        asyncio.run(GroupClient(cluster).offsets(["mirror.f"]))


@pytest.mark.parametrize(
    ("head", "partition", "share"),
    [
        (bytes(9) + b"\2\2t\2", struct.pack(">ih", 0, 0), ""),
        (bytes(12) + b"\2\2t" + bytes(16) + b"\2", struct.pack(">ih", 0, 0) + b"\0", "g"),
    ],
    ids=["commit", "start of a share group"],
)
def test_a_partition_that_an_answer_leaves_out_is_not_committed(head: bytes, partition: bytes, share: str) -> None:
    def send(*_: object) -> asyncio.Future[SimpleNamespace]:
        sent = asyncio.get_running_loop().create_future()
        body = memoryview(head + partition + b"\0\0\0")  # t-0 alone
        sent.set_result(SimpleNamespace(body=body, drop=lambda: None))
        return sent

    offset = CommittedOffset(5)
    connection = SimpleNamespace(
        send=send, gathered=nullcontext, negotiated=lambda *_: COMMIT_VERSION, throttle=lambda _: None
    )
    groups = GroupClient(coordinated(connection))
    committed = groups.commit({"g": dict.fromkeys(KEYS, offset)}, share={share})
    assert asyncio.run(committed) == {"g": {("t", 0): 0, ("t", 1): LEFT_OUT}}


def coordinated(connection: object) -> Any:
    """A cluster whose broker 3 coordinates every group."""

    async def control(_: int) -> object:
        return connection

    async def coordinator(*_: object) -> int:
        return 3

    return SimpleNamespace(name="west", coordinator=coordinator, control=control)
