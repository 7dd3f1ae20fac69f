"""Transactions that always abort, with records that do reach the log: what readers of committed records, and so a
mirror, must leave out."""

from __future__ import annotations

import logging
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from reconciler_sandbox.handles import ClusterHandle

ABORTED = b"aborted"
READ_SECONDS = 60.0
_SILENT = logging.getLogger("aborting")
_SILENT.disabled = True


class Aborting:
    """Writes a record to every partition and aborts, on a thread of its own, whatever happens to the broker."""

    def __init__(self, cluster: ClusterHandle, topic: str, partitions: int, every_s: float = 0.3) -> None:
        self._settings = {
            **cluster.super_client(),
            "transactional.id": f"aborting-{topic}",
            "transaction.timeout.ms": 10_000,
            "logger": _SILENT,  # that it is fenced is no news
        }
        self._topic = topic
        self._partitions = partitions
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.aborted = 0
        """Transactions so far whose records are in the log."""

    def __enter__(self) -> Aborting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer: Producer | None = None
        while not self._stop.wait(self._every_s):
            try:
                if producer is None:
                    producer = Producer(self._settings)
                    producer.init_transactions(20)
                self._once(producer)
            except KafkaException:  # a broker that is away; the transaction then ends by time and fences its producer
                producer = None

    def _once(self, producer: Producer) -> None:
        producer.begin_transaction()
        for partition in range(self._partitions):
            producer.produce(self._topic, ABORTED, b"k", partition)
        left = producer.flush(20)  # what was not sent yet an abort drops
        producer.abort_transaction(20)
        self.aborted += not left


def aborted_records(cluster: ClusterHandle, topic: str, partitions: int) -> int:
    """How many of them are in the log, as a reader of uncommitted records sees it within a minute.

    Raises KafkaException.
    """
    consumer = Consumer(
        {
            **cluster.super_client(),
            "group.id": "aborted-records",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "enable.auto.commit": False,
        }
    )
    found, left = 0, partitions
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        until = time.monotonic() + READ_SECONDS
        while left and time.monotonic() < until:
            for message in consumer.consume(10_000, 0.2):
                left -= message.error() is not None
                found += message.value() == ABORTED
    finally:
        consumer.close()
    return found
