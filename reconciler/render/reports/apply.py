"""The result of ``apply`` in words: the outcome of each change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from reconciler.engine.apply.limits import exit_code
from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.summary import applied_verdict
from reconciler.errors import ExitCode
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.model.reports.probe import Probe, ProbeVerdict, probe_document
from reconciler.render.markup import PLAIN, Format, Style, lines_of, report_json
from reconciler.render.plan.formats import report_in
from reconciler.render.plan.sections import ReportPage, Section, SectionItem
from reconciler.text import grouped, sentence

FOLD = 3
"""Average number of changes for each reason, from which changes share a line."""
_MARKS = {
    Result.LEFT: ("-", "NOT undone"),
    Result.FAILED: ("-", "failed"),
    Result.UNDONE: ("~", "undone"),
    Result.UNPROVEN: ("~", "not confirmed"),
    Result.SKIPPED: ("~", "not begun"),
}
"""All outcomes except done, worst first, with colour and word."""


@dataclass(frozen=True, slots=True)
class Rolled:
    """The end of a run of a rollout."""

    exit_code: ExitCode
    halted: str = ""
    """Why it is not over, or empty."""
    ignoring: str = ""
    """Why it ignored its gates, or empty."""
    ended_by: str = ""
    """The signal that halted it, or empty."""

    @property
    def words(self) -> str:
        if self.halted:
            return f"Rollout halted: {self.halted}"
        return "Later waves are left." if self.exit_code is ExitCode.CHANGES else ""

    @property
    def todo(self) -> str:
        if self.ended_by:
            return "Nothing is to fix: run apply again, it continues from there."
        return "Fix it and run apply again: it continues from there." if self.halted else "Run apply again to continue."


def outcomes_in(
    plan: Plan,
    outcomes: Sequence[Outcome],
    form: Format,
    style: Style = PLAIN,
    probes: Sequence[Probe] = (),
    rolled: Rolled | None = None,
) -> str:
    results = plan, outcomes, probes, rolled
    text = partial(outcomes_text, plan, outcomes, style, probes, rolled)
    return report_in(form, text, partial(outcomes_json, *results), partial(outcome_page, *results))


def outcomes_text(
    plan: Plan,
    outcomes: Sequence[Outcome],
    style: Style = PLAIN,
    probes: Sequence[Probe] = (),
    rolled: Rolled | None = None,
) -> str:
    """Failures with their errors; completed changes by name."""
    lines = [style.paint("bold", applied_verdict(plan, outcomes))]
    if rolled and rolled.ignoring:
        lines.append(_left_out(rolled))
    if rolled and rolled.words:
        lines += [style.paint("alarm", rolled.words) if rolled.halted else rolled.words, rolled.todo]
    for result, (colour, word) in _MARKS.items():
        some = [outcome for outcome in outcomes if outcome.result is result]
        # Few reasons for many changes share their lines: a wave, a gate, an interruption, a cluster that fell silent.
        # What became of a wave became of each of its changes, even if they are two.
        of_a_wave = result in (Result.UNDONE, Result.UNPROVEN) or (rolled and result is Result.SKIPPED)
        many = len(some) >= FOLD * len({outcome.error for outcome in some})
        if len(some) > 1 and (of_a_wave or many):
            for error, names in grouped((outcome.error, outcome.id) for outcome in some).items():
                # A person has to look at each failure, so no name is left out.
                listed = ", ".join(names) if result in (Result.FAILED, Result.LEFT) else style.listed(names)
                lines.append(f"  {style.paint(colour, word)}: {listed}")
                lines += [f"      {line}" for line in error.removeprefix(f"{word}: ").splitlines()]
            continue
        for outcome in some:
            first, *more = outcome.error.removeprefix(f"{word}: ").splitlines() or [""]
            lines += [f"  {style.paint(colour, word)}: {outcome.id}: {first}", *(f"      {line}" for line in more)]
    done = [outcome.id for outcome in outcomes if outcome.result is Result.DONE]
    if done:
        lines.append(f"  {style.paint('+', 'done')}: {style.listed(done)}")
    for item in _probed(probes, brief=True):
        lines += [f"  {item.text}", *(f"      {line}" for line in item.more)]
    if len(done) < len(outcomes):
        lines.append("Run plan again: it shows exactly what is left.")
    return lines_of(lines, style)


def outcomes_json(
    plan: Plan, outcomes: Sequence[Outcome], probes: Sequence[Probe] = (), rolled: Rolled | None = None
) -> str:
    """As schemas/outcome.schema.json."""
    more: dict[str, Any] = {}
    if rolled:
        left_out = {"ignoring_gates": rolled.ignoring} if rolled.ignoring else {}
        more["rollout"] = {"halted": rolled.halted, **left_out}
    if probes:
        more["probes"] = [probe_document(probe) for probe in probes]
    return report_json(
        "outcome",
        plan.basis.environment,
        verdict=applied_verdict(plan, outcomes),
        exit_code=rolled.exit_code if rolled else exit_code(outcomes, plan),
        outcomes=[replace(outcome, seconds=round(outcome.seconds, 3)) for outcome in outcomes],
        **more,
    )


def outcome_page(
    plan: Plan, outcomes: Sequence[Outcome], probes: Sequence[Probe] = (), rolled: Rolled | None = None
) -> ReportPage:
    """Completed and missing changes, exactly, worst first."""
    titles = {**{result: sentence(word) for result, (_, word) in _MARKS.items()}, Result.DONE: "Done"}
    sections = []
    if rolled and (rolled.words or rolled.ignoring):
        about_it = [SectionItem(rolled.words, (rolled.todo,))] if rolled.words else []
        about_it += [SectionItem(_left_out(rolled))] if rolled.ignoring else []
        sections.append(Section("Rollout", "", tuple(about_it), urgent=bool(rolled.halted)))
    for result, title in titles.items():
        some = [outcome for outcome in outcomes if outcome.result is result]
        if some:
            items = tuple(SectionItem(outcome.id, tuple(outcome.error.splitlines())) for outcome in some)
            sections.append(Section(title, "", items, urgent=result is not Result.DONE))
    if items := tuple(_probed(probes)):
        urgent = any(probe.verdict is not ProbeVerdict.PASSED for probe in probes)
        sections.append(Section("Probes", "the effect of each ACL batch, checked afterwards", items, urgent))
    environment, facts = plan.basis.environment, {"digest": planfile.digest(plan)}
    said = applied_verdict(plan, outcomes)
    return ReportPage("outcome", environment, said, tuple(sections), plan.basis, facts, title="apply")


def _left_out(rolled: Rolled) -> str:
    return f"Gates and soaks were left out: {rolled.ignoring}"


def _probed(probes: Sequence[Probe], brief: bool = False) -> Iterator[SectionItem]:
    """``brief``: for a passed probe, only what it did not check."""
    for probe in probes:
        passed = ProbeVerdict.PASSED if brief and probe.verdict is ProbeVerdict.PASSED else None
        shown = [check for check in probe.checks if check.verdict is not passed]
        checks = [f"{check.subject}: {check.verdict}: {check.text}" for check in shown]
        todo = [f"against changes by others: {line}" for line in probe.todo]
        text = f"probe of {probe.cluster}, stage {probe.stage}: {probe.verdict} ({probe.seconds:.1f} s)"
        yield SectionItem(text, (*checks, *todo))
