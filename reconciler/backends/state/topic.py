"""The compacted topic ``__reconciler`` of locks and records: created where it is missing."""

from __future__ import annotations

from confluent_kafka.admin import NewTopic

from reconciler.backends.connections import errors
from reconciler.backends.connections.librdkafka import AdminConnection
from reconciler.errors import ClusterError
from reconciler.model.state.lock import lock_topic_configs, lock_topic_factors

_WRITE_SECONDS, _READ_SECONDS = 15.0, 30.0


def make(connection: AdminConnection, topic: str, brokers: int) -> ClusterError | None:
    """``brokers``: how many live. Why it could not be made; None also when another run has made it meanwhile."""
    failed: ClusterError | None = None
    for factor in lock_topic_factors(brokers):
        new = NewTopic(topic, 1, factor, config=lock_topic_configs(factor))
        asked = connection.admin.create_topics([new], operation_timeout=_WRITE_SECONDS, request_timeout=_READ_SECONDS)
        connection.settle(asked.values())
        failed = connection.failure(asked[topic], errors.create_topic(topic))
        if failed is None or failed.kind == "exists":
            return None
        if failed.kind != "invalid":
            break
    return failed


def by_hand(server: str, topic: str, brokers: int) -> str:
    factor = lock_topic_factors(brokers)[-1]
    configs = " ".join(f"--config {key}={value}" for key, value in lock_topic_configs(factor).items())
    return (
        f"kafka-topics.sh --bootstrap-server {server} --create --topic {topic}"
        f" --partitions 1 --replication-factor {factor} {configs}"
    )
