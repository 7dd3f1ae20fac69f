"""Long and slow lines: no round trip is lost between fetches, answers stay short, slowness is not death."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsRequest
from reconciler_mirror.lane.fetch.bandwidth import LEAST_FETCH, LEAST_FLIGHT, LONG, QUEUED_S, BrokerLink, Flight
from reconciler_mirror.lane.fetch.fetcher import QUIET_FROM, Fetchers
from reconciler_mirror.lane.partition import Partition, Phase, SourceLog, Tuning
from reconciler_mirror.lane.produce.sender import Sender
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.lane.transactional import Sessions
from reconciler_mirror.model.lane import Claim, LaneSpec, PartitionSpec

from reconciler.kafka.client.auth.settings import ConnectionSettings
from reconciler.kafka.client.buffers import BufferPool
from reconciler.kafka.client.cluster import ClusterClient, Leader, TopicMetadata
from reconciler.kafka.client.connection import LEAST_RATE, Connection
from reconciler.kafka.client.connections import connect
from reconciler.kafka.client.errors import ConnectionLostError
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol.flexible import uvarint
from reconciler.kafka.records.records import Record, encode, varint
from reconciler.replication.handover import Endpoint
from tests.support.lanes.frames import framed, versions_answer

NEAR, FAR = Tuning().fetch_bytes, Tuning().fetch_bytes_far
MOST_FLIGHT = Tuning().bytes_in_flight
TOPIC_ID = UUID(int=7)
BATCHES = 12  # of each partition, one a fetch

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def line(round_trip: float) -> BrokerLink:
    made = BrokerLink(NEAR, FAR)
    made.round_trip = round_trip
    return made


@given(st.floats(0, LONG, exclude_max=True), st.floats(1e5, 1e10))
def test_nearby_one_session_asks_for_all_it_may(round_trip: float, rate: float) -> None:
    near = line(round_trip)
    assert (near.sessions(), near.fetch_bytes(), near.pipelined) == (1, NEAR, False)
    near.answered(1 << 20, (1 << 20) / rate)
    assert near.sessions() == 1


@given(st.floats(LONG, 1.0), st.floats(LONG, 1.0))
def test_the_longer_the_line_the_more_sessions(one: float, other: float) -> None:
    assert 2 <= line(min(one, other)).sessions() <= line(max(one, other)).sessions() <= 4


@given(st.floats(LONG, 1.0), st.floats(2e4, 2e9))
def test_an_answer_takes_a_second_whatever_the_line(round_trip: float, rate: float) -> None:
    far = line(round_trip)
    for _ in range(20):
        size = far.fetch_bytes()
        far.answered(size, size / rate)
    fetch = far.fetch_bytes()
    assert fetch <= max(LEAST_FETCH, 1.01 * rate)
    assert fetch >= min(FAR, rate / 4)


def test_few_bytes_under_way_give_each_session_its_own_buffers() -> None:
    """Kafka's socket buffers of 100 KiB at 200 ms are half a megabyte a second, on a line of any width."""
    far = line(0.2)
    far.answered(4 << 20, 8.0)
    assert far.narrow
    assert far.sessions() == 8
    far.answered(1 << 20, 0.01)
    assert not far.narrow


@given(st.floats(0.0, 0.5), st.floats(1e5, 1e9))
def test_a_slow_line_to_the_target_is_not_filled_for_longer_than_anybody_waits(round_trip: float, rate: float) -> None:
    flight, now, size = Flight(MOST_FLIGHT), 0.0, 1 << 18
    sent: list[float] = []
    free_at = 0.0
    took = 0.0
    for _ in range(1500):
        while len(sent) * size < flight.limit:
            sent.append(now)
        free_at = max(free_at, sent[0]) + size / rate
        now = max(now, free_at + round_trip)
        took = now - sent[0]
        flight.acknowledged(size, sent.pop(0), now, round_trip)
    assert took <= max(round_trip + QUEUED_S, LEAST_FLIGHT / rate + round_trip) + 2 * size / rate
    assert flight.limit >= min(MOST_FLIGHT, rate * round_trip)


@pytest.mark.parametrize(("round_trip", "answer", "window"), [(0.0005, 0.003, 4), (0.0005, 0.1, 25), (0.2, 0.205, 200)])
def test_a_far_target_has_a_request_under_way_for_each_millisecond(
    round_trip: float, answer: float, window: int
) -> None:
    """Few batches may fit a request, one of each partition, so their number has to fill the line."""
    sender = Sender(cast(Lane, SimpleNamespace(tuning=Tuning())), 0)
    sender._connection = cast(Connection, SimpleNamespace(round_trip=round_trip))
    sender._measure(answer)
    assert sender._window == window


# a broker far away


def batch(base: int) -> bytes:
    tail = varint(1) + b"k" + varint(1000) + bytes(1000) + b"\0"
    raw = bytearray(encode([Record(i, 1, 0, memoryview(tail)) for i in range(20)], 0))
    struct.pack_into(">q", raw, 0, base)
    return bytes(raw)


def wanted(request: bytes) -> tuple[int, int, list[tuple[int, int]]]:
    """(session, longest wait, [(partition, offset)]) of a Fetch 13 whose client is ``mirror`` and whose lists are
    short."""
    body = request[10 + len("mirror") + 1 :]
    wait, _, _, _, session, _ = struct.unpack_from(">iiibii", body, 4)
    at, found = 25, []
    topics = body[at] - 1
    at += 1
    for _ in range(topics):
        count = body[at + 16] - 1
        at += 17
        for _ in range(count):
            partition, _, offset = struct.unpack_from(">iiq", body, at)
            at += struct.calcsize(">iiqiqib")
            found.append((partition, offset))
        at += 1
    return session, wait, found


def fetched(correlation: int, session: int, found: list[tuple[int, int]], *, trickle: bool) -> bytes:
    parts = b""
    for partition, offset in found:
        records = batch(offset) if offset < 20 * BATCHES else b""
        end = offset + 20 if trickle and records else 20 * BATCHES
        parts += struct.pack(">ihqqq", partition, 0, end, end, 0) + b"\0" + struct.pack(">i", -1)
        parts += uvarint(len(records) + 1) + records + b"\0"
    topics = b"\1" if not found else b"\2" + TOPIC_ID.bytes + bytes([len(found) + 1]) + parts + b"\0"
    return framed(struct.pack(">i", correlation) + b"\0" + struct.pack(">ihi", 0, 0, session) + topics + b"\0")


class FarBroker:
    """Answers after a round trip. ``trips`` counts for each connection how many fetches with records had to be made one
    after the other: those that come before one of them is answered count once."""

    def __init__(self, round_trip: float, *, trickle: bool = False) -> None:
        """``trickle``: whoever has read a batch seems to have read all there is."""
        self.round_trip = round_trip
        self.trickle = trickle
        self.fetches = self.connections = self.sessions = 0
        self.trips: Counter[int] = Counter()
        self.longest_wait = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        answered = 0
        loop = asyncio.get_running_loop()

        def write(answer: bytes, trip: int) -> None:
            nonlocal answered
            answered = max(answered, trip)
            writer.write(answer)

        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                key, _, correlation = struct.unpack_from(">hhi", request)
                if key == 18:
                    answer = framed(versions_answer(correlation))
                else:
                    session, wait, found = wanted(request)
                    self.sessions += not session
                    answer = fetched(correlation, session or self.sessions, found, trickle=self.trickle)
                    if any(offset < 20 * BATCHES for _, offset in found):
                        self.longest_wait = max(self.longest_wait, wait)
                        self.fetches += 1
                        self.trips[number] += answered == self.trips[number]
                loop.call_later(self.round_trip, write, answer, self.trips[number])
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class Consumed:
    """``Routes`` that take everything at once."""

    def __init__(self, lane: Lane, fetchers: Fetchers) -> None:
        self.lane, self.fetchers = lane, fetchers
        self.seen: Counter[int] = Counter()
        self.half, self.done = asyncio.Event(), asyncio.Event()

    def place(self, partition: Partition) -> None:
        self.fetchers.place(0, partition)

    def offer(self, partition: Partition) -> None:
        while partition.outbox.queue:
            piece = partition.outbox.queue.popleft()
            assert piece.next_offset == self.seen[partition.spec.partition] + 20, "in order, none twice"
            self.seen[partition.spec.partition] = piece.next_offset
            partition.outbox.queued_bytes -= len(piece.raw)
            self.lane.queued -= len(piece.raw)
            piece.drop()
        if sum(self.seen.values()) >= 10 * BATCHES * len(self.lane.partitions):
            self.half.set()
        if all(self.seen[p] == 20 * BATCHES for _, p in self.lane.partitions):
            self.done.set()


async def _fetch_all(broker: FarBroker, partitions: int, *, expires: bool = False) -> Lane:
    """``expires``: half way, the connections are as old as the broker lets them be (KIP-368)."""
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    cluster = ClusterClient("far", ["127.0.0.1:1"], ConnectionSettings())
    cluster.learn(0, *server.sockets[0].getsockname()[:2])
    leaders = {p: Leader(0, 1) for p in range(partitions)}
    cluster.topics["t"] = TopicMetadata("t", TOPIC_ID, 0, leaders)
    spec = LaneSpec(
        "f", 0, "", "g", Endpoint("far", (), {}), Endpoint("near", (), {}), "exactly_once", "read_committed",
        "earliest", None, (), Claim(1, "t"),
    )  # fmt: skip
    lane = Sessions(Tuning()).lane(spec, (cluster, cluster), cast(Identity, None))
    tasks: list[asyncio.Task[None]] = []

    def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(work))
        return tasks[-1]

    routes = Consumed(lane, Fetchers(lane, start))
    lane.routes = cast(Any, routes)
    try:
        control = await cluster.connection(0, "control")
        for _ in range(0 if broker.round_trip else 20):  # a busy machine is no long line
            await control.call(ApiVersionsRequest(client_software_name="t", client_software_version="1", version=3))
        for number in range(partitions):
            partition = Partition(PartitionSpec("t", number, "far.t", ""), log=SourceLog(topic_id=TOPIC_ID))
            partition.log.covered, partition.log.end, partition.hold.phase = 0, 20 * BATCHES, Phase.COPYING
            lane.partitions[partition.source] = partition
            routes.place(partition)
        async with asyncio.timeout(60):
            await routes.half.wait()
            for connection in cluster._connections.values() if expires else ():
                connection.expires_at = 0.0
            await routes.done.wait()
        return lane
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        cluster.close()
        server.close()


def test_fetches_of_a_long_line_share_round_trips_on_one_connection() -> None:
    broker = FarBroker(0.12)
    lane = asyncio.run(_fetch_all(broker, 4))
    (trips,) = broker.trips.values()  # all records came over one connection
    assert broker.fetches == 4 * BATCHES
    assert trips <= BATCHES + 2, "four sessions of one partition each: four fetches to a round trip"
    assert broker.longest_wait == 0, "a fetch that waits at the broker would hold up those behind it"
    assert lane.requested == 0


def test_sessions_leave_an_expired_connection_together_and_lose_nothing() -> None:
    broker = FarBroker(0.12)
    asyncio.run(_fetch_all(broker, 4, expires=True))
    assert len(broker.trips) == 2
    assert broker.fetches == 4 * BATCHES, "no answer was thrown away"


def test_nearby_one_session_fetches_everything() -> None:
    broker = FarBroker(0.0)
    asyncio.run(_fetch_all(broker, 4))
    assert broker.sessions == 1
    assert broker.fetches == BATCHES


def test_nearby_those_that_have_records_leave_a_large_session() -> None:
    """Each request costs the broker a look into all partitions of its session, which a trickle would wait for."""
    few, many = (asyncio.run(_fetch_all(FarBroker(0.0, trickle=True), count)) for count in (8, QUIET_FROM + 9))
    assert not any(partition.log.busy for partition in few.partitions.values())
    assert sum(partition.log.busy for partition in many.partitions.values()) >= 8


# slow is not dead


class Patience:
    """A connection whose time passes when its broker lets it, and whose watch looks all the time. It waits 2 s."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.connection: Connection
        monkeypatch.setattr("reconciler.kafka.client.connection.time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr("reconciler.kafka.client.connection.WATCH_EVERY", 0.0)

    async def passes(self, seconds: float = 1.5) -> None:
        self.now += seconds
        await asyncio.sleep(0.005)  # the watch, due earlier, has looked

    def bytes_moved(self) -> bool:
        """The connection knows that bytes came or left since time last passed."""
        return self.connection._moved == self.now

    async def talk(self, serve: Serve, use: Callable[[], Awaitable[None]]) -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()[:2]
        self.connection = await connect(address, ConnectionSettings(request_timeout=2.0), BufferPool())
        try:
            async with asyncio.timeout(60):
                await use()
        finally:
            self.connection.close()
            server.close()


async def _versions(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    request = await reader.readexactly(size)
    writer.write(framed(versions_answer(struct.unpack_from(">i", request, 4)[0])))


@pytest.mark.parametrize("drips", [False, True], ids=["slow", "drips"])
def test_an_answer_that_comes_slowly_is_waited_for_and_one_that_drips_is_not(
    drips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte puts the deadline off by what it takes at the least rate, so that one a second keeps nothing alive."""
    patience = Patience(monkeypatch)
    size_of_piece = 1 if drips else 3 * LEAST_RATE // 2

    async def answer_in_pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _versions(reader, writer)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        request = await reader.readexactly(size)
        answer = framed(request[4:8] + bytes(7 * size_of_piece))
        for at in range(0, len(answer), size_of_piece):
            before = patience.connection._moved
            await patience.passes()
            writer.write(answer[at : at + size_of_piece])
            while patience.connection._moved == before and patience.connection.closed is None:
                await asyncio.sleep(0.001)
        writer.close()

    async def use() -> None:
        sent = patience.connection.send((1, 13, False), [b"x"])
        if drips:
            with pytest.raises(ConnectionLostError, match="did not answer in time"):
                await sent
        else:
            assert (await sent).seconds == 7 * 1.5

    asyncio.run(patience.talk(answer_in_pieces, use))


@pytest.mark.parametrize("hung", [False, True], ids=["slow", "hung"])
def test_a_request_that_leaves_slowly_is_waited_for_and_one_that_does_not_leave_is_not(
    hung: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience, times = Patience(monkeypatch), 0
    never = asyncio.Event()  # held here: a task that only its own future refers to may be collected

    async def read_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal times
        await _versions(reader, writer)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        head = await reader.readexactly(8)
        left = size - 8
        while patience.connection._unsent:  # the rest lies in the buffers of sockets, and nothing moves any more
            await patience.passes()
            while patience.connection._unsent and not patience.bytes_moved():
                left -= len(await reader.read(1 << 18))
            times += 1
        await reader.readexactly(left)
        writer.write(framed(head[4:8] + b"done"))

    async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _versions(reader, writer)
        await never.wait()  # until it is cancelled: who returns may close the connection

    async def use() -> None:
        sent = patience.connection.send((0, 12, False), [bytes(32 << 20)])
        if not hung:
            assert bytes((await sent).body[4:]) == b"done"
            assert times > 3
            return
        for _ in range(10):  # more to send is no sign of life
            patience.connection.send((0, 12, False), [b"more"])
            await patience.passes(0.19)
        assert not sent.done()
        await patience.passes(0.2)
        with pytest.raises(ConnectionLostError, match="in time"):
            await sent

    asyncio.run(patience.talk(read_nothing if hung else read_slowly, use))
