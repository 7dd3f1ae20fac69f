"""The status record (schemas/status.schema.json), written to a compacted topic on the status cluster.

The reconciler creates that topic. While it is missing or its cluster does not answer, copying goes on and the log says
so once.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection

from reconciler.replication.handover import MirrorSettings, StatusPlace
from reconciler.replication.names import LAG_HEADER, with_former_names
from reconciler.replication.pauses import Pause, Scope
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients import librdkafka as clients
from reconciler_mirror.model.lane import Condition
from reconciler_mirror.model.views import (
    FlowLoss,
    FlowView,
    GoalView,
    GroupsView,
    PartitionView,
    PauseCounts,
    SameOffsetsView,
    path_counts,
    pause_counts,
    worst,
)

FORMAT_VERSION = 1
_NOW, _NO_TIMESTAMP = 0, -1
WORST_PARTITIONS = 5
"""The partitions furthest behind that the record names, a flow."""
CONDITION_BYTES = 128_000
"""Of a record, for the conditions that it tells in full, shared among its flows; all of them are counted. A client
sends no record above 1 MB before compression, and readers begin with the last 500 records."""
PAUSE_BYTES = 64_000
"""Of a record, for the pauses that it tells, shared among its flows as well; all of them are counted."""
_FIGURES = (
    *("records_total", "records_per_second", "bytes_per_second", "records_lag", "seconds_lag"),
    *("transactions", "retries"),
)
_log = logs.logger("status")


@dataclass(frozen=True, slots=True)
class Application:
    """Who writes: one run of the job. ``run``: under which records its submitter follows it (deploy mode cluster)."""

    application_id: str
    started_at_ms: int
    host: str
    pid: int
    run: str = ""


def record(
    settings: MirrorSettings, who: Application, state: str, flows: tuple[FlowView, ...], now_ms: int, detail: str = ""
) -> Mapping[str, Any]:
    share = CONDITION_BYTES // max(1, sum(bool(view.conditions) for view in flows))
    of_pauses = PAUSE_BYTES // max(1, sum(bool(view.pauses) for view in flows))
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
        **({"run": who.run} if who.run else {}),
        "flows": {view.settings.name: _flow(view, state, share, of_pauses) for view in flows},
    }


def _flow(view: FlowView, state: str, share: int, of_pauses: int) -> Mapping[str, Any]:
    """What is None among the last ones is left out: a reader of an older release would not know the fields. ``share``:
    bytes for its conditions; ``of_pauses``: for its pauses. Nothing else here grows with partitions."""
    settings, counts = view.settings, pause_counts(view)
    pauses = _first_pauses(view.pauses, counts, of_pauses)
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
        "conditions": (shown := list(_first_conditions(view.conditions, share))),
        **_known(
            {
                "condition_counts": _counted(view.conditions) if len(shown) < len(view.conditions) else None,
                "pauses": pauses or None,
                "pause_counts": _pauses_counted(view.pauses, counts) if len(pauses) < len(view.pauses) else None,
                "resuming_partitions": counts.resuming or None,
                "rate_limit": settings.rate_limit,
                "throttled_seconds": None if settings.rate_limit is None else view.throttled_seconds,
                "catch_up": None if view.goal is None else _goal(view.goal),
                "lost": [_lost(flow_loss) for flow_loss in view.lost] or None,
                "same_offsets": None if view.same_offsets is None else _same_offsets(view.same_offsets),
            }
        ),
    }


def lag_header(flows: tuple[FlowView, ...]) -> bytes:
    """What is known of a lag that is not known as a whole, and how many partitions are stalled. Only of flows where
    either applies.

    A header of the record and not fields of its value, because the release before refuses values with fields that it
    does not know, and it must be able to read the record in the very trouble that these tell of.
    """
    figures = {
        view.settings.name: with_former_names(
            {
                "records_lag_at_least": view.lag_at_least,
                "lag_unknown_partitions": view.lag_unknown,
                "stalled_partitions": view.stalled,
                **({"last_lag": asdict(view.last_lag)} if view.last_lag is not None else {}),
            }
        )
        for view in flows
        if view.lag_unknown or view.stalled or view.records_lag is None
    }
    return json.dumps({"format_version": FORMAT_VERSION, "flows": figures}, separators=(",", ":")).encode()


def _known(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _same_offsets(same: SameOffsetsView) -> Mapping[str, Any]:
    counts = {"holes": same.holes, "fillers": same.fillers, "refusals": same.refusals}
    if not same.filling_partitions:
        return counts
    filling = {
        "partitions": same.filling_partitions,
        "offsets_left": same.filling_left,
        "offsets_per_second": same.filling_rate,
    }
    return {**counts, "filling": filling}


def _goal(goal: GoalView) -> Mapping[str, Any]:
    undecided = {"offsets_undecided": goal.undecided} if goal.undecided else {}
    return {"partitions": goal.partitions, "done": goal.done, "offsets_left": goal.left, **undecided}


def _lost(flow_loss: FlowLoss) -> Mapping[str, Any]:
    loss = asdict(flow_loss.loss)
    return {"code": loss.pop("code"), "partitions": flow_loss.partitions, **loss}


def _first_pauses(pauses: Sequence[Pause], counts: PauseCounts, share: int) -> list[Mapping[str, Any]]:
    """Of the flow as a whole, and the newest, because somebody may wait for it: as many as ``share`` bytes hold."""
    shown: list[tuple[Scope, Mapping[str, Any]]] = []
    for pause in sorted(pauses, key=lambda pause: (bool(pause.scope.topic), -pause.since_ms, pause.scope)):
        fields = _pause(pause, counts)
        share -= len(json.dumps(fields))
        if share < 0:
            break
        shown.append((pause.scope, fields))
    return [fields for _, fields in sorted(shown, key=lambda pair: pair[0])]


def _pauses_counted(pauses: Sequence[Pause], counts: PauseCounts) -> Mapping[str, Any]:
    return {"pauses": len(pauses), "partitions": counts.partitions, "paused_partitions": counts.paused}


def _pause(pause: Pause, counts: PauseCounts) -> Mapping[str, Any]:
    scope, (partitions, paused) = pause.scope, counts.by_scope[pause.scope]
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


def _first_conditions(conditions: Sequence[tuple[Condition, int]], share: int) -> Iterator[Mapping[str, Any]]:
    """Those that stop copying first, then by age; as many as ``share`` bytes hold."""
    for condition, since in sorted(conditions, key=lambda pair: (not pair[0].stops, pair[1])):
        fields = _condition(condition, since)
        share -= len(json.dumps(fields))
        if share < 0:
            return
        yield fields


def _counted(conditions: Iterable[tuple[Condition, int]]) -> list[Mapping[str, Any]]:
    counts = Counter((condition.code, condition.stops) for condition, _ in conditions)
    return [{"code": code, "stops": stops, "conditions": count} for (code, stops), count in counts.most_common()]


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

    def write(self, content: Mapping[str, Any], patience_s: float = 5.0, lag: bytes = b"") -> bool:
        """True when the record stands. Where the broker refuses our time it stands without one. ``lag``: as
        ``lag_header`` has it."""
        why = self._tried(content, lag, patience_s)
        if why == KafkaError(KafkaError.INVALID_TIMESTAMP).str() and self._timestamp == _NOW:
            self._timestamp = _NO_TIMESTAMP
            _log.warning(
                "the status cluster refuses the time of this machine; status records are written without one",
                topic=self._place.topic,
                cluster=self._place.cluster.cluster,
                todo="compare the clocks of this machine and of the brokers; see message.timestamp.after.max.ms",
            )
            why = self._tried(content, lag, patience_s)
        if why:
            self._complain(why)
            return False
        self._complained = ""
        return True

    def _tried(self, content: Mapping[str, Any], lag: bytes, patience_s: float) -> str:
        """Why it does not stand; empty when it does."""
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        try:
            producer = self._ready()
            value, key = json.dumps(content, separators=(",", ":")), self._place.key
            more: dict[str, Any] = {"timestamp": self._timestamp, "headers": {LAG_HEADER: lag}}
            producer.produce(self._place.topic, value, key, on_delivery=delivered, **more)
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
            # A raised exception of the future would hold this frame, and with it a client and its threads, until some
            # collection of garbage.
            if (failed := asked[self._place.topic].exception()) is not None:
                raise KafkaException(*failed.args)
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
