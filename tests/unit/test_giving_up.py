"""A transaction that failed in the background is aborted, and the record that was its cause is told."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from mirror.delivery import Failures, Transactional
from mirror.faults import RefusedError


class FailedInBackground:
    """Of a Producer: its delivery reports come with the abort."""

    def __init__(self, failures: Failures, *codes: int) -> None:
        self.failures = failures
        self.codes = codes
        self.aborted = 0

    def abort_transaction(self, _seconds: float) -> None:
        self.aborted += 1
        for code in self.codes:
            self.failures(KafkaError(code), Message(topic="west.orders", partition=3, offset=-1001))


def _failed_with(*codes: int) -> tuple[Transactional, FailedInBackground]:
    delivery = Transactional.__new__(Transactional)
    delivery.failures = Failures()
    producer: Any = FailedInBackground(delivery.failures, *codes)
    delivery.producer = producer
    return delivery, producer


def test_a_refused_record_is_told_also_when_produce_only_says_erroneous_state() -> None:
    delivery, producer = _failed_with(KafkaError.INVALID_RECORD, KafkaError._PURGE_QUEUE)
    with pytest.raises(RefusedError):
        delivery.give_up(KafkaException(KafkaError(KafkaError._STATE)))
    assert producer.aborted == 1


def test_without_a_refused_record_the_first_error_is_told() -> None:
    delivery, producer = _failed_with(KafkaError._PURGE_QUEUE)
    with pytest.raises(KafkaException) as raised:
        delivery.give_up(KafkaException(KafkaError(KafkaError._STATE)))
    assert raised.value.args[0].code() == KafkaError._STATE
    assert producer.aborted == 1


def test_a_fenced_producer_aborts_nothing() -> None:
    delivery, producer = _failed_with()
    with pytest.raises(KafkaException):
        delivery.give_up(KafkaException(KafkaError(KafkaError._FENCED)))
    assert producer.aborted == 0
