"""Clusters and jobs as they are after a look, made without any: for tests of what is shown, and for bench."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from reconciler.model.live import Broker, JobState, LiveCluster, LiveMirror, LivePartition, LiveTopic
from reconciler.replication.status import FlowStatus, ReportedCondition, ReportedPause


def live_topic(name: str, replicas: tuple[int, ...] = (1,), isr: tuple[int, ...] = (1,), leader: int = 1) -> LiveTopic:
    """Of one partition, without configs."""
    return LiveTopic(name, name, (LivePartition(0, leader, replicas, isr),), MappingProxyType({}))


def live_cluster(name: str, topics: Mapping[str, LiveTopic], brokers: int = 1) -> LiveCluster:
    nodes = tuple(Broker(number, "host", 9092) for number in range(1, brokers + 1))
    return LiveCluster(name, f"id-{name}", nodes, topics)


def condition(code: str, text: str = "t", todo: str = "d", *, stops: bool = True, **place: Any) -> ReportedCondition:
    """``place``: topic and partition."""
    return ReportedCondition(code=code, text=text, todo=todo, since_ms=1, stops=stops, **place)


def pause(partitions: int, paused: int, reason: str = "why", **place: Any) -> ReportedPause:
    return ReportedPause(
        since_ms=1, by="ann@host", reason=reason, partitions=partitions, paused_partitions=paused, **place
    )


def live_mirror(name: str, flows: Iterable[FlowStatus], state: JobState = JobState.RUNNING) -> LiveMirror:
    by_flow = MappingProxyType({flow.name: flow for flow in flows})
    return LiveMirror(name, state, "app-1", "f" * 16, 1, 2, 3, "", by_flow)
