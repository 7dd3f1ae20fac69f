"""Applies the changes of a plan batch by batch, in order, with one outcome for each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import assert_never

from reconciler.engine.apply.after_interrupt import looked_up, unsure
from reconciler.engine.apply.limits import ApplyLimits, Progress, refuse_if_blocked
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.changes import KindName, RestartMirror, StartMirror, StopMirror
from reconciler.model.live import Made
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.model.ports import ClusterAdmin, MirrorRunner
from reconciler.resources.acls.desired import DECLARED
from reconciler.resources.acls.probe.run import AclBatch, AclBatches, ProbeSettings
from reconciler.resources.replicas.reassign.in_flight import ReassignmentWatch
from reconciler.resources.replicas.reassign.run import reassign
from reconciler.text import counted, first_of, grouped

SIGINT = "SIGINT"
"""Python's own handler of Ctrl-C does not name it."""
STEP = 1_000
"""The most changes that are begun together. Whether to go on is asked before each step."""


def apply(
    plan: Plan,
    admins: Mapping[str, ClusterAdmin],
    runner: MirrorRunner,
    handovers: Mapping[str, str],
    progress: Progress,
    caution: ApplyLimits | None = None,
) -> tuple[Outcome, ...]:
    """One outcome for each change, in the plan's order. ``handovers``: mirror -> text of its hand-over.

    Raises what ``refuse_if_blocked`` raises, and nothing for a single change. On interruption, or when the gate
    closes, the rest is skipped; what was under way when interrupted is looked up on the cluster; when interrupted
    again, nobody is asked any more.
    """
    refuse_if_blocked(plan)
    run = _Run(plan, admins, runner, handovers, progress, caution or ApplyLimits())
    try:
        run.carry_out()
    except KeyboardInterrupt as signal:
        by = str(signal) or SIGINT
        try:
            run.interrupted(by)
        except KeyboardInterrupt:
            run.given_up(by)
    return tuple(run.outcomes[planned.id] for planned in plan.changes)


def _batches(changes: Sequence[Planned]) -> Iterator[list[Planned]]:
    """Neighbours of one stage, cluster and kind travel in one request; a mirror is a batch of its own."""

    def together(planned: Planned) -> tuple[str, str, str]:
        return planned.stage, planned.change.cluster, planned.change.batch

    for _, batch in groupby(changes, key=together):
        alike = list(batch)
        for start in range(0, len(alike), STEP):
            yield alike[start : start + STEP]


@dataclass
class _Run:
    """The outcomes so far. Lives as long as one ``apply``."""

    plan: Plan
    admins: Mapping[str, ClusterAdmin]
    runner: MirrorRunner
    handovers: Mapping[str, str]
    progress: Progress
    caution: ApplyLimits
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    under_way: list[Planned] = field(default_factory=list)
    identity: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        caution, progress = self.caution, self.progress
        self.waves = AclBatches(
            ProbeSettings(caution.prober, caution.patience, caution.held, progress.note, progress.probed)
        )

    def carry_out(self) -> None:
        """Wave by wave, each in its batches. What a closed gate leaves is not begun."""
        promotion = self.caution.promotion
        for wave, some in groupby(self.plan.changes, key=lambda planned: planned.wave):
            changes = list(some)
            if why := promotion.begin(wave):
                self.ended(f"not begun: {why}")
                return
            if closed := self._in_batches(changes):
                self.ended(f"not begun: {closed}")
                promotion.interrupted()
                return
            promotion.ended(wave, [self.outcomes[planned.id] for planned in changes])
        self._take_over_rules()
        promotion.conclude()

    def _take_over_rules(self) -> None:
        """Rules that are declared and were there before become ours. That it fails harms nothing: the next apply does
        it, and until then a plan says that taking them out of the files deletes nothing."""
        by_cluster = grouped((adopted.cluster, adopted) for adopted in self.plan.adopted_acls)
        for cluster, some in by_cluster.items():
            about = f"access {cluster}"
            try:
                if why := self.caution.held() or self._wrong_cluster(cluster):
                    self.progress.note(about, why)
                    continue
                self.admins[cluster].own_rules({each.acl: Made(each.title, DECLARED) for each in some})
                self.progress.note(about, f"{counted(len(some), 'declared rule')} of before, ours from now on")
            except ClusterError as error:
                self.progress.note(about, f"rules that were there before could not be recorded as ours: {error.what}")

    def _in_batches(self, changes: Sequence[Planned]) -> str:
        """Why it stopped in the middle, or empty."""
        for batch in _batches(changes):
            if closed := self.caution.gate():
                return closed
            self.batch(batch)
        return ""

    def batch(self, batch: list[Planned]) -> None:
        ready = [planned for planned in batch if not self._skipped(planned)]
        self.under_way = ready
        if ready:
            self._carried_out(ready[0].change.kind, ready[0].change.cluster, ready)
        self.under_way = []

    def _carried_out(self, kind: KindName, cluster: str, ready: list[Planned]) -> None:
        wrong = "" if kind is KindName.MIRRORS else self._wrong_cluster(cluster)
        try:
            for outcome in () if wrong else self._outcomes(kind, cluster, ready):
                self._record(outcome)
        except ClusterError as error:
            wrong = str(error)
        silent = f"cluster {cluster} gave no answer for this change\nRun plan again to see what is left."
        self._fail(ready, wrong or silent)

    def _outcomes(self, kind: KindName, cluster: str, ready: list[Planned]) -> Iterable[Outcome]:
        """Raises ClusterError."""
        match kind:
            case KindName.TOPICS | KindName.QUOTAS | KindName.USERS:
                return self.admins[cluster].perform(ready, self._record)
            case KindName.ACLS:
                return self.waves.carry_out(AclBatch(cluster, ready[0].stage, tuple(ready)), self.admins[cluster])
            case KindName.REPLICAS:
                return self._reassigned(cluster, ready)
            case KindName.MIRRORS:
                return map(self._mirror, ready)
            case _:
                assert_never(kind)

    def interrupted(self, by: str) -> None:
        """Says of every change whether it was done; asks the cluster about those that were under way. ``by``: the
        signal that ended the run."""
        self.caution.promotion.interrupted(by)
        for outcome in looked_up(self._left(), self.admins, self.waves):
            self._record(outcome)
        self.ended(_ended_by(by))

    def given_up(self, by: str) -> None:
        """Interrupted again, while clusters were asked: says what is known without them."""
        for planned in self._left():
            self._record(unsure(planned))
        self.ended(_ended_by(by))

    def _left(self) -> list[Planned]:
        return [planned for planned in self.under_way if planned.id not in self.outcomes]

    def ended(self, why: str) -> None:
        """What has no outcome yet was not begun."""
        for planned in self.plan.changes:
            if planned.id not in self.outcomes:
                self._record(Outcome(planned.id, Result.SKIPPED, why))

    def _skipped(self, planned: Planned) -> bool:
        missing = [need for need in planned.needs if not self._done(need)]
        if missing:
            why = f"not begun: it needs {first_of(missing, 3)}, which did not succeed"
            self._record(Outcome(planned.id, Result.SKIPPED, f"{why} ({planned.needs_why})"))
        return bool(missing)

    def _done(self, change_id: str) -> bool:
        outcome = self.outcomes.get(change_id)
        return outcome is not None and outcome.result is Result.DONE

    def _reassigned(self, cluster: str, ready: list[Planned]) -> tuple[Outcome, ...]:
        about = ready[0].id if len(ready) == 1 else f"replicas of {cluster}"
        environment = self.plan.basis.environment
        watch = ReassignmentWatch(
            note=lambda text: self.progress.note(about, text),
            closed=self.caution.gate,
            progress=lambda text: self.progress.moving(about, text),
        )
        with self.admins[cluster].replicas(environment) as admin:
            return reassign(ready, environment, admin, watch)

    def _wrong_cluster(self, cluster: str) -> str:
        """Why this cluster must not be written to, or empty. Asked once a run."""
        if cluster not in self.identity:
            self.identity[cluster] = self._identify(cluster)
        return self.identity[cluster]

    def _identify(self, cluster: str) -> str:
        planned = next((each.cluster_id for each in self.plan.basis.clusters if each.name == cluster), None)
        if cluster not in self.admins:
            return f"no connection to cluster {cluster} was made\nRun apply with the topology the plan was made from."
        try:
            cluster_id = self.admins[cluster].read(()).cluster_id
        except ClusterError as error:
            return str(error)
        if planned is None or planned == cluster_id:
            return ""
        return (
            f"cluster {cluster} is {cluster_id} now, the plan was made for {planned}\n"
            "Changes meant for one cluster would be made on another.\n"
            "Check bootstrap_servers, then plan again."
        )

    def _mirror(self, planned: Planned) -> Outcome:
        change = planned.change
        begun = time.monotonic()

        def note(text: str) -> None:
            self.progress.note(planned.id, text)

        try:
            match change:
                case StopMirror():
                    self.runner.stop(change.mirror, note)
                case StartMirror() | RestartMirror():
                    self._start(change, note)
                case _:
                    raise TypeError(f"{planned.id} is no change of a mirror")
        except (RunnerError, ClusterError) as error:
            return Outcome(planned.id, Result.FAILED, str(error), time.monotonic() - begun)
        return Outcome(planned.id, Result.DONE, "", time.monotonic() - begun)

    def _start(self, change: StartMirror | RestartMirror, note: Callable[[str], None]) -> None:
        if change.mirror not in self.handovers:
            raise RunnerError(
                f"there is no definition for mirror {change.mirror}",
                "The current topology does not name it",
                "Run apply with the topology the plan was made from.",
            )
        begin = self.runner.restart if isinstance(change, RestartMirror) else self.runner.start
        job = begin(change.mirror, self.handovers[change.mirror], note)
        if job.fingerprint != change.fingerprint:
            raise RunnerError(
                f"mirror {change.mirror} runs with fingerprint {job.fingerprint}, planned was {change.fingerprint}",
                "The topology changed between plan and start, or another run started the job",
                "Run plan again.",
            )

    def _fail(self, batch: list[Planned], error: str) -> None:
        for planned in batch:
            if planned.id not in self.outcomes:
                self._record(Outcome(planned.id, Result.FAILED, error))

    def _record(self, outcome: Outcome) -> None:
        """The first word about a change counts: it comes as progress and again in the answer."""
        if outcome.id not in self.outcomes:
            self.outcomes[outcome.id] = outcome
            self.progress.outcome(outcome)


def _ended_by(signal: str) -> str:
    return f"not begun: {signal} ended the run; nothing is to fix, run apply again"
