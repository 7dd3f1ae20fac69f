"""Wraps each command that changes an environment: takes the lock, opens the audit record, checks the lock before each
step."""

import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from types import FrameType
from typing import TypeVar

from reconciler.backends.clusters.permissions import rights
from reconciler.backends.connections.credentials import client_settings, require_secrets
from reconciler.backends.git import revision
from reconciler.backends.state.audit import AuditFile, AuditTopicLog
from reconciler.backends.state.environment_records import read_promotion
from reconciler.backends.state.home import HomeLock
from reconciler.backends.state.lock import KafkaLock, environment_lock, held_no_longer, this_process
from reconciler.engine.apply.limits import ApplyLimits, Gate, NoRollout, Progress, Silent, WavePromotion, open_gate
from reconciler.engine.apply.run import apply
from reconciler.engine.rollout.run import Conductor, RolloutOptions, Settling
from reconciler.engine.rollout.waves import GateScope
from reconciler.errors import ClusterError, ReconcilerError, SecretError, or_unknown
from reconciler.model.changes import AlterUser, RestartMirror, StartMirror
from reconciler.model.environment.topology import Cluster, Principal, Topology
from reconciler.model.options import PROBE_PATIENCE_S
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.health import Sight
from reconciler.model.reports.probe import Needs
from reconciler.model.state.last_apply import Applied, Consent, applied_key, dumps
from reconciler.model.state.rollout_progress import Promotion, promotion_key
from reconciler.model.state.rollout_progress import dumps as promotion_text
from reconciler.operations.apply.audit import Actor, Audit, Recorder, begun, ended, recorded
from reconciler.operations.apply.records import keep_left, record_of, require_met, strike
from reconciler.operations.session.session import NOTHING_AGREED, Session, now_ms
from reconciler.render.console import say
from reconciler.resources.acls.authorizer.lockout import needs_of
from reconciler.resources.flows.routes import Route, find_routes
from reconciler.resources.mirrors.handover import handovers

Answer = TypeVar("Answer")


class Execution:
    """A held lock and an open audit record. Use ``execution``."""

    def __init__(self, command: str, session: Session, lock: KafkaLock, audit: Audit) -> None:
        self.command = command
        self.session = session
        self.lock = lock
        self.audit = audit
        self.consent = NOTHING_AGREED
        self.probe_patience = PROBE_PATIENCE_S
        """Seconds within which brokers must show the effect of a wave of access changes."""
        self.manner = RolloutOptions()
        """How a rollout proceeds from wave to wave."""
        self.ignoring = ""
        """Reason for ignoring its gates, or empty."""
        self.settlings: dict[str, Settling] = {}
        self.halted = ""
        """Why the rollout of the last plan stopped before its end, or empty."""
        self.ended_by = ""
        """The signal that halted it, or empty."""
        self.unremembered = ""
        """Why the record of the apply could not be written, or empty."""
        self.unrecorded = ""
        """Why the audit record of the last plan is not complete, or empty."""

    def carry_out(self, plan: Plan, progress: Progress, stop: Gate = open_gate) -> tuple[Outcome, ...]:
        """Carries out a plan. ``stop`` can end it between two steps, as do a lost lock and an audit record that cannot
        be written. Raises as ``engine.apply.apply``, and BlockedError while gates of a rollout do not hold."""
        # Missing secrets, or a missing Spark, fail the run before its first step, not in the middle.
        changes = [planned.change for planned in plan.changes]
        self.session.runner.require_startable(
            it.mirror for it in changes if isinstance(it, StartMirror | RestartMirror)
        )
        require_secrets((f"user {it.cluster}/{it.user}", it.password) for it in changes if isinstance(it, AlterUser))
        run, texts = uuid.uuid4().hex, handovers(self.session.topology)
        promotion = self._promotion(plan, progress, stop)
        recorder, lost = Recorder(self.audit, run, plan, progress), self.lock.lost
        prober = SessionProber(self.session)
        limits = ApplyLimits(
            lambda: stop() or recorder.stopped() or lost(), lost, prober, self.probe_patience, promotion
        )
        outcomes: tuple[Outcome, ...] = ()
        try:
            actor = self._actor(plan.basis.revision, dirty=plan.basis.dirty)
            self.audit.begin(begun(run, time.time(), actor, plan, len(plan.changes)))
            self.unremembered = strike(self.session, self.lock, plan)
            outcomes = apply(plan, self.session.clusters, self.session.runner, texts, recorder, limits)
        finally:
            rolled = promotion if isinstance(promotion, Conductor) else None
            self.halted, self.ended_by = (rolled.halted, rolled.ended_by) if rolled else ("", "")
            if recorder.outcomes or self.audit.file.holds(run):  # a run without an end looks killed
                recorder.write(ended(run, time.time(), outcomes or recorder.outcomes, self.lock.lost()))
            self.unrecorded = recorder.unwritten
            if unwritten := self.audit.left():
                progress.note("audit", unwritten)

        # The record only helps the next run to find outside changes: a failure to write it fails no run.
        environment, holder = self.session.topology.environment, self.lock.holder
        by = Applied(environment, now_ms(), holder.who, plan.basis.revision, {}, (), ())
        if (unsaved := record_of(self.session, plan, self.consent, by)) is not None:
            self.unremembered = self.lock.keep(applied_key(environment), dumps(unsaved))
            self.session.last = replace(self.session.last, applied=unsaved)
        self.unremembered = self.unremembered or keep_left(self.session, self.lock, plan, by)
        return outcomes

    def _promotion(self, plan: Plan, progress: Progress, stop: Gate) -> WavePromotion:
        """Raises BlockedError while gates do not hold, ClusterError if the progress of the rollout cannot be read."""
        if plan.rollout is None:
            return NoRollout()
        world = LiveRolloutIO(self.session, self.lock, stop, progress.note)
        conductor = Conductor(plan, self.session.topology, world, self.manner, self.settlings)
        conductor.require_open()
        return conductor

    def tend(self, plan: Plan) -> None:
        """Continues soaks that earlier rounds began. Raises ClusterError."""
        promotion = self._promotion(replace(plan, changes=()), Silent(), open_gate)
        if isinstance(promotion, Conductor):
            promotion.tend()

    def ignore_gates(self, reason: str) -> None:
        """Takes waves in order, without gates and soaks, and records the reason. An empty reason ignores nothing."""
        if reason:
            self.manner = RolloutOptions(ungated=True)
            self.ignoring = reason

    def perform(self, change_id: str, act: Callable[[], Answer]) -> Answer:
        """Takes one step without a plan, such as a mirror's start, and records it. Raises as ``require_lock`` before
        it begins, since an earlier step or a wait may have outlasted the lock, and as ``act``."""
        self.require_lock()
        return self.record(change_id, act)

    def record(self, change_id: str, act: Callable[[], Answer]) -> Answer:
        """Like ``perform``, with or without the lock. Raises as ``act``, once the failure is recorded."""
        began, run = time.monotonic(), uuid.uuid4().hex
        with recorded(self.audit, run, self._actor_of_steps, [change_id]) as outcomes:
            answer = act()
            outcomes.append(Outcome(change_id, Result.DONE, "", time.monotonic() - began))
        return answer

    @cached_property
    def _actor_of_steps(self) -> Actor:
        """The actor of recorded steps. Git is asked only once: the files were read once, and during a cut-over each
        call of git would prolong the time in which producers cannot write."""
        now = revision(self.session.folder)
        return self._actor(now.commit, dirty=now.dirty)

    def require_lock(self) -> None:
        """Raises LockHeld if another run holds the lock, ReconcilerError if the lock cannot be renewed now."""
        self.lock.lost()
        if self.lock.gone:
            self.require_kept()
        if self.lock.cut_off:
            why = f"Without it nothing is done in environment {self.lock.environment}: someone else may act now."
            raise ReconcilerError(self.lock.cut_off, why, f"Check cluster {self.lock.cluster.name}, which keeps it.")

    def keep(self, key: str, value: bytes, name: str) -> None:
        """Writes a journal beside the lock. Raises ReconcilerError where it is not kept: the run that goes on would not
        know of the next step. ``name``: for errors."""
        if why := self.lock.keep(key, value):
            self.require_kept()
            why_not = "Without it no other run could continue, so the next step is not begun."
            raise ReconcilerError(f"{name} could not be written: {why}", why_not, "Run it again.")

    def require_kept(self) -> None:
        """Raises LockHeld if the lock was found lost during the run. Sends no request."""
        if self.lock.lost_because:
            raise held_no_longer(self.lock.environment, self.lock.lost_because)

    def in_same_place(self, topology: Topology) -> Topology:
        """``topology`` with the cluster that keeps the lock, found by its address. Raises ReconcilerError if it has
        none."""
        ours = self.lock.cluster
        for cluster in topology.clusters.values():
            if set(cluster.bootstrap_servers) & set(ours.bootstrap_servers):
                return replace(topology, lock_home=cluster.name)
        raise ReconcilerError(
            f"the folder no longer declares {', '.join(ours.bootstrap_servers)} (cluster {ours.name})",
            "The lock of the environment is kept there, and commands here would not see another run.",
            "Declare it again, or move the lock before it leaves: apply --move-lock CLUSTER.",
        )

    def _actor(self, commit: str, *, dirty: bool) -> Actor:
        environment = self.session.topology.environment
        return Actor(self.command, environment, self.lock.holder, commit, dirty, self.lock.steal, self.ignoring)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP (a cancelled CI job, a closed terminal) into Ctrl-C: the run determines how its steps in
    progress ended, and releases the lock."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    with ended_by_signals(interrupt):
        yield


@contextmanager
def ended_by_signals(handle: Callable[[int, FrameType | None], None], *others: signal.Signals) -> Iterator[None]:
    """Passes SIGTERM, ``others`` and SIGHUP to ``handle``; SIGHUP stays ignored where nohup has set it so."""
    hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, *others, *hangup)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM, SIGINT and SIGHUP set. Call it in the main thread, the only one that gets signals."""
    stop = threading.Event()
    with ended_by_signals(lambda _number, _frame: stop.set(), signal.SIGINT):
        yield stop


def answering(session: Session) -> Cluster | None:
    """The first answering cluster, by name, for commands that must work without the cluster that keeps the lock."""
    for name in sorted(session.topology.clusters):
        try:
            session.clusters[name].read((session.topology.clusters[name].own_topics.lock,))
        except ClusterError:
            continue
        return session.topology.clusters[name]
    return None


@contextmanager
def execution(
    session: Session,
    command: str,
    steal: str = "",
    consent: Consent = NOTHING_AGREED,
    keeper: Cluster | None = None,
    to: str = "",
) -> Iterator[Execution]:
    """``steal``: the reason for taking the lock from its holder. ``keeper``: the cluster that keeps the lock while its
    home is lost. ``to``: the home from now on.

    Raises LockHeld, ClusterError if the lock cannot be taken, BlockedError if nothing confirms the cluster's identity.
    """
    if to and to not in session.topology.clusters:
        known = f"Its clusters: {', '.join(session.topology.clusters)}."
        raise ReconcilerError(f"environment {session.topology.environment} declares no cluster {to}", "", known)
    with ExitStack() as stack:
        # This order keeps a run that may not begin from leaving traces: a second run on this machine ends before any
        # request, an unwritable audit file ends a run before it takes the lock.
        stack.enter_context(environment_lock(session.state, command))
        file = stack.enter_context(AuditFile(session.state))
        holder = this_process(command)
        vouched = (lambda *_: None) if consent.first_contact else partial(require_met, session)
        home = HomeLock(session.topology, holder, vouched, say)
        # A failover cannot wait for a lock that is kept on the lost cluster.
        if keeper is None:
            lock = home.take(steal, to)
            session.topology = replace(session.topology, lock_home=lock.cluster.name)
        else:
            lock = KafkaLock(keeper, session.topology.environment, holder, progress=say)
            lock.take(steal)
        stack.callback(lock.release)
        for note in home.notes.values():
            say(note)
        topology, place = session.topology, session.topology.audit_place()
        copy = AuditTopicLog(topology.clusters[place.cluster], place.name, topology.environment) if place else None
        held = Execution(command, session, lock, Audit(file, copy))
        held.consent = consent
        yield held


class SessionProber:
    """Uses routes of the session's last read of all clusters; with a saved plan there was none, so it reads now."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @cached_property
    def routes(self) -> tuple[Route, ...]:
        return find_routes(self.session.topology, self.session.last.live or self.session.observe()).routes

    def needs(self, cluster: str) -> Sequence[Needs]:
        """Rights to probe on a cluster. Unless configured otherwise, plan shares the login of apply, whose rights
        include those of plan."""
        declared = self.session.topology.clusters[cluster]
        alike = declared.client_for(Principal.PLAN) == declared.client_for(Principal.APPLY)
        entries = needs_of(self.session.topology, cluster, self.routes)
        return tuple(entry for entry in entries if not (alike and entry.kind is Principal.PLAN))

    def why_not(self, cluster: str, kind: Principal) -> str:
        try:
            client_settings(self.session.topology.clusters[cluster], kind)
        except SecretError as error:
            return f"cannot log in from here ({error.what})"
        return ""

    def rights(self, cluster: str, kind: Principal, ask: Ask) -> Rights:
        return rights(self.session.topology.clusters[cluster], kind, ask)

    def server(self, cluster: str) -> str:
        return self.session.topology.clusters[cluster].bootstrap_servers[0]


SLICE_SECONDS = 0.2
"""Longest delay before an idle run notices a requested stop."""


def sight_of(session: Session, scope: GateScope) -> Sight:
    """What the gates look at: all clusters and mirrors, asked at once."""
    with ThreadPoolExecutor(len(scope.clusters) + len(scope.flows) + 1) as pool:
        clusters = {
            name: pool.submit(or_unknown, f"cluster {name}", session.clusters[name].health) for name in scope.clusters
        }
        observe = session.runner.observe
        mirrors = {name: pool.submit(or_unknown, f"mirror {name}", partial(observe, name)) for name in scope.flows}
        return Sight(
            {name: future.result() for name, future in clusters.items()},
            {name: future.result() for name, future in mirrors.items()},
        )


class LiveRolloutIO:
    """``conducting.World`` over a session that holds the lock."""

    def __init__(self, session: Session, lock: KafkaLock, stop: Gate, note: Callable[[str, str], None]) -> None:
        """``stop``: why no further step may begin, or empty; cheap to call. ``note``: takes a subject and a text."""
        self.session = session
        self.lock = lock
        self.stop = stop
        self.note = note

    def look(self, scope: GateScope) -> Sight:
        return sight_of(self.session, scope)

    def kept(self) -> Promotion:
        """Raises ClusterError."""
        environment = self.session.topology.environment
        promotion = read_promotion(self.lock.cluster, environment, Principal.APPLY)
        return promotion or Promotion(environment)

    def keep(self, promotion: Promotion) -> str:
        this_promotion = replace(promotion, at_ms=now_ms(), who=self.lock.holder.who)
        return self.lock.keep(promotion_key(promotion.environment), promotion_text(this_promotion))

    def now_ms(self) -> int:
        return int(time.monotonic() * 1000)

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (seconds_left := until - time.monotonic()) > 0 and not self.stop():
            time.sleep(min(SLICE_SECONDS, seconds_left))

    def closed(self) -> str:
        return self.stop() or self.lock.lost()
