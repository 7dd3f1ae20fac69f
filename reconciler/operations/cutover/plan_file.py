"""Reads and writes the saved plan of a cut-over as JSON (schemas/reports/cutover-plan.schema.json)."""

from collections.abc import Mapping
from typing import Any

from reconciler.engine.plan.file import SavedKind
from reconciler.errors import ExitCode
from reconciler.model.reports.cutover import CutoverPlan
from reconciler.render.cutover import plan_verdict
from reconciler.render.report_json import FORMAT_VERSION
from reconciler.replication.json_codec import Codec

KIND = "cutoverplan"
_CODEC = Codec()
_DERIVED = ("kind", "format_version", "verdict", "exit_code")
_AGAIN = "Make a new one with cutover plan --out, and do not edit it."


def _plan(document: Mapping[str, Any]) -> CutoverPlan:
    return _CODEC.decoded(CutoverPlan, {key: value for key, value in document.items() if key not in _DERIVED})


def _document(plan: CutoverPlan) -> dict[str, Any]:
    head = {"format_version": FORMAT_VERSION, "kind": KIND, "verdict": plan_verdict(plan)}
    return {**head, "exit_code": int(plan_exit_code(plan)), **_CODEC.encoded(plan)}


_SCHEMA = "reports/cutover-plan.schema.json"
_SAVED = SavedKind(KIND, "plan of a cut-over", _SCHEMA, _AGAIN, FORMAT_VERSION, _document, _plan)
dumps, digest, loads = _SAVED.dumps, _SAVED.digest, _SAVED.loads


def plan_exit_code(plan: CutoverPlan) -> ExitCode:
    """3: blocked; 2: there are steps to take; 0: no topic is chosen."""
    if plan.blocked:
        return ExitCode.BLOCKED
    return ExitCode.CHANGES if plan.topics else ExitCode.DONE
