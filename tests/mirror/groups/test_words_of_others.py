"""Map and checkpoints that somebody else wrote, well formed and of the right topics: never obeyed, and said."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from uuid import UUID

import pytest
from confluent_kafka import KafkaException
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import Sandbox

from reconciler.environment.load import load
from reconciler.model.reports.failover import Way
from reconciler.model.reports.offsets import TranslateRequest
from reconciler.operations.failover.decide import move_of
from reconciler.operations.failover.survey import Survey
from reconciler.operations.failover.translate_offsets import translated
from reconciler.replication.mirrormaker_records import Checkpoint, checkpoints_topic
from reconciler.replication.names import OFFSETS_PARTITIONS, OFFSETS_TOPIC
from reconciler.replication.offsets.checkpoints import CheckpointLog
from reconciler.replication.offsets.codec import MapPartition, encode
from reconciler.replication.offsets.map import CopiedRun, Stretch
from reconciler.replication.offsets.map_topic import holder_of
from reconciler.resources.flows.routes import selector_of
from tests.support.clusters import CreateTopic
from tests.support.lanes.lane_runs import Flow, conditions, fill, has
from tests.support.lanes.raw import cluster_of
from tests.support.lanes.synced import Synced, write
from tests.support.lanes.truth import map_topic, placed

FAR = 10**15
NOW = int(time.time() * 1000)


@pytest.fixture
def synced(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Synced:
    """Copied to its end: 50 records, 55 offsets on each side."""
    flow = Flow(plain["east"], plain["west"], unique)
    create_topic(flow.source, flow.topic)
    create_topic(flow.target, flow.remote)
    map_topic(flow.target)
    made = Synced(flow, (f"{unique}.*",))
    create_topic(flow.target, made.log, cleanup_policy="compact")
    write(flow, 0, 50)
    made.copy()
    return made


def ids(flow: Flow) -> tuple[UUID, UUID]:
    async def ask() -> tuple[UUID, UUID]:
        found = []
        for handle, topic in ((flow.source, flow.topic), (flow.target, flow.remote)):
            cluster = cluster_of(handle)
            await cluster.refresh([topic])
            found.append(cluster.topics[topic].topic_id)
            cluster.close()
        return found[0], found[1]

    return asyncio.run(ask())


def forge(flow: Flow, stretch: Stretch) -> None:
    """Under the mirror's own key, as anyone can who may write to the topic."""
    key, value = encode(MapPartition(flow.topic, flow.topic, 0, *ids(flow)), stretch)
    fill(
        flow.target, OFFSETS_TOPIC, [(key, value, (), NOW)], holder_of(flow.topic, (flow.topic, 0), OFFSETS_PARTITIONS)
    )


AHEAD = Stretch(0, 60, (CopiedRun(0, FAR, 60),), first=True)
"""Of source offsets that exist, at target offsets that do not."""


def environment(flow: Flow, source: str) -> str:
    return (
        f"clusters: {{east: {{bootstrap_servers: ['{source}']}},"
        f" west: {{bootstrap_servers: ['{flow.target.bootstrap_servers}']}}}}\n"
        f"flows: {{{flow.topic}: {{source: east, target: west, topics: ['{flow.topic}'],"
        f" groups: {{include: ['{flow.topic}.*']}}}}}}\n"
    )


def test_group_sync_sets_no_offset_beyond_the_targets_log(synced: Synced, unique: str) -> None:
    there = placed(synced.flow.source, synced.flow.topic)
    forge(synced.flow, AHEAD)
    synced.commit(unique, {0: there[b"30"]})
    found = synced.round(2)
    assert (found.written, found.checkpoints, synced.offset(unique)) == (0, (), None)
    assert found.inexact == 1
    assert f"names offset {FAR + there[b'30']} of {synced.flow.remote}-0, whose log ends at" in found.gaps[unique]


def test_the_command_that_translates_goes_by_no_such_offset(synced: Synced, unique: str) -> None:
    forge(synced.flow, AHEAD)
    topology = load({"e.yaml": environment(synced.flow, synced.flow.source.bootstrap_servers)}, "e")
    request = TranslateRequest(unique, given={(synced.flow.topic, 0): (30,)})
    [row] = translated(topology, request, selector_of(topology.flows[unique])).rows
    assert (row.found.offset, row.found.exact) == (0, False)
    assert "or another client than the mirror wrote there" in row.found.reason


@pytest.mark.parametrize("absurd", [FAR, 2**63 - 1, -1, -(2**63)])
def test_an_absurd_checkpoint_sets_no_group_back(absurd: int, synced: Synced, unique: str) -> None:
    """The group is ahead at the target, and the flow follows rewinds, of which this is none."""
    synced.follow = True
    there, here = (placed(*of) for of in ((synced.flow.source, unique), (synced.flow.target, synced.flow.remote)))
    asyncio.run(synced.write([Checkpoint(unique, synced.flow.remote, 0, absurd, absurd)]))
    synced.commit(unique, {0: there[b"10"]})
    synced.commit(unique, {0: here[b"40"]}, on_target=True)
    found = synced.round(2)
    assert (found.written, synced.offset(unique)) == (0, here[b"40"])
    last = synced.checkpoints()[unique, synced.flow.remote, 0]
    assert (last.upstream, last.downstream) == (there[b"10"], here[b"10"]), "a true one stands there again"


@pytest.mark.parametrize(("absurd", "set_to"), [(FAR, 0), (2**63 - 1, 0), (-1, None), (20, 20)])
def test_an_unplanned_failover_goes_by_no_absurd_checkpoint(
    absurd: int, set_to: int | None, synced: Synced, unique: str, create_topic: CreateTopic
) -> None:
    topic = checkpoints_topic("east")
    with suppress(KafkaException):  # of a test before this one
        create_topic(synced.flow.target, topic, cleanup_policy="compact")

    async def leave() -> None:
        target = cluster_of(synced.flow.target)
        await CheckpointLog(target, topic).write([Checkpoint(unique, synced.flow.remote, 0, absurd, absurd)])
        target.close()

    asyncio.run(leave())
    topology = load({"e.yaml": environment(synced.flow, "127.0.0.1:1")}, "e")
    survey = Survey(topology, move_of(topology, Way.FAILOVER, unique))
    survey.try_origin()
    assert survey.lost is not None
    moves, _ = survey.groups()
    found = [offset.translated for move in moves for offset in move.offsets]
    assert [each.offset for each in found] == ([] if set_to is None else [set_to])
    if absurd > 20:
        assert f"the checkpoint of group {unique} names offset {absurd} of {synced.flow.remote}-0" in found[0].reason


def test_a_lane_stops_where_the_map_says_more_than_the_source_has_and_a_seek_ends_it(synced: Synced) -> None:
    flow = synced.flow
    forge(flow, Stretch(FAR, FAR + 5, (CopiedRun(FAR, FAR, 5),)))
    write(flow, 50, 10)
    report, control = flow.run(batch_path, has("position_regressed"))
    [condition] = report.progress.conditions
    assert condition.stops
    assert f"copied up to source offset {FAR + 5}, but its log ends at 66" in condition.text
    assert "--partition 0 --to 55" in condition.todo
    flow.set_position(55)
    report, control = flow.run(batch_path, flow.at_end())
    assert conditions(control.reports) == []
    assert flow.target_content()[0] == flow.source_content()[0]
