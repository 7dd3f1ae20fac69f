"""The lock's last transaction was decided without its marker, as a killed broker leaves it: no run waits forever, and
the record counts as decided."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.state.lock import KafkaLock
from reconciler.errors import LockHeld
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import produce as producing
from reconciler.kafka.records.batches import seal
from reconciler.kafka.records.records import encode
from reconciler.model.state.lock import Holder, LockRecord, dumps, lock_key, transactional_id
from reconciler.replication.names import LOCK_TOPIC
from reconciler.replication.records import compacted_topic
from tests.support.clusters import real_cluster, verify_partitions
from tests.support.lanes.raw import cluster_of, record

CreateTopic = Callable[..., str]
INVALID_TXN_STATE = 48


def _holder(who: str) -> Holder:
    return Holder(uuid.uuid4().hex, who, f"host-of-{who}", 4711, uuid.uuid4().hex, "apply", int(time.time() * 1000))


@pytest.fixture
def east(
    plain: Sandbox, unique: str, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClusterHandle]:
    handle = plain["east"]
    first = KafkaLock(real_cluster(handle), f"{unique}-other", _holder("eve"))  # so that the topic is there
    first.take()
    first.release()
    create_topic(handle, unique)
    monkeypatch.setattr("reconciler.kafka.client.transactions.speaks_version_2", lambda _: False)
    monkeypatch.setattr(compacted_topic, "STUCK_S", 0.3)
    verify_partitions(handle, "false")
    yield handle
    verify_partitions(handle, None)


async def _hang(handle: ClusterHandle, environment: str, announced: str, *, committed: bool, fenced: bool) -> None:
    """A lock of ``ada`` in a transaction whose coordinator knows only of topic ``announced``."""
    cluster = cluster_of(handle)
    try:
        await cluster.refresh([LOCK_TOPIC, announced])
        identity = Identity(cluster, transactional_id(environment), "")
        await identity.start()
        await identity.add_partitions([(announced, 0)])
        now = int(time.time() * 1000)
        value = dumps(LockRecord(_holder("ada"), now))
        raw = memoryview(encode([record(0, lock_key(environment).encode(), value, now)], 0))
        seal(raw, (identity.producer_id, identity.epoch), 0, transactional=True)
        leader = cluster.leader(LOCK_TOPIC, 0)
        assert leader is not None
        connection = await cluster.connection(leader.node, "produce")
        body = producing.pack(producing.CLASSIC, identity.transactional_id, {(LOCK_TOPIC, 0): raw}, 10_000)
        until = time.monotonic() + 20
        while True:  # a broker follows a change of its own settings a moment after the cluster took it
            frame = await connection.send((protocol.PRODUCE, producing.CLASSIC, False), body)
            (answer,) = producing.unpack(producing.CLASSIC, frame.body)[1]
            if answer.error != INVALID_TXN_STATE or time.monotonic() > until:
                break
            await asyncio.sleep(0.1)
        assert answer.error == 0, answer
        await identity.end(committed=committed)
        if fenced:
            await Identity(cluster, transactional_id(environment), "").start()
    finally:
        cluster.close()


def _lock(handle: ClusterHandle, environment: str) -> KafkaLock:
    return KafkaLock(real_cluster(handle), environment, _holder("bob"))


@pytest.mark.parametrize(
    ("committed", "fenced", "held"),
    [(True, False, True), (False, False, False), (True, True, True)],
    ids=["committed", "aborted", "nobody knows"],
)
def test_it_counts_as_it_was_decided(
    east: ClusterHandle, unique: str, committed: bool, fenced: bool, held: bool
) -> None:
    asyncio.run(_hang(east, unique, unique, committed=committed, fenced=fenced))
    began, lock = time.monotonic(), _lock(east, unique)
    if held:
        with pytest.raises(LockHeld, match="locked by ada"):
            lock.take()
    else:
        lock.take()
        assert lock.lost() == ""
    lock.release()
    assert time.monotonic() - began < compacted_topic.READ_S / 2


def test_another_environment_is_not_held_up_and_who_holds_continues(east: ClusterHandle, unique: str) -> None:
    asyncio.run(_hang(east, f"{unique}-stuck", unique, committed=True, fenced=False))
    lock = _lock(east, unique)
    lock.take()
    asyncio.run(_hang(east, f"{unique}-stuck", unique, committed=True, fenced=False))
    assert lock.lost() == ""
    lock.release()
    free = _lock(east, unique)
    free.take()
    free.release()
