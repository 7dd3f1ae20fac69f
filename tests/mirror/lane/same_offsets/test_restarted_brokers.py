"""A target of three brokers that is restarted one after the other while a source in transactions is copied.

``ROUNDS`` in the environment restarts all of them more often.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from reconciler_sandbox.handles import Sandbox

from tests.support.lanes.lane_runs import Flow, copied_while_written
from tests.support.lanes.truth import assert_equal, map_topic

pytestmark = pytest.mark.timeout(600)

CreateTopic = Callable[..., str]
PARTITIONS = 4
ROUNDS = int(os.environ.get("ROUNDS", "1"))


@pytest.mark.long
def test_leaders_that_are_stopped_in_turn_leave_both_sides_equal(
    ha: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    """A leader that moves before it has answered has written the marker: the coordinator of Kafka writes it again."""
    flow = Flow(ha["east"], ha["west"], unique, PARTITIONS)
    create_topic(flow.source, flow.topic, PARTITIONS)
    create_topic(flow.target, flow.remote, PARTITIONS)
    map_topic(flow.target)
    with copied_while_written(flow, _in_transactions, 500 * ROUNDS) as control:
        for _ in range(ROUNDS):
            for broker in (1, 2, 3):
                flow.target.stop(broker)
                try:
                    control.until_all_copy()
                finally:
                    flow.target.start(broker)
                control.until_all_copy()
    assert_equal(flow)


def _in_transactions(flow: Flow, enough: threading.Event) -> None:
    """One record a partition and transaction, some tens of transactions a second."""
    producer = Producer({**flow.source.super_client(), "transactional.id": flow.topic, "linger.ms": 0, "log_level": 0})
    producer.init_transactions(60)
    while not enough.wait(0.01):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(flow.topic, b"value", b"key", partition)
        producer.commit_transaction(60)
