"""Transactional producer: producer id and epoch, fencing by transactional.id, commit and abort, both versions.

Classic (before Kafka 4.0, or transaction.version below 2): partitions are announced, the epoch stays, sequences go on.
KIP-890 version 2: the leader adds partitions by itself, every EndTxn brings a new epoch and sequences restart at 0.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from reconciler.kafka.client import errors
from reconciler.kafka.client.cluster import GROUP, TRANSACTION, ClusterClient, Key
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import produce as producing
from reconciler.kafka.protocol import transactions as transaction_requests
from reconciler.kafka.protocol.groups import group_offsets
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.kafka.protocol.transactions import EndedTransaction, TransactionalProducer, TransactionState


class Endings:
    """Results of the transactions of one transactional.id, as far as this process knows.

    All transactions of this process were committed, except those that a fence or a closing session aborted.
    """

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self._known: dict[tuple[int, int], bool | None] = {}

    def began(self, producer_id: int, epoch: int) -> None:
        self._first.setdefault(producer_id, epoch)

    def ended(self, producer_id: int, epoch: int, *, committed: bool, version_2: bool) -> None:
        """Notes a result. In the classic protocol an epoch has many transactions, so one abort makes all of them
        uncertain."""
        uncertain = not committed and not version_2 and epoch >= self._first.get(producer_id, epoch + 1)
        self._known[producer_id, epoch] = None if uncertain else committed

    def of(self, producer_id: int, epoch: int) -> bool | None:
        """True: committed. None: not known."""
        if (producer_id, epoch) in self._known:
            return self._known[producer_id, epoch]
        first = self._first.get(producer_id)
        return True if first is not None and epoch >= first else None


class Aborted(Endings):
    """For a transactional.id with only aborted transactions."""

    def of(self, producer_id: int, epoch: int) -> bool | None:  # noqa: ARG002 - of any
        return False


TRANSACTION_TIMEOUT_MS = 60_000
"""Timeout after which the coordinator aborts a killed holder's transaction; read_committed consumers wait until
then."""
RETRIED_FOR = 25.0
"""Seconds of retries; shorter than the transaction timeout, so that a retry is still about the same transaction."""
_PAUSE_FIRST, _PAUSE_LAST = 0.005, 0.5
_COMPLETE_LOOK, _COMPLETE_WITHIN = 0.0005, 0.05
"""Seconds between two checks for a transaction's markers, and in total (``complete``)."""
_FAR = 0.02
"""Round trip in seconds from which on such a check takes longer than it saves."""
_NOTHING_OPEN = frozenset({48, 49})  # INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING: expired, or another's by now
_AGAIN = errors.COORDINATOR_MOVED | {7, 13, errors.CONCURRENT_TRANSACTIONS}

T = TypeVar("T")


class Identity:
    """A producer id and epoch. ``transactional_id`` None: idempotent only, no producer is fenced.

    A request whose outcome stays unknown raises ConnectionLostError or BrokerError: then ``start`` again, which
    resolves what was open, and read the positions again. FencedError: another holder did that. A broker answers one
    request a connection at a time: identities that work at once have connections of their own by their ``purpose``.

    ``group``: of the positions that it commits, empty for none. ``left``: whether the transaction that ``start`` found
    was committed; None when there was none or it is not known. ``disturbed``: a coordinator went away while a
    transaction was ended, so a marker may be missing. ``commit_unanswered``: the end of a transaction was asked for,
    and no answer has confirmed it. ``found``: the state before an unanswered ``start`` of its successor.
    ``endings`` lasts longer than one identity, where the caller keeps it.
    ``classic``: the classic protocol also where brokers offer version 2. ``timeout_ms``: after so long a coordinator
    aborts an open transaction. ``patience``: seconds for each request that may still succeed.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        transactional_id: str | None,
        group: str,
        purpose: str = "control",
        endings: Endings | None = None,
        *,
        classic: bool = False,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        patience: float = RETRIED_FOR,
    ) -> None:
        self.transactional_id = transactional_id
        self._purpose = purpose
        self.producer_id = -1
        self.epoch = -1
        self.version_2 = False
        # Whether the transaction that a former holder had under way was committed; None: it had none, or that is not
        # known.
        self.left: bool | None = None
        self.endings = endings or Endings()
        self.disturbed = False
        self.commit_unanswered = False
        self.found: TransactionState | None = None
        self._tells_state = True
        self._classic = classic
        self._timeout_ms = timeout_ms
        self._patience = patience
        self._cluster = cluster
        self._group = group
        # Broker by kind (GROUP, TRANSACTION), until one of them answers that it is another.
        self._coordinators: dict[int, int] = {}

    @property
    def transactional(self) -> bool:
        return self.transactional_id is not None

    @property
    def produce_version(self) -> int:
        return producing.VERSION_2 if self.version_2 else producing.CLASSIC

    async def prepare(self) -> None:
        """Finds the coordinators and connects to them, so that nothing of that is left to do later. Does not fence."""
        kinds = (TRANSACTION, GROUP) if self.transactional else (GROUP,)
        for kind in kinds:
            await self._patiently(kind, _itself)

    async def start(self, former: Identity | None = None) -> None:
        """A new epoch: fences every earlier holder and aborts (or completes) what it left open.

        ``former``: what the same holder used until now. Then it goes on only if no other has begun since (KIP-360),
        else FencedError: a holder that was replaced while its transaction ended gets INVALID_TXN_STATE from a broker
        of version 2, and would fence its successor if it just began again.
        """
        # Whether the open transaction of the former holder was committed is known only before the new epoch begins:
        # from then on the coordinator reports the new one.
        before = await self.state() if self.transactional else None
        expected = (-1, -1)
        if former is not None and former.producer_id >= 0 and self.transactional:
            before = await self._let_go(former, before)
            expected = (self.producer_id, self.epoch)
            if before is not None and former.commit_unanswered and former.version_2 and before.is_commit_of(*expected):
                expected = (self.producer_id, before.epoch)
            if former.found is not None and (before is None or before.committed is None):
                before = former.found
            # If no answer comes, the next start of this holder has to know what this one found and asked for.
            former.producer_id, former.epoch = expected
            former.commit_unanswered, former.found = False, before

        async def ask(connection: Connection) -> Any:
            request = protocol.InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=expected[0],
                producer_epoch=expected[1],
                version=connection.version(protocol.InitProducerIdRequest),
            )
            answer = await connection.call(request)
            errors.check(answer.error_code, f"InitProducerId of {self.transactional_id or 'an idempotent producer'}")
            self.version_2 = self.transactional and not self._classic and speaks_version_2(connection)
            return answer

        answer = await self._patiently(TRANSACTION if self.transactional else None, ask)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        if former is not None:
            former.found = None
        self.left = before.committed if before is not None else None
        if before is not None and self.left is not None:
            for epoch in before.epochs(version_2=self.version_2):
                self.endings.ended(before.producer_id, epoch, committed=self.left, version_2=self.version_2)
        self.endings.began(self.producer_id, self.epoch)

    async def _let_go(self, former: Identity, before: TransactionState | None) -> TransactionState | None:
        """Aborts the same holder's open transaction, because InitProducerId would abort any holder's. Returns the state
        that shows how the last transaction ended."""
        self.producer_id, self.epoch, self.version_2 = former.producer_id, former.epoch, former.version_2
        try:
            await self.end(committed=False)
        except errors.FencedError:
            # An unanswered start of this holder raises the epoch, too. InitProducerId tells it from that of another
            # holder (KIP-360) where nothing is open; else it would abort that.
            now = await self.state() if former.found is not None else None
            if now is None or now.state != "Empty":
                raise
        except errors.BrokerError as error:
            if error.code not in _NOTHING_OPEN:
                raise
            return await self.state() if before is not None and before.state == "Ongoing" else before
        finally:
            self.disturbed = False  # missing markers are searched for before any write
        return before

    async def finish(self, keys: Iterable[Key], *, committed: bool) -> None:
        """Writes the marker of a transaction that lacks it into ``keys`` and the group's positions.

        By an empty transaction of the classic protocol, in which a client names partitions itself; brokers take it in
        either protocol. The group's coordinator must serve, or its marker would be left out again.
        """
        named = tuple(keys)
        if not named and not self._group:
            return
        if self._group:
            await self._patiently(GROUP, _itself)
        if named:
            await self.add_partitions(named)
        if self._group:
            await self._patiently(TRANSACTION, self._add_offsets)
        await self._end(committed=committed, newest=transaction_requests.END_VERSION)

    async def add_partitions(self, keys: Iterable[Key]) -> None:
        """Classic only: announces partitions before their first batch of a transaction.

        One that was sent and not answered may come late and open another transaction: then ``disturbed``.
        """
        api = (transaction_requests.ADD_PARTITIONS, transaction_requests.ADD_VERSION, True)
        body, unanswered = transaction_requests.pack_add(self._holder, keys), False

        async def ask(connection: Connection) -> None:
            nonlocal unanswered
            self.disturbed |= unanswered
            unanswered = True
            codes = await connection.ask(api, body, transaction_requests.unpack_add)
            unanswered = False
            errors.check_each(codes, _adding)

        await self._patiently(TRANSACTION, ask)

    async def abort(self, joining: Iterable[Key], sent: Callable[[Connection], None]) -> None:
        """Classic protocol only: aborts the transaction. A transaction without records gets its partitions now: both
        requests are pipelined, since a broker processes requests of a connection in order.

        ``sent``: called after sending, with the connection; its requests are processed after these, and their results
        only count if this method returns. Nothing is retried: ``disturbed`` after a transient error or without a
        response. Raises BrokerError, FencedError and ConnectionLostError; PartitionsDeniedError leaves no transaction.
        """
        connection = await self.coordinator()
        await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
        before, self.disturbed = self.disturbed, True
        pending = transaction_requests.send_abort(connection, self._holder, [*joining])
        sent(connection)
        codes, error = await transaction_requests.aborted(connection, pending)
        try:
            errors.check_each(codes, _adding)
        except errors.PartitionsDeniedError:
            self.disturbed = before
            raise
        if error not in _AGAIN:
            errors.check(error, f"aborting a transaction of {self.transactional_id}")
            self.disturbed = before

    async def coordinator(self) -> Connection:
        """The connection on which the transactional.id is spoken for. Raises as ``start``."""
        return await self._patiently(TRANSACTION, _itself)

    @property
    def _holder(self) -> TransactionalProducer:
        return TransactionalProducer(str(self.transactional_id), self.producer_id, self.epoch)

    async def commit_positions(self, positions: Mapping[Key, CommittedOffset]) -> None:
        """Into the open transaction, or at once for an idempotent producer. Keys are target topic and partition.
        PartitionsDeniedError: all others are committed."""
        if not positions:
            return
        if self.transactional and not self.version_2:
            await self._patiently(TRANSACTION, self._add_offsets)
        await self._patiently(GROUP, lambda connection: self._commit_offsets(connection, positions))

    async def end(self, *, committed: bool) -> bool:
        """Ends the transaction; True: the epoch changed, so sequences of all partitions restart at 0."""
        self.commit_unanswered = committed
        newest = transaction_requests.END_NEWEST if self.version_2 else transaction_requests.END_VERSION
        ended = await self._end(committed=committed, newest=newest)
        self.commit_unanswered = False
        if not self.version_2:
            return False
        self.producer_id, self.epoch = ended.producer_id, ended.epoch
        return True

    async def _end(self, *, committed: bool, newest: int) -> EndedTransaction:
        """EndTxn with retries while the coordinator moves. A retry may find a transaction that the first attempt ended,
        so the producer counts as disturbed afterwards."""
        tried, key = 0, transaction_requests.END

        async def ask(connection: Connection) -> EndedTransaction:
            version = connection.negotiated(key, transaction_requests.END_VERSION, newest, "EndTxn")
            body = transaction_requests.pack_end(self._holder, committed=committed)
            nonlocal tried
            tried += 1
            read = partial(transaction_requests.unpack_end, version=version)
            ended = await connection.ask((key, version, True), body, read)
            errors.check(ended.error, f"EndTxn of {self.transactional_id}")
            return ended

        ended = await self._patiently(TRANSACTION, ask)
        self.disturbed |= tried > 1
        return ended

    async def state(self) -> TransactionState | None:
        """The coordinator's state (DescribeTransactions), without fencing. None if the broker is older, or refuses."""
        return await self._patiently(TRANSACTION, self._state)

    async def complete(self) -> None:
        """Version 2: returns when the markers of the transaction that was just ended are written.

        A batch that begins the next transaction before that is held back by its broker, which asks again only every
        20 ms (``add.partitions.to.txn.retry.backoff.ms``). Asking a far coordinator would take longer than that. Never
        raises for a broker that does not say.
        """
        until = time.monotonic() + _COMPLETE_WITHIN
        while self._tells_state and time.monotonic() < until:
            coordinator = await self._coordinator(TRANSACTION)
            if coordinator.round_trip > _FAR:
                return
            transaction = await self._state(coordinator)
            if transaction is None or not transaction.undecided:
                return
            await asyncio.sleep(_COMPLETE_LOOK)

    async def _state(self, connection: Connection) -> TransactionState | None:
        """The state; None if the broker is older, or refuses."""
        transaction = await transaction_requests.ask(connection, str(self.transactional_id))
        if transaction is not None and transaction.error in _AGAIN:
            raise errors.BrokerError(transaction.error, f"state of {self.transactional_id}")
        self._tells_state = transaction is not None and transaction.error not in errors.DENIED
        return None if transaction is None or transaction.error else transaction

    async def _add_offsets(self, connection: Connection) -> None:
        """AddOffsetsToTxn of the classic protocol (KIP-98): the group joins the transaction like a partition, before
        its first TxnOffsetCommit. Version 2 (KIP-890) leaves it out."""
        request = protocol.AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=self._group,
            version=connection.version(protocol.AddOffsetsToTxnRequest),
        )
        errors.check((await connection.call(request)).error_code, f"adding group {self._group} to the transaction")

    async def _commit_offsets(self, connection: Connection, positions: Mapping[Key, CommittedOffset]) -> None:
        """TxnOffsetCommit inside a transaction, else OffsetCommit without a member, which coordinators accept only for
        a group without members. The response must contain every position: a missing one would count as committed."""
        if self.transactional:
            key, lowest = transaction_requests.COMMIT_OFFSETS, transaction_requests.COMMIT_VERSION
            newest = transaction_requests.COMMIT_NEWEST if self.version_2 else lowest
            version = connection.negotiated(key, lowest, newest, "TxnOffsetCommit")
            body = transaction_requests.pack_commit(self._holder, self._group, positions)
        else:
            key, newest = group_offsets.OFFSET_COMMIT, group_offsets.COMMIT_VERSION
            version = connection.negotiated(key, newest, newest, "OffsetCommit")
            body = group_offsets.pack_commit(self._group, positions)
        codes = await connection.ask((key, version, True), body, group_offsets.unpack_commit)
        errors.check_each(codes, lambda partition: f"position of {partition} in group {self._group}")
        if len(codes) != len(positions):
            raise errors.BrokerError(
                -1, f"{len(codes)} of {len(positions)} positions in group {self._group} were answered"
            )

    async def _patiently(self, kind: int | None, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """Repeats a coordinator request while it may still succeed. With the same id and epoch each may be repeated."""
        pause, until = _PAUSE_FIRST, time.monotonic() + self._patience
        while True:
            try:
                return await ask(await self._coordinator(kind))
            except errors.ConnectionLostError:
                failure: int | None = kind
                if time.monotonic() > until:
                    raise
            except errors.BrokerError as error:
                if error.code not in _AGAIN or time.monotonic() > until:
                    raise
                failure = kind if error.code in errors.COORDINATOR_MOVED else None
            if failure is not None:
                self._coordinators.pop(failure, None)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_LAST)

    async def _coordinator(self, kind: int | None) -> Connection:
        """A connection to the coordinator of the group or of the transactional id; None: to any broker, for requests of
        idempotent producers."""
        if kind is None:
            return await self._cluster.connection(None, self._purpose)
        node = self._coordinators.get(kind)
        if node is None:
            key = self._group if kind == GROUP else self.transactional_id
            node = self._coordinators[kind] = await self._cluster.coordinator(str(key), kind)
        return await self._cluster.connection(node, self._purpose)


def _adding(partition: str) -> str:
    return f"adding {partition} to the transaction"


async def _itself(connection: Connection) -> Connection:
    return connection


def speaks_version_2(connection: Connection) -> bool:
    """KIP-890 part 2 is on by the finalized feature transaction.version, and the broker has every request for it."""
    newest = {key: high for key, (_, high) in connection.versions.items()}
    return (
        connection.features.get("transaction.version", 0) >= 2
        and newest.get(protocol.PRODUCE, 0) >= producing.VERSION_2
        and newest.get(transaction_requests.END, 0) >= transaction_requests.END_NEWEST
        and newest.get(transaction_requests.COMMIT_OFFSETS, 0) >= transaction_requests.COMMIT_NEWEST
    )
