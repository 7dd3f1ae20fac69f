"""Reads a partition with librdkafka, which the copy does not use, so that no fault of the copy's code hides itself.

The cluster's ``client`` settings override our defaults, except for settings that the comparison depends on.
"""

import os
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from reconciler.kafka.client.auth.oauth import librdkafka_settings
from reconciler.kafka.client.auth.settings import read_secret
from reconciler.kafka.client.auth.supported_settings import forbidden, not_by_librdkafka
from reconciler.kafka.client.errors import SettingError
from reconciler.replication.handover import Endpoint
from reconciler.replication.secret_references import resolve
from reconciler_mirror.verify import unreadable
from reconciler_mirror.verify.model import OffsetSpan, VerifiedRecord

_CONSUME = {
    "fetch.queue.backoff.ms": 2,  # with librdkafka's 1000 the reader idles (measured)
    "queued.max.messages.kbytes": 16_384,  # several lanes share a task's memory
    "queued.min.messages": 100_000,
    "fetch.wait.max.ms": 5,  # the next partition waits for the last request of the one before
    "fetch.message.max.bytes": 1_048_576,
    "check.crcs": True,
}
_SAMPLE = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1_024, "fetch.message.max.bytes": 65_536}
_PRODUCER_ONLY = ("compression.", "linger.", "batch.", "queue.buffering.", "acks", "request.required", "message.send")
_AT_ONCE = 2_000
_SILENCE_S = 60.0
# Transient errors while a leader moves or a connection breaks.
_MOVING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
_NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
"""librdkafka insists on a group and looks for its coordinator, although it reads nothing there. The mirror needs no
rights on that group, so this error is ignored."""


def partition_reader(endpoint: Endpoint, isolation: str, *, sample: bool = False) -> Consumer:
    """A consumer of assigned partitions from given offsets, which joins no group and resets no offset. ``sample``: for
    a few records after each offset, so it fetches little ahead.

    Raises MissingReference for a missing secret, SettingError for a setting that no client may have, and KafkaException
    for one that librdkafka does not know.
    """
    if refused := forbidden(endpoint.client):
        raise SettingError(f"cluster {endpoint.cluster}: {refused[0]}")
    given = librdkafka_settings(resolve(endpoint.client, os.environ, read_secret))
    settings: dict[str, Any] = {key: value for key, value in given.items() if not key.startswith(_PRODUCER_ONLY)}
    must = {
        "bootstrap.servers": ",".join(endpoint.bootstrap_servers),
        "log_level": 0,  # problems of a cluster arrive as errors, too
        "group.id": "mirror.verify",  # librdkafka requires a group, but nothing is ever committed
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": isolation,
        "receive.message.max.bytes": 2_000_000_000,
    }
    return Consumer({**_CONSUME, **(_SAMPLE if sample else {}), "reconnect.backoff.max.ms": 2_000, **settings, **must})


class SecondClient:
    """Reads partitions of one cluster, one stream of records at a time. One thread.

    Raises CannotLogInError when it is made, and UnreadableError.
    """

    def __init__(self, span: OffsetSpan, *, sample: bool = False) -> None:
        if reason := not_by_librdkafka(span.endpoint.client):
            raise unreadable.CannotLogInError(reason)
        try:
            self._consumer: Consumer = partition_reader(span.endpoint, span.isolation, sample=sample)
        except KafkaException as error:
            raise unreadable.CannotLogInError(error.args[0].str()) from None
        except (LookupError, SettingError) as error:
            raise unreadable.not_connected(span, str(error)) from None

    def close(self) -> None:
        self._consumer.close()

    def rest(self) -> None:
        """Fetches nothing until the next stream."""
        self._consumer.unassign()

    def records(self, span: OffsetSpan, *, timestamps: bool = True, to_end: bool = False) -> Iterator[VerifiedRecord]:
        """As ``read_partition.records``."""
        try:
            for message in self._messages(span, to_end):
                headers = tuple(message.headers() or ())
                timestamp = message.timestamp()[1] if timestamps else 0
                yield VerifiedRecord(message.offset(), timestamp, message.key(), message.value(), headers)
        except KafkaException as error:
            gone = error.args[0].code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
            raise (unreadable.removed if gone else unreadable.unread)(span, error.args[0].str()) from None
        except UnicodeDecodeError:
            raise unreadable.unread(span, "a header name is not UTF-8") from None

    def _messages(self, span: OffsetSpan, to_end: bool) -> Iterator[Message]:
        """Messages of ``span``; ignores transient errors, until nothing has arrived for ``_SILENCE_S``."""
        consumer = self._consumer
        consumer.assign([TopicPartition(span.topic, span.partition, span.start)])
        heard = time.monotonic()
        while True:
            messages = consumer.consume(1, 0.5)  # consume(n) waits until it has n
            messages += consumer.consume(_AT_ONCE, 0) if messages else []
            if any(message.error() is None or not _is_moving(message.error()) for message in messages):
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE_S:
                raise unreadable.silent(span, _SILENCE_S)
            for message in messages:
                error = message.error()
                if error is not None and (_is_moving(error) or error.code() == _NO_GROUP):
                    continue
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if message.offset() >= span.end and not to_end:  # also the partition's end, behind the last marker
                    return
                if error is not None:
                    if to_end:
                        return
                    continue
                yield message
                if message.offset() + 1 == span.end and not to_end:
                    return


def _is_moving(error: KafkaError) -> bool:
    return error.code() in _MOVING
