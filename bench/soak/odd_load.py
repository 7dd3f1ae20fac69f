"""What a copy with the source's offsets is tried with: records of odd sizes, keys, headers and codecs, in transactions
of which many abort, also into a compacted topic."""

from __future__ import annotations

import contextlib
import random
import time

from confluent_kafka import KafkaException, Producer
from reconciler_sandbox.handles import ClusterHandle

from bench.soak.threads import Beside

TOPIC, COMPACTED = "odd", "odd-compacted"
PARTITIONS = {TOPIC: 4, COMPACTED: 2}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TRANSACTIONAL, LARGEST_TRANSACTION, ABORTS = 2, 60, 0.4
KEYS = 40
"""Of the compacted topic."""


class OddLoad(Beside):
    """One thread without transactions and two with them, which go on whatever happens to the brokers. ``committed`` and
    ``aborted``: transactions so far, as their producers were told."""

    def __init__(self, source: ClusterHandle, per_second: int, chance: random.Random) -> None:
        works = [self._plain, *(lambda number=number: self._transactional(number) for number in range(TRANSACTIONAL))]
        super().__init__(*works, patience_s=120)
        self._settings = {**source.super_client(), "log_level": 0, "linger.ms": 5, "message.max.bytes": 2_000_000}
        self._per_second = per_second / len(works)
        self._chance = chance
        self.committed = self.aborted = 0

    def _plain(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True, "message.timeout.ms": 600_000})
        while not self.stop.wait(0.2):
            for _ in range(max(1, int(self._per_second / 5))):
                with contextlib.suppress(BufferError):
                    self._write(producer)
            producer.poll(0)
        producer.flush(60)

    def _transactional(self, number: int) -> None:
        producer: Producer | None = None
        while not self.stop.is_set():
            try:
                if producer is None:
                    settings = {"transactional.id": f"odd-{number}", "transaction.timeout.ms": 10_000}
                    codec = {"compression.type": self._chance.choice(CODECS)}
                    producer = Producer({**self._settings, **settings, **codec})
                    producer.init_transactions(30)
                self._transaction(producer)
            except (KafkaException, BufferError):  # its broker is away; whoever comes next fences what is open
                producer = None
                self.stop.wait(0.5)

    def _transaction(self, producer: Producer) -> None:
        producer.begin_transaction()
        records = self._chance.randint(1, LARGEST_TRANSACTION)
        for _ in range(records):
            self._write(producer)
        if self._chance.random() < ABORTS:
            producer.flush(10)  # what was not sent yet an abort drops
            producer.abort_transaction(20)
            self.aborted += 1
        else:
            producer.commit_transaction(20)
            self.committed += 1
        self.stop.wait(records / self._per_second)

    def _write(self, producer: Producer) -> None:
        chance = self._chance
        topic = COMPACTED if chance.random() < 0.25 else TOPIC
        key = chance.choice([None, b"", b"key-%d" % chance.randrange(50), "ключ".encode()])
        value = chance.choice([None, b"", chance.randbytes(chance.randrange(1, 2_000)), bytes(chance.randrange(100))])
        if chance.random() < 0.002:
            value = chance.randbytes(500_000)
        producer.produce(
            topic,
            value,
            key if topic == TOPIC else b"key-%d" % chance.randrange(KEYS),
            chance.randrange(PARTITIONS[topic]),
            timestamp=int(time.time() * 1000),
            headers=chance.choice([[], [("a", b"1"), ("a", None), ("", b"")], [("h", chance.randbytes(20))]]),
        )
