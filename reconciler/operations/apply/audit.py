"""The audit record of runs: a local file, which must be complete, and a copy of it in a topic."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from reconciler.backends.state.audit import AuditFile, AuditTopicLog
from reconciler.engine.apply.audit_lines import Actor, Line, begun, changed, ended, probe_line
from reconciler.engine.apply.limits import Progress
from reconciler.errors import ReconcilerError
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.model.reports.probe import Probe
from reconciler.text import counted


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
