"""DeleteRecords by hand."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.kafka.client.errors import BrokerError, MalformedResponseError
from reconciler.kafka.protocol.delete_records import delete_records, pack, unpack


def answer(error: int) -> bytes:
    """Response header 1 and body 2 about t-3."""
    partition = struct.pack(">iqh", 3, 70, error) + b"\0"
    return struct.pack(">i", 9) + b"\0" + struct.pack(">i", 5) + b"\x02\x02t\x02" + partition + b"\0" + b"\0"


def test_partitions_are_asked_for_by_topic() -> None:
    first, second = struct.pack(">iq", 0, 5), struct.pack(">iq", 3, 1 << 40)
    expected = b"\x02\x02t\x03" + first + b"\0" + second + b"\0\0" + struct.pack(">i", 9000) + b"\0"
    assert pack({("t", 0): 5, ("t", 3): 1 << 40}, 9000) == expected


@pytest.mark.parametrize("error", [0, 1, 29])
def test_each_partition_has_its_error(error: int) -> None:
    assert unpack(memoryview(answer(error))) == (5, {("t", 3): error})


@pytest.mark.parametrize("size", range(4, len(answer(0))))
def test_half_an_answer_is_malformed(size: int) -> None:
    with pytest.raises(MalformedResponseError):
        unpack(memoryview(answer(0)[:size]))


@pytest.mark.parametrize("answered", [{}, {("other", 0): 0}])
def test_a_partition_without_an_answer_is_not_taken_for_done(answered: dict[tuple[str, int], int]) -> None:
    async def ask(*_: object) -> dict[tuple[str, int], int]:
        return answered

    async def control(_: int) -> SimpleNamespace:
        return SimpleNamespace(ask=ask)

    cluster = SimpleNamespace(name="west", control=control, by_leader=lambda keys: {1: list(keys)})
    with pytest.raises(BrokerError, match="deleting the records of t-3 before offset 70") as raised:
        asyncio.run(delete_records(cast(Any, cluster), {("t", 3): 70}))
    assert raised.value.code == -1
