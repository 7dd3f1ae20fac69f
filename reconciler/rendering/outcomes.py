"""What became of an applied plan."""

from __future__ import annotations

import json
from collections.abc import Sequence

from reconciler.applying import exit_code
from reconciler.plans import Outcome, Plan, Result
from reconciler.rendering.style import Style
from reconciler.summary import applied_verdict

FORMAT_VERSION = 1
_MARKS = {Result.DONE: ("+", "done"), Result.FAILED: ("-", "failed"), Result.SKIPPED: ("~", "not begun")}


def outcomes_text(plan: Plan, outcomes: Sequence[Outcome], style: Style | None = None) -> str:
    """Failures with their errors; what was done by name."""
    chosen = style or Style()
    lines = [chosen.paint("bold", applied_verdict(plan, outcomes))]
    for result in (Result.FAILED, Result.SKIPPED):
        for outcome in outcomes:
            if outcome.result is result:
                lines += _told(outcome, chosen)
    done = [outcome.id for outcome in outcomes if outcome.result is Result.DONE]
    if done:
        lines.append(f"  {chosen.paint('+', 'done')}: {chosen.listed(done)}")
    if len(done) < len(outcomes):
        lines.append("Run plan again: it shows exactly what is left.")
    return "\n".join(lines) + "\n"


def outcomes_json(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    """As schemas/outcome.schema.json."""
    document = {
        "format_version": FORMAT_VERSION,
        "kind": "outcome",
        "environment": plan.basis.environment,
        "verdict": applied_verdict(plan, outcomes),
        "exit_code": int(exit_code(outcomes, plan)),
        "outcomes": [
            {"id": one.id, "result": one.result.value, "error": one.error, "seconds": round(one.seconds, 3)}
            for one in outcomes
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _told(outcome: Outcome, style: Style) -> list[str]:
    colour, word = _MARKS[outcome.result]
    first, *more = outcome.error.splitlines() or [""]
    return [f"  {style.paint(colour, word)}: {outcome.id}: {first}", *(f"      {line}" for line in more)]
