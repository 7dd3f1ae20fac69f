"""DescribeProducers by hand, and what a process remembers of how its transactions ended."""

from __future__ import annotations

import struct

import pytest

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.client.transactions import Endings
from reconciler.kafka.protocol.producers.describe_producers import ActiveProducer, pack, unpack


def answer(*producers: tuple[int, int, int], error: int = 0) -> bytes:
    """Response header 1 and body 0 about t-3: producer id, epoch and first open offset of each producer."""
    told = b"".join(struct.pack(">qiiqiq", p, epoch, 9, 1, 0, first) + b"\0" for p, epoch, first in producers)
    partition = struct.pack(">ih", 3, error) + b"\0" + bytes((len(producers) + 1,)) + told + b"\0"
    head = struct.pack(">i", 9) + b"\0" + struct.pack(">i", 5)
    return head + b"\x02" + b"\x02t" + b"\x02" + partition + b"\0" + b"\0"


def test_partitions_of_topics_are_asked_for() -> None:
    assert pack([("t", 0), ("t", 7)]) == b"\x02\x02t\x03\0\0\0\0\0\0\0\x07\0\0"


def test_every_producer_is_reported_with_its_last_sequence() -> None:
    throttle, found = unpack(memoryview(answer((4, 2, -1), (5, 1, 100))))
    assert (throttle, found) == (5, {("t", 3): (ActiveProducer(4, 2, 9, -1, 0, 1), ActiveProducer(5, 1, 9, 100, 0, 1))})


def test_an_error_is_its_code() -> None:
    assert unpack(memoryview(answer(error=6)))[1] == {("t", 3): 6}


@pytest.mark.parametrize("size", range(4, len(answer((5, 1, 100))) - 2))
def test_half_an_answer_is_malformed(size: int) -> None:
    with pytest.raises(MalformedResponseError):
        unpack(memoryview(answer((5, 1, 100))[:size]))


def test_what_began_here_was_committed_but_for_what_was_aborted() -> None:
    endings = Endings()
    endings.began(7, 10)
    endings.ended(7, 14, committed=False, version_2=True)
    endings.began(7, 15)
    told = {epoch: endings.of(7, epoch) for epoch in (9, 10, 13, 14, 15, 16)}
    assert told == {9: None, 10: True, 13: True, 14: False, 15: True, 16: True}
    assert endings.of(8, 12) is None


def test_in_the_classic_protocol_one_that_was_aborted_makes_its_epoch_uncertain() -> None:
    endings = Endings()
    endings.ended(7, 9, committed=False, version_2=False)
    endings.began(7, 10)
    assert (endings.of(7, 9), endings.of(7, 10)) == (False, True)
    endings.ended(7, 10, committed=False, version_2=False)
    assert endings.of(7, 10) is None
