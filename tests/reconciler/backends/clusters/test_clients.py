"""Who writes and who reads, as real brokers tell it; a transaction that is open, named, and aborted."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters.clients import abort, members_of, producers_of, transactional_ids
from reconciler.backends.clusters.groups import Side
from tests.support.clusters import CreateTopic, real_cluster

pytestmark = pytest.mark.kafka


def test_an_open_transaction_is_named_and_aborted(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    east = plain["east"]
    create_topic(east, unique, 2)
    side, keys = Side(real_cluster(east)), [(unique, 0), (unique, 1), ("absent-topic", 0)]
    settings = {**east.client(), "transactional.id": f"{unique}-tx", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(20)
    producer.begin_transaction()
    before = int(time.time() * 1000)
    for number in range(3):
        producer.produce(unique, b"%d" % number, partition=1)
    producer.flush(20)

    seen = producers_of(side, keys)
    assert seen is not None
    assert seen[unique, 0] == ()
    [active] = seen[unique, 1]
    assert active.open_from == 0
    assert active.last_sequence == 2
    assert before - 60_000 < active.last_ms < before + 60_000
    assert ("absent-topic", 0) not in seen
    assert transactional_ids(side, [active.producer_id, 10**9]) == {active.producer_id: f"{unique}-tx"}

    abort(side, f"{unique}-tx")
    after = producers_of(side, keys)
    assert after is not None
    assert [each.open_from for each in after[unique, 1]] == [-1]
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)


def test_members_have_their_client_and_host(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    east = plain["east"]
    create_topic(east, unique)
    side = Side(real_cluster(east))
    consumer = Consumer({**east.client(), "group.id": unique, "client.id": "billing-7", "log_level": 0})
    consumer.subscribe([unique])
    until = time.monotonic() + 60
    while not consumer.assignment():
        assert time.monotonic() < until
        consumer.poll(0.2)
    members = members_of(side, [unique, "absent-group"])
    consumer.close()
    assert [each.client_id for each in members[unique]] == ["billing-7"]
    assert members[unique][0].host
    assert "absent-group" not in members
