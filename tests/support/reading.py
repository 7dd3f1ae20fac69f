"""A topic as a stranger reads it: with confluent-kafka's consumer, which shares no code with what is under test."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from reconciler_sandbox.handles import ClusterHandle

PATIENCE_S = 60.0


def to_the_end(
    cluster: ClusterHandle, topic: str, partitions: Iterable[int] | None = None, isolation: str = "read_committed"
) -> Iterator[Message]:
    """Every record of ``partitions``, or of all there are, up to where each ends when it is reached. Ordered inside a
    partition only."""
    settings = {
        **cluster.super_client(),
        "group.id": "stranger",  # librdkafka wants one; nothing is committed
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "check.crcs": True,
        "fetch.queue.backoff.ms": 2,
        "fetch.wait.max.ms": 10,  # the end is told by an empty answer, for which a broker lets wait
        "receive.message.max.bytes": 200_000_000,
    }
    consumer = Consumer(settings)
    until, trouble = time.monotonic() + PATIENCE_S, ""
    try:
        # With its leaders known, the client asks for offsets at once, and not half a second later.
        known = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        left = set(known if partitions is None else partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
        while left:
            assert time.monotonic() < until, f"{topic} on {cluster.name} was not read to its end: {left} {trouble}"
            for message in consumer.consume(1000, 0.05):
                if (error := message.error()) is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:  # a broker that is away, or does not know the topic yet
                    trouble = error.str()
    finally:
        consumer.close()
