"""The status record (schemas/status.schema.json), written to a compacted topic on the status cluster.

The reconciler creates that topic. While it is missing or its cluster does not answer, copying goes on and the log says
so once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection

from mirror import clients, logs
from mirror.lanes import Condition
from mirror.settings import Settings, StatusPlace
from mirror.views import FlowLoss, FlowView, GroupsView, PartitionView, path_counts, pause_count, resuming, worst
from replication.pauses import Pause

FORMAT_VERSION = 1
_NOW, _NO_TIMESTAMP = 0, -1
WORST_PARTITIONS = 5
"""The partitions furthest behind that the record names, a flow."""
_log = logs.logger("status")


@dataclass(frozen=True, slots=True)
class Application:
    """Who writes: one run of the job."""

    application_id: str
    started_at_ms: int
    host: str
    pid: int


def record(
    settings: Settings, who: Application, state: str, flows: tuple[FlowView, ...], now_ms: int, detail: str = ""
) -> Mapping[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "environment": settings.environment,
        "mirror": settings.mirror,
        "state": state,
        **({"detail": detail} if detail else {}),
        "application_id": who.application_id,
        "fingerprint": settings.fingerprint,
        "started_at_ms": who.started_at_ms,
        "updated_at_ms": now_ms,
        "status_interval_ms": settings.status_interval_ms,
        "host": who.host,
        "pid": who.pid,
        "flows": {view.settings.name: _flow(view, state) for view in flows},
    }


def _flow(view: FlowView, state: str) -> Mapping[str, Any]:
    return {
        "fingerprint": view.settings.fingerprint,
        "state": flow_state(view, state),
        "lanes": view.settings.lanes,
        "topics": view.topics,
        "partitions": len(view.partitions),
        "records_total": view.records_total,
        "records_per_second": view.records_per_second,
        "bytes_per_second": view.bytes_per_second,
        "records_lag": view.records_lag,
        "seconds_lag": view.seconds_lag,
        "transactions": view.transactions,
        "retries": view.retries,
        **_left(view),
        "paths": [
            {"path": path, "reason": reason, "partitions": count}
            for (path, reason), count in path_counts(view.partitions).items()
        ],
        "worst_partitions": [_partition(one) for one in worst(view.partitions, WORST_PARTITIONS)],
        **({"groups": _groups(view.groups)} if view.groups is not None else {}),
        "conditions": [_condition(condition, since) for condition, since in view.conditions],
        **_pauses(view),
        **_limit(view),
        **_goal(view),
        **({"lost": [_lost(one) for one in view.lost]} if view.lost else {}),
    }


def _pauses(view: FlowView) -> Mapping[str, Any]:
    """Nothing for a flow without pauses: a reader of an older release would not know the fields."""
    told: dict[str, Any] = {}
    if view.pauses:
        told["pauses"] = [_pause(pause, view) for pause in view.pauses]
    if left := resuming(view):
        told["resuming_partitions"] = left
    return told


def _limit(view: FlowView) -> Mapping[str, Any]:
    if view.settings.rate_limit is None:
        return {}
    return {"rate_limit": view.settings.rate_limit, "throttled_seconds": view.throttled_seconds}


def _goal(view: FlowView) -> Mapping[str, Any]:
    goal = view.goal
    if goal is None:
        return {}
    undecided = {"offsets_undecided": goal.undecided} if goal.undecided else {}
    return {"catch_up": {"partitions": goal.partitions, "done": goal.done, "offsets_left": goal.left, **undecided}}


def _lost(one: FlowLoss) -> Mapping[str, Any]:
    loss = one.loss
    return {
        "code": loss.code,
        "partitions": one.partitions,
        "offsets": loss.offsets,
        "records": loss.records,
        "batches": loss.batches,
        "text": loss.text,
    }


def _pause(pause: Pause, view: FlowView) -> Mapping[str, Any]:
    scope, count = pause.scope, pause_count(pause.scope, view.partitions)
    return {
        **({"topic": scope.topic} if scope.topic else {}),
        **({"partition": scope.partition} if scope.partition >= 0 else {}),
        "since_ms": pause.since_ms,
        "by": pause.by,
        "reason": pause.reason,
        "partitions": count.partitions,
        "paused_partitions": count.paused,
    }


def _left(view: FlowView) -> Mapping[str, Any]:
    """Only of flows that ask for it."""
    work = view.settings.work
    filtered = {} if work.where is None else {"records_filtered": view.filtered}
    return filtered if work.provenance is None else {**filtered, "records_returning": view.returning}


def _groups(view: GroupsView) -> Mapping[str, Any]:
    return {
        "groups": view.groups,
        "active": view.active,
        "unsupported": view.unsupported,
        "inexact": view.inexact,
        "written_total": view.written_total,
        "checkpoints_total": view.checkpoints_total,
        "read_ms": view.read_ms,
        "cpu_seconds": view.cpu_seconds,
    }


def _partition(one: PartitionView) -> Mapping[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "records_lag": one.records_lag,
        "seconds_lag": one.seconds_lag,
    }


def flow_state(view: FlowView, state: str) -> str:
    """``state`` is the application's."""
    if state in ("stopped", "superseded", "failed"):
        return "stopped"
    if any(condition.stops for condition, _ in view.conditions):
        return "degraded"
    if any(not pause.scope.topic for pause in view.pauses):
        return "paused"
    return "running" if view.running else "starting"


def _condition(condition: Condition, since_ms: int) -> Mapping[str, Any]:
    place: dict[str, Any] = {}
    if condition.topic is not None:
        place["topic"] = condition.topic
    if condition.partition is not None:
        place["partition"] = condition.partition
    return {
        "code": condition.code,
        **place,
        "text": condition.text,
        "todo": condition.todo,
        "since_ms": since_ms,
        "stops": condition.stops,
    }


class StatusWriter:
    """Writes records and never raises. One thread uses it at a time."""

    def __init__(self, place: StatusPlace) -> None:
        self._place = place
        self._producer: Producer | None = None
        self._complained = ""
        self._timestamp = _NOW

    def write(self, content: Mapping[str, Any], patience_s: float = 5.0) -> bool:
        """True when the record stands. Where the broker refuses our time it stands without one."""
        why = self._tried(content, patience_s)
        if why == KafkaError(KafkaError.INVALID_TIMESTAMP).str() and self._timestamp == _NOW:
            self._timestamp = _NO_TIMESTAMP
            _log.warning(
                "the status cluster refuses the time of this machine; status records are written without one",
                topic=self._place.topic,
                cluster=self._place.cluster.cluster,
                todo="compare the clocks of this machine and of the brokers; see message.timestamp.after.max.ms",
            )
            why = self._tried(content, patience_s)
        if why:
            self._complain(why)
            return False
        self._complained = ""
        return True

    def _tried(self, content: Mapping[str, Any], patience_s: float) -> str:
        """Why it does not stand; empty when it does."""
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        try:
            producer = self._ready()
            value, key = json.dumps(content, separators=(",", ":")), self._place.key
            producer.produce(self._place.topic, value, key, timestamp=self._timestamp, on_delivery=delivered)
            waiting = producer.flush(patience_s)
        except KafkaException as error:
            return str(error.args[0].str())
        except (LookupError, BufferError) as error:
            return str(error)
        if failures:
            return str(failures[0].str())
        return "no answer" if waiting else ""

    def _ready(self) -> Producer:
        """The topic is looked for first: producing to a missing one might create it with the broker's defaults."""
        if self._producer is None:
            admin = clients.admin(self._place.cluster)
            asked = admin.describe_topics(TopicCollection([self._place.topic]), request_timeout=10.0)
            asked[self._place.topic].result()
            self._producer = clients.plain_producer(self._place.cluster)
        return self._producer

    def _complain(self, why: str) -> None:
        self._producer = None
        if why != self._complained:
            self._complained = why
            _log.warning(
                "the status record cannot be written; records are copied all the same",
                topic=self._place.topic,
                cluster=self._place.cluster.cluster,
                why=why,
                todo="look at its brokers and their disks; reconciler apply creates the topic where it is missing, "
                "and the mirror's principal needs Write on it",
            )


def now_ms() -> int:
    return int(time.time() * 1000)
