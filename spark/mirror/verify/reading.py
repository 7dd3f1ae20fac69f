"""Reading one partition between two offsets, as a committed reader sees it: no group, no stored position.

Border: the only module of the comparison that holds a consumer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror import clients
from mirror.faults import error_of, is_moving
from mirror.verify.ranges import Span
from mirror.verify.records import Record

_AT_ONCE = 2_000
_SILENCE_S = 60.0
_WATERMARKS_S = 20.0
_MOVING_S = 10.0
"""How long a leader may be unknown."""


class UnreadableError(Exception):
    """A side could not be read to its bound. ``todo``: what a person can do."""

    def __init__(self, what: str, todo: str) -> None:
        super().__init__(what)
        self.todo = todo


def records(span: Span, *, timestamps: bool = True, to_end: bool = False) -> Iterator[Record]:
    """Every committed record of ``span`` in order. Without ``timestamps`` all of them are 0. ``to_end``: on to the end
    that the partition has when it is reached.

    Raises UnreadableError, also when the log begins after ``span.start`` by now.
    """
    if span.start >= span.end and not to_end:
        return
    consumer = _consumer(span)
    try:
        for offset, message in _messages(consumer, span, to_end):
            headers = tuple(message.headers() or ())
            timestamp = message.timestamp()[1] if timestamps else 0
            yield Record(offset, timestamp, message.key(), message.value(), headers)
    except KafkaException as error:
        raise _unreadable(span, error.args[0].str(), error.args[0].code()) from None
    except UnicodeDecodeError:
        raise _unreadable(span, "a header name is not UTF-8", None) from None
    finally:
        consumer.close()


def log_start(span: Span) -> int:
    """Where the log begins now. Raises UnreadableError."""
    consumer = _consumer(span)
    try:
        return _low(consumer, span)
    except KafkaException as error:
        raise _unreadable(span, error.args[0].str(), error.args[0].code()) from None
    finally:
        consumer.close()


def _low(consumer: Consumer, span: Span) -> int:
    place = TopicPartition(span.topic, span.partition)
    until = time.monotonic() + _MOVING_S
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=_WATERMARKS_S)[0])
        except KafkaException as error:
            if not is_moving(error_of(error)) or time.monotonic() > until:
                raise
        time.sleep(0.1)


def _consumer(span: Span) -> Consumer:
    try:
        return clients.partition_reader(span.endpoint, span.isolation)
    except (LookupError, KafkaException) as error:
        raise UnreadableError(
            f"{span.endpoint.cluster} cannot be connected: {error}", "Mend the client settings or the secret."
        ) from None


def _messages(consumer: Consumer, span: Span, to_end: bool) -> Iterator[tuple[int, Message]]:
    low = _low(consumer, span)
    if low > span.start:
        raise _unreadable(span, f"it begins at {low} now", KafkaError.OFFSET_OUT_OF_RANGE)
    consumer.assign([TopicPartition(span.topic, span.partition, span.start)])
    heard = time.monotonic()
    while True:
        found = consumer.consume(_AT_ONCE, 0.5)
        if any(message.error() is None or not is_moving(message.error()) for message in found):
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENCE_S:
            raise UnreadableError(
                f"nothing was read of {span.name} for {_SILENCE_S:.0f} s",
                f"Look whether the brokers of {span.endpoint.cluster} run, then verify again.",
            )
        for message in found:
            error = message.error()
            if error is not None and is_moving(error):
                continue
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if message.offset() >= span.end and not to_end:  # also the end of the partition, behind the last marker
                return
            if error is not None:
                if to_end:
                    return
                continue
            yield message.offset(), message
            if message.offset() + 1 == span.end and not to_end:
                return


def _unreadable(span: Span, why: str, code: int | None) -> UnreadableError:
    if code in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
        return UnreadableError(
            f"records of {span.name} were removed while they were read: {why}",
            "Verify again; retention is faster than the reading, so compare a smaller range with --from.",
        )
    return UnreadableError(
        f"{span.name} cannot be read: {why}",
        "Check that the topic is there and that the mirror's principal may read it.",
    )
