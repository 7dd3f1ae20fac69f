"""What passes is waited out and read on behind; what does not is said at once; an end may hold nothing."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import Leader, TopicMetadata
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError, WireError
from reconciler.kafka.protocol.fetch import FetchedPartition
from reconciler.kafka.records.batches import seal
from reconciler.kafka.records.codecs import NONE
from reconciler.kafka.records.records import Record, encode, tail_of
from reconciler.replication.records import compacted_topic
from reconciler.replication.records.compacted_topic import CompactedTopic, Newest

PASSING = [3, 5, 6, 9, 14, 15, 16, 74, 75, 76, 78]
TOLD = [29, 31, 53, 87]
TOPIC, ID = "topic", UUID(int=7)


class ScriptedCluster:
    """One partition of one topic: ``log`` by offset, ``end``, and what each request in turn fails with."""

    name = "east"
    brokers: tuple[int, ...] = (1,)

    def __init__(self) -> None:
        self.log: dict[int, tuple[bytes, bytes | None]] = {}
        self.end = 0
        self.stable: int | None = None
        self.epoch = 1
        self.id = ID
        self.failures: list[Exception] = []
        self.topics: dict[str, TopicMetadata] = {}
        self.described: list[int] = []
        """Error codes of the topic's metadata, one after the other; then none."""
        self.fetches = 0

    def fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    async def refresh(self, topics: object, connection: object = None) -> None:
        self.fail()
        error = self.described.pop(0) if self.described else 0
        self.topics[TOPIC] = TopicMetadata(TOPIC, self.id, error, {0: Leader(1, self.epoch)})

    async def list_offsets(self, wanted: Mapping[Any, int], *, committed: bool) -> dict[Any, int]:
        self.fail()
        return {key: self.end if asked == -1 else min(self.log, default=self.end) for key, asked in wanted.items()}

    def by_leader(self, keys: Any) -> dict[int, list[Any]]:
        return {1: list(keys)}

    async def control(self, node: int) -> None: ...

    async def leaders_of(self, keys: Any, _: object) -> AsyncIterator[tuple[Any, list[Any]]]:
        yield SimpleNamespace(versions={}), list(keys)  # a broker that has no remote storage

    def answer(self, offset: int) -> FetchedPartition:
        self.fetches += 1
        self.fail()
        raw = b"".join(_batch(at, *self.log[at]) for at in sorted(self.log) if at >= offset)
        stable = self.end if self.stable is None else self.stable
        return FetchedPartition(TOPIC, 0, 0, self.end, stable, 0, (), -1, memoryview(raw))


def _batch(offset: int, key: bytes, value: bytes | None) -> bytes:
    raw = encode([Record(0, 1_000 + offset, 0, tail_of(key, value))], NONE)
    seal(memoryview(raw), (-1, -1), -1, transactional=False)
    struct.pack_into(">q", raw, 0, offset)
    return bytes(raw)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ScriptedCluster:
    made = ScriptedCluster()

    async def fetch(
        _: object, node: int, wanted: Mapping[Any, int], committed: bool, wait_ms: int = 0
    ) -> AsyncIterator[tuple[FetchedPartition, bool]]:
        (offset,) = wanted.values()
        answer = made.answer(offset)
        await asyncio.sleep(0)
        yield answer, not len(answer.records)

    monkeypatch.setattr(small_topics, "_fetch", fetch)
    monkeypatch.setattr(compacted_topic, "_PAUSE_S", 0.0)
    for offset in range(3):
        made.log[offset] = (b"key", b"%d" % offset)
    made.end = 3
    return made


def values(cluster: Any, **how: Any) -> Mapping[str, bytes] | None:
    topic = CompactedTopic(cluster, TOPIC, **how)
    return topic.values() if asyncio.run(topic.read()) is not None else None


@pytest.mark.parametrize("error", [*(BrokerError(code, "x") for code in PASSING), ConnectionLostError("x")], ids=repr)
def test_what_passes_ends_no_reader(cluster: ScriptedCluster, error: WireError) -> None:
    cluster.failures = [error] * 5
    assert values(cluster) == {"key": b"2"}


@pytest.mark.parametrize("code", TOLD)
def test_what_does_not_pass_is_reported_at_once(cluster: ScriptedCluster, code: int) -> None:
    cluster.failures = [BrokerError(code, "x")]
    with pytest.raises(BrokerError):
        values(cluster)
    assert not cluster.failures


@pytest.mark.parametrize("error", [BrokerError(6, "x"), ConnectionLostError("x")], ids=repr)
def test_patience_has_an_end(cluster: ScriptedCluster, error: WireError) -> None:
    cluster.failures = [error] * 1_000_000
    with pytest.raises(type(error)):
        values(cluster, patience=0.1)


def test_each_error_that_is_waited_out_is_heard(cluster: ScriptedCluster) -> None:
    cluster.failures = [BrokerError(5, "x"), BrokerError(15, "x")]
    heard: list[int] = []
    values(cluster, waits=lambda error: heard.append(error.code))
    assert heard == [5, 15]


def test_a_reader_continues_where_an_error_stopped_it(cluster: ScriptedCluster) -> None:
    topic = CompactedTopic(cluster, TOPIC)  # type: ignore[arg-type]
    asyncio.run(topic.read())
    before = cluster.fetches
    cluster.log[3], cluster.end = (b"key", b"3"), 4
    cluster.failures = [ConnectionLostError("x")]
    asyncio.run(topic.read())
    assert topic.newest["key"].offset == 3
    assert cluster.fetches == before + 1


def test_an_end_that_holds_no_records_any_more_is_reached(cluster: ScriptedCluster) -> None:
    """Compaction took what lay before the end: no record ever brings a reader there."""
    cluster.end = 10
    assert values(cluster) == {"key": b"2"}
    cluster.log.clear()
    assert values(cluster) == {}


def test_an_open_transaction_before_the_end_is_not_taken_for_a_hole(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.end, cluster.stable = 10, 3
    monkeypatch.setattr(compacted_topic, "READ_S", 0.1)
    monkeypatch.setattr(compacted_topic, "STUCK_S", 0.05)
    asked: list[object] = []

    async def unstick(which: object) -> None:
        asked.append(which)

    with pytest.raises(ConnectionLostError, match="could not be read to its end"):
        values(cluster, committed=True, patience=0.1, unstick=unstick)
    assert asked
    assert values(cluster) == {"key": b"2"}


def test_a_topic_is_absent_only_where_a_broker_says_so_and_others_agree(cluster: ScriptedCluster) -> None:
    cluster.described = [3]
    assert values(cluster) is None
    cluster.brokers, cluster.described = (1, 2, 3), [3, 3, 0]
    assert values(cluster) == {"key": b"2"}, "one that was just made is not known to each broker yet"
    cluster.described = [3, 3, 3]
    assert values(cluster) is None
    cluster.described = [29]
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        values(cluster)


def test_a_log_of_a_new_leader_or_of_another_topic_is_read_from_its_beginning(cluster: ScriptedCluster) -> None:
    """A leader that was elected uncleanly may have others in the place of records that were read."""
    topic = CompactedTopic(cluster, TOPIC)  # type: ignore[arg-type]
    asyncio.run(topic.read())
    cluster.log = {offset: (b"other", b"%d" % offset) for offset in range(3)}
    cluster.epoch += 1
    asyncio.run(topic.read())
    assert topic.values() == {"other": b"2"}
    cluster.log = {offset: (b"third", b"%d" % offset) for offset in range(4)}
    cluster.end, cluster.id = 4, UUID(int=8)
    asyncio.run(topic.read())
    assert topic.values() == {"third": b"3"}


def test_a_log_that_was_cleaned_while_it_was_read_is_read_on(cluster: ScriptedCluster) -> None:
    topic = CompactedTopic(cluster, TOPIC)  # type: ignore[arg-type]
    asyncio.run(topic.read())
    cluster.log, cluster.end = {7: (b"key", b"7")}, 8
    cluster.failures = [BrokerError(1, "x")]
    asyncio.run(topic.read())
    assert topic.values() == {"key": b"7"}


def test_a_batch_that_cannot_be_read_is_named_and_others_are_read(cluster: ScriptedCluster) -> None:
    topic = CompactedTopic(cluster, TOPIC)  # type: ignore[arg-type]
    answer = cluster.answer
    broken = bytearray(_batch(0, b"broken", b"x"))
    broken[-3] ^= 0xFF
    cluster.log, cluster.end = {1: (b"key", b"1")}, 2

    def half(offset: int) -> FetchedPartition:
        whole = answer(offset)
        return whole._replace(records=memoryview(bytes(broken) + bytes(whole.records)))

    cluster.answer = half  # type: ignore[method-assign]
    asyncio.run(topic.read())
    assert topic.values() == {"key": b"1"}
    assert list(topic.unreadable) == [(0, 0)]


def test_records_are_appended_in_batches_of_a_bounded_size() -> None:
    placed = [(n % 2, b"key-%d" % n, b"x" * 100_000) for n in range(20)] + [(0, b"large", b"x" * 2_000_000)]
    batches = list(compacted_topic._batches(placed))
    assert [pair for batch in batches for pair in batch.get(0, [])] == [(k, v) for p, k, v in placed if p == 0]
    sizes = [sum(len(value or b"") for _, value in pairs) for batch in batches for pairs in batch.values()]
    assert all(size <= compacted_topic.MOST_BYTES or size == 2_000_000 for size in sizes)


@pytest.mark.parametrize(
    ("one", "other", "follows"), [((0, 5, 900), (0, 4, 1000), True), ((0, 4, 1000), (0, 5, 900), False)]
)
def test_within_a_partition_the_offset_counts(
    one: tuple[int, int, int], other: tuple[int, int, int], follows: bool
) -> None:
    assert Newest(*one, b"").follows(Newest(*other, b"")) is follows


def test_of_two_partitions_the_later_timestamp_counts() -> None:
    assert Newest(3, 0, 1000, b"").follows(Newest(0, 99, 900, b""))
    assert not Newest(0, 99, 900, b"").follows(Newest(3, 0, 1000, b""))
