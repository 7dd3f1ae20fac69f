"""Confirms topic changes: reads again until every broker shows what was asked, or says what still differs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from reconciler.backends.clusters.topics.agreement import disagreement, leaderless
from reconciler.backends.clusters.topics.batches import PlannedTopicChange
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.connections.librdkafka import AdminConnection
from reconciler.errors import ClusterError
from reconciler.model.changes import DeleteTopic
from reconciler.model.live import LiveCluster

AGREE_SECONDS = 120.0
"""A broker that is still making the files of thousands of partitions shows nothing newer until they are made."""

Failures = dict[str, str]
"""Id of a planned change -> why it is not done."""


def await_agreement(
    connection: AdminConnection, items: Sequence[PlannedTopicChange], existed: frozenset[str]
) -> Failures:
    """Brokers follow the controller's log in one order, so the last item is watched first, which is cheap.

    Configs are asked of each broker in turn, which also shows that it knows the topic; partitions come from one broker.
    Items of ``existed`` were there before and will not change by waiting.
    """
    if not items:
        return {}
    until = time.monotonic() + AGREE_SECONDS
    _await(connection, items[-1:], existed, until, None)
    differing = _await(connection, items, existed, until, None)
    brokers = read_cluster(connection, ()).brokers
    for broker in brokers[1:]:
        if differing:
            break
        try:
            differing = _await(connection, items, existed, until, broker.id)
        except ClusterError as error:
            if error.kind != "unreachable":
                raise
            # a broker that does not answer is not read from
    return differing


def _await(
    connection: AdminConnection,
    items: Sequence[PlannedTopicChange],
    existed: frozenset[str],
    until: float,
    broker: int | None,
) -> Failures:
    pause = 0.02
    while True:
        live = read_cluster(connection, [item.change.ref.name for item in items], broker)
        differing = _differences(items, live)
        moving = [i for i in items if i.id in differing and not _final(i, existed, live)]
        if not moving or time.monotonic() > until:
            return differing
        time.sleep(pause)
        pause = min(pause * 2, 1.0)


def _final(item: PlannedTopicChange, existed: frozenset[str], live: LiveCluster) -> bool:
    """Whether waiting changes nothing: the topic was there before, may not be seen, or was made again after it was
    deleted."""
    topic = live.topics.get(item.change.ref.name)
    if topic is None:
        return item.change.ref.name in live.hidden
    return item.id in existed or (isinstance(item.change, DeleteTopic) and topic.topic_id != item.change.topic_id)


def _differences(items: Sequence[PlannedTopicChange], live: LiveCluster) -> Failures:
    differences: Failures = {}
    for item in items:
        topic = live.topics.get(item.change.ref.name)
        if (hidden := live.hidden.get(item.change.ref.name)) is not None:
            doubt = f"whether it is done is unknown: {hidden.error}"
            differences[item.id] = f"{item.change.ref} was sent, and {doubt}\n{hidden.todo}"
            continue
        text = disagreement(item.change, topic) or (leaderless(item.change, topic) if topic else None)
        if text:
            differences[item.id] = (
                f"{item.change.ref} {text}\nThe cluster shows something else than was asked\nRun plan again."
            )
    return differences
