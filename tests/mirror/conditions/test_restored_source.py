"""A source that is put back to a backup and grows past the position: what it has there now is not left out unsaid."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Condition
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.records.batches import Batch
from reconciler.replication.names import CONTINUABLE
from tests.support.lanes.high_offsets import backup, restore
from tests.support.lanes.lane_runs import Content, Flow, Lane, caught_up, conditions, fill, has, running
from tests.support.lanes.truth import with_topics

NOW = int(time.time() * 1000)
FIRST: list[Content] = [(b"%d" % i, b"first", (), NOW + i) for i in range(60)]
LOST: list[Content] = [(b"%d" % i, b"lost", (), NOW + 60 + i) for i in range(60)]
OTHERS: list[Content] = [(b"%d" % i, b"other", (), NOW + 120 + i) for i in range(100)]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: Callable[..., str]) -> Flow:
    return with_topics(Flow(plain["east"], plain["west"], unique), create_topic, FIRST)


def go_back(flow: Flow, **changes: object) -> None:
    """The source has 160 records, of which 60 are copied, and so are 60 that it has lost. Its leader epochs repeat."""
    flow.run(batch_path, caught_up, **changes)
    kept = backup(flow.source)
    fill(flow.source, flow.topic, LOST)
    flow.run(batch_path, caught_up, **changes)
    restore(flow.source, kept)
    fill(flow.source, flow.topic, OTHERS)


def stopped(flow: Flow, **changes: object) -> Condition:
    report, _ = flow.run(batch_path, has("source_truncated"), **changes)
    [condition] = report.progress.conditions
    assert condition.stops
    assert len(flow.target_content()[0]) == 120, "nothing continues after the position"
    return condition


def test_what_the_source_has_instead_is_named_and_copied_by_the_seek_that_is_named(flow: Flow) -> None:
    go_back(flow)
    condition = stopped(flow)
    assert "the next record is offset 120, but the source has what was copied only up to 60" in condition.text
    assert "up to 60 at offsets 60 to 119 of the source" in condition.text
    [offset] = re.findall(r"--partition 0 --to (\d+)", condition.todo)
    flow.set_position(int(offset))
    report, _ = flow.run(batch_path)
    assert report.progress.conditions == ()
    assert flow.target_content()[0] == [*FIRST, *LOST, *OTHERS]
    flow.run(batch_path)


@pytest.mark.long
def test_a_running_lane_that_saw_the_shorter_log_stays_stopped_when_it_has_grown(flow: Flow) -> None:
    kept = backup(flow.source)
    fill(flow.source, flow.topic, LOST)
    with running(Lane(flow.lane())) as lane:
        lane.until(lambda p: [each.position for each in p.partitions] == [120])
        restore(flow.source, kept)
        lane.until(has("source_truncated"), 60)
        fill(flow.source, flow.topic, OTHERS)
        lane.until(lambda p: "at offsets 60 to 119" in "".join(one.text for one in p.conditions), 60)
    assert len(flow.target_content()[0]) == 120


@pytest.mark.long
def test_a_flow_that_goes_on_by_itself_copies_them_and_counts_what_the_source_lost(flow: Flow) -> None:
    go_back(flow)
    report, _ = flow.run(batch_path, continue_on=frozenset(CONTINUABLE))
    [partition] = report.progress.partitions
    assert [(one.code, one.offsets) for one in partition.losses] == [("source_truncated", 60)]
    assert flow.target_content()[0] == [*FIRST, *LOST, *OTHERS]


@pytest.mark.long
def test_a_flow_whose_copies_do_not_say_where_stops_and_says_that(flow: Flow) -> None:
    go_back(flow, delivery="at_least_once")
    condition = stopped(flow, delivery="at_least_once", continue_on=frozenset(CONTINUABLE))
    assert "offset 119 of the source is another record than the one that was copied" in condition.text
    assert "From which offset on is not known" in condition.text
    flow.set_position(120)
    report, _ = flow.run(batch_path, delivery="at_least_once")
    assert report.progress.conditions == ()
    assert len(flow.target_content()[0]) == 160


@pytest.mark.long
def test_at_the_same_offsets_it_stops(flow: Flow) -> None:
    go_back(flow, keeps_offsets=True)
    report, _ = flow.run(batch_path, has("source_truncated"), keeps_offsets=True)
    assert "only up to 60" in report.progress.conditions[0].text
    assert flow.target_content()[0] == [*FIRST, *LOST]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_batch_that_was_only_written_again_is_the_same(
    flow: Flow, delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by compaction, or by a service that puts records into other batches."""
    flow.run(batch_path, delivery=delivery)
    ask, asked = small_topics.batches_at, list[Key]()

    async def written_again(cluster: ClusterClient, offsets: Mapping[Key, int]) -> dict[Key, Batch]:
        asked.extend(offsets)
        return {key: batch._replace(crc=batch.crc ^ 1) for key, batch in (await ask(cluster, offsets)).items()}

    monkeypatch.setattr(small_topics, "batches_at", written_again)
    fill(flow.source, flow.topic, LOST)
    _, control = flow.run(batch_path, delivery=delivery)
    assert (flow.topic, 0) in asked
    assert conditions(control.reports) == []
    assert len(flow.target_content()[0]) == 120


def test_a_batch_that_is_gone_is_no_loss(flow: Flow) -> None:
    flow.run(batch_path)
    admin = AdminClient(flow.source.super_client())  # its answers never come once it is gone
    [future] = admin.delete_records([TopicPartition(flow.topic, 0, 60)]).values()
    future.result(20)
    _, control = flow.run(batch_path, caught_up)
    fill(flow.source, flow.topic, LOST)
    flow.run(batch_path)
    assert conditions(control.reports) == []
    assert len(flow.target_content()[0]) == 120
