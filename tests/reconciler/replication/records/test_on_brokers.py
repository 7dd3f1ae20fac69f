"""``CompactedTopic`` on real brokers: what it reads, what it writes, and what it says when it cannot know."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol import generated as protocol
from reconciler.replication.records.compacted_topic import CompactedTopic, RecordFencedError
from tests.support.clusters import CreateTopic, kraft, real_cluster
from tests.support.fakes.subjects import BrokerStranger
from tests.support.lanes.cutting_proxy import Cut, cutting

T = TypeVar("T")
ROUNDS, WRITERS = int(os.environ.get("ROUNDS", "8")), int(os.environ.get("WRITERS", "2"))
METADATA, LIST_OFFSETS, FETCH, PRODUCE = 3, 2, 1, 0
FIND_COORDINATOR, INIT_PRODUCER, ADD_PARTITIONS, END_TXN = 10, 22, 24, 26


@dataclass(frozen=True)
class Place:
    """A compacted topic of one test. ``user``: as whom it is read."""

    handle: ClusterHandle
    topic: str
    stranger: BrokerStranger
    user: str = "admin"

    def make(self, partitions: int = 1, policy: str = "compact") -> None:
        self.stranger.make(self.topic, partitions, cleanup_policy=policy)

    def ask(self, question: Callable[[CompactedTopic], Awaitable[T]], servers: str = "", **fields: Any) -> T:
        """A client of its own for each question."""

        async def run() -> T:
            client = self.handle.client(self.user)
            address = client.pop("bootstrap.servers")
            cluster = ClusterClient("east", (servers or address).split(","), connection_settings(client))
            try:
                return await question(CompactedTopic(cluster, self.topic, **fields))
            finally:
                cluster.close()

        return asyncio.run(run())

    def values(self, **fields: Any) -> dict[str, bytes] | None:
        return self.ask(values, **fields)

    def tell(self, *records: tuple[str, bytes | None], partition: int = 0) -> None:
        """As a client of the last release did."""
        producer = Producer({**self.handle.super_client(), "log_level": 0})
        for key, value in records:
            producer.produce(self.topic, value, key, partition)
        assert producer.flush(30) == 0


async def values(topic: CompactedTopic) -> dict[str, bytes] | None:
    return None if await topic.read() is None else dict(topic.values())


@pytest.fixture(params=["plain", pytest.param("secure", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, unique: str, create_topic: CreateTopic) -> Iterator[Place]:
    east = request.getfixturevalue(request.param)["east"]
    with KafkaCluster(real_cluster(east)) as admin:
        yield Place(east, f"compacted-{unique}", BrokerStranger(east, create_topic, admin))


pytestmark = [pytest.mark.kafka("plain"), pytest.mark.kafka("secure")]


def test_a_topic_that_is_missing_is_absent_and_an_empty_one_is_empty(place: Place) -> None:
    assert place.values() is None
    place.make(3)
    assert place.values() == {}


def test_a_cluster_that_does_not_answer_is_unknown(place: Place) -> None:
    with pytest.raises(ConnectionLostError):
        place.ask(values, "127.0.0.1:1", patience=0.1)


def test_the_newest_of_each_key_is_read_and_none_that_was_deleted(place: Place) -> None:
    place.make(3)
    place.tell(*((f"key-{n % 10}", b"%d" % n) for n in range(100)))
    place.tell(("key-3", None), partition=0)
    place.tell(("elsewhere", b"x"), partition=2)
    expected = {f"key-{n}": b"%d" % (90 + n) for n in range(10) if n != 3} | {"elsewhere": b"x"}
    assert place.values() == expected
    assert place.values(tail=1) == expected, "what lies before the tail is read when all is asked for"


def test_only_the_tail_is_read_where_that_is_enough(place: Place) -> None:
    place.make()
    place.tell(*((f"key-{n}", b"x") for n in range(20)))

    async def look(topic: CompactedTopic) -> tuple[int, int]:
        await topic.read(whole=False)
        tail = len(topic.newest)
        await topic.read()
        return tail, len(topic.newest)

    assert place.ask(look, tail=5) == (5, 20)


def test_what_is_appended_is_placed_as_by_other_clients_and_replaces_theirs(place: Place) -> None:
    place.make(5)
    producer = Producer({**place.handle.super_client(), "log_level": 0})
    keys = [f"key-{n}" for n in range(40)]
    for key in keys:
        producer.produce(place.topic, b"theirs", key)
    assert producer.flush(30) == 0

    async def replace(topic: CompactedTopic) -> list[int]:
        await topic.read()
        before = {key: topic.newest[key].partition for key in keys}
        await topic.append((key, b"ours") for key in keys)
        await topic.read()
        return [key for key in keys if topic.newest[key].partition != before[key]]  # type: ignore[misc]

    assert place.ask(replace) == []
    assert place.values() == dict.fromkeys(keys, b"ours")


def test_many_records_are_appended_in_batches_that_brokers_take(place: Place) -> None:
    place.make()
    large = {f"key-{n}": os.urandom(200_000) for n in range(12)}
    place.ask(lambda topic: topic.append(large.items()))
    assert place.values() == large


def test_a_log_that_ends_with_markers_is_read_to_its_end(place: Place) -> None:
    place.make()
    place.tell(("key", b"before"))

    async def write(topic: CompactedTopic) -> bool:
        return await topic.swap(f"writer-{place.topic}", "key", b"before", b"after")

    assert place.ask(write, committed=True)
    assert place.values(committed=True) == place.values(committed=False) == {"key": b"after"}


def test_an_open_transaction_is_waited_for_and_an_aborted_one_does_not_count(place: Place) -> None:
    place.make()
    place.tell(("key", b"before"))
    producer = Producer({**place.handle.super_client(), "transactional.id": place.topic, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(place.topic, b"aborted", "key", 0)
    producer.flush(30)

    async def read(topic: CompactedTopic) -> dict[str, bytes] | None:
        asked = asyncio.create_task(values(topic))
        await asyncio.sleep(0)
        done, _ = await asyncio.wait([asked], timeout=1.5)
        assert not done, "how it ends is not known yet"
        await asyncio.to_thread(producer.abort_transaction, 30)
        return await asked

    assert place.ask(read, committed=True) == {"key": b"before"}


def test_an_open_transaction_that_no_one_ends_may_be_ended_by_its_reader(place: Place) -> None:
    place.make()
    producer = Producer({**place.handle.super_client(), "transactional.id": place.topic, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(place.topic, b"x", "key", 0)
    producer.flush(30)

    async def fence(cluster: ClusterClient) -> None:
        await Identity(cluster, place.topic, "").start()

    assert place.values(committed=True, unstick=fence) == {}


@kraft  # ZooKeeper forgets a deleted name later than it says
def test_a_topic_that_was_recreated_is_read_from_its_beginning(place: Place) -> None:
    place.make()
    place.tell(("old", b"1"), ("older", b"2"))

    async def look(topic: CompactedTopic) -> None:
        assert await values(topic) == {"old": b"1", "older": b"2"}
        await asyncio.to_thread(place.stranger.delete, place.topic)
        assert await values(topic) is None
        assert not await topic.swap(f"writer-{place.topic}", "old", b"1", b"3")
        await asyncio.to_thread(place.make)
        await asyncio.to_thread(place.tell, ("new", b"1"), ("newer", b"2"), ("newest", b"3"))
        assert await values(topic) == {"new": b"1", "newer": b"2", "newest": b"3"}
        assert await topic.swap(f"writer-{place.topic}", "new", b"1", b"4")

    place.ask(look)


def test_a_log_whose_start_moves_on_is_read_from_there(place: Place) -> None:
    place.make(policy="compact,delete")
    place.tell(*((f"key-{n}", b"x") for n in range(10)))

    async def look(topic: CompactedTopic) -> None:
        await topic.read(whole=False)
        await asyncio.to_thread(_delete_before, place, 8)
        await asyncio.to_thread(place.tell, ("late", b"y"))
        found = await values(topic)
        assert found is not None
        assert {"key-8", "key-9", "late"} <= found.keys()

    place.ask(look, tail=3)


def _delete_before(place: Place, offset: int) -> None:
    admin = AdminClient(place.handle.super_client())
    for deleted in admin.delete_records([TopicPartition(place.topic, 0, offset)]).values():
        deleted.result(30)


def test_followers_hear_of_each_record_and_when_the_topic_is_gone(place: Place) -> None:
    place.make(2)
    place.tell(("a", b"1"))

    async def follow(topic: CompactedTopic) -> None:
        heard = topic.follow(0.2)
        assert await anext(heard) == {"a"}
        await asyncio.to_thread(place.tell, ("b", b"2"), ("a", None), partition=1)
        found: set[str] = set()
        async with asyncio.timeout(30):
            while found != {"a", "b"}:
                found |= await anext(heard)
            await asyncio.to_thread(place.stranger.delete, place.topic)
            with pytest.raises(BrokerError):
                await _to_end(heard)

    place.ask(follow)


async def _to_end(heard: AsyncIterator[frozenset[str]]) -> None:
    async for _ in heard:
        pass


@pytest.mark.parametrize("classic", [False, True], ids=["newest", "classic"])
def test_of_writers_that_compete_each_sees_what_the_other_wrote(
    place: Place, classic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history of writers of one key: what each of them wrote follows what it had read."""
    if classic:
        monkeypatch.setattr("reconciler.kafka.client.transactions.speaks_version_2", lambda _: False)
    place.make()
    wrote: list[tuple[bytes | None, bytes]] = []

    async def count(topic: CompactedTopic) -> None:
        for _ in range(ROUNDS):
            await topic.read()
            before = topic.values().get("count")
            after = b"%d" % (int(before or b"0") + 1)
            if await topic.swap(f"writer-{place.topic}", "count", before, after):
                wrote.append((before, after))

    threads = [threading.Thread(target=lambda: place.ask(count, committed=True)) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert place.values(committed=True) == {"count": b"%d" % len(wrote)}
    assert sorted(int(after) for _, after in wrote) == list(range(1, len(wrote) + 1)), "no value was written twice"


def test_a_writer_that_was_fenced_writes_nothing(place: Place) -> None:
    place.make()
    writer = f"writer-{place.topic}"

    async def compete(first: CompactedTopic) -> None:
        second = CompactedTopic(first.cluster, place.topic, committed=True)
        await first.fence(writer)
        await first.write(writer, {"key": b"first", "other": b"x"})
        await second.fence(writer)
        with pytest.raises(RecordFencedError):
            await first.write(writer, {"key": b"late"})
        with pytest.raises(RecordFencedError):
            await first.write(writer, {"key": b"later"})
        await second.write(writer, {"key": b"second"})
        await first.read()
        assert first.values() == {"key": b"second", "other": b"x"}

    place.ask(compete, committed=True)


READING, APPENDING = (METADATA, LIST_OFFSETS, FETCH), (METADATA, PRODUCE)
SWAPPING = (FIND_COORDINATOR, INIT_PRODUCER, ADD_PARTITIONS, PRODUCE, END_TXN)


@pytest.mark.parametrize("cut", list(Cut))
def test_a_connection_that_breaks_at_any_request_loses_nothing(
    plain: Sandbox, unique: str, create_topic: CreateTopic, cut: Cut
) -> None:
    """As a broker that is killed between any two requests, and is back."""
    east = plain["east"]
    with KafkaCluster(real_cluster(east)) as admin, cutting(east.brokers[0].port) as (address, wishes):
        place = Place(east, f"compacted-{unique}", BrokerStranger(east, create_topic, admin))
        place.make()
        place.tell(("key", b"0"))

        async def work(topic: CompactedTopic) -> None:
            for number, api in enumerate(READING):
                await asyncio.to_thread(place.tell, ("read", b"%d" % number))
                wishes.wanted[api] = cut
                assert (await values(topic) or {})["read"] == b"%d" % number
            for number, api in enumerate(APPENDING):
                topic.cluster.topics.clear()
                wishes.wanted[api] = cut
                await topic.append([("appended", b"%d" % number)])
                assert (await values(topic) or {})["appended"] == b"%d" % number
            current = b"0"
            for number, api in enumerate(SWAPPING):
                topic._let_go("w")  # so that each request is asked again
                wishes.wanted[api] = cut
                after = b"%d" % (number + 1)
                assert await topic.swap(f"writer-{unique}", "key", current, after) or (
                    (await values(topic) or {})["key"] == after
                ), api
                current = after
                wishes.wanted.clear()  # of the other transaction protocol

        place.ask(work, address, committed=True)
        assert (place.values(committed=True) or {})["key"] == b"%d" % len(SWAPPING)


def test_a_coordinator_that_still_loads_is_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.make()
    for api in (protocol.InitProducerIdRequest, protocol.EndTxnRequest):
        _answers_once(monkeypatch, api, 14)

    async def write(topic: CompactedTopic) -> bool:
        return await topic.swap(f"writer-{place.topic}", "key", None, b"x")

    assert place.ask(write)
    assert place.values(committed=True) == {"key": b"x"}


def _answers_once(monkeypatch: pytest.MonkeyPatch, api: object, code: int) -> None:
    """The first answer of that kind is this error, and nothing was done."""
    call, left = Connection.call, [api]

    async def refusing(self: Connection, request: object, patience: float | None = None) -> object:
        if left and isinstance(request, left[0]):  # type: ignore[arg-type]
            left.clear()
            raise BrokerError(code, "it loads")
        return await call(self, request, patience)

    monkeypatch.setattr(Connection, "call", refusing)


def test_who_may_not_read_or_write_is_denied(secure: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    east = secure["east"]
    with KafkaCluster(real_cluster(east)) as admin:
        place = Place(east, f"compacted-{unique}", BrokerStranger(east, create_topic, admin), "user")
        place.make()
        for question in (
            values,
            lambda topic: topic.append([("key", b"x")]),
            lambda topic: topic.swap(f"writer-{unique}", "key", None, b"x"),
            lambda topic: topic.fence(f"writer-{unique}"),
        ):
            with pytest.raises(BrokerError) as denied:
                place.ask(question)
            assert denied.value.code in (29, 53)
