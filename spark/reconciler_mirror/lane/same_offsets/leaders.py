"""Requests to the target's leaders: for sequences and log ends, to append fillers, and to write the lane's markers."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from reconciler.kafka.client import log_ends
from reconciler.kafka.client.cluster import LATEST, NO_LEADER, ClusterClient, Key, Leader
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import RETRIABLE, BrokerError, FencedError, UnsupportedBrokerError, check
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import produce as producing
from reconciler.kafka.protocol import transactions
from reconciler.kafka.protocol.producers import describe_producers
from reconciler.kafka.protocol.producers.write_markers import UNSUPPORTED, Epochs, write_markers
from reconciler.kafka.protocol.transactions import TransactionState
from reconciler.kafka.records.batches import next_sequence, seal
from reconciler_mirror.lane.same_offsets.holes import NO_LEADER_KNOWN, Fillers, filler_batch
from reconciler_mirror.lane.same_offsets.place import DATA_EPOCH
from reconciler_mirror.lane.state import RestartError

PRODUCE_TIMEOUT_MS = 15_000
LEADERS_WITHIN, PAUSE = 20.0, 0.05
"""Seconds that a partition may be without a leader; seconds between two tries."""
COMPLETE_FIRST, COMPLETE_LAST = 0.0005, 0.05
"""Seconds between checks for written markers, first and last: usually the first one finds them."""
LATER, SOONER = 0.0002, 0.98
"""The first check of an aborted transaction moves later (seconds) after one that was too early, and sooner (a factor)
after one in time, because each check costs the coordinator a request."""
PRODUCER_FENCED = 90
MARKERS_WITHIN = 35.0
"""Longer than a leader waits for its replicas (``request.timeout.ms`` of brokers, 30 s)."""


class Leaders:
    """A ``LookPort`` of one target; ``producer_of``: the producer id of a partition's data."""

    def __init__(self, cluster: ClusterClient, producer_of: Callable[[Key], int]) -> None:
        self._cluster = cluster
        self._producer_of = producer_of

    async def sequences(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError | None]:
        """Raises ConnectionLostError and UnsupportedBrokerError."""
        answers = await _producers(self._cluster, keys)
        return {
            key: value if isinstance(value, BrokerError) else _last(value, self._producer_of(key))
            for key, value in answers.items()
        }

    async def ends(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """Raises ConnectionLostError."""
        return await log_ends.log_ends(self._cluster, keys)

    async def replicated(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """Raises ConnectionLostError."""
        return await self._cluster.list_offsets(dict.fromkeys(keys, LATEST), committed=False)


def _last(producers: describe_producers.Producers, producer_id: int) -> int | None:
    for producer in producers:
        if producer.producer_id == producer_id and producer.epoch == DATA_EPOCH and producer.last_sequence >= 0:
            return producer.last_sequence
    return None


async def _producers(
    cluster: ClusterClient, keys: Iterable[Key]
) -> Mapping[Key, describe_producers.Producers | BrokerError]:
    """The producers that leaders know (DescribeProducers). Raises ConnectionLostError and UnsupportedBrokerError."""
    by_node, answers = cluster.by_leader(keys), dict[Key, describe_producers.Producers | int]()
    answers |= dict.fromkeys(by_node.pop(NO_LEADER, ()), NO_LEADER_KNOWN)
    for node, led in by_node.items():
        connection = await cluster.control(node)
        answer = await describe_producers.ask(connection, led)
        if answer is None:
            raise UnsupportedBrokerError(
                f"broker {connection.where} does not offer DescribeProducers: offsets: same needs Kafka 3.0 or "
                "newer at the target"
            )
        answers |= {key: answer.get(key, UNSUPPORTED) for key in led}
    return {
        key: BrokerError(value, f"producers of {key[0]}-{key[1]} on {cluster.name}")
        if isinstance(value, int)
        else value
        for key, value in answers.items()
    }


class _Seen(NamedTuple):
    """An ended transaction, and log ends from then or later; None if unknown."""

    state: TransactionState | None = None
    ends: Mapping[Key, int] | None = None


class Markers:
    """The producer of markers: a transactional ``identity``, started with the classic protocol, which keeps the epoch
    over transactions. After any doubt the session begins again, and so aborts an open transaction."""

    def __init__(self, cluster: ClusterClient, identity: Identity) -> None:
        self._cluster = cluster
        self._identity = identity
        self._sequences: dict[Key, int] = {}
        self._markers_take = 0.0

    async def add(self, keys: Iterable[Key]) -> None:
        await self._identity.add_partitions(keys)
        self._require_undisturbed()

    async def append(self, batches: Mapping[Key, Fillers]) -> Mapping[Key, int]:
        """Appends fillers; repeats an unanswered batch with the same sequence. Raises BrokerError and
        ConnectionLostError."""
        producer = (self._identity.producer_id, self._identity.epoch)
        sealed: dict[Key, memoryview] = {}
        for key, fillers in batches.items():
            sealed[key] = memoryview(filler_batch(fillers.records, fillers.timestamp))
            seal(sealed[key], producer, self._sequences.get(key, 0), transactional=True)
        bases: dict[Key, int] = {}
        until = time.monotonic() + LEADERS_WITHIN
        while left := [key for key in sealed if key not in bases]:
            by_node = self._cluster.by_leader(left)
            lost = by_node.pop(NO_LEADER, [])
            sending = (self._append_at(node, {key: sealed[key] for key in led}) for node, led in by_node.items())
            for appended in await asyncio.gather(*sending):
                bases |= appended
            # Sent again as it is, with its sequence: if the first one was written, the leader answers that it is a
            # duplicate.
            if lost or len(bases) < len(sealed):
                if time.monotonic() > until:
                    raise RestartError("no leader takes the fillers of a hole")
                await asyncio.sleep(PAUSE)
                await self._cluster.refresh({topic for topic, _ in left})
        for key, fillers in batches.items():
            self._sequences[key] = next_sequence(self._sequences.get(key, 0), fillers.records)
        return bases

    async def _append_at(self, node: int, raws: Mapping[Key, memoryview]) -> dict[Key, int]:
        """Base offsets of the batches that the broker took."""
        connection = await self._cluster.connection(node, "fill")
        await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
        body = producing.pack(producing.CLASSIC, self._identity.transactional_id, raws, PRODUCE_TIMEOUT_MS)
        patience = PRODUCE_TIMEOUT_MS / 1000 + 5
        frame = await connection.send((protocol.PRODUCE, producing.CLASSIC, False), body, patience)
        with connection.read(frame):
            throttle, answers = producing.unpack(producing.CLASSIC, frame.body)
        connection.throttle(throttle)
        bases: dict[Key, int] = {}
        for answer in answers:
            if not answer.error:
                bases[answer.topic, answer.partition] = answer.base_offset
            elif answer.error not in RETRIABLE:
                check(answer.error, f"filling a hole of {answer.topic}-{answer.partition} on {self._cluster.name}")
        return bases

    async def abort(self, keys: Iterable[Key], *, announce: bool) -> Mapping[Key, int]:
        """Waits until the coordinator has nothing left to write: it repeats a marker without an answer, and a second
        marker would shift the copy by one offset."""
        wanted = tuple(keys)
        looks: list[asyncio.Task[_Seen]] = []

        def look_behind(connection: Connection) -> None:
            look = asyncio.ensure_future(self._look_behind(connection, wanted))
            look.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may never be awaited
            looks.append(look)

        try:
            await self._identity.abort(wanted if announce else (), look_behind)
            self._require_undisturbed()
            return await self._complete(wanted, await looks[0])
        finally:
            for look in looks:
                look.cancel()

    async def _look_behind(self, connection: Connection, keys: Sequence[Key]) -> _Seen:
        """Checks after the EndTxn just sent on ``connection``: a broker handles a connection's requests in order. On
        another connection it might answer first, with the transaction still open, or with the one before."""
        await asyncio.sleep(self._markers_take)
        return await self._look(connection, keys)

    async def _complete(self, keys: Sequence[Key], seen: _Seen) -> Mapping[Key, int]:
        """Waits until all markers are written; returns log ends. ``seen``: the first check. EndTxn is answered."""
        pause, until, first = COMPLETE_FIRST, time.monotonic() + LEADERS_WITHIN, True
        while True:
            state, ends = seen
            # The first check rode on the connection of EndTxn. Where it brought nothing, the coordinator is asked
            # again, and the ends are older than its answer.
            if state is None or state.error:
                state, ends = await self._identity.state(), None
            if state is None:
                raise UnsupportedBrokerError(
                    f"{self._cluster.name} does not report the state of transaction {self._identity.transactional_id}: "
                    "offsets: same needs Kafka 3.0 or newer, and the right Describe on it"
                )
            if not state.open:
                self._markers_take *= SOONER if first else 1.0
                return ends or await self._ends(keys)
            if time.monotonic() > until:
                raise RestartError(f"markers of {self._identity.transactional_id} are not written")
            self._markers_take = min(COMPLETE_LAST, self._markers_take + LATER)
            await asyncio.sleep(pause)
            pause, first = min(COMPLETE_LAST, pause * 1.5), False
            seen = await self._look(await self._identity.coordinator(), keys)

    async def _look(self, coordinator: Connection, keys: Sequence[Key]) -> _Seen:
        """The transaction's state, and log ends in the same exchange if one broker coordinates it and leads all
        partitions: it answers in order, so the log ends are not older than the state."""
        by_node = self._cluster.by_leader(keys)
        (node,) = by_node if len(by_node) == 1 else (NO_LEADER,)
        together = node != NO_LEADER and await self._cluster.control(node) is coordinator
        if coordinator.closed is not None or coordinator.versions.get(transactions.DESCRIBE_TRANSACTIONS) is None:
            return _Seen()
        with coordinator.gathered():
            sent = transactions.send(coordinator, str(self._identity.transactional_id))
            asked = log_ends.ask(self._cluster, coordinator, keys) if together else None
        state = await transactions.answered(coordinator, sent)
        ends = await asked.ends() if asked is not None else {}
        known = {key: end for key, end in ends.items() if isinstance(end, int)}
        return _Seen(state, known if len(known) == len(keys) else None)

    async def _ends(self, keys: Sequence[Key]) -> Mapping[Key, int]:
        """Raises BrokerError and ConnectionLostError."""
        until = time.monotonic() + LEADERS_WITHIN
        while True:
            answers = await log_ends.log_ends(self._cluster, keys)
            errors = [error for error in answers.values() if isinstance(error, BrokerError)]
            if not errors:
                return {key: end for key, end in answers.items() if isinstance(end, int)}
            if not errors[0].retriable or time.monotonic() > until:
                raise errors[0]
            await asyncio.sleep(PAUSE)
            await self._cluster.refresh({topic for topic, _ in keys})

    def _require_undisturbed(self) -> None:
        if self._identity.disturbed:
            raise RestartError("the coordinator went away while a hole was filled")


class MarkerRequests:
    """A ``LeaderPort`` of one target. ``producer_id``: of markers, never of data; ``identity``: the session's."""

    def __init__(self, cluster: ClusterClient, producer_id: int, identity: Identity) -> None:
        self._cluster = cluster
        self._producer_id = producer_id
        self._identity = identity

    async def require_current(self) -> None:
        """Raises FencedError if another session has begun since, or may have, and ConnectionLostError."""
        state = await self._identity.state()
        holder = (self._identity.producer_id, self._identity.epoch)
        if state is None or (state.producer_id, state.epoch) != holder:
            raise FencedError(PRODUCER_FENCED, f"transactional id {self._identity.transactional_id}")

    async def last_markers(self, keys: Iterable[Key]) -> Mapping[Key, Epochs | BrokerError]:
        """Raises ConnectionLostError and UnsupportedBrokerError."""
        last: dict[Key, Epochs | BrokerError] = {}
        for key, value in (await _producers(self._cluster, keys)).items():
            if isinstance(value, BrokerError):
                last[key] = value
            else:
                markers = [Epochs(p.epoch, p.coordinator_epoch) for p in value if p.producer_id == self._producer_id]
                last[key] = markers[0] if markers else Epochs()
        return last

    async def ends(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """Raises ConnectionLostError."""
        return await log_ends.log_ends(self._cluster, keys)

    async def leaders(self, keys: Iterable[Key]) -> Mapping[Key, tuple[Leader, Connection]]:
        """Raises ConnectionLostError."""
        known = {key: self._cluster.leader(*key) for key in keys}
        return {
            key: (leader, await self._cluster.connection(leader.node, "fill"))
            for key, leader in known.items()
            if leader is not None and leader.node != NO_LEADER
        }

    async def write_markers(self, markers: Mapping[Key, Epochs], leaders: Mapping[Key, object]) -> Mapping[Key, int]:
        """Raises ConnectionLostError: then the brokers may have written the markers, or may still write them."""
        led: dict[Connection, dict[Key, Epochs]] = {}
        errors: dict[Key, int] = {}
        now = await self.leaders(markers)
        for key, epochs in markers.items():
            if now.get(key) == leaders[key]:
                led.setdefault(now[key][1], {})[key] = epochs
            else:
                errors[key] = NO_LEADER_KNOWN
        sending = (
            write_markers(connection, self._producer_id, named, MARKERS_WITHIN) for connection, named in led.items()
        )
        for written in await asyncio.gather(*sending):
            errors |= written
        return errors
