"""WriteTxnMarkers by hand."""

from __future__ import annotations

import struct

import pytest

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.producers.write_markers import Epochs, pack, unpack

ANSWER = (
    struct.pack(">i", 9)
    + b"\0\x02"
    + struct.pack(">q", 77)
    + b"\x02\x02t\x03"
    + struct.pack(">ih", 0, 0)
    + b"\0"
    + struct.pack(">ih", 3, 47)
    + b"\0\0\0\0"
)


def test_each_partition_has_a_marker_with_its_own_epochs() -> None:
    one = struct.pack(">qh?", 77, 5, False) + b"\x02\x02t\x02" + struct.pack(">i", 3) + b"\0"
    assert pack(77, {("t", 3): Epochs(5, 1000)}) == b"\x02" + one + struct.pack(">i", 1000) + b"\0\0"


def test_errors_are_reported_by_partition() -> None:
    assert unpack(memoryview(ANSWER)) == {("t", 0): 0, ("t", 3): 47}


@pytest.mark.parametrize("size", range(4, len(ANSWER)))
def test_half_an_answer_is_malformed(size: int) -> None:
    with pytest.raises(MalformedResponseError):
        unpack(memoryview(ANSWER[:size]))
