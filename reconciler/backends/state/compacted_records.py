"""Compacted records of one environment in ``__reconciler``, on the cluster that they are about.

What they say is ``ownership``. Writers hold the environment's lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import cleaned, client_settings, speaker_of
from reconciler.backends.connections.librdkafka import (
    CONNECT_SECONDS,
    REQUEST_SECONDS,
    AdminConnection,
    DebugLog,
    deliver,
    topic_reader,
    unheard,
)
from reconciler.backends.connections.retries import patiently, reads_on
from reconciler.backends.state import topic as lock_topic
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.state.lock import LOCK_TOPIC

_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
READ_SECONDS = 30.0


class RecordLog:
    """Raises ClusterError. Opens a client for each call and closes it on the calling thread."""

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self.cluster = cluster
        self.principal = principal
        self._ensured = False

    def read(self, *prefixes: str) -> Mapping[str, bytes]:
        """The newest value of each key that begins with one of ``prefixes``. Empty where the topic does not exist."""
        settings = client_settings(self.cluster, self.principal)
        # uncommitted: only the lock is written in transactions
        consumer = topic_reader(settings, "reconciler-access", unheard, "read_uncommitted")
        try:
            return self._all(consumer, tuple(prefix.encode() for prefix in prefixes))
        except KafkaException as error:
            raise self._error(error.args[0], errors.read_topic(LOCK_TOPIC)) from None
        finally:
            consumer.close()

    def write(self, entries: Mapping[str, bytes | None]) -> None:
        """All of them, or an error; None strikes an entry. Makes the topic where it is missing."""
        if not entries:
            return
        self._ensure_topic()
        settings = {
            **client_settings(self.cluster, self.principal),
            "acks": "all",
            "enable.idempotence": False,  # an entry written twice is the same entry
            "delivery.timeout.ms": int(REQUEST_SECONDS * 1000),
            "linger.ms": 5,
            "error_cb": unheard,
        }
        producer = Producer(settings, logger=DebugLog())
        failed, unsent = deliver(producer, LOCK_TOPIC, entries.items(), REQUEST_SECONDS + 5, partition=0)
        if failed or unsent:
            raise self._error(failed or KafkaError(KafkaError._TIMED_OUT), errors.write_topic(LOCK_TOPIC))

    def _all(self, consumer: Consumer, prefixes: tuple[bytes, ...]) -> Mapping[str, bytes]:
        topic = consumer.list_topics(LOCK_TOPIC, CONNECT_SECONDS).topics[LOCK_TOPIC]
        if topic.error is not None:
            if topic.error.code() in _MISSING:
                return MappingProxyType({})
            raise KafkaException(topic.error)
        part = TopicPartition(LOCK_TOPIC, 0)
        first, end = patiently(lambda: consumer.get_watermark_offsets(part, CONNECT_SECONDS), CONNECT_SECONDS)
        consumer.assign([TopicPartition(LOCK_TOPIC, 0, first)])
        values: dict[bytes, bytes] = {}
        for key, value in self._records(consumer, first, end, prefixes):
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        return MappingProxyType({key.decode(errors="replace"): value for key, value in values.items()})

    def _records(
        self, consumer: Consumer, at: int, end: int, prefixes: tuple[bytes, ...]
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Those under the prefixes, up to ``end``."""
        until = time.monotonic() + READ_SECONDS
        while at < end:
            if time.monotonic() > until:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{LOCK_TOPIC} could not be read to its end"))
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    at = max(at, message.offset() + 1)
                    key: Any = message.key()
                    if key is not None and key.startswith(prefixes) and message.offset() < end:
                        yield key, message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    at = max(at, message.offset())
                elif not reads_on(error):
                    raise KafkaException(error)

    def _ensure_topic(self) -> None:
        """Checked once: if the topic is deleted during a run, the next write fails and says so."""
        if self._ensured:
            return
        connection = AdminConnection(self.cluster, self.principal)
        try:
            described = connection.cluster()
            topics = connection.admin.list_topics(LOCK_TOPIC, CONNECT_SECONDS).topics
            if topics[LOCK_TOPIC].error is None:
                self._ensured = True
                return
            if failed := lock_topic.make(connection, LOCK_TOPIC, len(described.nodes)):
                raise failed
        except KafkaException as error:
            raise self._error(error.args[0], errors.describe_topic(LOCK_TOPIC)) from None
        finally:
            connection.close()

    def _error(self, error: KafkaError, asked: errors.Asked) -> ClusterError:
        words = cleaned(error.str(), self.cluster, self.principal)
        return errors.translate(speaker_of(self.cluster, self.principal), error, asked, words)
