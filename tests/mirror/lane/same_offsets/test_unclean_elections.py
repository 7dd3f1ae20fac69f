"""A target whose leaders are elected without having everything: what they lack is copied again, to the same offsets.

``ROUNDS`` in the environment elects more often.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.clusters import EAST, CreateTopic
from tests.support.lanes.lane_runs import Flow, UntilControl, copied_while_written
from tests.support.lanes.load import mixed
from tests.support.lanes.truth import PAIR, assert_equal, ends, map_topic
from tests.support.waiting import until

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.long,
    pytest.mark.skipif(EAST.number < (3, 9), reason="2.8 is refused as a target, and 3.3 elected nobody"),
]

ROUNDS = int(os.environ.get("ROUNDS", "2"))
REPLICAS = (2, 3)


def test_what_an_unclean_election_lost_is_copied_again_to_its_offsets(
    ha: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    flow = Flow(ha["east"], ha["west"], unique, PAIR)
    create_topic(flow.source, flow.topic, PAIR)
    _two_replicas(flow)
    map_topic(flow.target)
    with copied_while_written(flow, _writing, 400 * ROUNDS) as control:
        for _ in range(ROUNDS):
            _elect_uncleanly(flow, control)
            control.until_all_copy()
    assert_equal(flow)


def _two_replicas(flow: Flow) -> None:
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    admin = AdminClient(flow.target.super_client())
    topic = NewTopic(flow.remote, PAIR, replica_assignment=[list(REPLICAS)] * PAIR, config=config)
    admin.create_topics([topic], operation_timeout=30)[flow.remote].result(60)


def _writing(flow: Flow, enough: threading.Event) -> None:
    seed = 0
    while not enough.is_set():
        mixed(flow, 3, seed=(seed := seed + 1))


def _elect_uncleanly(flow: Flow, control: UntilControl) -> None:
    """The replica that was away leads, without what was copied meanwhile."""
    away, left = REPLICAS
    flow.target.kill(away)
    _until_leads(flow.target, flow.remote, left)
    control.until_all_copy()
    seen = sum(ends(flow.target, flow.remote))
    # What the lane copies from here on, only one replica has. How much less the other one has cannot be read from its
    # end later: the lane copies again as soon as it leads.
    until(lambda: sum(ends(flow.target, flow.remote)) > seen)
    flow.target.kill(left)
    flow.target.start(away)
    _until_leads(flow.target, flow.remote, away)
    flow.target.start(left)


def _until_leads(cluster: ClusterHandle, topic: str, node: int) -> None:
    deadline, leaders = time.monotonic() + 120, list[object]()
    while leaders != [node] * PAIR:
        assert time.monotonic() < deadline, leaders
        admin = AdminClient({**cluster.super_client(), "log_level": 0})
        with suppress(KafkaException):  # one of two brokers is away
            described = admin.describe_topics(TopicCollection([topic]), request_timeout=10)[topic].result(20)
            leaders = [part.leader and part.leader.id for part in described.partitions]
        time.sleep(0.2)
