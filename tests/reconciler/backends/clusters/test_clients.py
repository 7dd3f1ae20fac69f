"""Writers and readers as real brokers report them; an open transaction that is named and aborted."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters.clients import abort, let_write, members_of, producers_of, transactional_ids
from reconciler.backends.clusters.groups import Side
from reconciler.model.environment.topology import Principal
from tests.support.access.acls import rules
from tests.support.access.role_users import kafka_filter, kafka_rule
from tests.support.clusters import CreateTopic, real_cluster, scram
from tests.support.waiting import until

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


@scram
def test_whether_a_login_may_write_is_asked_without_a_record(
    secure: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    """A broker asks its authorizer before it looks at a batch that it would refuse anyway."""
    east = secure["east"]
    create_topic(east, unique, 3)
    create_topic(east, f"{unique}-hidden")
    side, admin = Side(real_cluster(east, "user"), Principal.PROBE), AdminClient(east.super_client())
    everywhere = {(unique, number) for number in range(3)}
    topics = {unique: 3, f"{unique}-hidden": 1}
    assert let_write(side, topics) == frozenset()
    allow = rules(f"allow User:user write topic {unique}")
    deny = rules(f"deny User:* write topic {unique}")
    for made, may in ((allow, everywhere), (deny, set())):
        for done in admin.create_acls([kafka_rule(each) for each in made]).values():
            done.result(30)
        until(partial(_lets_write, side, topics, may))
    for done in admin.delete_acls([kafka_filter(each) for each in (*allow, *deny)]).values():
        done.result(30)
    ends = Side(real_cluster(east)).bounds(everywhere)
    assert {bound.end for bound in ends.values()} == {0}


def _lets_write(side: Side, topics: Mapping[str, int], wanted: Collection[tuple[str, int]]) -> bool:
    return let_write(side, topics) == wanted
