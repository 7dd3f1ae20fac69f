"""Reports of what was carried out: ``apply``, the outcome of each change, and a round of ``run``."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from reconciler.engine.apply.limits import exit_code
from reconciler.engine.loop import Round
from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.file import KINDS
from reconciler.engine.plan.summary import applied_verdict, verdict
from reconciler.errors import ExitCode
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.model.reports.health import Figures, Verdict
from reconciler.model.reports.probe import Probe, ProbeVerdict, probe_document
from reconciler.render.markup import PLAIN, SHOWN, Format, Style, lines_of, report_json
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


# One round of `run` as log lines and as figures.

Line = tuple[str, str, Mapping[str, Any]]
"""Level (info, warning, error), event, fields."""
_Said = tuple[tuple[str, str, str, str], str]
"""Level, event, name of the field that says why, and why; and the id of one change."""


def round_lines(current: Round) -> Iterator[Line]:
    """One line if nothing happened; otherwise that line last, after one line for each thing to know."""
    if current.taken_over:
        yield "info", "topology taken over", {}
    if current.kept:
        yield "warning", "topology kept", {"why": current.kept}
    if current.error:
        fields = {"round": current.number, "error": current.error, "seconds": round(current.seconds, 2)}
        yield "error", "round failed", fields
        return
    assert current.plan is not None
    for unknown in current.plan.unknown:
        yield "warning", "unknown", {"subject": unknown.subject, "error": unknown.error}
    for refused in current.plan.refused:
        yield "warning", "refused", {"subject": str(refused.subject), "why": refused.reason.text, "todo": refused.todo}
    held_back: list[_Said] = []
    for held in current.held:
        # A contested field waits for a person, unlike a change that only waits for a higher autonomy level.
        disputed = any(name.startswith(f"{held.id} ") or name == held.id for name in current.contested)
        held_back.append((("warning" if disputed else "info", "held back", "why", held.why), held.id))
    yield from _alike(held_back)
    for outcome in current.outcomes:
        if outcome.result is Result.DONE:
            yield "info", "done", {"change": outcome.id, "seconds": round(outcome.seconds, 2)}

    # An unbegun change is no error if it waits for its wave, or if nothing failed: then a requested stop left it out.
    in_waves = current.plan.rollout is not None
    failed = any(outcome.result not in (Result.DONE, Result.SKIPPED) for outcome in current.outcomes)
    not_done: list[_Said] = []
    for outcome in current.outcomes:
        if outcome.result is Result.SKIPPED and in_waves:
            not_done.append((("info", "waits", "why", outcome.error), outcome.id))
        elif outcome.result is Result.SKIPPED and not failed:
            not_done.append((("info", "not begun", "why", outcome.error), outcome.id))
        elif outcome.result is not Result.DONE:
            not_done.append((("error", outcome.result.value, "error", outcome.error), outcome.id))
    yield from _alike(not_done)
    fields = {"round": current.number, "verdict": verdict(current.plan), "seconds": round(current.seconds, 2)}
    if current.outcomes:
        fields["done"] = sum(outcome.result is Result.DONE for outcome in current.outcomes)
    yield "info", "round", fields


def _alike(entries: Iterable[_Said]) -> Iterator[Line]:
    """Changes with the same words share a line: each round says it again."""
    for (level, event, word, why), changes in grouped(entries).items():
        if len(changes) == 1:
            yield level, event, {"change": changes[0], word: why}
        else:
            yield level, event, {"changes": len(changes), "first": changes[:SHOWN], word: why}


def round_figures(current: Round, live: LiveState | None, verdict: Verdict | None = None) -> Figures:
    """``live``: the state that the round read, and ``verdict`` on it."""
    if current.plan is None or current.error:
        return Figures(current.seconds, topology_kept=bool(current.kept))
    # A change that was planned and not done stays pending until a later round does it.
    kinds = {planned.id: planned.change.word for planned in current.plan.changes}
    done = Counter(kinds[outcome.id] for outcome in current.outcomes if outcome.result is Result.DONE)
    not_done = Counter(kinds.values()) - done
    # A lag that is not current is left out rather than exported: an alert must not fire, or rest, on an old figure.
    reported = list(live.as_reported().mirrors.values()) if live else []
    mirrors = [mirror for mirror in reported if isinstance(mirror, LiveMirror)]
    flows = [flow for mirror in mirrors if mirror.lag_is_current for flow in mirror.flows.values()]
    return Figures(
        seconds=current.seconds,
        succeeded_at=current.began + current.seconds,
        pending={kind: not_done[kind] for kind in KINDS},
        done=dict(done),
        failed=sum(outcome.result not in (Result.DONE, Result.SKIPPED) for outcome in current.outcomes),
        refused=len(current.plan.refused),
        unknown_clusters=sum(seen.cluster_id is None for seen in current.plan.basis.clusters),
        contested=len(current.contested),
        topology_kept=bool(current.kept),
        lag_records={f.name: float(f.records_lag) for f in flows if f.records_lag is not None},
        lag_seconds={f.name: f.seconds_lag for f in flows if f.seconds_lag is not None},
        lag_known={name: 0.0 for mirror in mirrors for name in mirror.flows}
        | {f.name: float(f.records_lag is not None) for f in flows},
        unknown_mirrors=len(reported) - len(mirrors),
        health=verdict.health if verdict is not None else None,
    )
