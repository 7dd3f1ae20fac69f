"""Group sync as the mirror's own principal, on brokers that deny what is not granted."""

from __future__ import annotations

import time
from dataclasses import replace

from confluent_kafka.admin import AdminClient
from reconciler_mirror.groups.sync import GroupSync
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Condition
from reconciler_sandbox.handles import Sandbox

from reconciler.replication.handover import FlowSettings, GroupSettings, Naming, Start
from reconciler.replication.mirrormaker_records import checkpoints_topic
from reconciler.replication.status import GroupSyncStatus
from tests.support.clusters import CreateTopic
from tests.support.lanes.lane_runs import Flow, endpoint
from tests.support.lanes.synced import Synced, write
from tests.support.lanes.truth import map_topic


def settings_of(flow: Flow, include: str) -> FlowSettings:
    assert flow.clients is not None
    return FlowSettings(
        name=flow.topic, fingerprint="0" * 16, source=endpoint("east", flow.clients[0]),
        target=endpoint("west", flow.clients[1]), topics=(flow.topic,), exclude_topics=(), naming=Naming(),
        delivery="exactly_once", isolation="read_committed", start=Start(),
        lanes=1, groups=GroupSettings((include,), (), 300, follow_rewinds=False),
    )  # fmt: skip


def test_the_mirrors_principal_syncs_groups(secure: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    east, west = secure["east"], secure["west"]
    flow = Flow(east, west, unique, clients=(east.client("mirror"), west.client("mirror")))
    create_topic(east, flow.topic)
    create_topic(west, flow.remote)
    if checkpoints_topic("east") not in AdminClient(west.super_client()).list_topics(timeout=20).topics:
        create_topic(west, checkpoints_topic("east"), cleanup_policy="compact")
    map_topic(west)
    write(replace(flow, clients=None), 0, 30)
    synced = Synced(replace(flow, clients=None), ())
    synced.commit(unique, {0: 7}, "kept")
    flow.run(batch_path, flow.at_end())

    told: list[tuple[GroupSyncStatus, tuple[Condition, ...]]] = []
    desired = settings_of(flow, unique)
    assert desired.groups is not None
    sync = GroupSync(desired, desired.groups, flow.specs, lambda view, found: told.append((view, found)))
    sync.start()
    until = time.monotonic() + 30
    while synced.offset(unique) is None and time.monotonic() < until:
        time.sleep(0.2)
    sync.stop()
    assert not any(conditions for _, conditions in told), told
    assert synced.on_target(unique)[flow.remote, 0].metadata == "kept"


def test_a_right_that_is_missing_is_named(secure: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    """The user may not touch groups that are not its own: the target refuses, and the condition says what to grant."""
    east, west = secure["east"], secure["west"]
    flow = Flow(east, west, unique, clients=(east.client("user"), west.client("user")))
    told: list[Condition] = []
    desired = settings_of(flow, unique)
    assert desired.groups is not None
    sync = GroupSync(desired, desired.groups, lambda: (), lambda _, found: told.extend(found))
    sync.start()
    until = time.monotonic() + 20
    while not told and time.monotonic() < until:
        time.sleep(0.2)
    sync.stop()
    assert told[0].code == "groups_not_synced"
    assert "AUTHORIZATION_FAILED" in told[0].text
