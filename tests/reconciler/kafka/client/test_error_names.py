"""Error codes have Kafka's own names; kafka-python's list, with some older ones, agrees."""

from __future__ import annotations

import pytest
from kafka.errors import for_code

from reconciler.kafka.client.errors import BrokerError, name_of

# Kafka renamed the first in 2.6; the others never had the client's names
OTHERWISE = {6: "NOT_LEADER_OR_FOLLOWER", 10: "MESSAGE_TOO_LARGE", 17: "INVALID_TOPIC_EXCEPTION"}
OTHERWISE |= {39: "INVALID_REPLICA_ASSIGNMENT"}


@pytest.mark.parametrize("code", range(1, 128))
def test_a_code_has_the_name_that_kafka_gives_it(code: int) -> None:
    known = for_code(code)
    assert known.errno == code
    assert name_of(code) == f"{OTHERWISE.get(code, known.message)} ({code})"


def test_codes_without_a_name_are_reported_as_numbers() -> None:
    assert name_of(-1) == "UNKNOWN_SERVER_ERROR (-1)"
    assert [name_of(code) for code in (-2, 9999)] == ["error code -2", "error code 9999"]
    assert str(BrokerError(3, "topic orders on east")) == "topic orders on east: UNKNOWN_TOPIC_OR_PARTITION (3)"
