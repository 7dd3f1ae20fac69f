"""Whether a flow copies, by what its running job reports: yes, no, not yet known, or it waits for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from reconciler.model.live import FlowStatus

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
    """How one flow is. ``why``, ``todo``, ``code``: of the condition that says so, where one does."""

    flow: str
    copying: Copying
    why: str = ""
    todo: str = ""
    code: str = ""

    @property
    def words(self) -> str:
        return f"flow {self.flow} {self.copying.value}{': ' if self.why else ''}{self.why}"


def look(flow: FlowStatus) -> FlowLook:
    stopping = [condition for condition in flow.conditions if condition.get("stops")]
    whole = [condition for condition in stopping if not condition.get("topic")]
    if failed := [condition for condition in whole if condition["code"] not in WAITS_FOR_OTHERS]:
        return _said(flow, Copying.NO, failed[0])
    if flow.state == "paused" or any(not pause.get("topic") for pause in flow.pauses):
        return FlowLook(flow.name, Copying.YES)
    if whole:
        return _said(flow, Copying.UNKNOWN, whole[0])
    if flow.state in ("starting", "unknown"):
        return FlowLook(flow.name, Copying.NOT_YET)
    if stopping and 0 < flow.partitions <= flow.standing_partitions:
        return _said(flow, Copying.NO, stopping[0])
    heard = flow.partitions == 0 or flow.lag_unknown_partitions == 0
    return FlowLook(flow.name, Copying.YES if heard else Copying.NOT_YET)


def _said(flow: FlowStatus, copying: Copying, condition: Mapping[str, object]) -> FlowLook:
    why, todo, code = (str(condition.get(key, "")) for key in ("text", "todo", "code"))
    return FlowLook(flow.name, copying, f"{code}: {why}", todo, code)
