"""Offsets past 2^31, 2^32 and 2^53 on both sides, holes wider than 2^31, sequences that pass 2^31: all of it on real
brokers, since a number that is cut to 32 bits looks right for the first two billion records."""

from __future__ import annotations

import time
import uuid
from bisect import bisect_left
from collections.abc import Mapping

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import RecordWork
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.kafka.client import transactions
from reconciler.replication.expressions.record_filter import AddedHeader
from reconciler.replication.handover import AGAIN
from reconciler.replication.mirrormaker_records import Checkpoint, OffsetSync, offset_syncs_topic
from tests.support.lanes.high_offsets import go_on_at
from tests.support.lanes.lane_runs import Content, Flow, fill, producer
from tests.support.lanes.mirrormaker_records import read_offset_sync
from tests.support.lanes.synced import Synced
from tests.support.lanes.truth import map_topic, offset_map, placed, raw_records

NOW = int(time.time() * 1000)
BELOW = 150
BEGINS = (2**31 - BELOW, 2**62 - BELOW, 2**32 - BELOW)
"""Of the source's partitions; the last one also has records at 0, with nothing between."""
TARGETS = (2**53 - BELOW, 0, 2**31 - BELOW)
HOLE = len(BEGINS) - 1
AT_ZERO: list[Content] = [(b"k", b"at zero %d" % i, (), NOW) for i in range(20)]
BATCHES, RECORDS = "batches", "records"


@pytest.fixture(scope="module")
def flows(plain: Sandbox) -> Mapping[str, Flow]:
    """All of them are put to their offsets with one restart of each cluster."""
    run = uuid.uuid4().hex[:6]
    east, west = plain["east"], plain["west"]
    made = {way: Flow(east, west, f"{run}{way}", len(BEGINS)) for way in (BATCHES, RECORDS)}
    _create(east, [flow.topic for flow in made.values()])
    _create(west, [flow.remote for flow in made.values()])
    map_topic(west)
    for flow in made.values():
        fill(east, flow.topic, AT_ZERO, HOLE)
    go_on_at(east, {(flow.topic, p): begin for flow in made.values() for p, begin in enumerate(BEGINS)})
    go_on_at(west, {(flow.remote, p): begin for flow in made.values() for p, begin in enumerate(TARGETS) if begin})
    return made


def _create(cluster: ClusterHandle, names: list[str], partitions: int = len(BEGINS)) -> None:
    admin = AdminClient({**cluster.super_client(), "log_level": 0})
    new = [NewTopic(name, partitions, 1, config={"retention.ms": "-1"}) for name in names]
    for future in admin.create_topics(new, operation_timeout=20).values():
        future.result(30)


def _write(flow: Flow) -> None:
    """306 offsets to each partition: batches, transactions of both ends, their markers."""
    writer = producer(flow.source, transactional_id=flow.topic)
    plain = producer(flow.source, compression_type="lz4", linger_ms=20)
    writer.init_transactions(30)
    for number in range(6):
        aborts = number % 3 == 1
        writer.begin_transaction()
        for partition in range(flow.partitions):
            for i in range(20):
                writer.produce(flow.topic, b"%d %d" % (number, i), b"aborted" if aborts else b"kept", partition)
            for i in range(30):
                plain.produce(flow.topic, b"%d plain %d" % (number, i), b"k", partition)
        writer.flush(20)
        plain.flush(20)
        (writer.abort_transaction if aborts else writer.commit_transaction)(20)


@pytest.mark.long
def test_whole_batches_are_copied_once_in_order_and_translated_exactly(
    flows: Mapping[str, Flow], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All batches cross with KIP-890 version 2; further on positions are committed in the other ways, too."""
    flow = flows[BATCHES]
    syncs, synced = offset_syncs_topic("east", f".{flow.topic}."), Synced(flow, (f"{flow.topic}.*",))
    _create(flow.target, [syncs, synced.log], partitions=1)
    _write(flow)
    _copied(flow, offset_syncs=("target", syncs))
    _add(flow, b"classic")
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "speaks_version_2", lambda _: False)
        _copied(flow)
    _add(flow, b"at least once")
    _copied(flow, delivery="at_least_once")
    assert flow.target_content() == flow.source_content()
    here, there = ([placed(side, name, p) for p in range(flow.partitions)] for side, name in _sides(flow))
    for partition in range(flow.partitions):
        assert len(here[partition]) == 280 + len(AT_ZERO) * (partition == HOLE)
        _assert_translated(flow, partition, sorted((here[partition][v], at) for v, at in there[partition].items()))
    _assert_told_to_mirrormaker(flow, syncs, here, there)
    _assert_groups(synced, here, there)


@pytest.mark.long
def test_records_are_copied_once_in_order(flows: Mapping[str, Flow]) -> None:
    """They cross encoded anew, with a header; whole batches go on behind that."""
    flow = flows[RECORDS]
    _write(flow)
    _copied(flow, work=RecordWork(headers=(AddedHeader("at", "{offset}"),)))
    worked = [len(records) for records in flow.source_content().values()]
    _add(flow, b"whole")
    _copied(flow)
    source, target = flow.source_content(), flow.target_content()
    for partition, records in source.items():
        offsets = placed(flow.source, flow.topic, partition).values()
        assert target[partition] == [
            (key, value, (("at", b"%d" % offset),) if number < worked[partition] else (), stamp)
            for number, (offset, (key, value, _, stamp)) in enumerate(zip(offsets, records, strict=True))
        ]


def _copied(flow: Flow, **changes: object) -> None:
    """Up to the source's end, which is what positions and the lag say, too. The target's logs begin far above 0: from
    the first record on is agreed to."""
    _, control = flow.run(batch_path, flow.at_end(), start_kind=AGAIN, **changes)
    asked = {TopicPartition(flow.topic, p): OffsetSpec.latest() for p in range(flow.partitions)}
    admin = AdminClient(flow.source.super_client())
    ends = [answer.result(30).offset for answer in admin.list_offsets(asked).values()]
    assert all(end - begin > BELOW for end, begin in zip(ends, BEGINS, strict=True))
    reported = sorted(control.reports[-1].partitions, key=lambda progress: progress.partition)
    assert [(p.position, p.end) for p in reported] == [(end, end) for end in ends]
    assert [flow.position(p).offset for p in range(flow.partitions)] == ends


def _add(flow: Flow, word: bytes) -> None:
    for partition in range(flow.partitions):
        fill(flow.source, flow.topic, [(b"k", b"%s %d" % (word, i), (), NOW) for i in range(10)], partition)


def _sides(flow: Flow) -> tuple[tuple[ClusterHandle, str], ...]:
    return (flow.source, flow.topic), (flow.target, flow.remote)


def _assert_translated(flow: Flow, partition: int, pairs: list[tuple[int, int]]) -> None:
    """Around every record, in both directions, against what a stock consumer sees: ``pairs`` of offsets."""
    end, ours = flow.position(partition).offset, offset_map(flow, partition)
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    for source in {near for at in sources for near in (at - 1, at, at + 1) if sources[0] <= near < end}:
        found, at = ours.downstream(source), bisect_left(sources, source)
        assert found.exact, (source, found)
        assert found.offset == (targets[at] if at < len(pairs) else targets[-1] + 1), (source, found)
    for target in {near for at in targets for near in (at - 1, at, at + 1) if targets[0] <= near}:
        back, at = ours.upstream(target), bisect_left(targets, target)
        assert back.exact, (target, back)
        assert back.offset == (sources[at] if at < len(pairs) else end), (target, back)


def _assert_told_to_mirrormaker(
    flow: Flow, syncs: str, here: list[dict[bytes, int]], there: list[dict[bytes, int]]
) -> None:
    told = [read_offset_sync(*each) for each in raw_records(flow.target, syncs)]
    for p in range(flow.partitions):
        last = [sync for sync in told if sync.partition == p][-1]
        assert last in [OffsetSync(flow.topic, p, here[p][value], there[p][value]) for value in there[p]]
        assert last.upstream > BEGINS[p] + BELOW


def _assert_groups(synced: Synced, here: list[dict[bytes, int]], there: list[dict[bytes, int]]) -> None:
    """Offsets are set on the target, and MirrorMaker 2's checkpoints say so."""
    flow = synced.flow
    groups = {f"{flow.topic}-{number}": b"%d plain 7" % number for number in range(6)}
    for group, value in groups.items():
        synced.commit(group, {p: here[p][value] for p in range(flow.partitions)}, "kept")
    assert synced.round().inexact == 0
    checkpoints = synced.checkpoints()
    for group, value in groups.items():
        committed = synced.on_target(group)
        for p in range(flow.partitions):
            ours, theirs = here[p][value], there[p][value]
            assert committed[flow.remote, p].offset == theirs
            assert checkpoints[group, flow.remote, p] == Checkpoint(group, flow.remote, p, ours, theirs, "kept")
