"""What a soak writes at the source: numbered records with keys, headers and times, in transactions and without."""

from __future__ import annotations

import contextlib
import random
import time

from confluent_kafka import KafkaException, Producer
from reconciler_sandbox.handles import ClusterHandle

from bench.soak.threads import Beside

TOPIC, PARTITIONS = "soak", 4
IN_ONE = 20
"""Records of a transaction."""
ABORTS = 0.1


class Load(Beside):
    """Two threads, half of the records each: idempotent, and transactional with some that abort. Both go on whatever
    happens to the brokers; what of it stands is read from the source's log (``bench.soak.truth``)."""

    def __init__(self, source: ClusterHandle, per_second: int, chance: random.Random) -> None:
        super().__init__(self._plain, self._transactional, patience_s=120)
        self._settings = {**source.super_client(), "log_level": 0, "linger.ms": 5, "compression.type": "lz4"}
        self._per_second = per_second / 2
        self._chance = chance
        self._number = 0

    def _plain(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True, "message.timeout.ms": 600_000})
        while not self.stop.wait(0.1):
            for _ in range(max(1, int(self._per_second / 10))):
                with contextlib.suppress(BufferError):
                    self._write(producer, "plain")
            producer.poll(0)
        producer.flush(60)

    def _transactional(self) -> None:
        producer: Producer | None = None
        while not self.stop.wait(IN_ONE / self._per_second):
            try:
                if producer is None:
                    producer = Producer(
                        {**self._settings, "transactional.id": "soak", "transaction.timeout.ms": 10_000}
                    )
                    producer.init_transactions(30)
                producer.begin_transaction()
                for _ in range(IN_ONE):
                    self._write(producer, "transactional")
                if self._chance.random() < ABORTS:
                    producer.flush(10)
                    producer.abort_transaction(20)
                else:
                    producer.commit_transaction(20)
            except (KafkaException, BufferError):  # its broker is away; whoever comes next fences what is open
                producer = None

    def _write(self, producer: Producer, kind: str) -> None:
        self._number += 1
        number = b"%d" % self._number
        producer.produce(
            TOPIC,
            number + b" " + self._chance.randbytes(self._chance.randrange(10, 200)).hex().encode(),
            b"key-%d" % (self._number % 100) if self._number % 7 else None,
            self._number % PARTITIONS,
            timestamp=int(time.time() * 1000),
            headers=[("kind", kind.encode()), ("number", number), ("none", None)],
        )
