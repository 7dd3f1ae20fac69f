"""Builds lines of the audit log about a run (schemas/audit.schema.json). Writes nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from reconciler.engine.plan.file import change_document, digest
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.model.reports.probe import Probe, probe_document
from reconciler.model.state.lock import Holder, Steal

FORMAT_VERSION = 1

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who runs which command, by which files. Each line of the audit record can be traced to one."""

    command: str
    environment: str
    holder: Holder
    commit: str
    """Of the files; ``dirty``: they differ from it."""
    dirty: bool
    steal: Steal | None = None
    """Set if this run took the lock from its holder."""
    ignoring_gates: str = ""
    """The reason, or empty."""


def begun(run: str, at: float, actor: Actor, plan: Plan | None, changes: int) -> Line:
    """``plan`` None: a command other than apply, which has no plan. ``at``: seconds since 1970."""
    return {
        **_head("begin", run, at),
        "command": actor.command,
        "environment": actor.environment,
        "who": actor.holder.who,
        "host": actor.holder.host,
        "pid": actor.holder.pid,
        "commit": actor.commit,
        "dirty": actor.dirty,
        "plan_digest": None if plan is None else digest(plan),
        "changes": changes,
        "steal": None if actor.steal is None else asdict(actor.steal),
        **({"ignoring_gates": actor.ignoring_gates} if actor.ignoring_gates else {}),
    }


def changed(run: str, at: float, outcome: Outcome, planned: Planned | None) -> Line:
    """The line of a change that was carried out or failed. ``planned``: None if the plan does not contain it."""
    return {
        **_head("change", run, at),
        "id": outcome.id,
        "change": None if planned is None else change_document(planned.change),
        "result": outcome.result.value,
        "error": outcome.error,
        "seconds": round(outcome.seconds, 3),
    }


def probe_line(run: str, at: float, probe: Probe) -> Line:
    return {**_head("probe", run, at), **probe_document(probe)}


def ended(run: str, at: float, outcomes: Iterable[Outcome], lost: str) -> Line:
    results = [outcome.result for outcome in outcomes]
    return {**_head("end", run, at), **{entry.value: results.count(entry) for entry in Result}, "lost": lost}


def _head(kind: str, run: str, at: float) -> dict[str, Any]:
    moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"format_version": FORMAT_VERSION, "kind": kind, "run": run, "at": moment}
