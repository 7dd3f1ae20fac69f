"""Awkward records, and the proof that two topics hold the same ones in every partition."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from reconciler_sandbox.handles import ClusterHandle

from tests.support.reading import to_the_end

Digest = Mapping[int, tuple[int, str]]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def producer(cluster: ClusterHandle, **settings: Any) -> Producer:
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    roomy = {"message.max.bytes": 10_000_000, "queue.buffering.max.messages": 1_000_000}
    always = {**roomy, "linger.ms": 5, "enable.idempotence": True}
    return Producer({**cluster.client(), **always, **dotted})


def write_awkward(cluster: ClusterHandle, topic: str, partitions: int, count: int, seed: int = 0) -> None:
    """Null and empty keys, values and header values, repeated header names, 200 headers, 900 KB, odd timestamps."""
    chance = random.Random(seed)
    failures: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(f"{len(message)} bytes: {error.str()}")

    makers = [producer(cluster, compression_type=codec) for codec in CODECS]
    for number in range(count):
        key = chance.choice([None, b"", b"k%d" % (number % 17), bytes([0, 255, 128])])
        value = chance.choice([None, b"", b"v%d" % number, chance.randbytes(chance.randrange(2000))])
        headers = chance.choice([None, [], [("a", b"1"), ("a", None), ("b", b"")], [("\u00e9\u4e16", b"x")]])
        if number % 500 == 1:
            headers = [(f"h{i % 150}", b"%d" % i) for i in range(200)]
        if number % 700 == 2:
            value = chance.randbytes(900_000)
        stamp = chance.choice([1, 1_600_000_000_000 + number, int(time.time() * 1000), -1 if number % 50 else 1])
        if stamp == -1:
            stamp = 2  # librdkafka's producer would take -1 for "no timestamp"
        makers[number % len(makers)].produce(
            topic, value, key, number % partitions, timestamp=stamp, headers=headers, on_delivery=delivered
        )
        if number % 200 == 0:
            for maker in makers:
                maker.flush()
    for maker in makers:
        maker.flush()
    assert not failures, failures


def write_transactions(cluster: ClusterHandle, topic: str, partitions: int, rounds: int, name: str) -> int:
    """Committed and aborted transactions in turns, an aborted one last. Gives the committed records."""
    maker = producer(cluster, transactional_id=name)
    maker.init_transactions(30)
    committed = 0
    for number in range(rounds):
        maker.begin_transaction()
        for i in range(30):
            maker.produce(topic, b"%d/%d" % (number, i), b"t", i % partitions, timestamp=1_700_000_000_000 + number)
        maker.flush()
        if number % 2 or number == rounds - 1:
            maker.abort_transaction(30)
        else:
            maker.commit_transaction(30)
            committed += 30
    return committed


def digest(cluster: ClusterHandle, topic: str) -> Digest:
    """Per partition: count and SHA-256 over key, value, headers and timestamp, as a read_committed reader sees them."""
    there = AdminClient({**cluster.super_client(), "log_level": "0"}).list_topics(topic, timeout=20).topics[topic]
    hashes = {number: hashlib.sha256() for number in there.partitions}
    counts: Counter[int] = Counter()
    for message in to_the_end(cluster, topic, hashes):
        seen = (message.key(), message.value(), message.headers() or [], message.timestamp()[1])
        hashes[message.partition()].update(repr(seen).encode())
        counts[message.partition()] += 1
    return {number: (counts[number], hashed.hexdigest()) for number, hashed in hashes.items()}


def ends(cluster: ClusterHandle, topic: str) -> dict[int, int]:
    """Partition -> the offset behind what a read_committed reader gets. One request, where ``digest`` reads it all."""
    admin = AdminClient({**cluster.super_client(), "log_level": "0"})
    places = [TopicPartition(topic, number) for number in admin.list_topics(topic, timeout=20).topics[topic].partitions]
    asked = dict.fromkeys(places, OffsetSpec.latest())
    answers = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=20)
    return {place.partition: answer.result().offset for place, answer in answers.items()}


def total(found: Digest) -> int:
    return sum(count for count, _ in found.values())
