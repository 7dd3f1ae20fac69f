"""The status record (schemas/status.schema.json), written to a compacted topic on the status cluster.

The reconciler creates that topic. While it is missing or its cluster does not answer, copying goes on and the log says
so once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection

from reconciler.replication.handover import MirrorSettings, StatusPlace
from reconciler.replication.pauses import Pause
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients import librdkafka as clients
from reconciler_mirror.driver.views import (
    FlowLoss,
    FlowView,
    GoalView,
    GroupsView,
    PartitionView,
    path_counts,
    pause_count,
    resuming,
    worst,
)
from reconciler_mirror.model import Condition

FORMAT_VERSION = 1
_NOW, _NO_TIMESTAMP = 0, -1
WORST_PARTITIONS = 5
"""The partitions furthest behind that the record names, a flow."""
_FIGURES = (
    *("records_total", "records_per_second", "bytes_per_second", "records_lag", "seconds_lag"),
    *("transactions", "retries"),
)
_log = logs.logger("status")


@dataclass(frozen=True, slots=True)
class Application:
    """Who writes: one run of the job."""

    application_id: str
    started_at_ms: int
    host: str
    pid: int


def record(
    settings: MirrorSettings, who: Application, state: str, flows: tuple[FlowView, ...], now_ms: int, detail: str = ""
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
    """What is None among the last ones is left out: a reader of an older release would not know the fields."""
    settings = view.settings
    return {
        "fingerprint": settings.fingerprint,
        "state": flow_state(view, state),
        "lanes": settings.lanes,
        "topics": view.topics,
        "partitions": len(view.partitions),
        **{name: getattr(view, name) for name in _FIGURES},
        **_known({"records_filtered": view.filtered, "records_returning": view.returning}),
        "paths": [
            {"path": path, "reason": reason, "partitions": count}
            for (path, reason), count in path_counts(view.partitions).items()
        ],
        "worst_partitions": [_partition(partition) for partition in worst(view.partitions, WORST_PARTITIONS)],
        **_known({"groups": None if view.groups is None else _groups(view.groups)}),
        "conditions": [_condition(condition, since) for condition, since in view.conditions],
        **_known(
            {
                "pauses": [_pause(pause, view) for pause in view.pauses] or None,
                "resuming_partitions": resuming(view) or None,
                "rate_limit": settings.rate_limit,
                "throttled_seconds": None if settings.rate_limit is None else view.throttled_seconds,
                "catch_up": None if view.goal is None else _goal(view.goal),
                "lost": [_lost(flow_loss) for flow_loss in view.lost] or None,
            }
        ),
    }


def _known(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _goal(goal: GoalView) -> Mapping[str, Any]:
    undecided = {"offsets_undecided": goal.undecided} if goal.undecided else {}
    return {"partitions": goal.partitions, "done": goal.done, "offsets_left": goal.left, **undecided}


def _lost(flow_loss: FlowLoss) -> Mapping[str, Any]:
    loss = asdict(flow_loss.loss)
    return {"code": loss.pop("code"), "partitions": flow_loss.partitions, **loss}


def _pause(pause: Pause, view: FlowView) -> Mapping[str, Any]:
    scope, (partitions, paused) = pause.scope, pause_count(pause.scope, view.partitions)
    return {
        **_known({"topic": scope.topic or None, "partition": scope.partition if scope.partition >= 0 else None}),
        "since_ms": pause.since_ms,
        "by": pause.by,
        "reason": pause.reason,
        "partitions": partitions,
        "paused_partitions": paused,
    }


def _groups(view: GroupsView) -> Mapping[str, Any]:
    return {name: figure for name, figure in asdict(view).items() if name != "rounds"}


def _partition(partition: PartitionView) -> Mapping[str, Any]:
    return {name: getattr(partition, name) for name in ("topic", "partition", "records_lag", "seconds_lag")}


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
    return {
        "code": condition.code,
        **_known({"topic": condition.topic, "partition": condition.partition}),
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
