"""Batches of a writer: sent again with the same sequence where no answer came, halved where they are too large."""

from __future__ import annotations

import asyncio

import pytest

from reconciler.backends.clusters.topics import append_records
from reconciler.backends.clusters.topics.append_records import TopicWriter
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol.produce import Produced
from reconciler.kafka.records.batches import scan, seal
from reconciler.kafka.records.records import key_and_value, records_of
from reconciler.model.environment.topology import Cluster, Principal

NOT_LEADER, TOO_LARGE = 6, 10


def values(batch: bytearray) -> list[bytes | None]:
    raw = memoryview(batch)
    seal(raw, (7, 0), 0, transactional=False)
    return [key_and_value(record)[1] for found in scan(raw) for record in records_of(raw, found)]


def test_what_was_not_answered_is_sent_again_and_what_is_too_large_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = TopicWriter(Cluster("east", ("h:1",)), Principal.MIRROR, "t")
    failures = [BrokerError(NOT_LEADER, "t-0"), ConnectionLostError("gone"), BrokerError(TOO_LARGE, "t-0")]
    sent: list[tuple[tuple[str, int], int, list[bytes | None]]] = []

    async def append(_: object, key: tuple[str, int], batch: bytearray, __: object, sequence: int) -> Produced:
        sent.append((key, sequence, values(batch)))
        if failures:
            raise failures.pop(0)
        return Produced(key[0], key[1], 0, 0, "", 99 if key[1] else -1)

    async def started(_: object) -> None: ...

    monkeypatch.setattr(append_records, "append_batch", append)
    monkeypatch.setattr(append_records, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(Identity, "start", started)
    monkeypatch.setattr(writer._requests, "wire", None, raising=False)
    monkeypatch.setattr(writer._requests, "run", lambda _, ask: asyncio.run(ask()))
    for number in range(3):
        writer.append(0, 1_000, None, b"%d" % number, [(b"h", b"1"), (b"none", None)])
    writer.append(1, 1_000, b"k", None, [])
    writer.finish()
    whole: list[bytes | None] = [b"0", b"1", b"2"]
    assert sent == [
        *[(("t", 0), 0, whole)] * 3,
        (("t", 0), 0, whole[:1]),
        (("t", 0), 1, whole[1:]),
        (("t", 1), 0, [None]),
    ]
    assert writer.restamped == 1
