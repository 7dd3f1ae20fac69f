"""Which connection errors are transient (a leader moves, a connection breaks) and retried for a while. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

Answer = TypeVar("Answer")
PAUSE_SECONDS = 0.1

_MOVING_LEADER = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    # A broker whose metadata is older than ours (unknown) or newer (fenced): KIP-320.
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
}
_NOT_YET_KNOWN = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._NOENT,
}
_BROKEN_CONNECTION = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._DESTROY_BROKER,  # a bootstrap server that the client gives up for the broker it has learned of
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.BROKER_NOT_AVAILABLE,
}
# The log start overtook the place that was asked for; the client goes on there (auto.offset.reset=earliest).
_CLEANED = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}
# The client looks for the coordinator of a group that we never join, and needs no permission for.
_NO_GROUP = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._WAIT_COORD, KafkaError.COORDINATOR_NOT_AVAILABLE}


def asks_again(error: KafkaError) -> bool:
    """Of a request about a topic that was just seen, or just made."""
    return error.code() in _MOVING_LEADER | _NOT_YET_KNOWN | _BROKEN_CONNECTION


def reads_on(error: KafkaError) -> bool:
    """Of a consumer with an assigned partition: the client itself goes on where this one ends."""
    return asks_again(error) or error.code() in _CLEANED | _NO_GROUP


def patiently(
    ask: Callable[[], Answer],
    seconds: float,
    leader_seconds: float = 0.0,
    waits: Callable[[KafkaError], None] = lambda _: None,
) -> Answer:
    """The answer of the first ``ask`` that gives one. Raises the KafkaException of the last within ``seconds``, and
    at once one that does not pass. ``leader_seconds``: where that is longer, for a leader that brokers which answer do
    not know yet. ``waits`` hears each error that is waited out."""
    began = time.monotonic()
    while True:
        try:
            return ask()
        except KafkaException as error:
            failed: KafkaError = error.args[0]
            chosen = failed.code() in _MOVING_LEADER | _NOT_YET_KNOWN
            most = max(seconds, leader_seconds) if chosen else seconds
            if not asks_again(failed) or time.monotonic() - began > most:
                raise
            waits(failed)
        time.sleep(PAUSE_SECONDS)
