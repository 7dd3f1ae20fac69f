"""Follows the status topic from its beginning: what others ask of a job stands there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
# A client made anew reads a password or a certificate that was renewed.
_LOST = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN)
_ANSWER_S, _WAIT_S = 10.0, 1.0


def followed(consumer: Consumer, topic: str, troubles: Sequence[KafkaError]) -> Iterator[tuple[Message | None, bool]]:
    """A record, or None where a second brought none; and whether all has been read that was there at the beginning.

    Without end; ``troubles``: what the consumer's error callback heard. Raises KafkaException where another client
    has to be made.
    """
    described = consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic]
    if described.error is not None:
        raise KafkaException(described.error)
    waiting = dict.fromkeys(described.partitions, 0)
    for partition in waiting:
        waiting[partition] = consumer.get_watermark_offsets(TopicPartition(topic, partition), _ANSWER_S)[1]
    consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
    while True:
        message = consumer.poll(_WAIT_S)
        if lost := [trouble for trouble in troubles if trouble.code() in _LOST]:
            raise KafkaException(lost[0])
        record = None if message is None else _record(message, waiting)
        yield record, not waiting


def _record(message: Message, waiting: dict[int, int]) -> Message | None:
    """``waiting``: partition -> end, until it was read that far."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        if error.code() in (*DENIED, *MISSING) or error.fatal():
            raise KafkaException(error)
        return None
    partition, offset = message.partition(), message.offset() + (error is None)
    if offset >= waiting.get(partition, offset + 1):
        del waiting[partition]
    return message if error is None else None
