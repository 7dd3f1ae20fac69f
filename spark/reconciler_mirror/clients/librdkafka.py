"""The librdkafka client of ``verify``, from the settings of an endpoint; the copy itself does not use librdkafka.

The cluster's ``client`` settings override our defaults, except for settings that the comparison depends on.
"""

import os
from typing import Any

from confluent_kafka import Consumer

from reconciler.kafka.client.auth.oauth import librdkafka_settings
from reconciler.kafka.client.auth.settings import read_secret
from reconciler.kafka.client.auth.supported_settings import forbidden
from reconciler.kafka.client.errors import SettingError
from reconciler.replication.handover import Endpoint
from reconciler.replication.secret_references import resolve

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
