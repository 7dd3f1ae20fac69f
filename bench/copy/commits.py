"""Transactions that end many times a second in every partition: what they leave in the log are mostly markers."""

from __future__ import annotations

import struct
import threading
import time

from confluent_kafka import KafkaException, Producer

PRODUCERS = 2
ABORTED = -1
"""The number of a record that nobody may read."""
STAMP = struct.Struct(">qq")
"""A record's number, and when it was written, by the monotonic clock in ns."""


class Commits(threading.Thread):
    """``PRODUCERS`` of them, each with as many of the partitions: each ends ``rate`` transactions a second, or as many
    as the brokers allow, with a record to each of its partitions."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, rate: int, aborted: float, value_bytes: int
    ) -> None:
        super().__init__(name="commits", daemon=True)
        self.sent = 0
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._servers, self._topic, self._partitions = bootstrap, topic, partitions
        self._rate, self._aborted, self._padding = rate, aborted, bytes(value_bytes - STAMP.size)

    def run(self) -> None:
        """Until ``over``."""
        threads = [threading.Thread(target=self._write, args=(number,), daemon=True) for number in range(PRODUCERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _write(self, which: int) -> None:
        settings = {"bootstrap.servers": self._servers, "transactional.id": f"{self._topic}-{which}", "linger.ms": 0}
        producer = Producer({**settings, "log_level": 3})
        producer.init_transactions(30)
        mine = range(which, self._partitions, PRODUCERS)
        began, number = time.monotonic(), 0
        while not self.over.is_set():
            pause = began + number / self._rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            number += 1
            # Evenly: of ten transactions three are aborted, or as many as the share says.
            abort = int(number * self._aborted) > int((number - 1) * self._aborted)
            try:
                self._transaction(producer, mine, abort=abort)
            except KafkaException:
                if not self.over.is_set():
                    raise

    def _transaction(self, producer: Producer, partitions: range, *, abort: bool) -> None:
        producer.begin_transaction()
        for partition in partitions:
            with self._lock:
                number = ABORTED if abort else self.sent
                self.sent += not abort
            value = STAMP.pack(number, time.monotonic_ns()) + self._padding
            producer.produce(self._topic, value, partition=partition)
        if abort:
            producer.flush(30)  # what was not sent yet an abort drops
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
