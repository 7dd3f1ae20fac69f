"""``run``: the reconcile loop of one environment folder, with its lock, signals, log and metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import structlog

from reconciler.backends.files import environment_name
from reconciler.backends.metrics import Metrics, MetricsServer
from reconciler.engine import loop as running
from reconciler.engine.apply import limits
from reconciler.engine.loop import LoopPace, Round
from reconciler.engine.observe.verdict import verdict_of
from reconciler.engine.plan.select import unexpired
from reconciler.engine.rollout.run import RolloutOptions
from reconciler.errors import ReconcilerError
from reconciler.kafka.address import HostPort
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.options import Autonomy
from reconciler.model.plan import Outcome, Plan
from reconciler.operations.apply.execution import Execution, execution, stopped_by_signals
from reconciler.operations.review.reviews import make_plan
from reconciler.operations.session.notices import notify
from reconciler.operations.session.session import Session, read_topology
from reconciler.render.console import say_document, seconds
from reconciler.render.notices import Noticed, of_round
from reconciler.render.reports.apply import round_figures, round_lines
from reconciler.text import printable_json

STOPPING = "asked to stop"
LEAST_INTERVAL_S = 1.0


class ServedPage(Protocol):
    """The live page, served by the same process."""

    def look(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Beside:
    """Servers beside the rounds. ``page``: opened before the first round, closed after the last."""

    metrics: HostPort | None = None
    page: AbstractContextManager[ServedPage | None] = field(default_factory=nullcontext)


NOTHING_SERVED = Beside()


def pace(interval: str, autonomy: Autonomy) -> LoopPace:
    """Raises ReconcilerError for an invalid interval, or one shorter than a second."""
    pause = seconds("--interval", interval)
    if pause < LEAST_INTERVAL_S:
        why = "Each round reads every cluster"
        raise ReconcilerError(f"--interval is {interval}, at least 1s is needed", why, "Write 1s or more.")
    return LoopPace(pause, autonomy)


def run(folder: Path, pace: LoopPace, beside: Beside = NOTHING_SERVED, steal: str = "") -> int:
    """Runs rounds until SIGTERM or SIGINT, and returns their number. ``steal``: the reason for taking the lock from its
    holder; empty: the lock is not stolen.

    Raises ReconcilerError before the first round, and LockHeld once the lock is lost.
    """
    log = logger(environment_name(folder))
    metrics = Metrics()
    with ExitStack() as stack:
        stop = stack.enter_context(stopped_by_signals())
        page = _Page(stack.enter_context(beside.page), log)
        environment = stack.enter_context(LiveEnvironment.opened(folder, steal))
        environment.stop = stop
        # A round never waits for a gate: the next round checks it again. A soak counts as watched only while checks are
        # at most ``gap_ms`` apart, so the gap must exceed the interval.
        environment.execution.manner = RolloutOptions(patient=False, gap_ms=int(pace.interval * 2_500))
        if beside.metrics is not None:
            server = stack.enter_context(MetricsServer(metrics, beside.metrics.host, beside.metrics.port))
            log.info("metrics", host=beside.metrics.host, port=server.port)

        noticed = Noticed()

        def report(given_round: Round) -> None:
            """Publishes a round: figures to metrics, lines to the log, and a notice to webhooks of each change since
            the last round. A failed webhook is only logged: no round depends on it."""
            nonlocal noticed
            seen, topology = environment.session.last.live, environment.session.topology
            verdict = verdict_of(topology, seen, str(folder)) if seen is not None else None
            metrics.take(round_figures(given_round, seen, verdict))
            for level, event, fields in round_lines(given_round):
                getattr(log, level)(event, **fields)
            page.look()
            notices, noticed = of_round(noticed, given_round, verdict, topology.environment)
            notify(topology, notices, lambda line: log.warning("webhook", error=line))

        log.info("started", interval_seconds=pace.interval, autonomy=pace.autonomy.value)
        rounds = running.run(environment, SystemClock(stop), pace, report)
        log.info("stopped", rounds=rounds)
        return rounds


class _Page:
    """Keeps faults of the page away from rounds: the first is logged, and rounds continue without the page."""

    def __init__(self, page: ServedPage | None, log: Any) -> None:
        self._page = page
        self._log = log

    def look(self) -> None:
        if self._page is None:
            return
        try:
            self._page.look()
        except Exception as error:  # noqa: BLE001 - a fault of the page, whatever it is
            self._page = None
            self._log.error("live page ended", error=f"{type(error).__name__}: {error}")


class SystemClock:
    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop

    def now(self) -> float:
        return time.time()

    def wait(self, seconds: float) -> bool:
        return self.stop.wait(seconds)


class LiveEnvironment:
    """``running.Environment`` over a ``Session``; a change of the declarations in the folder opens a new session."""

    def __init__(self, session: Session, execution: Execution) -> None:
        self.session = session
        self.execution = execution
        self.stop = threading.Event()
        self._read: Topology | None = None

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, steal: str) -> Iterator[LiveEnvironment]:
        """Raises TopologyError before anything is connected, and LockHeld."""
        session = Session(folder, read_topology(folder), Principal.APPLY)
        environment: LiveEnvironment | None = None
        try:
            with execution(session, "run", steal) as held:
                environment = cls(session, held)
                yield environment
        finally:
            (environment.session if environment else session).close()

    def changed(self) -> bool:
        self._read = read_topology(self.session.folder)
        return self._read != self.session.topology

    def take_over(self) -> bool:
        # Two reads must agree: a difference means that git or an editor is in the middle of writing the folder.
        topology = read_topology(self.session.folder)
        if topology != self._read:
            return False
        topology = self.execution.in_same_place(topology)
        self.session.close()
        self.session = self.execution.session = Session(self.session.folder, topology, Principal.APPLY)
        return True

    def plan(self) -> Plan:
        self.execution.require_lock()
        plan = make_plan(self.session, unread=True)
        # Soaks of earlier waves continue even in a round without changes.
        if plan.rollout is not None:
            self.execution.tend(plan)
        return unexpired(plan, datetime.now(UTC).date())

    def carry_out(self, plan: Plan) -> Sequence[Outcome]:
        return self.execution.carry_out(plan, limits.Silent(), lambda: STOPPING if self.stop.is_set() else "")


class _Lines:
    """What structlog writes to."""

    def msg(self, line: str) -> None:
        say_document(line, "json")

    info = warning = error = msg


def logger(environment: str) -> Any:
    """Logs JSON lines to the stream of all progress; a closed pipe does not end the process."""
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.JSONRenderer(printable_json),
    ]
    return structlog.wrap_logger(_Lines(), processors=processors).bind(environment=environment)
