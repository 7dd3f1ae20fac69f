"""Appends records to a topic unchanged: key, value, headers and timestamp, each to a named partition.

The producer is idempotent, so a record that it sends again is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from reconciler.backends.connections.credentials import client_settings
from reconciler.backends.connections.errors import Asked
from reconciler.backends.connections.librdkafka import AdminConnection, DebugLog
from reconciler.errors import ClusterError
from reconciler.kafka.client.auth.oauth import librdkafka_settings
from reconciler.model.environment.topology import Cluster, Principal

SECONDS = 30.0
LARGEST = 100_000_000
"""Bytes of a record that are sent at all: the broker judges by the topic's ``max.message.bytes``."""


class TopicWriter:
    """Writes to one topic, within a ``with``. ``partitions``: how many it has, None when it does not exist.
    ``restamped``: how many records the topic gave the time of its broker in place of their timestamp."""

    def __init__(self, cluster: Cluster, principal: Principal, topic: str) -> None:
        """Raises ClusterError."""
        self.topic = topic
        self.restamped = 0
        self._asked = Asked(f"write to topic {topic}", "Write", f"--topic {topic}")
        self._failed: KafkaError | None = None
        self._connection = AdminConnection(cluster, principal)
        description = self._connection.topic(topic)
        self.partitions: int | None = None if description is None else len(description.partitions)
        settings = {
            **librdkafka_settings(client_settings(cluster, principal)),
            "enable.idempotence": True,
            "message.max.bytes": LARGEST,
            "delivery.timeout.ms": int(SECONDS * 1000),
            "error_cb": self._connection.heard,
        }
        self._producer = Producer(settings, logger=DebugLog())

    def __enter__(self) -> TopicWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def append(
        self,
        partition: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        """``timestamp`` in ms since 1970. Raises ClusterError if the broker refused this record or an earlier one."""
        while True:
            self._require_taken()
            try:
                self._producer.produce(
                    self.topic,
                    value,
                    key,
                    partition,
                    on_delivery=self._delivered,
                    timestamp=max(0, timestamp),
                    headers=list(headers),
                )
            except BufferError:
                self._producer.poll(0.1)
                continue
            except KafkaException as error:
                raise self._connection.error(error.args[0], self._asked) from None
            self._producer.poll(0)
            return

    def finish(self) -> None:
        """Returns once all is written. Raises ClusterError; then some may be."""
        left = self._producer.flush(SECONDS + 5)
        self._require_taken()
        if left:
            text = f"{self._connection.speaker.cluster}: {left} records of topic {self.topic} were not answered"
            raise ClusterError(self._connection.speaker.cluster, "unreachable", text)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed = self._failed or error
        elif message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME:
            self.restamped += 1

    def _require_taken(self) -> None:
        if self._failed is not None:
            raise self._connection.error(self._failed, self._asked)
