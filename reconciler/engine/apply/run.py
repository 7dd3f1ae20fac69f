"""One run of a plan: its batches in order, one outcome for each change, and what an interruption left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from reconciler.applying.looking_up import looked_up, unsure
from reconciler.applying.restraint import Caution, Progress, refuse_if_blocked
from reconciler.changes import (
    AclChange,
    AlterQuota,
    ReplicaChange,
    RestartMirror,
    StartMirror,
    StopMirror,
    TopicChange,
    UserChange,
    cluster_of,
)
from reconciler.errors import ClusterError, RunnerError
from reconciler.plans import Outcome, Plan, Planned, Result
from reconciler.ports import ClusterAdmin, MirrorRunner
from reconciler.probing import AccessWaves, Conduct, Wave
from reconciler.reassigning import reassign
from reconciler.reassigning.window import Watch

INTERRUPTED = "not begun: the run was interrupted"
STEP = 1_000
"""The most changes that are begun together. Whether to go on is asked before each step."""


def apply(
    plan: Plan,
    admins: Mapping[str, ClusterAdmin],
    runner: MirrorRunner,
    handovers: Mapping[str, str],
    progress: Progress,
    caution: Caution | None = None,
) -> tuple[Outcome, ...]:
    """One outcome for each change, in the plan's order. ``handovers``: mirror -> text of its hand-over.

    Raises what ``refuse_if_blocked`` raises, and nothing for a single change. On interruption, or when the gate
    closes, the rest is skipped; what was under way when interrupted is looked up on the cluster; when interrupted
    again, nobody is asked any more.
    """
    refuse_if_blocked(plan)
    run = _Run(plan, admins, runner, handovers, progress)
    if caution is not None:
        run.restrain(caution)
    try:
        run.carry_out()
    except KeyboardInterrupt:
        try:
            run.interrupted()
        except KeyboardInterrupt:
            run.given_up()
    return tuple(run.outcomes[planned.id] for planned in plan.changes)


def _batches(changes: Sequence[Planned]) -> Iterator[list[Planned]]:
    """Neighbours of one stage, cluster and kind travel in one request; a mirror is a batch of its own."""

    def together(planned: Planned) -> tuple[str, str, str]:
        change = planned.change
        if isinstance(change, AclChange | AlterQuota | UserChange):
            return planned.stage, change.cluster, type(change).__name__
        if isinstance(change, TopicChange):
            return planned.stage, change.ref.cluster, f"{type(change).__name__} {max(change.depth, 1)}"
        if isinstance(change, ReplicaChange):
            return planned.stage, cluster_of(change), "replicas"
        return planned.stage, "", planned.id

    for _, batch in groupby(changes, key=together):
        alike = list(batch)
        for start in range(0, len(alike), STEP):
            yield alike[start : start + STEP]


class _Run:
    """The outcomes so far. Lives as long as one ``apply``."""

    def __init__(
        self,
        plan: Plan,
        admins: Mapping[str, ClusterAdmin],
        runner: MirrorRunner,
        handovers: Mapping[str, str],
        progress: Progress,
    ) -> None:
        self.plan = plan
        self.admins = admins
        self.runner = runner
        self.handovers = handovers
        self.progress = progress
        self.outcomes: dict[str, Outcome] = {}
        self.under_way: list[Planned] = []
        self.identity: dict[str, str] = {}
        self.restrain(Caution())

    def restrain(self, caution: Caution) -> None:
        self.caution = caution
        told = self.progress
        self.waves = AccessWaves(Conduct(caution.prober, caution.patience, caution.held, told.note, told.probed))

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
        promotion.conclude()

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
        changes = [planned.change for planned in ready]
        if ready and isinstance(changes[0], TopicChange):
            self._on_cluster(changes[0].ref.cluster, ready)
        elif ready and isinstance(changes[0], AclChange):
            self._wave(changes[0].cluster, ready)
        elif ready and isinstance(changes[0], AlterQuota | UserChange):
            self._on_cluster(changes[0].cluster, ready)
        elif ready and isinstance(changes[0], ReplicaChange):
            self._replicas(cluster_of(changes[0]), ready)
        else:
            for planned in ready:
                self._mirror(planned)
        self.under_way = []

    def interrupted(self) -> None:
        """Says of every change whether it was done; asks the cluster about those that were under way."""
        self.caution.promotion.interrupted()
        for outcome in looked_up(self._left(), self.admins, self.waves):
            self._record(outcome)
        self.ended(INTERRUPTED)

    def given_up(self) -> None:
        """Interrupted again, while clusters were asked: says what is known without them."""
        for planned in self._left():
            self._record(unsure(planned))
        self.ended(INTERRUPTED)

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
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            why = f"not begun: it needs {', '.join(missing[:3])}{more}, which did not succeed"
            self._record(Outcome(planned.id, Result.SKIPPED, f"{why} ({planned.needs_why})"))
        return bool(missing)

    def _done(self, change_id: str) -> bool:
        found = self.outcomes.get(change_id)
        return found is not None and found.result is Result.DONE

    def _on_cluster(self, cluster: str, ready: list[Planned]) -> None:
        if wrong := self._wrong_cluster(cluster):
            self._fail(ready, wrong)
            return
        try:
            for outcome in self.admins[cluster].perform(ready, self._record):
                self._record(outcome)
        except ClusterError as error:
            self._fail(ready, str(error))
            return
        self._fail(ready, f"cluster {cluster} gave no answer for this change\nRun plan again to see what is left.")

    def _wave(self, cluster: str, ready: list[Planned]) -> None:
        if wrong := self._wrong_cluster(cluster):
            self._fail(ready, wrong)
            return
        for outcome in self.waves.carry_out(Wave(cluster, ready[0].stage, tuple(ready)), self.admins[cluster]):
            self._record(outcome)

    def _replicas(self, cluster: str, ready: list[Planned]) -> None:
        if wrong := self._wrong_cluster(cluster):
            self._fail(ready, wrong)
            return
        about = ready[0].id if len(ready) == 1 else f"replicas of {cluster}"
        environment = self.plan.basis.environment
        watch = Watch(note=lambda text: self.progress.note(about, text), closed=self.caution.gate)
        try:
            with self.admins[cluster].replicas(environment) as admin:
                for outcome in reassign(ready, environment, admin, watch):
                    self._record(outcome)
        except ClusterError as error:
            self._fail(ready, str(error))

    def _wrong_cluster(self, cluster: str) -> str:
        """Why this cluster must not be written to, or empty. Asked once a run."""
        if cluster not in self.identity:
            self.identity[cluster] = self._identify(cluster)
        return self.identity[cluster]

    def _identify(self, cluster: str) -> str:
        planned = next((seen.cluster_id for seen in self.plan.basis.clusters if seen.name == cluster), None)
        if cluster not in self.admins:
            return f"no connection to cluster {cluster} was made\nRun apply with the topology the plan was made from."
        try:
            found = self.admins[cluster].read(()).cluster_id
        except ClusterError as error:
            return str(error)
        if planned is None or planned == found:
            return ""
        return (
            f"cluster {cluster} is {found} now, the plan was made for {planned}\n"
            "Changes meant for one cluster would be made on another.\n"
            "Check bootstrap_servers, then plan again."
        )

    def _mirror(self, planned: Planned) -> None:
        change = planned.change
        begun = time.monotonic()

        def note(text: str) -> None:
            self.progress.note(planned.id, text)

        try:
            if isinstance(change, RestartMirror | StartMirror) and change.mirror not in self.handovers:
                raise RunnerError(
                    f"there is no hand-over for mirror {change.mirror}",
                    "The topology at hand does not name it",
                    "Run apply with the topology the plan was made from.",
                )
            if isinstance(change, StopMirror):
                self.runner.stop(change.mirror, note)
            if isinstance(change, RestartMirror | StartMirror):
                self._start(planned.id, change)
        except (RunnerError, ClusterError) as error:
            self._record(Outcome(planned.id, Result.FAILED, str(error), time.monotonic() - begun))
            return
        self._record(Outcome(planned.id, Result.DONE, "", time.monotonic() - begun))

    def _start(self, planned_id: str, change: StartMirror | RestartMirror) -> None:
        handover = self.handovers[change.mirror]
        begin = self.runner.restart if isinstance(change, RestartMirror) else self.runner.start
        found = begin(change.mirror, handover, lambda text: self.progress.note(planned_id, text))
        if found.fingerprint != change.fingerprint:
            raise RunnerError(
                f"mirror {change.mirror} runs with fingerprint {found.fingerprint}, planned was {change.fingerprint}",
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
