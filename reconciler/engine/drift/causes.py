"""Causes of drift: edited outside, half-finished apply, broker default changed, normalised by the vendor, unknown.

Never a guess: where two causes fit the same facts, the cause is ``not-told`` and both are named.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from reconciler.engine.kinds import kind_of
from reconciler.errors import ExitCode
from reconciler.model.changes import COUNTED, About, ConfigChange, Outside, OutsideChange, Risk
from reconciler.model.plan import Plan, Planned
from reconciler.model.reports.drift import Cause, Difference, FoundCause, History, Line
from reconciler.resources.topics.kind import grown_outside
from reconciler.text import grouped

NOTHING = History()


def differences(plan: Plan, earlier_runs: History = NOTHING) -> tuple[Difference, ...]:
    """``earlier_runs``: known changes by earlier runs."""
    drift, record = list[Difference](), _Record(plan.outside)
    for planned in plan.changes:
        for deviation in kind_of(planned.change).deviations(planned.change):
            cause = cause_of(planned, earlier_runs, deviation.config)
            cause = record.cause(cause, deviation.subject, deviation.kind, deviation.config)
            drift.append(
                Difference(
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
            )

    # Differences that no change can revert, such as added partitions.
    for refused in plan.refused:
        if refused.found and refused.subject.about is About.TOPIC:
            ref, kind = str(refused.subject.whole), "partitions"
            cause = record.cause(grown_outside(ref, earlier_runs), ref, kind)
            wished, live = refused.wished, refused.found
            drift.append(Difference(ref, kind, wished, live, Risk.LOW, "", cause.cause, cause.why))

    # Differences without a planned change, which only the record of the last apply shows.
    for change in plan.outside:
        if change.kind is Outside.RECREATED and change.kind in COUNTED:
            wished, why, origin = change.before, _why(change), "as the last apply left it"
        elif change.kind in COUNTED:
            earlier = f"; {change.before} after {change.since}" if change.since else ""
            wished, why, origin = "no override", f"{change.why}{earlier}", ""
        else:
            continue
        cause_now = Cause.EDITED_OUTSIDE
        kind = change.kind.value
        drift.append(Difference(change.name, kind, wished, change.after, Risk.LOW, "", cause_now, why, origin))
    return tuple(drift)


def drift_exit_code(plan: Plan) -> ExitCode:
    """The plan's exit code; a difference without a change is drift, too."""
    code = plan.exit_code
    return ExitCode.CHANGES if code is ExitCode.DONE and any(it.kind in COUNTED for it in plan.outside) else code


def _why(change: OutsideChange) -> str:
    since = f" since {change.since}" if change.since else ""
    match change.kind:
        case Outside.DELETED:
            return f"deleted{since}: it was {change.before}"
        case Outside.RECREATED:
            return f"the topic was deleted and recreated{since}: {change.before} -> {change.after}"
        case _:
            return f"changed{since}: {change.before} -> {change.after}"


class _Record:
    """Differences between the live state and the record of the last apply."""

    def __init__(self, outside: Iterable[OutsideChange]) -> None:
        self._by_name = {change.name: change for change in outside if change.since and change.key}
        self._topics = grouped((str(change.subject), change) for change in outside if change.since and not change.key)

    def cause(self, cause: FoundCause, subject: str, kind: str, config: ConfigChange | None = None) -> FoundCause:
        """Replaces a vague cause by the record's. A killed apply, or a cluster that resets a value each time, explains
        more than the record and stays. ``subject``, ``kind``, ``config``: of the difference."""
        if cause.cause in (Cause.HALF_FINISHED, Cause.NORMALISED):
            return cause
        topic, _, key = subject.partition(" ")
        for whole in self._topics.get(topic, ()):
            if whole.kind is not Outside.PARTITIONS or kind == "partitions":
                return FoundCause(Cause.EDITED_OUTSIDE, _why(whole))
        if (own := self._by_name.get(subject)) is not None:
            return FoundCause(Cause.EDITED_OUTSIDE, _why(own))
        source = config.source if config is not None else ""
        if source and (its := self._by_name.get(f"{source} {key}")) is not None:
            return FoundCause(Cause.EDITED_OUTSIDE, f"its source {source} was {_why(its)}")
        default = self._by_name.get(f"cluster {topic.partition('/')[0]} {key}")
        if default is not None and cause.cause is Cause.DEFAULT_CHANGED:
            return FoundCause(Cause.DEFAULT_CHANGED, f"the cluster's default was {_why(default)}")
        return cause


def history(lines: Iterable[Line]) -> History:
    """Parses an audit record (schemas/audit.schema.json), oldest line first. Malformed lines are skipped.

    A run with an end supersedes unfinished earlier runs. A run without an end was killed, unless it carried out all its
    changes.
    """
    changes: dict[str, list[Line]] = defaultdict(list)
    open_runs: dict[str, str] = {}
    leftovers: dict[str, object] = {}
    known, overtaken = False, ""
    for line in lines:
        known = True
        run = str(line.get("run", ""))
        match line.get("kind"):
            case "begin" if line.get("plan_digest", "") is not None:  # null: a command that plans nothing
                open_runs[run], leftovers[run] = str(line.get("at", "")), line.get("changes")
            case "end" if run in open_runs:
                del open_runs[run]
                overtaken = max([overtaken, *_unfinished(open_runs, leftovers).values()])
                open_runs.clear()
            case "change" if isinstance(line.get("id"), str):
                changes[line["id"]].append(line)
                left = leftovers.get(run)
                leftovers[run] = left - 1 if isinstance(left, int) else None
    return History(
        {name: tuple(lines) for name, lines in changes.items()}, _unfinished(open_runs, leftovers), known, overtaken
    )


def _unfinished(open_runs: Mapping[str, str], leftovers: Mapping[str, object]) -> Mapping[str, str]:
    """Unfinished runs, without runs that were killed after their last change."""
    return {run: at for run, at in open_runs.items() if leftovers.get(run) != 0}


def cause_of(planned: Planned, earlier_runs: History, config: ConfigChange | None = None) -> FoundCause:
    """``config``: one config of an ``AlterConfigs``."""
    last = earlier_runs.last(planned.id)
    # The most specific cause first: audit lines about this change, then the kind's own classification, then unfinished
    # runs.
    if last is not None and last.get("result") in ("unproven", "left"):
        return FoundCause(Cause.HALF_FINISHED, f"the apply of {last.get('at')} did it, and no probe confirmed it")
    if last is not None and last.get("result") in ("failed", "skipped", "undone"):
        error = str(last.get("error") or "no reason was recorded").partition("\n")[0]
        return FoundCause(Cause.HALF_FINISHED, f"the apply of {last.get('at')} did not do it: {error}")
    if (cause := kind_of(planned.change).cause(planned, earlier_runs, config)) is not None:
        return cause
    if earlier_runs.cut_off:
        at = max(earlier_runs.cut_off.values())
        return FoundCause(Cause.HALF_FINISHED, f"the run of {at} was cut off, and this is not among what it did")
    if earlier_runs.overtaken:
        either = f"new in git, changed outside, or left by the run of {earlier_runs.overtaken}, which was cut off"
        return FoundCause(Cause.UNDETERMINED, f"{earlier_runs.no_run}: {either}")
    return FoundCause(Cause.UNDETERMINED, f"{earlier_runs.no_run}: new in git, or changed outside")
