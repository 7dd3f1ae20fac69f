"""Group sync as the mirror's own principal, on brokers that deny what is not granted."""

from __future__ import annotations

import time
from dataclasses import replace

from confluent_kafka.admin import AdminClient
from mirror.batch_path import batch_path
from mirror.group_sync import GroupSync, GroupSyncWish
from mirror.lanes import Condition
from mirror.settings import FlowSettings, GroupSettings
from mirror.views import GroupsView

from replication.mirrormaker import checkpoints_topic
from sandbox.handles import Sandbox
from tests.conftest import CreateTopic
from tests.translation.test_group_sync import Synced, write
from tests.translation.truth import map_topic
from tests.wire.lane_runs import Flow, endpoint


def settings_of(flow: Flow, include: str) -> FlowSettings:
    assert flow.clients is not None
    return FlowSettings(
        name=flow.topic, fingerprint="0" * 16, source=endpoint("east", flow.clients[0]),
        target=endpoint("west", flow.clients[1]), topics=(flow.topic,), exclude_topics=(), naming_policy="default",
        naming_separator=".", delivery="exactly_once", isolation="read_committed", start_kind="earliest",
        start_timestamp_ms=None, lanes=1, groups=GroupSettings((include,), (), 300, follow_rewinds=False),
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

    told: list[tuple[GroupsView, tuple[Condition, ...]]] = []
    wish = settings_of(flow, unique)
    assert wish.groups is not None
    sync = GroupSync(GroupSyncWish(wish, wish.groups, flow.specs, lambda view, found: told.append((view, found))))
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
    wish = settings_of(flow, unique)
    assert wish.groups is not None
    sync = GroupSync(GroupSyncWish(wish, wish.groups, lambda: (), lambda _, found: told.extend(found)))
    sync.start()
    until = time.monotonic() + 20
    while not told and time.monotonic() < until:
        time.sleep(0.2)
    sync.stop()
    assert told[0].code == "groups_not_synced"
    assert "AUTHORIZATION_FAILED" in told[0].text
