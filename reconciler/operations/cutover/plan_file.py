"""The saved plan of a cut-over: its JSON, written and read back (schemas/reports/cutover-plan.schema.json)."""

import hashlib
from collections.abc import Mapping
from typing import Any

from reconciler.engine.plan.file import PlanfileError
from reconciler.errors import ExitCode
from reconciler.model.reports.cutover import CutoverPlan
from reconciler.render.cutover import plan_verdict
from reconciler.render.report_json import FORMAT_VERSION
from reconciler.replication.handover import canonical_json
from reconciler.replication.json_codec import Codec, parsed
from reconciler.text import printable_json

KIND = "cutoverplan"
_CODEC = Codec()
_DERIVED = ("kind", "format_version", "verdict", "exit_code")
_AGAIN = "Make a new one with cutover plan --out, and do not edit it."


def dumps(plan: CutoverPlan) -> str:
    document = _document(plan)
    return printable_json({**document, "digest": _digest(document)}, indent=2) + "\n"


def digest(plan: CutoverPlan) -> str:
    """sha256 over the canonical content. It finds damage and slips, not forgery: apply compares with what it sees."""
    return _digest(_document(plan))


def loads(text: str) -> CutoverPlan:
    """Raises PlanfileError for anything that is not exactly what ``dumps`` wrote."""
    try:
        document = parsed(text)
    except ValueError as error:
        raise PlanfileError(f"the plan of a cut-over is no JSON: {error}", "It may have been cut off", _AGAIN) from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise PlanfileError("this file is no plan of a cut-over", f"It has no kind: {KIND}", _AGAIN)
    if (version := document.get("format_version")) != FORMAT_VERSION:
        problem = f"the plan of the cut-over has format version {version}, this reconciler reads {FORMAT_VERSION}"
        raise PlanfileError(problem, "It was made by another release", _AGAIN)
    said = document.pop("digest", None)
    if said != (real := _digest(document)):
        problem = f"the plan of the cut-over is not as it was written: its digest is {real[:16]}, it says "
        raise PlanfileError(f"{problem}{str(said)[:16]}", "What was reviewed is not what would be done", _AGAIN)
    try:
        return _CODEC.decoded(CutoverPlan, {key: value for key, value in document.items() if key not in _DERIVED})
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        why = "It does not follow schemas/reports/cutover-plan.schema.json"
        raise PlanfileError(f"the plan of the cut-over has a wrong shape: {error}", why, _AGAIN) from None


def _document(plan: CutoverPlan) -> dict[str, Any]:
    head = {"format_version": FORMAT_VERSION, "kind": KIND, "verdict": plan_verdict(plan)}
    return {**head, "exit_code": int(plan_exit_code(plan)), **_CODEC.encoded(plan)}


def plan_exit_code(plan: CutoverPlan) -> ExitCode:
    """3 blocked, 2 there is something to do, 0 no topic is chosen."""
    if plan.blocked:
        return ExitCode.BLOCKED
    return ExitCode.CHANGES if plan.topics else ExitCode.DONE


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()
