"""The status record (schemas/status.schema.json), written to a compacted topic on the status cluster.

The reconciler creates that topic. While it is missing or its cluster does not answer, copying goes on and the log says
so once.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection

from reconciler.replication.handover import MirrorSettings, StatusPlace
from reconciler.replication.status import (
    ApplicationState,
    ConditionCount,
    FlowState,
    FlowStatus,
    PartitionLag,
    PauseCounts,
    ReportedCondition,
    ReportedPause,
    StatusRecord,
    encoded,
)
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients import librdkafka as clients
from reconciler_mirror.model.views import FlowView, path_counts, pause_counts, worst

_NOW, _NO_TIMESTAMP = 0, -1
WORST_PARTITIONS = 5
"""The partitions furthest behind that the record names, a flow."""
CONDITION_BYTES = 128_000
"""Of a record, for the conditions that it shows in full, shared among its flows; all of them are counted. A client
sends no record above 1 MB before compression, and readers begin with the last 500 records."""
PAUSE_BYTES = 64_000
"""Of a record, for the pauses that it shows, shared among its flows as well; all of them are counted."""
_log = logs.logger("status")
_Reported = TypeVar("_Reported", ReportedCondition, ReportedPause)


@dataclass(frozen=True, slots=True)
class Application:
    """Who writes: one run of the job. ``run``: under which records its submitter follows it (deploy mode cluster)."""

    application_id: str
    started_at_ms: int
    host: str
    pid: int
    run: str = ""


def record(
    settings: MirrorSettings,
    who: Application,
    state: ApplicationState,
    flows: tuple[FlowView, ...],
    now_ms: int,
    detail: str = "",
) -> StatusRecord:
    share = CONDITION_BYTES // max(1, sum(bool(view.conditions) for view in flows))
    of_pauses = PAUSE_BYTES // max(1, sum(bool(view.pauses) for view in flows))
    return StatusRecord(
        environment=settings.environment,
        mirror=settings.mirror,
        state=state,
        detail=detail,
        application_id=who.application_id,
        fingerprint=settings.fingerprint,
        started_at_ms=who.started_at_ms,
        updated_at_ms=now_ms,
        status_interval_ms=settings.status_interval_ms,
        host=who.host,
        pid=who.pid,
        run=who.run,
        flows={view.settings.name: _flow(view, state, share, of_pauses) for view in flows},
    )


def _flow(view: FlowView, state: str, share: int, of_pauses: int) -> FlowStatus:
    """``share``: bytes for its conditions; ``of_pauses``: for its pauses. Nothing else here grows with partitions."""
    # Conditions that stop copying first, then by age.
    conditions = _fitting(
        (
            ReportedCondition(
                code=condition.code,
                topic=condition.topic,
                partition=condition.partition,
                text=condition.text,
                todo=condition.todo,
                since_ms=since_ms,
                stops=condition.stops,
            )
            for condition, since_ms in sorted(view.conditions, key=lambda pair: (not pair[0].stops, pair[1]))
        ),
        share,
    )
    codes = Counter((condition.code, condition.stops) for condition, _ in view.conditions)
    all_codes = tuple(ConditionCount(code, stops, count) for (code, stops), count in codes.most_common())

    # Pauses of the flow as a whole, then the newest, because somebody may wait for them; shown in the order of scopes.
    counts = pause_counts(view)
    by_urgency = sorted(view.pauses, key=lambda pause: (bool(pause.scope.topic), -pause.since_ms, pause.scope))
    fitting = _fitting(
        (
            ReportedPause(
                topic=pause.scope.topic or None,
                partition=pause.scope.partition if pause.scope.partition >= 0 else None,
                since_ms=pause.since_ms,
                by=pause.by,
                reason=pause.reason,
                partitions=partitions,
                paused_partitions=paused,
            )
            for pause, (partitions, paused) in ((pause, counts.by_scope[pause.scope]) for pause in by_urgency)
        ),
        of_pauses,
    )
    pauses = sorted(zip((pause.scope for pause in by_urgency), fitting, strict=False), key=itemgetter(0))
    all_pauses = PauseCounts(len(view.pauses), counts.partitions, counts.paused)
    return replace(
        view.figures,
        state=flow_state(view, state),
        paths=path_counts(view.partitions),
        worst_partitions=tuple(
            PartitionLag(p.topic, p.partition, p.records_lag or 0, p.seconds_lag)
            for p in worst(view.partitions, WORST_PARTITIONS)
        ),
        conditions=tuple(conditions),
        condition_counts=() if len(conditions) == len(view.conditions) else all_codes,
        pauses=tuple(reported for _, reported in pauses),
        pause_counts=None if len(pauses) == len(view.pauses) else all_pauses,
        resuming_partitions=counts.resuming,
    )


def _fitting(reported: Iterable[_Reported], share: int) -> list[_Reported]:
    """The first of them, as many as ``share`` bytes of JSON hold."""
    shown: list[_Reported] = []
    for each in reported:
        share -= len(json.dumps(encoded(each)))
        if share < 0:
            break
        shown.append(each)
    return shown


def flow_state(view: FlowView, state: str) -> FlowState:
    """``state`` is the application's."""
    if state in ("stopped", "superseded", "failed"):
        return "stopped"
    if any(condition.stops for condition, _ in view.conditions):
        return "degraded"
    if any(not pause.scope.topic for pause in view.pauses):
        return "paused"
    return "running" if view.running else "starting"


class StatusWriter:
    """Writes records and never raises. One thread uses it at a time."""

    def __init__(self, place: StatusPlace) -> None:
        self._place = place
        self._producer: Producer | None = None
        self._complained = ""
        self._timestamp = _NOW

    def write(self, content: Mapping[str, Any], patience_s: float = 5.0) -> bool:
        """True when the record is written; without a timestamp where the broker refuses ours."""
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
            self._producer = None
            if why != self._complained:
                self._complained = why
                _log.warning(
                    "the status record cannot be written; records are copied all the same",
                    topic=self._place.topic,
                    cluster=self._place.cluster.cluster,
                    why=why,
                    todo="look at its brokers and their disks; reconciler apply ENV creates the topic if missing, "
                    "and the mirror's principal needs Write on it",
                )
            return False
        self._complained = ""
        return True

    def _tried(self, content: Mapping[str, Any], patience_s: float) -> str:
        """Why it is not written; empty when it is."""
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        try:
            if self._producer is None:
                # Producing to a missing topic might create it with the broker's defaults, so it is looked for first.
                admin = clients.admin(self._place.cluster)
                asked = admin.describe_topics(TopicCollection([self._place.topic]), request_timeout=10.0)
                # A raised exception of the future would hold this frame, and with it a client and its threads, until
                # some collection of garbage.
                if (missing := asked[self._place.topic].exception()) is not None:
                    raise KafkaException(*missing.args)
                self._producer = clients.plain_producer(self._place.cluster)
            value, key = json.dumps(content, separators=(",", ":")), self._place.key
            more: dict[str, Any] = {"timestamp": self._timestamp}
            self._producer.produce(self._place.topic, value, key, on_delivery=delivered, **more)
            waiting = self._producer.flush(patience_s)
        except KafkaException as error:
            return str(error.args[0].str())
        except (LookupError, BufferError) as error:
            return str(error)
        if failures:
            return str(failures[0].str())
        return "no answer" if waiting else ""


def now_ms() -> int:
    return int(time.time() * 1000)
