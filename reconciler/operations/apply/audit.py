"""The audit record of runs: a local file, which must be complete, and a copy of it in a topic."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from reconciler.backends.state.audit import AuditFile, AuditTopicLog
from reconciler.engine.apply.limits import Progress
from reconciler.engine.plan.file import change_document, digest
from reconciler.errors import ReconcilerError
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.model.reports.probe import Probe, probe_document
from reconciler.model.state.lock import Holder, Steal
from reconciler.text import counted

# Builds lines of the audit log about a run (schemas/audit.schema.json). Writes nothing.

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


class Audit:
    """``topic`` None: the topology declares no copy, or the command takes no lock and writes only the file."""

    def __init__(self, file: AuditFile, topic: AuditTopicLog | None = None) -> None:
        self.file = file
        self.topic = topic

    def begin(self, line: Line) -> None:
        """Writes the first line of a run. Raises ReconcilerError if it cannot be written: the run must not begin
        then."""
        self.file.write(line)
        if self.topic is not None:
            self.topic.begin(line)

    def write(self, line: Line) -> None:
        self.file.write(line)
        if self.topic is not None:
            self.topic.write(line)

    def heads(self) -> dict[str, str]:
        """Place -> digest of its last record. Places have the names that ``reconciler audit verify`` shows."""
        kept = {"this machine": self.file.head()}
        if self.topic is not None:
            kept[f"{self.topic.cluster.name}/{self.topic.topic}"] = self.topic.head or ""
        return {place: head for place, head in kept.items() if head}

    def left(self) -> str:
        return self.topic.left() if self.topic is not None else ""


@contextmanager
def recorded(audit: Audit, run: str, actor: Actor, steps: Sequence[str]) -> Iterator[list[Outcome]]:
    """Records one run without a plan. The block appends an outcome for each step; a step without one is recorded as
    failed, with the error that ended the block.

    Raises ReconcilerError at once if the beginning cannot be written; at the end with all outcomes if they cannot.
    """
    outcomes: list[Outcome] = []
    why, at = "interrupted", time.monotonic()
    try:
        audit.begin(begun(run, time.time(), actor, None, len(steps)))
        yield outcomes
    except ReconcilerError as error:
        why = str(error)
        raise
    finally:
        # A run whose beginning is not in the file did nothing, so it gets no end either.
        if audit.file.holds(run):
            names = {outcome.id for outcome in outcomes}
            seconds = time.monotonic() - at
            outcomes += [Outcome(step, Result.FAILED, why, seconds) for step in steps if step not in names]
            try:
                for outcome in outcomes:
                    audit.write(changed(run, time.time(), outcome, None))
                audit.write(ended(run, time.time(), outcomes, ""))
            except ReconcilerError as error:
                lines = [f"{it.id} is {it.result}{f' ({it.error})' if it.error else ''}" for it in outcomes]
                problem = f"{'; '.join(lines)}. The audit record does not say so: {error.what}"
                why = "It has the beginning of this run and no end, as though it had been killed."
                raise ReconcilerError(
                    problem, why, f"{error.todo} What is done holds, and need not be repeated."
                ) from None


class Recorder:
    """A ``Progress`` that records each outcome before it passes it on."""

    def __init__(self, audit: Audit, run: str, plan: Plan, progress: Progress) -> None:
        self.audit = audit
        self.run = run
        self.planned: dict[str, Planned] = {planned.id: planned for planned in plan.changes}
        self.progress = progress
        self.outcomes: list[Outcome] = []
        self.unwritten = ""
        """Error of a line that could not be written, or empty. Finished steps are still reported; no further step
        begins."""
        self._waiting: list[Line] = []
        """Lines from that one on, written first at the next chance: a short last line may fit on a full disk, and
        without them the record would look complete."""

    def stopped(self) -> str:
        return self.unwritten.partition("\n")[0]

    def write(self, line: Line) -> None:
        """Writes the line, after those that could not be written before. Raises nothing: ``unwritten`` stops the run
        before its next step."""
        waiting, self._waiting = [*self._waiting, line], []
        for at, each in enumerate(waiting):
            try:
                self.audit.write(each)
            except ReconcilerError as error:
                self._waiting = waiting[at:]
                lacks = f"It lacks {counted(len(self._waiting), 'line')} of this run. What is done holds"
                self.unwritten = f"{error.what}\n{lacks}, and a new plan shows what is left. {error.todo}"
                return
        self.unwritten = ""

    def outcome(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.write(changed(self.run, time.time(), outcome, self.planned.get(outcome.id)))
        self.progress.outcome(outcome)

    def note(self, change_id: str, text: str) -> None:
        self.progress.note(change_id, text)

    def moving(self, change_id: str, text: str) -> None:
        self.progress.moving(change_id, text)

    def probed(self, probe: Probe) -> None:
        self.write(probe_line(self.run, time.time(), probe))
        self.progress.probed(probe)
