"""Whether a flow copies, by what its running job reports: yes, no, not yet known, or it waits for others."""

from dataclasses import dataclass, replace
from enum import Enum

from reconciler.replication.status import FlowStatus, ReportedCondition
from reconciler.text import ANY_FOLDER, command_of, counted

WAITS_FOR_OTHERS = frozenset(
    {
        "lane_without_task",
        "positions_undecided",
        "provenance_not_yet_marked",
        "quota_throttled",
        "source_transaction_open",
        "source_unavailable",
        "source_unreachable",
    }
)
"""Conditions of a whole flow that end without an edit: whether it copies then is unknown until they do."""


class Copying(Enum):
    YES = "copies"
    NOT_YET = "has not said yet whether it copies"
    UNKNOWN = "waits"
    NO = "does not copy"


@dataclass(frozen=True, slots=True)
class FlowLook:
    """The state of one flow. ``why``, ``todo``, ``code``: of the deciding condition, if any. ``but``: words for the
    number of copying partitions, if not all copy."""

    flow: str
    copying: Copying
    why: str = ""
    todo: str = ""
    code: str = ""
    but: str = ""

    @property
    def words(self) -> str:
        return f"flow {self.flow} {self.copying.value}{self.but}{': ' if self.why else ''}{self.why}"


def look(flow: FlowStatus) -> FlowLook:
    """Whether the flow copies, by its last status record: the question after each start. What stops it as a whole
    decides before what stops single partitions."""
    stopping = [condition for condition in flow.conditions if condition.stops]
    whole = [condition for condition in stopping if condition.topic is None]
    if failed := [condition for condition in whole if condition.code not in WAITS_FOR_OTHERS]:
        return _said(flow, Copying.NO, failed[0])
    if flow.state == "paused" or any(pause.topic is None for pause in flow.pauses):
        return FlowLook(flow.name, Copying.YES)
    if whole:
        return _said(flow, Copying.UNKNOWN, whole[0])
    if flow.state in ("starting", "unknown"):
        return FlowLook(flow.name, Copying.NOT_YET)
    if stopping and 0 < flow.stalled_partitions >= flow.partitions:
        return _said(flow, Copying.NO, stopping[0])
    # The lag of a stopped partition may stay unknown for good.
    if flow.partitions and flow.lag_unknown_partitions > (flow.stalled_partitions if stopping else 0):
        return FlowLook(flow.name, Copying.NOT_YET)
    if stopping:
        but = f" {flow.partitions - flow.stalled_partitions} of {counted(flow.partitions, 'partition')}"
        return replace(_said(flow, Copying.YES, stopping[0]), but=but)
    # Lanes that fail again and again report it between two sessions only, and each session reports a lag.
    moved = flow.records_total or flow.filtered or flow.returning
    if flow.records_lag and not moved and not flow.pauses:
        waits = any(condition.code in WAITS_FOR_OTHERS for condition in flow.conditions)
        if not flow.retries or waits:
            return FlowLook(flow.name, Copying.NOT_YET)
        if unreached := [condition for condition in flow.conditions if condition.code == "target_unreachable"]:
            return _said(flow, Copying.NO, unreached[0])
        why = f"lane_failed: its lanes failed {counted(flow.retries, 'time')}, and nothing was copied"
        return FlowLook(flow.name, Copying.NO, why, "See why: reconciler status ENV, or the job's log", "lane_failed")
    return FlowLook(flow.name, Copying.YES)


def _said(flow: FlowStatus, copying: Copying, condition: ReportedCondition) -> FlowLook:
    todo = command_of(condition.todo, ANY_FOLDER, flow.name)
    return FlowLook(flow.name, copying, f"{condition.code}: {condition.text}", todo, condition.code)
