"""The status record (schemas/status.schema.json), written to a compacted topic on the status cluster.

The reconciler creates that topic. While it is missing or its cluster does not answer, copying continues, and the log
has one warning.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeVar

from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.client.small_topics import INVALID_TIMESTAMP, NO_TIMESTAMP
from reconciler.replication import status
from reconciler.replication.handover import MirrorSettings, StatusPlace
from reconciler.replication.records.compacted_topic import CompactedTopic
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients.own import FAILURES, KeptCluster
from reconciler_mirror.model.views import FlowView, path_counts, pause_counts, worst

_PATIENCE_S, _ANSWER_S = 4.0, 8.0
"""Seconds for moving leaders and absent brokers; seconds for a silent broker."""
WORST_PARTITIONS = 5
"""Partitions with the most lag that the record names, per flow."""
CONDITION_BYTES = 128_000
"""Bytes of a record for complete conditions, shared by its flows; all are counted. A client sends no record above 1 MB
before compression, and readers begin with the last 500 records."""
PAUSE_BYTES = 64_000
"""Bytes of a record for complete pauses, shared by its flows; all are counted."""
_log = logs.logger("status")
_Reported = TypeVar("_Reported", status.ReportedCondition, status.ReportedPause)


@dataclass(frozen=True, slots=True)
class Application:
    """The writer: one run of the job. ``run``: name of its records, by which its submitter follows it (deploy mode
    cluster)."""

    application_id: str
    started_at_ms: int
    host: str
    pid: int
    run: str = ""


def record(
    settings: MirrorSettings,
    who: Application,
    state: status.ApplicationState,
    flows: tuple[FlowView, ...],
    now_ms: int,
    detail: str = "",
) -> status.StatusRecord:
    """The status record of ``schemas/status.schema.json``. A record has at most 1 MB (max.message.bytes), so flows with
    conditions or pauses share a fixed part of it for each; the counts stay complete."""
    share = CONDITION_BYTES // max(1, sum(bool(view.conditions) for view in flows))
    of_pauses = PAUSE_BYTES // max(1, sum(bool(view.pauses) for view in flows))
    return status.StatusRecord(
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


def _flow(view: FlowView, state: str, share: int, of_pauses: int) -> status.FlowStatus:
    """``share``: bytes for conditions; ``of_pauses``: for pauses. Nothing else here grows with partitions."""
    # Conditions that stop copying come first, then the oldest.
    conditions = _fitting(
        (
            status.ReportedCondition(
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
    all_codes = tuple(status.ConditionCount(code, stops, count) for (code, stops), count in codes.most_common())

    # Chooses pauses of the whole flow first, then the newest, because a command may wait for them; the record has them
    # in the order of scopes.
    counts = pause_counts(view)
    by_urgency = sorted(view.pauses, key=lambda pause: (bool(pause.scope.topic), -pause.since_ms, pause.scope))
    fitting = _fitting(
        (
            status.ReportedPause(
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
    all_pauses = status.PauseCounts(len(view.pauses), counts.partitions, counts.paused)
    return replace(
        view.figures,
        state=flow_state(view, state),
        paths=path_counts(view.partitions),
        worst_partitions=tuple(
            status.PartitionLag(p.topic, p.partition, p.records_lag or 0, p.seconds_lag)
            for p in worst(view.partitions, WORST_PARTITIONS)
        ),
        conditions=tuple(conditions),
        condition_counts=() if len(conditions) == len(view.conditions) else all_codes,
        pauses=tuple(reported for _, reported in pauses),
        pause_counts=None if len(pauses) == len(view.pauses) else all_pauses,
        resuming_partitions=counts.resuming,
    )


def _fitting(reported: Iterable[_Reported], share: int) -> list[_Reported]:
    """The first ones that fit into ``share`` bytes of JSON."""
    shown: list[_Reported] = []
    for each in reported:
        share -= len(json.dumps(status.encoded(each)))
        if share < 0:
            break
        shown.append(each)
    return shown


def flow_state(view: FlowView, state: str) -> status.FlowState:
    """The flow's state. ``state``: the application's."""
    if state in ("stopped", "superseded", "failed"):
        return "stopped"
    if any(condition.stops for condition, _ in view.conditions):
        return "degraded"
    if any(not pause.scope.topic for pause in view.pauses):
        return "paused"
    return "running" if view.running else "starting"


class StatusWriter:
    """Writes status records; never raises. For one thread at a time, outside of any event loop.

    An unconfirmed record is sent again, so the topic may have it twice; readers take the newest record of a key.
    """

    def __init__(self, place: StatusPlace) -> None:
        self._place = place
        self._runner = asyncio.Runner()
        self._kept = KeptCluster(place.cluster)
        self._complained = ""
        self._timestamp: int | None = None

    def write(self, content: Mapping[str, Any]) -> bool:
        """True if the record is written, without a timestamp if the broker refuses this machine's."""
        try:
            self._runner.run(self._append(content))
        except FAILURES as error:
            why = str(error) or f"no answer within {_ANSWER_S:.0f} s"
            # Once for each cause: this is written every few seconds, and the log would hold nothing else.
            if why != self._complained:
                self._complained = why
                _log.warning(
                    "the status record cannot be written; records are still copied",
                    topic=self._place.topic,
                    cluster=self._place.cluster.cluster,
                    why=why,
                    todo="check its brokers and their disks; reconciler apply ENV creates the topic if missing, "
                    "and the mirror's principal needs Write on it",
                )
            return False
        self._complained = ""
        return True

    def close(self) -> None:
        self._kept.close()
        self._runner.close()

    async def _append(self, content: Mapping[str, Any]) -> None:
        entries = [(self._place.key, json.dumps(content, separators=(",", ":")).encode())]
        async with self._kept.use() as cluster, asyncio.timeout(_ANSWER_S):
            await asyncio.sleep(0)  # lets the event loop notice a connection that was closed since the last record
            topic = CompactedTopic(cluster, self._place.topic, patience=_PATIENCE_S)
            try:
                await topic.append(entries, at_ms=now_ms() if self._timestamp is None else self._timestamp)
            except BrokerError as error:
                if error.code != INVALID_TIMESTAMP or self._timestamp is not None:
                    raise
                self._timestamp = NO_TIMESTAMP
                _log.warning(
                    "the status cluster refuses the time of this machine; status records are written without one",
                    topic=self._place.topic,
                    cluster=self._place.cluster.cluster,
                    todo="compare the clocks of this machine and of the brokers; see message.timestamp.after.max.ms",
                )
                await topic.append(entries, at_ms=NO_TIMESTAMP)


def now_ms() -> int:
    return int(time.time() * 1000)
