"""A lane that begins again continues its own epoch: a replaced one learns that, and fences no other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.kafka.client import transactions
from reconciler.kafka.client.cluster import TRANSACTION, ClusterClient
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import (
    CONCURRENT_TRANSACTIONS,
    UNKNOWN_TOPIC,
    UNSTABLE,
    BrokerError,
    FencedError,
    MalformedResponseError,
)
from reconciler.kafka.client.hanging_transactions import settle
from reconciler.kafka.client.transactions import Endings, Identity
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from tests.support.lanes.raw import cluster_of

CreateTopic = Callable[..., str]
INVALID_TXN_STATE = 48


@pytest.fixture(params=[pytest.param("classic", marks=pytest.mark.long), "version 2"])
def target(
    request: pytest.FixtureRequest, plain: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> tuple[ClusterHandle, bool]:
    if request.param == "classic":
        monkeypatch.setattr(transactions, "speaks_version_2", lambda _: False)
    return plain["west"], request.param == "version 2"


class Holders:
    """Two who use one transactional.id, with a topic whose positions they commit."""

    def __init__(self, cluster: ClusterClient, topic: str) -> None:
        self.cluster, self.topic = cluster, topic
        self.first, self.second = self.another(), self.another()

    def another(self, endings: Endings | None = None) -> Identity:
        return Identity(self.cluster, f"mirror.{self.topic}.0", f"mirror.{self.topic}", endings=endings)

    async def open(self, holder: Identity, offset: int) -> None:
        """Brokers know a new topic a moment after its creation was answered."""
        until = time.monotonic() + 60
        while True:
            try:
                return await holder.commit_positions({(self.topic, 0): CommittedOffset(offset, 0, "")})
            except BrokerError as error:
                if error.code != UNKNOWN_TOPIC or time.monotonic() > until:
                    raise
            await asyncio.sleep(0.02)

    async def position(self) -> int:
        """Once it is decided."""
        until = time.monotonic() + 60
        while True:
            try:
                found = await self.cluster.positions(f"mirror.{self.topic}", [(self.topic, 0)])
                return found[self.topic, 0].offset
            except BrokerError as error:
                if error.code != UNSTABLE or time.monotonic() > until:
                    raise
            await asyncio.sleep(0.02)

    async def fence_without_an_end(self) -> None:
        """The first request of one who takes over; the epoch it gets is never used."""

        async def ask(connection: Connection) -> int:
            request = protocol.InitProducerIdRequest(
                transactional_id=self.first.transactional_id,
                transaction_timeout_ms=60_000,
                producer_id=-1,
                producer_epoch=-1,
                version=connection.version(protocol.InitProducerIdRequest),
            )
            return int((await connection.call(request)).error_code)

        assert await self.second._patiently(TRANSACTION, ask) == CONCURRENT_TRANSACTIONS
        until = time.monotonic() + 60
        while (state := await self.second.state()) is None or state.state != "CompleteAbort":
            assert time.monotonic() < until, state
            await asyncio.sleep(0.02)


@asynccontextmanager
async def holders(target: ClusterHandle, topic: str) -> AsyncIterator[Holders]:
    cluster = cluster_of(target)
    try:
        await cluster.refresh([topic])
        found = Holders(cluster, topic)
        await found.first.start()
        yield found
    finally:
        cluster.close()


async def _replaced_in_the_middle_of_an_end(target: ClusterHandle, topic: str, *, version_2: bool) -> None:
    async with holders(target, topic) as both:
        await both.open(both.first, 5)
        await both.fence_without_an_end()
        with pytest.raises(BrokerError) as told:
            await both.first.end(committed=True)
        assert told.value.code == INVALID_TXN_STATE if version_2 else isinstance(told.value, FencedError)
        await both.second.start()
        with pytest.raises(FencedError):
            await both.another().start(both.first)
        await both.open(both.second, 7)
        await both.second.end(committed=True)
        assert await both.position() == 7


def test_who_was_replaced_while_its_transaction_ended_does_not_fence_its_successor(
    target: tuple[ClusterHandle, bool], unique: str, create_topic: CreateTopic
) -> None:
    create_topic(target[0], unique, 1)
    asyncio.run(_replaced_in_the_middle_of_an_end(target[0], unique, version_2=target[1]))


async def _replaced_while_idle(target: ClusterHandle, topic: str) -> None:
    async with holders(target, topic) as both:
        await both.second.start()
        await both.open(both.second, 7)
        with pytest.raises(FencedError):
            await both.another().start(both.first)
        await both.second.end(committed=True)
        assert await both.position() == 7


def test_who_was_replaced_while_idle_does_not_abort_what_its_successor_has_begun(
    target: tuple[ClusterHandle, bool], unique: str, create_topic: CreateTopic
) -> None:
    create_topic(target[0], unique, 1)
    asyncio.run(_replaced_while_idle(target[0], unique))


async def _alone(target: ClusterHandle, topic: str) -> None:
    """Begins again with nothing open, with something open, and with an end whose answer was lost."""
    async with holders(target, topic) as one:
        holder = one.first
        for offset, lost in ((1, False), (2, True), (3, False)):
            again = one.another()
            await again.start(holder)
            assert (again.producer_id, again.epoch) > (holder.producer_id, holder.epoch)
            await one.open(again, 10 + offset)
            aborted = one.another()
            await aborted.start(again)
            assert aborted.left is False
            await one.open(aborted, offset)
            held = (aborted.producer_id, aborted.epoch)
            await aborted.end(committed=True)
            if lost:
                aborted.producer_id, aborted.epoch, aborted.commit_unanswered = *held, True
            holder = aborted
        last = one.another()
        await last.start(holder)
        assert last.left is True
        await one.open(last, 4)
        await last.end(committed=True)
        assert await one.position() == 4


def test_a_holder_alone_begins_again_as_often_as_it_has_to(
    target: tuple[ClusterHandle, bool], unique: str, create_topic: CreateTopic
) -> None:
    create_topic(target[0], unique, 1)
    asyncio.run(_alone(target[0], unique))


async def _end_answered_to_nobody(target: ClusterHandle, topic: str, *, replaced: bool) -> None:
    """The coordinator writes the end down and goes away before it answers: who has its log knows only the new epoch."""
    async with holders(target, topic) as both:
        held = (both.first.producer_id, both.first.epoch)
        await both.open(both.first, 5)
        await both.first.end(committed=True)
        both.first.producer_id, both.first.epoch = held
        both.first.commit_unanswered = True
        target.kill()
        target.start()
        if replaced:
            await both.second.start()
            await settle(both.cluster, [(topic, 0)], both.second)  # a marker may have been lost with its broker
            with pytest.raises(FencedError):
                await both.another().start(both.first)
        else:
            again = both.another()
            await again.start(both.first)
            await settle(both.cluster, [(topic, 0)], again)
            assert again.left is True
            assert again.endings.of(*held) is True
            await both.open(again, 7)
            await again.end(committed=True)
        assert await both.position() == (5 if replaced else 7)


@pytest.mark.long
@pytest.mark.parametrize("replaced", [pytest.param(False, id="alone"), pytest.param(True, id="replaced")])
def test_an_end_that_a_coordinator_did_not_live_to_answer(
    target: tuple[ClusterHandle, bool], unique: str, create_topic: CreateTopic, *, replaced: bool
) -> None:
    create_topic(target[0], unique, 1)
    asyncio.run(_end_answered_to_nobody(target[0], unique, replaced=replaced))


async def _start_answered_to_nobody(target: ClusterHandle, topic: str, replaced: str) -> None:
    async with holders(target, topic) as both:
        await both.open(both.first, 5)
        held = (both.first.producer_id, both.first.epoch)
        call = Connection.call

        async def lose(connection: Connection, sent: Any, patience: float | None = None) -> Any:
            answer = await call(connection, sent, patience)
            if isinstance(sent, protocol.InitProducerIdRequest) and not answer.error_code:
                raise MalformedResponseError("cut short")
            return answer

        lost = both.another()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Connection, "call", lose)
            with pytest.raises(MalformedResponseError):
                await lost.start(both.first)
        if not replaced:
            again = both.another(endings=lost.endings)
            await again.start(both.first)
            assert again.left is False, "what the start without an answer has aborted stays known"
            assert again.endings.of(*held) is False
            await both.open(again, 7)
            await again.end(committed=True)
        else:
            await both.second.start()
            if replaced == "busy":
                await both.open(both.second, 7)
            with pytest.raises(FencedError):
                await both.another().start(both.first)
            if replaced == "idle":
                await both.open(both.second, 7)
            await both.second.end(committed=True)
        assert await both.position() == 7


@pytest.mark.parametrize("replaced", ["", "idle", "busy"])
def test_a_start_without_an_answer_is_not_taken_for_a_successor_s(
    target: tuple[ClusterHandle, bool], unique: str, create_topic: CreateTopic, replaced: str
) -> None:
    """A coordinator whose replicas are away may carry it out after the patience is over."""
    create_topic(target[0], unique, 1)
    asyncio.run(_start_answered_to_nobody(target[0], unique, replaced))
