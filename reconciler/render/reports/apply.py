"""What became of an applied plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.applying import exit_code
from reconciler.exit_codes import ExitCode
from reconciler.plans import Outcome, Plan, Result
from reconciler.probes import Probe, Verdict, probe_document
from reconciler.rendering.sections import Item, Section
from reconciler.rendering.style import Style
from reconciler.summary import applied_verdict

FORMAT_VERSION = 1
FOLD = 3
"""So many changes a reason, on average, are told together."""
_MARKS = {
    Result.LEFT: ("-", "NOT undone"),
    Result.FAILED: ("-", "failed"),
    Result.UNDONE: ("~", "undone"),
    Result.UNPROVEN: ("~", "not confirmed"),
    Result.SKIPPED: ("~", "not begun"),
}
"""All but what is done, worst first: colour and word."""
_OF_A_WAVE = (Result.UNDONE, Result.UNPROVEN)


@dataclass(frozen=True, slots=True)
class Rolled:
    """How a run of a rollout ended. ``halted``: why it is not over, or empty. ``ignoring``: why its gates were left
    out, or empty."""

    exit_code: ExitCode
    halted: str = ""
    ignoring: str = ""

    @property
    def words(self) -> str:
        if self.halted:
            return f"Rollout halted: {self.halted}"
        return "Later waves are left." if self.exit_code is ExitCode.CHANGES else ""

    @property
    def todo(self) -> str:
        return "Mend it and run apply again: it goes on from there." if self.halted else "Run apply again to go on."


def outcomes_text(
    plan: Plan,
    outcomes: Sequence[Outcome],
    style: Style | None = None,
    probes: Sequence[Probe] = (),
    rolled: Rolled | None = None,
) -> str:
    """Failures with their errors; what was done by name."""
    chosen = style or Style()
    lines = [chosen.paint("bold", applied_verdict(plan, outcomes))]
    if rolled and rolled.ignoring:
        lines.append(_left_out(rolled))
    if rolled and rolled.words:
        lines += [chosen.paint("alarm", rolled.words) if rolled.halted else rolled.words, rolled.todo]
    for result in _MARKS:
        some = [outcome for outcome in outcomes if outcome.result is result]
        if _is_alike(some, rolled):
            lines += _together(some, chosen)
        else:
            for outcome in some:
                lines += _told(outcome, chosen)
    done = [outcome.id for outcome in outcomes if outcome.result is Result.DONE]
    if done:
        lines.append(f"  {chosen.paint('+', 'done')}: {chosen.listed(done)}")
    for item in _probed(probes, brief=True):
        lines += [f"  {item.text}", *(f"      {line}" for line in item.more)]
    if len(done) < len(outcomes):
        lines.append("Run plan again: it shows exactly what is left.")
    return "\n".join(lines) + "\n"


def outcomes_json(
    plan: Plan, outcomes: Sequence[Outcome], probes: Sequence[Probe] = (), rolled: Rolled | None = None
) -> str:
    """As schemas/outcome.schema.json."""
    document = {
        "format_version": FORMAT_VERSION,
        "kind": "outcome",
        "environment": plan.basis.environment,
        "verdict": applied_verdict(plan, outcomes),
        "exit_code": int(rolled.exit_code if rolled else exit_code(outcomes, plan)),
        "outcomes": [
            {"id": one.id, "result": one.result.value, "error": one.error, "seconds": round(one.seconds, 3)}
            for one in outcomes
        ],
    }
    if rolled:
        left_out = {"ignoring_gates": rolled.ignoring} if rolled.ignoring else {}
        document["rollout"] = {"halted": rolled.halted, **left_out}
    if probes:
        document["probes"] = [probe_document(one) for one in probes]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def outcome_sections(
    outcomes: Sequence[Outcome], probes: Sequence[Probe] = (), rolled: Rolled | None = None
) -> list[Section]:
    """What a page tells, worst first."""
    titles = {**{result: word[0].upper() + word[1:] for result, (_, word) in _MARKS.items()}, Result.DONE: "Done"}
    sections = []
    if rolled and (rolled.words or rolled.ignoring):
        told_of = [Item(rolled.words, (rolled.todo,))] if rolled.words else []
        told_of += [Item(_left_out(rolled))] if rolled.ignoring else []
        sections.append(Section("Rollout", "", tuple(told_of), urgent=bool(rolled.halted)))
    for result, title in titles.items():
        some = tuple(Item(one.id, tuple(one.error.splitlines())) for one in outcomes if one.result is result)
        if some:
            sections.append(Section(title, "", some, urgent=result is not Result.DONE))
    if told := tuple(_probed(probes)):
        urgent = any(one.verdict is not Verdict.PASSED for one in probes)
        sections.append(Section("Probes", "what each wave of access changes came to, asked afterwards", told, urgent))
    return sections


def _left_out(rolled: Rolled) -> str:
    return f"Gates and soaks were left out: {rolled.ignoring}"


def _probed(probes: Sequence[Probe], brief: bool = False) -> Iterator[Item]:
    """``brief``: of a probe that passed, only what was not probed."""
    for one in probes:
        told = [check for check in one.checks if not (brief and one.verdict is check.verdict is Verdict.PASSED)]
        checks = [f"{check.subject}: {check.verdict}: {check.text}" for check in told]
        todo = [f"against what others did: {line}" for line in one.todo]
        text = f"probe of {one.cluster}, stage {one.stage}: {one.verdict} ({one.seconds:.1f} s)"
        yield Item(text, (*checks, *todo))


def _is_alike(some: Sequence[Outcome], rolled: Rolled | None) -> bool:
    """Whether few reasons stand for many changes: a wave, a gate, an interruption, a cluster that fell silent."""
    if len(some) < 2:
        return False
    if some[0].result in _OF_A_WAVE or (rolled and some[0].result is Result.SKIPPED):
        return True
    return len(some) >= FOLD * len({outcome.error for outcome in some})


def _together(some: Sequence[Outcome], style: Style) -> Iterator[str]:
    """What became of a wave became of each of its changes."""
    alike: dict[str, list[str]] = {}
    for one in some:
        alike.setdefault(one.error, []).append(one.id)
    colour, word = _MARKS[some[0].result]
    all_of_them = some[0].result in (Result.FAILED, Result.LEFT)
    for error, names in alike.items():
        yield f"  {style.paint(colour, word)}: {', '.join(names) if all_of_them else style.listed(names)}"
        yield from (f"      {line}" for line in error.removeprefix(f"{word}: ").splitlines())


def _told(outcome: Outcome, style: Style) -> list[str]:
    colour, word = _MARKS[outcome.result]
    first, *more = outcome.error.removeprefix(f"{word}: ").splitlines() or [""]
    return [f"  {style.paint(colour, word)}: {outcome.id}: {first}", *(f"      {line}" for line in more)]
