"""Around every command that changes an environment: lock, audit record, a check of the lock before each step."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType

from reconciler.backends.git import revision
from reconciler.backends.secrets import require_secrets
from reconciler.backends.state.audit.file import AuditFile
from reconciler.backends.state.audit.topic import AuditTopicLog
from reconciler.backends.state.lock.file_lock import environment_lock
from reconciler.backends.state.lock.home import HomeLock
from reconciler.backends.state.lock.kafka_lock import KafkaLock, held_no_longer, this_process
from reconciler.engine.apply.audit_lines import Actor, Line, begun, changed, ended, probe_line
from reconciler.engine.apply.limits import ApplyLimits, Gate, NoRollout, Progress, Silent, WavePromotion, open_gate
from reconciler.engine.apply.run import apply
from reconciler.engine.rollout.run import Conductor, RolloutOptions
from reconciler.engine.rollout.soak import Settling
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.model.changes import AlterUser, RestartMirror, StartMirror
from reconciler.model.environment.topology import Cluster, Topology
from reconciler.model.options import PROBE_PATIENCE_S
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.model.reports.probe import Probe
from reconciler.model.state.last_apply import Applied, Consent, applied_key, dumps
from reconciler.model.state.lock import LOCK_TOPIC
from reconciler.operations.apply import left_by_apply
from reconciler.operations.apply.met_clusters import record_of, require_met
from reconciler.operations.apply.prober import SessionProber
from reconciler.operations.controller.rollout_world import LiveRolloutIO, RolloutCallbacks
from reconciler.operations.session.session import NOTHING_AGREED, Session
from reconciler.render.console import say
from reconciler.resources.mirrors.handover import handovers


class Audit:
    """The record of runs: a file that must be complete, and a copy in a topic where the topology declares one."""

    def __init__(self, file: AuditFile, topic: AuditTopicLog | None) -> None:
        self.file = file
        self.topic = topic

    def begin(self, line: Line) -> None:
        """Raises ReconcilerError when it cannot be kept."""
        self.file.write(line)
        if self.topic is not None:
            self.topic.begin(line)

    def write(self, line: Line) -> None:
        self.file.write(line)
        if self.topic is not None:
            self.topic.write(line)

    def heads(self) -> dict[str, str]:
        """Digest of the last record by the place where it is kept, as ``reconciler audit verify`` names them."""
        kept = {"this machine": self.file.head()}
        if self.topic is not None:
            kept[f"{self.topic.cluster.name}/{self.topic.topic}"] = self.topic.head or ""
        return {place: head for place, head in kept.items() if head}

    def left(self) -> str:
        return self.topic.left() if self.topic is not None else ""


class Execution:
    """A held lock and an open audit record. Use ``execution``."""

    def __init__(self, command: str, session: Session, lock: KafkaLock, audit: Audit) -> None:
        self.command = command
        self.session = session
        self.lock = lock
        self.audit = audit
        self.consent = NOTHING_AGREED
        self.probe_patience = PROBE_PATIENCE_S
        """Seconds that brokers have to show what a wave of access changes did."""
        self.manner = RolloutOptions()
        """How a rollout goes from wave to wave."""
        self.ignoring = ""
        """Why its gates are ignored, or empty."""
        self.settlings: dict[str, Settling] = {}
        self.halted = ""
        """Why the rollout of the last plan is not over, or empty."""
        self.ended_by = ""
        """The signal that halted it, or empty."""
        self.unremembered = ""
        """Why the record of the apply could not be written, or empty."""
        self.unrecorded = ""
        """Why the audit record of the last plan is not complete, or empty."""

    def carry_out(self, plan: Plan, progress: Progress, stop: Gate = open_gate) -> tuple[Outcome, ...]:
        """``stop`` may end it between two steps, as a lost lock and an unwritable audit record do. Raises what
        ``engine.apply.apply`` raises, and BlockedError while gates of a rollout do not hold."""
        changes = [planned.change for planned in plan.changes]
        self.session.runner.require_startable(
            it.mirror for it in changes if isinstance(it, StartMirror | RestartMirror)
        )
        require_secrets((f"user {it.cluster}/{it.user}", it.password) for it in changes if isinstance(it, AlterUser))
        run, texts = uuid.uuid4().hex, handovers(self.session.topology)
        basis = plan.basis
        promotion = self._promotion(plan, progress, stop)
        recorder = _Recorder(self, run, plan, progress)
        lost = self.lock.lost
        prober = SessionProber(self.session)
        limits = ApplyLimits(
            lambda: stop() or recorder.stopped() or lost(), lost, prober, self.probe_patience, promotion
        )
        outcomes: tuple[Outcome, ...] = ()
        try:
            self._begin(run, basis.revision, basis.dirty, plan, len(plan.changes))
            self.unremembered = left_by_apply.strike(self.session, self.lock, plan)
            outcomes = apply(plan, self.session.clusters, self.session.runner, texts, recorder, limits)
        finally:
            rolled = promotion if isinstance(promotion, Conductor) else None
            self.halted, self.ended_by = (rolled.halted, rolled.ended_by) if rolled else ("", "")
            if recorder.outcomes or self.audit.file.holds(run):  # a run without an end looks as if it was killed
                recorder.write(ended(run, time.time(), outcomes or recorder.outcomes, self.lock.lost()))
            self.unrecorded = recorder.unwritten
            if unwritten := self.audit.left():
                progress.note("audit", unwritten)
        self._remember(plan)
        return outcomes

    def _promotion(self, plan: Plan, progress: Progress, stop: Gate) -> WavePromotion:
        """Raises BlockedError while gates do not hold, ClusterError when it is not known how far a rollout came."""
        if plan.rollout is None:
            return NoRollout()
        world = LiveRolloutIO(self.session, self.lock, RolloutCallbacks(stop, self.lock.lost, progress.note))
        conductor = Conductor(plan, self.session.topology, world, self.manner, self.settlings)
        conductor.require_open()
        return conductor

    def _remember(self, plan: Plan) -> None:
        """Writes the record that the next run is compared with. It is advice, so a failure to write it stops no run."""
        environment, holder = self.session.topology.environment, self.lock.holder
        by = Applied(environment, int(time.time() * 1000), holder.who, plan.basis.revision, {}, (), ())
        if (unsaved := record_of(self.session, plan, self.consent, by)) is not None:
            self.unremembered = self.lock.keep(applied_key(environment), dumps(unsaved))
            self.session.last = replace(self.session.last, applied=unsaved)
        self.unremembered = self.unremembered or left_by_apply.keep(self.session, self.lock, plan, by)

    def tend(self, plan: Plan) -> None:
        """Goes on with what earlier rounds left to soak. Raises ClusterError."""
        promotion = self._promotion(replace(plan, changes=()), Silent(), open_gate)
        if isinstance(promotion, Conductor):
            promotion.tend()

    def ignore_gates(self, reason: str) -> None:
        """Waves in order, without gates and soaks; the audit record has the reason. Empty: nothing is ignored."""
        if reason:
            self.manner = RolloutOptions(heedless=True)
            self.ignoring = reason

    def by_hand(self, change_id: str, act: Callable[[], object]) -> None:
        """One action without a plan, such as a mirror's start. Raises what ``act`` raises, after it is recorded."""
        run, now = uuid.uuid4().hex, revision(self.session.folder)
        began = time.monotonic()
        outcome = Outcome(change_id, Result.FAILED, "interrupted")
        try:
            self._begin(run, now.commit, now.dirty, None, 1)
            act()
            outcome = Outcome(change_id, Result.DONE, "", time.monotonic() - began)
        except ReconcilerError as error:
            outcome = Outcome(change_id, Result.FAILED, str(error), time.monotonic() - began)
            raise
        finally:
            if self.audit.file.holds(run):
                self.audit.write(changed(run, time.time(), outcome, None))
                self.audit.write(ended(run, time.time(), (outcome,), ""))

    def require_lock(self) -> None:
        """Raises LockHeld when the lock is someone else's, ReconcilerError while it cannot be renewed."""
        self.lock.lost()
        if self.lock.gone:
            self.require_kept()
        if self.lock.cut_off:
            why = f"Without it nothing is done in environment {self.lock.environment}: someone else may act now."
            raise ReconcilerError(self.lock.cut_off, why, f"Check cluster {self.lock.cluster.name}, which keeps it.")

    def require_kept(self) -> None:
        """Raises LockHeld when the lock was found lost while it was needed. Sends no request."""
        if self.lock.lost_because:
            raise held_no_longer(self.lock.environment, self.lock.lost_because)

    def in_same_place(self, topology: Topology) -> Topology:
        """``topology`` with the home of the lock, by its address. Raises ReconcilerError when it lacks that cluster."""
        ours = self.lock.cluster
        for cluster in topology.clusters.values():
            if set(cluster.bootstrap_servers) & set(ours.bootstrap_servers):
                return replace(topology, lock_home=cluster.name)
        raise ReconcilerError(
            f"the folder no longer declares {', '.join(ours.bootstrap_servers)} (cluster {ours.name})",
            "The lock of the environment is kept there, and commands here would not see another run.",
            "Declare it again, or move the lock before it leaves: apply --move-lock CLUSTER.",
        )

    def _begin(self, run: str, commit: str, dirty: bool, plan: Plan | None, changes: int) -> None:
        environment = self.session.topology.environment
        actor = Actor(self.command, environment, self.lock.holder, commit, dirty, self.lock.steal, self.ignoring)
        self.audit.begin(begun(run, time.time(), actor, plan, changes))


class _Recorder:
    """A ``Progress`` that writes each outcome down before it passes it on."""

    def __init__(self, execution: Execution, run: str, plan: Plan, progress: Progress) -> None:
        self.execution = execution
        self.run = run
        self.planned: dict[str, Planned] = {planned.id: planned for planned in plan.changes}
        self.progress = progress
        self.outcomes: list[Outcome] = []
        self.unwritten = ""
        """Why a line could not be written. Finished steps are reported all the same; no further step begins."""

    def stopped(self) -> str:
        return self.unwritten.partition("\n")[0]

    def write(self, line: Line) -> None:
        try:
            self.execution.audit.write(line)
        except ReconcilerError as error:
            self.unwritten = self.unwritten or str(error)

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


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """A cancelled CI job, and a terminal that is gone, end as Ctrl-C does: what was under way is looked up, the lock
    is given back."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    with ended_by_signals(interrupt):
        yield


@contextmanager
def ended_by_signals(handle: Callable[[int, FrameType | None], None], *others: signal.Signals) -> Iterator[None]:
    """``handle`` hears SIGTERM, ``others``, and SIGHUP except under nohup, which asks to go on without a terminal."""
    hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, *others, *hangup)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _audit_topic(topology: Topology) -> AuditTopicLog | None:
    place = topology.audit_place()
    return AuditTopicLog(topology.clusters[place.cluster], place.name, topology.environment) if place else None


def answering(session: Session) -> Cluster | None:
    """The first cluster by name that answers, for what must be possible while the one that keeps the lock is lost."""
    for name in sorted(session.topology.clusters):
        try:
            session.clusters[name].read((LOCK_TOPIC,))
        except ClusterError:
            continue
        return session.topology.clusters[name]
    return None


def _unasked(_cluster: Cluster, _applied: bytes | None) -> None:
    """Every cluster is vouched for."""


@contextmanager
def execution(
    session: Session,
    command: str,
    steal: str = "",
    consent: Consent = NOTHING_AGREED,
    keeper: Cluster | None = None,
    to: str = "",
) -> Iterator[Execution]:
    """``steal``: why the lock is taken from any holder. ``keeper``: keeps the lock while its home is lost. ``to``: its
    home from now on.

    Raises LockHeld, ClusterError when it cannot be kept, BlockedError when its cluster is not vouched for.
    """
    if to and to not in session.topology.clusters:
        known = f"Its clusters: {', '.join(session.topology.clusters)}."
        raise ReconcilerError(f"environment {session.topology.environment} declares no cluster {to}", "", known)
    with ExitStack() as stack:
        stack.enter_context(environment_lock(session.state, command))
        file = stack.enter_context(AuditFile(session.state))
        holder = this_process(command)
        home = HomeLock(
            session.topology, holder, _unasked if consent.first_contact else partial(require_met, session), say
        )
        if keeper is None:
            lock = home.take(steal, to)
            session.topology = replace(session.topology, lock_home=lock.cluster.name)
        else:
            lock = KafkaLock(keeper, session.topology.environment, holder, progress=say)
            lock.take(steal)
        stack.callback(lock.release)
        for note in home.notes.values():
            say(note)
        held = Execution(command, session, lock, Audit(file, _audit_topic(session.topology)))
        held.consent = consent
        yield held
