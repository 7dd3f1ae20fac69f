"""DescribeTransactions by hand, held against the bytes of the protocol's own description."""

from __future__ import annotations

import struct

import pytest

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.describe_transactions import TransactionState, pack, unpack


def answer(error: int, state: str) -> bytes:
    """Response header 1 and body 0: throttle, one transaction, its id, state, timeout, start, producer, topics."""
    name = b"\x0bmirror.f.0"
    told = bytes((len(state) + 1,)) + state.encode()
    rest = struct.pack(">iqqh", 60_000, 1, 7, 3) + b"\x01\x00"
    return struct.pack(">i", 9) + b"\0" + struct.pack(">i", 5) + b"\x02" + struct.pack(">h", error) + name + told + rest


def test_one_transaction_is_asked_for() -> None:
    assert pack("mirror.f.0") == b"\x02\x0bmirror.f.0\x00"


@pytest.mark.parametrize(
    ("state", "waits"), [("PrepareCommit", True), ("PrepareAbort", True), ("CompleteCommit", False), ("Empty", False)]
)
def test_the_state_tells_whether_markers_are_still_written(state: str, waits: bool) -> None:
    told = unpack(memoryview(answer(0, state) + b"\0"))
    assert told == TransactionState(5, 0, state, producer_id=7, epoch=3)
    assert told.undecided is waits


def test_a_denial_is_an_error_and_no_state() -> None:
    told = unpack(memoryview(answer(53, "")))
    assert (told.error, told.state, told.committed) == (53, "", None)


@pytest.mark.parametrize(
    ("state", "committed", "epochs"),
    [
        ("PrepareCommit", True, (3, 2)),
        ("CompleteCommit", True, (3, 2)),
        ("CompleteAbort", False, (3, 2)),
        ("Ongoing", False, (3,)),
        ("Empty", None, (3, 2)),
    ],
)
def test_how_the_last_transaction_ends(state: str, committed: bool | None, epochs: tuple[int, ...]) -> None:
    """Version 2 raises the epoch when a transaction ends; the classic protocol when a producer begins."""
    told = unpack(memoryview(answer(0, state) + b"\0"))
    assert told.committed is committed
    assert told.epochs(version_2=True) == epochs
    assert told.epochs(version_2=False) == (3,)


@pytest.mark.parametrize("size", range(4, 24))
def test_half_an_answer_is_malformed(size: int) -> None:
    with pytest.raises(MalformedResponseError):
        unpack(memoryview(answer(0, "Empty")[:size]))
