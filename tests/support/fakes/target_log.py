"""Partitions of a target cluster, as far as producers can tell: sequences, epochs, transactions, markers, failovers.

After Kafka's ProducerAppendInfo, ProducerStateEntry (the last five batches are known again), TransactionCoordinator
(a producer that is fenced has its open transaction aborted under a higher epoch) and its marker channel. Every request
travels for a while and is carried out even when who sent it is gone by then, and so is its answer.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

OUT_OF_ORDER, DUPLICATE, INVALID_EPOCH, INVALID_STATE, CONCURRENT, FENCED, NOT_LEADER = 45, 46, 47, 48, 51, 90, 6
COORDINATOR_FENCED = 52
SEQUENCES = 1 << 31
Key = tuple[str, int]


class RefusedError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Appended:
    """One batch of the log. ``kind``: data, filler, marker or stranger."""

    kind: str
    pid: int
    epoch: int
    first: int
    values: tuple[Any, ...]
    sequence: int = -1
    coordinator_epoch: int = 0

    @property
    def last_sequence(self) -> int:
        return (self.sequence + len(self.values) - 1) % SEQUENCES


@dataclass
class _Known:
    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    open: bool = False
    coordinator_epoch: int = -1

    @property
    def last(self) -> int:
        return self.batches[-1][1] if self.batches else -1


@dataclass
class _Log:
    batches: list[Appended] = field(default_factory=list)
    begin: int = 0
    high: int = 0
    epoch: int = 0
    known: dict[int, _Known] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.batches[-1].first + len(self.batches[-1].values) if self.batches else self.begin


@dataclass
class _Transaction:
    pid: int
    epoch: int
    state: str = "Empty"
    keys: set[Key] = field(default_factory=set)


class TargetLogs:
    """``doubled``: markers whose answer the coordinator loses are written again, as Kafka does."""

    def __init__(self, rng: random.Random, *, failovers: float = 0.0, doubled: float = 0.0) -> None:
        self._rng = rng
        self._failovers, self._doubled = failovers, doubled
        self.logs: dict[Key, _Log] = {}
        self.transactions: dict[str, _Transaction] = {}
        self.tasks: set[asyncio.Task[Any]] = set()
        self._pids = iter(range(1000, 100_000))

    def log(self, key: Key) -> _Log:
        return self.logs.setdefault(key, _Log())

    def committed(self, key: Key) -> dict[int, Any]:
        """What a reader of committed records gets, by offset; fillers were all aborted."""
        log = self.log(key)
        assert not any(known.open for known in log.known.values()), "a transaction is open"
        return {
            batch.first + i: value
            for batch in log.batches
            if batch.kind in ("data", "stranger")
            for i, value in enumerate(batch.values)
        }

    # requests: each travels, is carried out, and its answer travels

    async def _request(self, work: Any) -> Any:
        task = asyncio.ensure_future(self._travel(work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _travel(self, work: Any) -> Any:
        await self._while()
        answer = await work()
        await self._while()
        return answer

    async def _while(self) -> None:
        for _ in range(self._rng.choice([0, 1, 1, 2, 3, 3, self._rng.randint(0, 60)])):
            await asyncio.sleep(0)

    async def produce(self, key: Key, pid: int, epoch: int, sequence: int, values: Iterable[Any], txn: str = "") -> int:
        values = tuple(values)

        async def work() -> int:
            return await self._append(key, Appended("filler" if txn else "data", pid, epoch, -1, values, sequence))

        return await self._request(work)

    async def _append(self, key: Key, batch: Appended) -> int:
        log, (pid, epoch, sequence, values) = self.log(key), (batch.pid, batch.epoch, batch.sequence, batch.values)
        known = log.known.get(pid)
        last = (sequence + len(values) - 1) % SEQUENCES
        if known is not None and known.epoch == epoch:
            for first, end, base in known.batches:
                if (first, end) == (sequence, last):
                    await self._replicated(key, base + len(values))
                    return base
        if known is not None and epoch < known.epoch:
            raise RefusedError(INVALID_EPOCH)
        if known is not None and epoch > known.epoch and sequence != 0:
            raise RefusedError(OUT_OF_ORDER)
        if known is not None and epoch == known.epoch and sequence != (known.last + 1) % SEQUENCES:
            raise RefusedError(OUT_OF_ORDER)
        if known is not None and known.open and batch.kind == "data":
            raise RefusedError(INVALID_STATE)
        batch = replace(batch, first=log.end)
        log.batches.append(batch)
        _learn(log.known, batch)
        await self._replicated(key, batch.first + len(values), batch)
        return batch.first

    async def _replicated(self, key: Key, until: int, batch: Appended | None = None) -> None:
        """Answers come once the followers have it; a leader that dies before takes it along."""
        log = self.log(key)
        if self._rng.random() < self._failovers:
            await self._while()
            self.fail_over(key)
        await self._while()
        if batch is not None and not any(batch is one for one in log.batches):
            raise RefusedError(NOT_LEADER)
        if log.end < until:
            raise RefusedError(NOT_LEADER)
        log.high = max(log.high, until)

    def fail_over(self, key: Key) -> None:
        """Another replica leads: it has what was answered, and perhaps some of the rest."""
        log = self.log(key)
        keep = [batch for batch in log.batches if batch.first + len(batch.values) <= log.high]
        rest = log.batches[len(keep) :]
        log.epoch += 1
        log.batches = keep + rest[: self._rng.randint(0, len(rest))]
        log.high = log.end
        forgotten = {pid for pid in {one.pid for one in log.batches} if pid not in log.known}
        log.known = {}
        for batch in log.batches:
            if batch.pid not in forgotten:
                _learn(log.known, batch)

    def forget(self, pid: int) -> None:
        """``producer.id.expiration.ms`` has passed."""
        for log in self.logs.values():
            log.known.pop(pid, None)

    def write_as_stranger(self, key: Key, value: Any) -> None:
        log = self.log(key)
        log.batches.append(Appended("stranger", -1, -1, log.end, (value,)))
        log.high = log.end

    async def describe(self, key: Key, pid: int) -> int | None:
        async def work() -> int | None:
            known = self.log(key).known.get(pid)
            return None if known is None or not known.batches else known.last

        return await self._request(work)

    async def log_end(self, key: Key, epoch: int = -1) -> int:
        """``epoch``: of the leader that is asked; another one refuses."""

        async def work() -> int:
            if epoch not in (-1, self.log(key).epoch):
                raise RefusedError(NOT_LEADER)
            return self.log(key).end

        return await self._request(work)

    async def high_watermark(self, key: Key) -> int:
        async def work() -> int:
            return self.log(key).high

        return int(await self._request(work))

    async def last_marker(self, key: Key, pid: int) -> tuple[int, int]:
        """Producer epoch and coordinator epoch; -1 where none is known."""

        async def work() -> tuple[int, int]:
            known = self.log(key).known.get(pid)
            return (-1, -1) if known is None else (known.epoch, known.coordinator_epoch)

        answer: tuple[int, int] = await self._request(work)
        return answer

    async def write_marker(self, key: Key, pid: int, epoch: int, coordinator_epoch: int) -> None:
        """WriteTxnMarkers: by whoever may, of a producer that need not be known."""

        async def work() -> None:
            log = self.log(key)
            known = log.known.get(pid, _Known(-1))
            if epoch < known.epoch:
                raise RefusedError(INVALID_EPOCH)
            if coordinator_epoch < known.coordinator_epoch:
                raise RefusedError(COORDINATOR_FENCED)
            batch = Appended("marker", pid, epoch, log.end, ("marker",), coordinator_epoch=coordinator_epoch)
            log.batches.append(batch)
            _learn(log.known, batch)
            await self._replicated(key, batch.first + 1, batch)

        await self._request(work)

    # transactions

    async def init(self, txn: str) -> tuple[int, int]:
        async def work() -> tuple[int, int]:
            held = self.transactions.get(txn)
            if held is None:
                held = self.transactions[txn] = _Transaction(next(self._pids), 0)
                return held.pid, held.epoch
            if held.state == "PrepareAbort":
                raise RefusedError(CONCURRENT)
            if held.state == "Ongoing":
                held.epoch += 1
                self._end(held)
                raise RefusedError(CONCURRENT)
            held.epoch += 1
            held.state = "Empty"
            return held.pid, held.epoch

        return await self._request(work)

    async def epoch_of(self, txn: str) -> int:
        async def work() -> int:
            return self.transactions[txn].epoch

        return int(await self._request(work))

    def _checked(self, txn: str, pid: int, epoch: int) -> _Transaction:
        held = self.transactions[txn]
        if pid != held.pid or epoch < held.epoch:
            raise RefusedError(FENCED)
        if held.state == "PrepareAbort":
            raise RefusedError(CONCURRENT)
        return held

    async def add(self, txn: str, pid: int, epoch: int, keys: Iterable[Key]) -> None:
        keys = set(keys)

        async def work() -> None:
            held = self._checked(txn, pid, epoch)
            held.state = "Ongoing"
            held.keys |= keys

        await self._request(work)

    async def abort_and_look(
        self, txn: str, pid: int, epoch: int, keys: Iterable[Key], *, join: bool
    ) -> dict[Key, int] | None:
        """Requests on one connection: carried out in order, each whatever becomes of those before, and answered in
        order. What the first is refused with is raised. The last looks: log ends, once nothing is left to write.
        ``join``: the first adds the partitions."""
        keys = set(keys)

        async def work() -> dict[Key, int] | None:
            try:
                if join:
                    held = self._checked(txn, pid, epoch)
                    held.state = "Ongoing"
                    held.keys |= keys
            finally:
                await self._while()
                self._aborted(txn, pid, epoch)
            await self._while()
            if self.transactions[txn].state == "PrepareAbort":
                return None
            await self._while()
            return {key: self.log(key).end for key in keys}

        return await self._request(work)

    def _aborted(self, txn: str, pid: int, epoch: int) -> None:
        held = self.transactions[txn]
        if epoch == held.epoch and held.state in ("PrepareAbort", "CompleteAbort"):
            return
        held = self._checked(txn, pid, epoch)
        if held.state != "Ongoing":
            raise RefusedError(INVALID_STATE)
        self._end(held)

    async def complete(self, txn: str) -> bool:
        async def work() -> bool:
            return self.transactions[txn].state != "PrepareAbort"

        return await self._request(work)

    def time_out(self, txn: str) -> None:
        """``transaction.timeout.ms`` has passed for what is open."""
        held = self.transactions.get(txn)
        if held is not None and held.state == "Ongoing":
            held.epoch += 1
            self._end(held)

    def _end(self, held: _Transaction) -> None:
        held.state = "PrepareAbort"
        task = asyncio.ensure_future(self._markers(held))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _markers(self, held: _Transaction) -> None:
        await asyncio.gather(*(self._marker(key, held.pid, held.epoch) for key in sorted(held.keys)))
        await self._while()
        held.keys = set()
        held.state = "CompleteAbort"

    async def _marker(self, key: Key, pid: int, epoch: int) -> None:
        while True:
            await self._while()
            log = self.log(key)
            batch = Appended("marker", pid, epoch, log.end, ("marker",))
            log.batches.append(batch)
            _learn(log.known, batch)
            try:
                await self._replicated(key, batch.first + 1, batch)
            except RefusedError:
                continue
            if self._rng.random() >= self._doubled:
                return


def _learn(known: dict[int, _Known], batch: Appended) -> None:
    if batch.pid < 0:
        return
    mine = known.get(batch.pid)
    if mine is None or mine.epoch != batch.epoch:
        before = mine or _Known(-1)
        mine = known[batch.pid] = _Known(batch.epoch, open=before.open, coordinator_epoch=before.coordinator_epoch)
    if batch.kind == "marker":
        mine.open = False
        mine.coordinator_epoch = batch.coordinator_epoch
        return
    mine.batches.append((batch.sequence, batch.last_sequence, batch.first))
    mine.open = batch.kind == "filler" or mine.open
