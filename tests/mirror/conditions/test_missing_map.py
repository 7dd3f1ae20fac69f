"""Without the topic of the offset map copying goes on, and a condition says what that costs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from reconciler_mirror.lane import offset_map_writer
from reconciler_sandbox.handles import Sandbox

from reconciler.replication.names import OFFSETS_TOPIC
from tests.support.clusters import delete_topic
from tests.support.lanes.lane_runs import Content, Flow, Lane, caught_up, fill, has, running
from tests.support.lanes.truth import map_topic, offset_map, with_topics

NOW = int(time.time() * 1000)
RECORDS: list[Content] = [(b"%d" % i, b"v%d" % i, (), NOW) for i in range(20)]


def test_a_missing_map_is_said_while_a_lane_copies_and_while_it_rests(
    plain: Sandbox, unique: str, create_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_map_writer, "CHECK_EVERY", 0.5)
    monkeypatch.setattr(offset_map_writer, "REPORT_AFTER", 1.0)
    monkeypatch.setattr(offset_map_writer, "PAUSE_LAST", 1.0)
    flow = with_topics(Flow(plain["east"], plain["west"], unique), create_topic, RECORDS)
    with running(Lane(flow.lane())) as lane:
        lane.until(caught_up)
        time.sleep(2)  # its map is written
        delete_topic(flow.target, OFFSETS_TOPIC)
        [condition] = lane.until(has("offset_map_missing")).conditions
        assert not condition.stops
        assert f"west answers UNKNOWN_TOPIC_OR_PARTITION (3) for {OFFSETS_TOPIC}" in condition.text
        fill(flow.source, flow.topic, RECORDS)
        lane.until(lambda p: [each.position for each in p.partitions] == [40])
        time.sleep(2)
        assert has("offset_map_missing")(lane.control.reports[-1])
        map_topic(flow.target)
        lane.until(lambda p: p.conditions == ())
    assert offset_map(flow).downstream(39).exact
