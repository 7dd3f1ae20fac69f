"""The producer of markers speaks to coordinators and leaders: which answer it believes."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import pytest
from reconciler_mirror.lane.same_offsets import leaders
from reconciler_mirror.lane.same_offsets.leaders import Markers
from reconciler_mirror.lane.state import RestartError

from reconciler.kafka.client import log_ends
from reconciler.kafka.client.cluster import ClusterClient, Key, Leader
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.client.frames import Frame
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol.transactions import ADD_PARTITIONS, DESCRIBE_TRANSACTIONS, END

KEY: Key = ("copy", 3)
INVALID_STATE, CONCURRENT = 48, 51


class Broker:
    """Answers a connection's requests in order, with what ``states`` and ``end_error`` say; ``log_end`` after each."""

    def __init__(self, states: Iterable[str], end_error: int = 0) -> None:
        self.states, self.end_error, self.log_end = iter(states), end_error, 41
        self.asked: list[tuple[str, int]] = []

    def answer(self, where: str, key: int) -> bytes:
        self.asked.append((where, key))
        if key == ADD_PARTITIONS:
            return struct.pack(">i", 0) + b"\x02\x05copy\x02" + struct.pack(">ih", KEY[1], 0) + b"\0\0\0"
        if key == END:
            return struct.pack(">ih", 0, self.end_error) + b"\0"
        if key == DESCRIBE_TRANSACTIONS:
            state = next(self.states).encode()
            named = b"\x02" + struct.pack(">h", 0) + b"\x02m" + bytes((len(state) + 1,)) + state
            return struct.pack(">i", 0) + named + struct.pack(">iqqh", 60_000, 1, 7, 0) + b"\x01\0\0"
        assert key == log_ends.API
        self.log_end += 1
        ended = struct.pack(">hiiq", 0, KEY[1], 5, self.log_end)
        return struct.pack(">i", 0) + b"\x02\x05copy\x02" + ended + b"\0\0\0"


class Wire:
    """A connection to it. ``delay``: turns of the loop until an answer comes."""

    def __init__(self, broker: Broker, where: str, delay: int = 1) -> None:
        self._broker, self.where, self._delay = broker, where, delay
        self.closed, self.throttled_until = None, 0.0
        self.versions = {DESCRIBE_TRANSACTIONS: (0, 0), log_ends.API: (0, 4)}
        self._before: asyncio.Task[Frame] | None = None

    def send(self, api: tuple[int, int, bool], parts: Sequence[bytes]) -> asyncio.Task[Frame]:
        before, key = self._before, api[0]

        async def carried_out() -> Frame:
            if before is not None:
                await asyncio.wait([before])
            for _ in range(self._delay):
                await asyncio.sleep(0)
            return Frame(memoryview(struct.pack(">ib", 1, 0) + self._broker.answer(self.where, key)), None)

        self._before = asyncio.ensure_future(carried_out())
        return self._before

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def read(self, frame: Frame) -> Iterator[None]:
        yield

    def throttle(self, milliseconds: int) -> None:
        assert milliseconds == 0

    def negotiated(self, key: int, lowest: int, newest: int, subject: str) -> int:
        return newest


class Cluster:
    """One broker with the transaction and the partition. ``wires``: given out in turn, the last for ever."""

    name = "west"

    def __init__(self, *wires: Wire) -> None:
        self._wires = list(wires)

    async def connection(self, node: int | None, purpose: str) -> Wire:
        return self._wires.pop(0) if len(self._wires) > 1 else self._wires[0]

    async def control(self, node: int | None = None) -> Wire:
        return self._wires[0]

    async def coordinator(self, key: str, kind: int) -> int:
        return 1

    def leader(self, topic: str, partition: int) -> Leader:
        return Leader(1, 5)

    def by_leader(self, keys: Iterable[Key]) -> Mapping[int, list[Key]]:
        return {1: list(keys)}

    leaders_of = ClusterClient.leaders_of


def aborted(*wires: Wire, announce: bool = True) -> Mapping[Key, int]:
    cluster = cast(ClusterClient, Cluster(*wires))
    identity = Identity(cluster, "m", "", classic=True)
    identity.producer_id, identity.epoch = 7, 0
    return asyncio.run(Markers(cluster, identity).abort([KEY], announce=announce))


def requests(broker: Broker) -> list[int]:
    return [key for _, key in broker.asked]


def test_a_hole_of_one_offset_is_one_exchange_where_its_marker_is_written_at_once() -> None:
    broker = Broker(["CompleteAbort"])
    assert aborted(Wire(broker, "a", delay=20)) == {KEY: 42}
    assert requests(broker) == [ADD_PARTITIONS, END, DESCRIBE_TRANSACTIONS, log_ends.API]


def test_a_transaction_with_fillers_is_ended_and_checked_in_one_exchange() -> None:
    broker = Broker(["CompleteAbort"])
    assert aborted(Wire(broker, "a", delay=20), announce=False) == {KEY: 42}
    assert requests(broker) == [END, DESCRIBE_TRANSACTIONS, log_ends.API]


def test_log_ends_of_an_unfinished_transaction_do_not_count() -> None:
    broker = Broker(["PrepareAbort", "PrepareAbort", "CompleteAbort"])
    assert aborted(Wire(broker, "a")) == {KEY: 44}


def test_the_state_is_checked_behind_the_end_on_its_own_connection() -> None:
    """Another one, which the broker may serve first, would tell of the transaction before: that is complete."""
    broker = Broker(["CompleteAbort"])
    aborted(Wire(broker, "a", delay=50), Wire(broker, "b"))
    assert broker.asked[:3] == [("a", ADD_PARTITIONS), ("a", END), ("a", DESCRIBE_TRANSACTIONS)]


@pytest.mark.parametrize(("code", "expected"), [(INVALID_STATE, BrokerError), (CONCURRENT, RestartError)])
def test_a_refused_end_is_not_believed_to_be_complete(code: int, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        aborted(Wire(Broker(["CompleteAbort"] * 9, end_error=code), "a"))


def test_the_first_look_comes_later_after_one_that_was_too_early() -> None:
    def wait(*states: str) -> Any:
        cluster = cast(ClusterClient, Cluster(Wire(Broker(states), "a")))
        identity = Identity(cluster, "m", "", classic=True)
        markers = Markers(cluster, identity)
        asyncio.run(markers.abort([KEY], announce=True))
        return markers._markers_take

    assert wait("CompleteAbort") == 0
    assert wait("PrepareAbort", "CompleteAbort") == pytest.approx(leaders.LATER)
