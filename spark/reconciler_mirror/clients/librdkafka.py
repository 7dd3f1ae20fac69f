"""Makes librdkafka clients of the job from the settings of an endpoint.

What the cluster's ``client`` settings say wins over our defaults, except where exactly-once depends on ours.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from reconciler.kafka.client.auth.settings import read_secret
from reconciler.kafka.client.auth.supported_settings import forbidden
from reconciler.kafka.client.errors import SettingError
from reconciler.replication.handover import Endpoint
from reconciler.replication.secret_references import resolve

_CONSUME = {
    "fetch.queue.backoff.ms": 2,  # librdkafka's 1000 leaves the reader without work (measured)
    "queued.max.messages.kbytes": 16_384,  # several lanes share a task's memory
    "queued.min.messages": 100_000,
    "fetch.wait.max.ms": 5,  # the next partition waits for the last request at the end of the one before
    "fetch.message.max.bytes": 1_048_576,
    "check.crcs": True,
}
_PRODUCER_ONLY = ("compression.", "linger.", "batch.", "queue.buffering.", "acks", "request.required", "message.send")
_CONSUMER_ONLY = ("fetch.", "queued.", "check.crcs")
_OTHERS = (*_PRODUCER_ONLY, *_CONSUMER_ONLY)
_FIXED = {"enable.auto.commit": False, "allow.auto.create.topics": False}


def _connection(endpoint: Endpoint, not_for: tuple[str, ...]) -> dict[str, Any]:
    """Raises MissingReference for a secret that is not there, SettingError for a setting that no client is given."""
    if refused := forbidden(endpoint.client):
        raise SettingError(f"cluster {endpoint.cluster}: {refused[0]}")
    given = resolve(endpoint.client, os.environ, read_secret)
    settings: dict[str, Any] = {key: value for key, value in given.items() if not key.startswith(not_for)}
    settings["bootstrap.servers"] = ",".join(endpoint.bootstrap_servers)
    settings["logger"] = logging.getLogger("librdkafka")
    settings.setdefault("reconnect.backoff.max.ms", 2_000)
    return settings


def plain_producer(endpoint: Endpoint) -> Producer:
    must = {"enable.idempotence": True, "compression.type": "lz4", "message.timeout.ms": 10_000}
    return Producer({**_connection(endpoint, _OTHERS), **must})


def admin(endpoint: Endpoint) -> AdminClient:
    return AdminClient(_connection(endpoint, _OTHERS))


def partition_reader(endpoint: Endpoint, isolation: str) -> Consumer:
    """Reads assigned partitions from given offsets; in no group, resets no offset by itself."""
    must = {
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": isolation,
        "receive.message.max.bytes": 2_000_000_000,
    }
    given = _connection(endpoint, _PRODUCER_ONLY)
    fixed = {"group.id": "mirror.verify", **_FIXED}  # librdkafka wants a group; nothing is ever committed
    return Consumer({**_CONSUME, **given, **fixed, **must})
