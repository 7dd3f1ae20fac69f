"""Logs conditions: one line when a condition begins, one when it ends, one for a loss."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.replication.names import ConditionCode, runbook_of
from reconciler.replication.status import ReportedLoss
from reconciler_mirror import log_lines as logs
from reconciler_mirror.model.lane import Condition
from reconciler_mirror.model.views import FlowView

_log = logs.logger("condition")
_Key = tuple[str, ConditionCode, str | None, int | None]


class ConditionLog:
    """``log_changes`` gets every look at the board, and logs only what has changed since the last one."""

    def __init__(self, docs_url: str = "") -> None:
        self._docs_url = docs_url
        self._holding: dict[_Key, Condition] = {}
        self._lost: dict[tuple[str, str], ReportedLoss] = {}

    def log_changes(self, flows: Sequence[FlowView]) -> None:
        now = {
            (view.settings.name, condition.code, condition.topic, condition.partition): condition
            for view in flows
            for condition, _ in view.conditions
        }
        for key in now.keys() - self._holding.keys():
            condition = now[key]
            _log.warning(
                "condition",
                **_place(key),
                stops=condition.stops,
                text=condition.text,
                todo=condition.todo,
                runbook=runbook_of(condition.code, self._docs_url),
            )
        for key in self._holding.keys() - now.keys():
            _log.info("condition over", **_place(key))
        self._holding = now
        for view in flows:
            for loss in view.figures.lost:
                self._went_on(view.settings.name, loss)

    def _went_on(self, flow: str, loss: ReportedLoss) -> None:
        known = self._lost.get((flow, loss.code), ReportedLoss(loss.code, 0))
        if loss == known:
            return
        self._lost[flow, loss.code] = loss
        more = {"offsets": loss.offsets - known.offsets, "records": loss.records - known.records}
        totals = {"lost_offsets": loss.offsets, "lost_records": loss.records, "lost_batches": loss.batches}
        _log.warning("went on behind a loss", flow=flow, code=loss.code, **more, **totals, text=loss.text)


def _place(key: _Key) -> dict[str, str | int]:
    flow, code, topic, partition = key
    named = {"flow": flow, "code": code, "topic": topic, "partition": partition}
    return {name: value for name, value in named.items() if value is not None}
