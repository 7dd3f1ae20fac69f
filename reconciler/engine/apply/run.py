"""Applies the changes of a plan batch by batch, in order, with one outcome for each change."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import assert_never

from reconciler.engine.apply.limits import ApplyLimits, Progress, refuse_if_blocked
from reconciler.engine.kinds import kind_of
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.changes import KindName, RestartMirror, StartMirror, StopMirror
from reconciler.model.live import Made
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.model.ports import ClusterAdmin, MirrorRunner
from reconciler.resources.acls.probe.run import AclBatch, AclBatches, ProbeSettings
from reconciler.resources.replicas.reassign.in_flight import ReassignmentWatch
from reconciler.resources.replicas.reassign.run import reassign
from reconciler.text import BRIEF, counted, first_of, grouped

SIGINT = "SIGINT"
"""Name of the signal of Ctrl-C, which Python's KeyboardInterrupt does not carry."""
STEP = 1_000
"""Most changes that begin together. The gate is checked before each step."""
CUT_SHORT = "interrupted before it was done"
LEFT_MOVING = (
    "interrupted: what is in flight continues, throttled\n"
    "Run apply again to continue, or cancel it with: reconciler reassignments cancel ENV."
)
UNSURE = "interrupted while it was under way; whether it was done is not known\nRun plan to see what is left."


def apply(
    plan: Plan,
    admins: Mapping[str, ClusterAdmin],
    runner: MirrorRunner,
    handovers: Mapping[str, str],
    progress: Progress,
    caution: ApplyLimits | None = None,
) -> tuple[Outcome, ...]:
    """One outcome for each change, in the plan's order. ``handovers``: mirror -> text of its hand-over.

    Raises as ``refuse_if_blocked``, and nothing for a single change. An interrupt, or a closed gate, skips the rest;
    after an interrupt the cluster is asked how changes in progress ended; a second interrupt gives that up.
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


@dataclass
class _Run:
    """The outcomes so far, and changes in progress (``under_way``), which must be looked up after an interrupt.

    ``identity``: cluster -> why it must not be written to, or empty. Lives as long as one ``apply``.
    """

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
        """Carries out the plan wave by wave, batch by batch, until a gate closes."""
        promotion = self.caution.promotion
        for wave, some in groupby(self.plan.changes, key=lambda planned: planned.wave):
            changes = list(some)
            if why := promotion.begin(wave):
                self.ended(f"not begun: {why}")
                return
            # Neighbours of one stage, cluster and kind share one request; each mirror is a separate batch.
            for _, batch in groupby(changes, key=lambda it: (it.stage, it.change.cluster, it.change.batch)):
                alike = list(batch)
                for start in range(0, len(alike), STEP):
                    if closed := self.caution.gate():
                        self.ended(f"not begun: {closed}")
                        promotion.interrupted()
                        return
                    self.batch(alike[start : start + STEP])
            promotion.ended(wave, [self.outcomes[planned.id] for planned in changes])
        self._take_over_rules()
        promotion.conclude()

    def _take_over_rules(self) -> None:
        """Adds declared rules that already existed to the ownership record. A failure is harmless: the next apply
        retries, and until then plans say that removing these rules from the files deletes nothing."""
        by_cluster = grouped((adopted.cluster, adopted) for adopted in self.plan.adopted_acls)
        for cluster, some in by_cluster.items():
            about = f"access {cluster}"
            try:
                if why := self.caution.held() or self._wrong_cluster(cluster):
                    self.progress.note(about, why)
                    continue
                self.admins[cluster].own_rules({each.acl: Made(each.title, each.maker) for each in some})
                self.progress.note(about, f"{counted(len(some), 'declared rule')} of before, ours from now on")
            except ClusterError as error:
                self.progress.note(about, f"rules that were there before could not be recorded as ours: {error.what}")

    def batch(self, batch: list[Planned]) -> None:
        # Skips only dependents of a failed change, not its neighbours in the request.
        """Carries out changes that go together, and gives each an outcome, whatever happens."""
        ready: list[Planned] = []
        done = {id_ for id_, outcome in self.outcomes.items() if outcome.result is Result.DONE}
        for planned in batch:
            missing = [need for need in planned.needs if need not in done]
            if missing:
                why = f"not begun: it needs {first_of(missing, BRIEF)}, which did not succeed ({planned.needs_why})"
                self._record(Outcome(planned.id, Result.SKIPPED, why))
            else:
                ready.append(planned)
        if not ready:
            return

        # A mirror has no cluster id to check: its runner compares fingerprints instead.
        self.under_way = ready
        kind, cluster = ready[0].change.kind, ready[0].change.cluster
        wrong = "" if kind is KindName.MIRRORS else self._wrong_cluster(cluster)
        try:
            for outcome in () if wrong else self._outcomes(kind, cluster, ready):
                self._record(outcome)
        except ClusterError as error:
            wrong = str(error)
        wrong = wrong or f"cluster {cluster} gave no answer for this change\nRun plan again to see what is left."
        for planned in ready:
            if planned.id not in self.outcomes:
                self._record(Outcome(planned.id, Result.FAILED, wrong))
        self.under_way = []

    def _outcomes(self, kind: KindName, cluster: str, ready: list[Planned]) -> Iterable[Outcome]:
        """Raises ClusterError."""
        match kind:
            case KindName.TOPICS | KindName.QUOTAS | KindName.USERS:
                return self.admins[cluster].perform(ready, self._record)
            case KindName.ACLS:
                return self.waves.carry_out(AclBatch(cluster, ready[0].stage, tuple(ready)), self.admins[cluster])
            case KindName.REPLICAS:
                about = ready[0].id if len(ready) == 1 else f"replicas of {cluster}"
                environment = self.plan.basis.environment
                watch = ReassignmentWatch(
                    note=lambda text: self.progress.note(about, text),
                    closed=self.caution.gate,
                    progress=lambda text: self.progress.moving(about, text),
                )
                with self.admins[cluster].replicas(environment) as admin:
                    return reassign(ready, environment, admin, watch)
            case KindName.MIRRORS:
                return map(self._mirror, ready)
            case _:
                assert_never(kind)

    def interrupted(self, by: str) -> None:
        """Gives every change an outcome after an interrupt, and asks the cluster about changes in progress. ``by``: the
        signal that ended the run."""
        self.caution.promotion.interrupted(by)
        for outcome in looked_up(self._left(), self.admins, self.waves):
            self._record(outcome)
        self.ended(_ended_by(by))

    def given_up(self, by: str) -> None:
        """Gives outcomes after a second interrupt, without asking clusters."""
        for planned in self._left():
            self._record(unsure(planned))
        self.ended(_ended_by(by))

    def _left(self) -> list[Planned]:
        return [planned for planned in self.under_way if planned.id not in self.outcomes]

    def ended(self, why: str) -> None:
        """Changes without an outcome have not begun: skips them."""
        for planned in self.plan.changes:
            if planned.id not in self.outcomes:
                self._record(Outcome(planned.id, Result.SKIPPED, why))

    def _wrong_cluster(self, cluster: str) -> str:
        """Why this cluster must not be written to, or empty: if another cluster answers under its address, changes
        would go to the wrong one. Checked once a run."""
        if cluster in self.identity:
            return self.identity[cluster]
        planned = next((each.cluster_id for each in self.plan.basis.clusters if each.name == cluster), None)
        why = f"no connection to cluster {cluster} was made\nRun apply with the topology the plan was made from."
        if cluster in self.admins:
            try:
                cluster_id = self.admins[cluster].read(()).cluster_id
                why = (
                    ""
                    if planned in (None, cluster_id)
                    else (
                        f"cluster {cluster} is {cluster_id} now, the plan was made for {planned}\n"
                        "Changes meant for one cluster would be made on another.\n"
                        "Check bootstrap_servers, then plan again."
                    )
                )
            except ClusterError as error:
                why = str(error)
        self.identity[cluster] = why
        return why

    def _mirror(self, planned: Planned) -> Outcome:
        """Carries out one change of a mirror. It fails if the job then runs with another fingerprint than the reviewed
        one."""
        change, begun = planned.change, time.monotonic()

        def note(text: str) -> None:
            self.progress.note(planned.id, text)

        try:
            match change:
                case StopMirror():
                    self.runner.stop(change.mirror, note)
                case StartMirror() | RestartMirror():
                    if change.mirror not in self.handovers:
                        raise RunnerError(
                            f"there is no definition for mirror {change.mirror}",
                            "The current topology does not name it",
                            "Run apply with the topology the plan was made from.",
                        )
                    begin = self.runner.restart if isinstance(change, RestartMirror) else self.runner.start
                    job = begin(change.mirror, self.handovers[change.mirror], note)
                    # Another run may have restarted the job meanwhile from other files than the reviewed ones.
                    if job.fingerprint != change.fingerprint:
                        prints = f"fingerprint {job.fingerprint}, planned was {change.fingerprint}"
                        raise RunnerError(
                            f"mirror {change.mirror} runs with {prints}",
                            "The topology changed between plan and start, or another run started the job",
                            "Run plan again.",
                        )
                case _:
                    raise TypeError(f"{planned.id} is no change of a mirror")
        except (RunnerError, ClusterError) as error:
            return Outcome(planned.id, Result.FAILED, str(error), time.monotonic() - begun)
        return Outcome(planned.id, Result.DONE, "", time.monotonic() - begun)

    def _record(self, outcome: Outcome) -> None:
        """Records the first outcome of a change: backends report it as progress, and again in their answer."""
        if outcome.id not in self.outcomes:
            self.outcomes[outcome.id] = outcome
            self.progress.outcome(outcome)


def _ended_by(signal: str) -> str:
    return f"not begun: {signal} ended the run; nothing is to fix, run apply again"


def looked_up(begun: Sequence[Planned], admins: Mapping[str, ClusterAdmin], waves: AclBatches) -> Iterator[Outcome]:
    """After an interrupt: asks the cluster once how each change in progress has ended.

    ``begun``: of one batch, so of one kind and, but for mirrors, one cluster.
    """
    judge: Callable[[Planned], Outcome] = unsure
    if begun:
        with suppress(ClusterError):
            judge = _judge(begun, admins, waves)
    yield from map(judge, begun)


def unsure(planned: Planned) -> Outcome:
    """The outcome of an interrupted change without asking a cluster."""
    moving = planned.change.kind is KindName.REPLICAS
    return Outcome(planned.id, Result.FAILED, LEFT_MOVING if moving else UNSURE)


def _judge(
    begun: Sequence[Planned], admins: Mapping[str, ClusterAdmin], waves: AclBatches
) -> Callable[[Planned], Outcome]:
    """Raises ClusterError."""
    changes = [planned.change for planned in begun]
    kind, cluster = kind_of(changes[0]), changes[0].cluster
    if kind.name is KindName.ACLS:
        shown = admins[cluster].read_access().acls
        if isinstance(shown, frozenset):
            return lambda planned: waves.cut_off(planned, shown) or _found(planned, made=False)
    if kind.confirm is None:
        return unsure
    landed = kind.confirm(admins[cluster], changes)
    return lambda planned: _found(planned, landed(planned.change))


def _found(planned: Planned, made: bool | None) -> Outcome:
    if made is None:
        return unsure(planned)
    return Outcome(planned.id, *((Result.DONE, "") if made else (Result.FAILED, CUT_SHORT)))
