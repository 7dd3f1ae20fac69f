"""Causes of drift: edited outside, half-finished apply, broker default changed, normalised by the vendor, not told.

Never a guess: where two causes fit the same facts, the cause is ``not-told`` and both are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reconciler.engine.kinds import kind_of
from reconciler.model.changes import About, ConfigChange, Risk
from reconciler.model.plan import Plan, Planned
from reconciler.model.reports.drift import Cause, Difference, History, Line, Told
from reconciler.resources.topics.causes import grown_outside

NOTHING = History()


def differences(plan: Plan, earlier_runs: History = NOTHING) -> tuple[Difference, ...]:
    """``earlier_runs``: what earlier runs did, where it is known."""
    return (*_mended(plan, earlier_runs), *_not_mended(plan, earlier_runs))


def _mended(plan: Plan, earlier_runs: History) -> Iterator[Difference]:
    for planned in plan.changes:
        for deviation in kind_of(planned.change).deviations(planned.change):
            cause = cause_of(planned, earlier_runs, deviation.config)
            yield Difference(
                deviation.subject,
                deviation.kind,
                deviation.wished,
                deviation.found,
                planned.risk,
                planned.id,
                cause.cause,
                cause.why,
                deviation.origin,
            )


def _not_mended(plan: Plan, earlier_runs: History) -> Iterator[Difference]:
    """What differs and cannot be brought back, such as partitions that somebody added."""
    for refused in plan.refused:
        if refused.found and refused.subject.about is About.TOPIC:
            ref = str(refused.subject.whole)
            cause = grown_outside(ref, earlier_runs)
            yield Difference(ref, "partitions", refused.wished, refused.found, Risk.LOW, "", cause.cause, cause.why)


def history(lines: Iterable[Line]) -> History:
    """Of an audit record (schemas/audit.schema.json), oldest line first. A line of another shape is passed over."""
    changes: dict[str, tuple[Line, ...]] = {}
    open_runs: dict[str, str] = {}
    leftovers: dict[str, object] = {}
    known, overtaken = False, ""
    for line in lines:
        known = True
        run = str(line.get("run", ""))
        match line.get("kind"):
            case "begin" if line.get("plan_digest", "") is not None:  # null: a command by hand, which plans nothing
                open_runs[run], leftovers[run] = str(line.get("at", "")), line.get("changes")
            case "end" if run in open_runs:
                del open_runs[run]
                overtaken = max([overtaken, *_unfinished(open_runs, leftovers).values()])
                open_runs.clear()
            case "change" if isinstance(line.get("id"), str):
                changes[line["id"]] = (*changes.get(line["id"], ()), line)
                leftovers[run] = _one_less(leftovers.get(run))
    return History(changes, _unfinished(open_runs, leftovers), known, overtaken)


def _unfinished(open_runs: Mapping[str, str], leftovers: Mapping[str, object]) -> Mapping[str, str]:
    """Without those that were killed after their last change."""
    return {run: at for run, at in open_runs.items() if leftovers.get(run) != 0}


def _one_less(count: object) -> object:
    return count - 1 if isinstance(count, int) else None


def cause_of(planned: Planned, earlier_runs: History, config: ConfigChange | None = None) -> Told:
    """``config``: the single one of an ``AlterConfigs`` that is asked about."""
    last = earlier_runs.last(planned.id)
    if last is not None and last.get("result") in ("unproven", "left"):
        return Told(Cause.HALF_FINISHED, f"the apply of {last.get('at')} did it, and no probe confirmed it")
    if last is not None and last.get("result") in ("failed", "skipped", "undone"):
        return Told(Cause.HALF_FINISHED, f"the apply of {last.get('at')} did not do it: {_first(last.get('error'))}")
    if (cause := kind_of(planned.change).cause(planned, earlier_runs, config)) is not None:
        return cause
    if earlier_runs.cut_off:
        at = max(earlier_runs.cut_off.values())
        return Told(Cause.HALF_FINISHED, f"the run of {at} was cut off, and this is not among what it did")
    if earlier_runs.overtaken:
        either = f"new in git, changed outside, or left by the run of {earlier_runs.overtaken}, which was cut off"
        return Told(Cause.NOT_TOLD, f"{earlier_runs.nobody}: {either}")
    return Told(Cause.NOT_TOLD, f"{earlier_runs.nobody}: new in git, or changed outside")


def _first(error: object) -> str:
    return str(error).partition("\n")[0] if error else "no reason was recorded"
