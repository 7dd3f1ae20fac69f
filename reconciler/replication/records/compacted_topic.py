"""A small compacted topic over our own connections: the newest record of each key, and compare-and-set of one.

The end of a partition comes from its leader, never from its last record: the last offsets may hold a transaction
marker, or be compacted away (Kafka Connect's ``KafkaBasedLog`` compares positions for the same reason).
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from reconciler.kafka.client import errors
from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient, Key, TopicMetadata
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol.fetch import FetchedPartition
from reconciler.kafka.records.batches import CommittedFilter, CorruptBatchError, scan
from reconciler.kafka.records.fields import headers_at, headers_of
from reconciler.kafka.records.records import key_and_value, records_of

PATIENCE_S = 10.0
"""Seconds of retries for transient errors: a leader election, a restarting broker."""
READ_S, WRITE_S = 30.0, 15.0
STUCK_S = 2.0
"""A transaction takes milliseconds: one that a reader of committed records waits longer for may hang."""
ATTEMPTS = 5
"""Writers that come at the same moment fence each other; one of them comes through."""
TRANSACTION_TIMEOUT_MS = 10_000
MOST_BYTES = 500_000
"""Limit of one batch, below the default of ``max.message.bytes``. A larger record gets a separate batch."""
_NO_END = 1 << 63
_PAUSE_S, _OTHERS_ASKED, _OTHER_S = 0.1, 2, 2.0
# UNKNOWN_SERVER_ERROR: a coordinator that fences in the middle of an EndTxn. What producer ids and sequences have come
# to (45, 48, 49, 59), and a transaction that can only be aborted (120): whatever it was, fence and read again.
_BEGIN_AGAIN = errors.FENCED | {-1, 45, 48, 49, 59, 120}

T = TypeVar("T")
Entries = Mapping[str, bytes | None]
"""Values by key; None deletes."""


class AbsentTopicError(errors.BrokerError):
    """The topic does not exist, as several brokers report; a single broker may not know it yet."""


class RecordFencedError(Exception):
    """Another writer called ``fence`` since we did. Fence and read again: our record may still be written."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest record of one key."""

    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None
    """None: the key was deleted."""
    headers: Mapping[str, bytes] = field(default_factory=dict)
    """By name."""

    def follows(self, other: Newest) -> bool:
        """Within a partition by offset: a clock may have been set back. Partitions that were added need a clock."""
        if self.partition == other.partition:
            return self.offset >= other.offset
        return self.timestamp_ms >= other.timestamp_ms


class CompactedTopic:
    """For one event loop, one call at a time. Raises WireError: the topic's content is then unknown.

    ``committed``: read_committed, which waits for open transactions. ``tail``: offsets before the end of each partition
    to read first, the rest on demand; 0: all. ``waits``: gets each error that is retried. ``unstick``: called while
    waiting for a transaction that may hang.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        topic: str,
        *,
        committed: bool = False,
        tail: int = 0,
        patience: float = PATIENCE_S,
        waits: Callable[[errors.BrokerError], None] = lambda _: None,
        unstick: Callable[[ClusterClient], Awaitable[None]] | None = None,
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.newest: dict[str, Newest] = {}
        """Key -> newest record, including tombstones."""
        self.unreadable: dict[tuple[int, int], str] = {}
        """(partition, first offset) -> error of an unreadable batch."""
        self._committed, self._tail, self._patience = committed, tail, patience
        self._waits, self._unstick = waits, unstick
        self._log: object = None
        """Which log was read: the topic's id, and the leader epoch of each partition."""
        self._next: dict[int, int] = {}
        self._unread: dict[int, tuple[int, int]] = {}
        self._moved: set[str] = set()
        self._writers: dict[str, tuple[Identity, int]] = {}
        """transactional.id -> producer identity, not fenced as far as known, and the next sequence number."""
        self._held: dict[tuple[str, str], bytes | None] = {}
        """(transactional.id, key) -> value, valid until the writer is fenced."""

    # reading

    async def read(self, *, whole: bool = True, required: bool = False) -> Mapping[str, Newest] | None:
        """Reads to the present end; None if the topic does not exist.

        ``whole``: False to skip records before the first tail. ``required``: wait for a missing topic, which was just
        created, or which a broker does not know yet.
        """
        try:
            async with asyncio.timeout(READ_S + self._patience):
                there = await self._patiently(lambda: self._advance(whole, required))
        except TimeoutError:
            raise errors.ConnectionLostError(f"{self.topic} could not be read to its end in {READ_S:.0f} s") from None
        return self.newest if there else None

    async def exists(self) -> bool:
        return await self._patiently(self._described) is not None

    async def follow(self, wait_s: float = 0.5) -> AsyncGenerator[frozenset[str], None]:
        """Yields keys with new records: first all keys, then changed ones as they come, or none after ``wait_s``.

        Without end. Raises WireError without patience, AbsentTopicError where there is no topic: follow again.
        """
        if not await self._advance(whole=True, required=False):
            raise self._absent()
        yield self._taken()
        # One request waits at each broker. A broker that is silent delays the records of its own partitions alone.
        fetching: dict[asyncio.Task[None], int] = {}
        try:
            while True:
                by_node = self.cluster.by_leader(self._keys(self._next))
                for node in by_node.keys() - fetching.values():
                    offsets = {key: self._next[key[1]] for key in by_node[node]}
                    fetching[asyncio.create_task(self._fetch(offsets, wait_s))] = node
                done, _ = await asyncio.wait(fetching, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    del fetching[task]
                    task.result()
                yield self._taken()
        finally:
            for task in fetching:
                task.cancel()
            await asyncio.gather(*fetching, return_exceptions=True)

    def values(self, *prefixes: str) -> Mapping[str, bytes]:
        """Key -> value of the read records, with one of ``prefixes``, or of all."""
        return {
            key: newest.value
            for key, newest in self.newest.items()
            if newest.value is not None and key.startswith(prefixes or "")
        }

    def take(self, key: str, newest: Newest) -> None:
        """A record that was read; each once, in the order of its partition."""
        if key not in self.newest or newest.follows(self.newest[key]):
            self.newest[key] = newest
            self._moved.add(key)

    async def _advance(self, whole: bool, required: bool) -> bool:
        """Reads on to the present ends; returns whether the topic exists. A log that is not the one that was read
        before is read again from its beginning. ``whole``: also what lies before the tail that was read first."""
        described = await self._described()
        if described is None:
            if required:
                raise self._absent()
            self._forget()
            return False

        # High watermarks, also for committed records: a transaction that is open before them is waited for.
        ends = {key[1]: end for key, end in (await logs.ends(self.cluster, self._keys(described.leaders))).items()}

        # A recreated topic has another id, or ends before the place that was read. A new leader may lack
        # records that the one before it had, and have others in their place. So each is read from its beginning.
        log = (described.topic_id, {partition: leader.epoch for partition, leader in described.leaders.items()})
        if log != self._log or any(ends.get(partition, 0) < at for partition, at in self._next.items()):
            self._forget()
            self._log = log
        if new := self._keys(ends.keys() - self._next.keys()):
            for (_, partition), begin in (await logs.begins(self.cluster, new)).items():
                start = max(begin, ends[partition] - self._tail) if self._tail else begin
                self._next[partition] = start
                if begin < start:
                    self._unread[partition] = (begin, start)

        await self._read(self._next, ends)
        if whole and self._unread:
            begins = {partition: begin for partition, (begin, _) in self._unread.items()}
            starts = {partition: start for partition, (_, start) in self._unread.items()}
            await self._read(begins, starts, beyond=False)
            self._unread.clear()
        return True

    async def _described(self) -> TopicMetadata | None:
        """Metadata; None if several brokers report that the topic does not exist, since one may not know it yet."""
        await self.cluster.refresh([self.topic])
        described = self.cluster.topics[self.topic]
        others = self.cluster.brokers[:_OTHERS_ASKED] if len(self.cluster.brokers) > 1 else ()
        for node in others if described.error == errors.UNKNOWN_TOPIC else ():
            try:
                async with asyncio.timeout(_OTHER_S):
                    await self.cluster.refresh([self.topic], await self.cluster.control(node))
            except (errors.ConnectionLostError, TimeoutError):
                continue  # what the first one said counts
            described = self.cluster.topics[self.topic]
            if described.error != errors.UNKNOWN_TOPIC:
                break
        if described.error == errors.UNKNOWN_TOPIC:
            return None
        if described.error:
            raise errors.BrokerError(described.error, f"topic {self.topic} on {self.cluster.name}")
        return described

    async def _read(self, offsets: dict[int, int], ends: Mapping[int, int], *, beyond: bool = True) -> None:
        """Advances ``offsets`` to at least ``ends``, and takes records up to there; ``beyond``: also fetched records
        after the end."""
        moved = time.monotonic()
        wanted = {(self.topic, partition): at for partition, at in offsets.items() if partition in ends}
        until = {(self.topic, partition): end for partition, end in ends.items()}
        async for answer in logs.read(self.cluster, wanted, until, committed=self._committed):
            before = offsets[answer.partition]
            self._take(answer, before, _NO_END if beyond else ends[answer.partition])
            offsets[answer.partition] = logs.next_offset(answer, before)
            if offsets[answer.partition] > before:
                moved = time.monotonic()
            elif self._unstick is not None and time.monotonic() > moved + STUCK_S:
                await self._unstick(self.cluster)
                moved = time.monotonic()
        offsets.update({partition: max(offsets[partition], end) for partition, end in ends.items()})

    async def _fetch(self, offsets: Mapping[Key, int], wait_s: float) -> None:
        """Records from ``offsets`` on of one leader, or none after ``wait_s``."""
        async for answer in logs.fetched(self.cluster, offsets, int(wait_s * 1000), committed=self._committed):
            before = self._next[answer.partition]
            self._take(answer, before, _NO_END)
            self._next[answer.partition] = logs.next_offset(answer, before)

    def _take(self, answer: FetchedPartition, first: int, end: int) -> None:
        """Records from ``first`` up to ``end``: whole batches arrive, which may begin before and reach beyond. A batch
        that cannot be read is noted, and those behind it still count."""
        keep = CommittedFilter(answer.records, answer.aborted if self._committed else ())
        for batch in scan(answer.records):
            if not keep.delivers(batch):
                continue
            try:
                for record in records_of(answer.records, batch):
                    key, value = key_and_value(record)
                    if key is not None and first <= record.offset < end:
                        pairs = headers_of(record.tail, headers_at(record.tail))
                        headers = {name.decode(errors="replace"): data for name, data in pairs if data is not None}
                        newest = Newest(answer.partition, record.offset, record.timestamp, value, headers)
                        self.take(key.decode(errors="replace"), newest)
            except (CorruptBatchError, errors.MalformedResponseError, IndexError) as error:
                self.unreadable[answer.partition, batch.base] = str(error)

    def _taken(self) -> frozenset[str]:
        moved, self._moved = self._moved, set()
        return frozenset(moved)

    def _keys(self, partitions: Iterable[int]) -> list[Key]:
        return [(self.topic, partition) for partition in sorted(partitions)]

    def _absent(self) -> AbsentTopicError:
        return AbsentTopicError(errors.UNKNOWN_TOPIC, f"topic {self.topic} on {self.cluster.name}")

    def _forget(self) -> None:
        """Forgets everything read: the topic was deleted or recreated."""
        self._moved |= self.newest.keys()
        self.newest.clear()
        self.unreadable.clear()
        self._next.clear()
        self._unread.clear()
        self._log = None

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Retries transient errors, and continues where the last attempt ended."""
        began = time.monotonic()
        while True:
            try:
                return await ask()
            except errors.ConnectionLostError:
                if time.monotonic() > began + min(PATIENCE_S, self._patience):
                    raise
            except errors.BrokerError as error:
                if error.code == errors.OUT_OF_RANGE:  # the log start has overtaken this position
                    self._next.clear()
                    self._unread.clear()
                elif error.code not in errors.RETRIABLE:
                    raise
                if time.monotonic() > began + self._patience:
                    raise
                self._waits(error)
            await asyncio.sleep(_PAUSE_S)

    # writing

    async def append(
        self,
        entries: Iterable[tuple[str | bytes, bytes | None]],
        partition: int | None = None,
        *,
        required: bool = False,
        at_ms: int | None = None,
    ) -> None:
        """Appends records in order, without reading; None deletes. ``partition``: None for librdkafka's partitioner.
        ``required``: as for ``read``, ``at_ms``: as for ``small_topics.append``.

        A record without a response is sent again, so the topic may have it twice.
        """

        async def describe() -> TopicMetadata | None:
            described = await self._described()
            if described is None and required:
                raise self._absent()
            return described

        described = await self._patiently(describe)
        if described is None:
            raise self._absent()
        # By CRC-32 of the key, librdkafka's default partitioner: records of one key stay in one partition, which
        # compaction needs, also those that releases before this client wrote.
        count = len(described.leaders)
        keyed = ((key.encode() if isinstance(key, str) else key, value) for key, value in entries)
        placed = ((zlib.crc32(key) % count if partition is None else partition, key, value) for key, value in keyed)
        for records in _batches(placed):
            await self._patiently(partial(logs.append, self.cluster, self.topic, records, at_ms))

    async def fence(self, writer: str) -> None:
        """Fences every earlier writer with that transactional.id. Committed records then stay unchanged until
        ``write``, or ``write`` raises RecordFencedError."""
        self._let_go(writer)
        identity = Identity(self.cluster, writer, "", timeout_ms=TRANSACTION_TIMEOUT_MS, patience=WRITE_S)
        await self._patiently(identity.start)
        self._writers[writer] = identity, 0

    async def write(self, writer: str, entries: Entries, partition: int = 0) -> None:
        """All of ``entries`` in one transaction, or an error: then whether they were written is known only after
        ``fence`` and ``read``."""
        held = self._writers.get(writer)
        self._let_go(writer)
        if held is None:
            raise RecordFencedError
        identity, sequence = held
        try:
            async with asyncio.timeout(WRITE_S):
                if not identity.version_2:
                    await identity.add_partitions([(self.topic, partition)])
                pairs = [(key.encode(), value) for key, value in entries.items()]
                await self._patiently(
                    lambda: logs.append_in(self.cluster, (self.topic, partition), pairs, identity, sequence)
                )
                # Nothing counts as written before this answer: until then a later holder may abort the transaction.
                restarts = await identity.end(committed=True)
        except TimeoutError:
            raise errors.ConnectionLostError(f"{self.topic} took no record in {WRITE_S:.0f} s") from None
        except errors.BrokerError as error:
            if error.code in _BEGIN_AGAIN:
                raise RecordFencedError from None
            raise
        # Kept only now. After any error the writer has to fence again, and then reads what became of its records.
        self._writers[writer] = identity, 0 if restarts else sequence + len(pairs)

    async def swap(self, writer: str, key: str, before: bytes | None, after: bytes | None) -> bool:
        """Writes ``after`` if ``before`` is still the value; False when it is not, or there is no such topic.

        A key that is written again costs one transaction, as long as no other writer wants it.
        """
        for _ in range(ATTEMPTS):
            if writer not in self._writers or (writer, key) not in self._held:
                if await self.read() is None:
                    return False
                await self.fence(writer)
                await self.read(required=True)
                self._held[writer, key] = self.values(key).get(key)
            if self._held[writer, key] != before:
                self._let_go(writer)  # the caller reads again before it asks again
                return False
            try:
                await self.write(writer, {key: after})
            except RecordFencedError:
                continue
            self._held[writer, key] = after
            return True
        return False

    def _let_go(self, writer: str) -> None:
        self._writers.pop(writer, None)
        self._held = {place: value for place, value in self._held.items() if place[0] != writer}


def _batches(placed: Iterable[tuple[int, bytes, bytes | None]]) -> Iterator[Mapping[int, list[logs.KeyValue]]]:
    """Records of several partitions, of which each gets one batch that its topic takes."""
    records: dict[int, list[logs.KeyValue]] = {}
    sizes: dict[int, int] = {}
    for partition, key, value in placed:
        size = len(key) + len(value or b"") + 20
        if sizes.get(partition, 0) and sizes[partition] + size > MOST_BYTES:
            yield records
            records, sizes = {}, {}
        records.setdefault(partition, []).append((key, value))
        sizes[partition] = sizes.get(partition, 0) + size
    if records:
        yield records
