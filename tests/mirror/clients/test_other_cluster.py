"""Another cluster answers at the address of one that a lane copies from or to: nothing is read or written there."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Claim
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.lanes.high_offsets import replaced
from tests.support.lanes.lane_runs import Content, Flow, Lane, caught_up, fill, has, running
from tests.support.lanes.truth import map_topic, with_topics

NOW = int(time.time() * 1000)
RECORDS: list[Content] = [(b"%d" % i, b"v%d" % i, (), NOW) for i in range(60)]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: Callable[..., str]) -> Flow:
    return with_topics(Flow(plain["east"], plain["west"], unique), create_topic, RECORDS)


def as_it_was(flow: Flow, cluster: ClusterHandle, create_topic: Callable[..., str]) -> str:
    """The topic of ``flow`` on the cluster that took the place of ``cluster``."""
    map_topic(cluster)
    return create_topic(cluster, flow.topic if cluster is flow.source else flow.remote, retention_ms="-1")


@pytest.mark.long
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_running_lane_waits_for_its_own_cluster(flow: Flow, side: str, create_topic: Callable[..., str]) -> None:
    cluster = flow.source if side == "source" else flow.target
    with running(Lane(flow.lane())) as lane:
        lane.until(caught_up)
        with replaced(cluster):
            topic = as_it_was(flow, cluster, create_topic)
            if side == "source":
                fill(cluster, topic, RECORDS)
            else:
                fill(flow.source, flow.topic, RECORDS)
            seen = lane.until(has(f"{side}_unreachable"), 60)
            [condition] = {one for one in seen.conditions if one.code == f"{side}_unreachable"}
            assert "another cluster answers" in condition.text
            assert f"not {cluster.cluster_id}" in condition.text
            time.sleep(2)
            fresh = flow.target_content()[0] if side == "target" else []
            assert fresh == []
        if side == "source":
            fill(flow.source, flow.topic, RECORDS)
        lane.until(flow.at_end(), 60)
    assert flow.target_content() == flow.source_content()
    assert len(flow.target_content()[0]) == 120


@pytest.mark.long
def test_a_lane_that_begins_knows_which_cluster_is_meant(flow: Flow, create_topic: Callable[..., str]) -> None:
    """By the id that its flow was taken over with: a lane that moves to another executor has seen no cluster yet."""
    ids = (flow.source.cluster_id, flow.target.cluster_id)
    claim = Claim(1, "test", clusters=ids)
    spec = flow.lane(claim=claim)
    with replaced(flow.target):
        as_it_was(flow, flow.target, create_topic)
        with running(Lane(spec)) as lane:
            lane.until(has("target_unreachable"), 60)
            time.sleep(1)
        assert flow.target_content() == {0: []}
    flow.run(batch_path, claim=claim)
    assert flow.target_content() == flow.source_content()
