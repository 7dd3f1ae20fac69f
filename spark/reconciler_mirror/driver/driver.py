"""The driver: discovers topics, takes flows over, keeps leases and status going, ends gracefully. No pyspark here.

Beside a predecessor it first prepares everything (``RunPlace``), and writes no status while the other still copies.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Any, Protocol

from reconciler.kafka.client.errors import SettingError, WireError
from reconciler.replication.handover import FlowSettings, MirrorSettings
from reconciler.replication.names import position_group
from reconciler.replication.status import ApplicationState, document
from reconciler_mirror import log_lines as logs
from reconciler_mirror.board.board import Board
from reconciler_mirror.conditions.flow import (
    ConditionLog,
    metrics_not_served,
    setting_refused,
    takeover_refused,
    waits_for_positions,
)
from reconciler_mirror.driver.discovery import Discovery, WireTopics
from reconciler_mirror.driver.heartbeats import Heartbeats
from reconciler_mirror.driver.pause_reader import PauseReader, Pauses
from reconciler_mirror.driver.provenance_start import NotReadyError
from reconciler_mirror.driver.takeover import OLD_WITHIN_S, WireTakeover, mark_owner
from reconciler_mirror.driver.until_caught_up import CatchUp, Goal
from reconciler_mirror.groups.sync import GroupSync
from reconciler_mirror.lane.positions import RENEW_AFTER_HOURS, hour_now
from reconciler_mirror.leases.channel_listener import listen_for_tasks
from reconciler_mirror.leases.leases import Leases
from reconciler_mirror.model.lane import Claim
from reconciler_mirror.report.metrics import MetricsEndpoint, MetricsSnapshot
from reconciler_mirror.report.status import Application, StatusWriter, now_ms, record

_STOP_PATIENCE_S = 45.0
"""Seconds for lanes to commit and leave, before their Spark jobs are cancelled."""
_LONGEST_PAUSE_S = 10.0
_SETTLED_S = 30.0  # after this the job counts as running; a flow that waits for a cluster has its own condition
_CONFIRM_S, _CONFIRMS_S = 0.25, 3.0  # how often the status is written after a change of pauses, and for how long
_PAUSES_S = 10.0
"""Seconds that a flow waits for the pauses to be read before it reports a condition."""
_SHARE_S = 0.5
_POLL_S = 2.0
_ROOM_S = 30.0  # without a place for every lease by then, Spark has no room beside the old application
_PREDECESSOR_S = 3.0  # for it to commit and leave its lanes; after that they are fenced
_log = logs.logger("driver")


class Exit(IntEnum):
    STOPPED = 0
    FAILED = 1
    SUPERSEDED = 3


@dataclass(frozen=True, slots=True)
class DriverOutcome:
    """The end of the application: its state for the status record, its exit code, and the reason."""

    state: str
    code: Exit
    detail: str = ""


class DriverPlace(Protocol):
    """The place that this application takes from a predecessor: ``RunPlace``, or the same over records."""

    @property
    def needs(self) -> tuple[str, ...]: ...
    def is_current(self) -> bool: ...
    def take(self) -> None: ...
    def predecessor_left(self) -> bool: ...
    def leave(self) -> None: ...


class Driver:
    """``run`` blocks until a stop is requested or another application has taken a flow."""

    def __init__(
        self,
        context: Any,
        settings: MirrorSettings,
        who: Application,
        channel_host: str,
        place: DriverPlace,
        goal: Goal | None,
    ) -> None:
        """``place``: the place to take from a predecessor; ``goal``: where the application ends by itself."""
        self._place = place
        self._settings = settings
        self._who = who
        self._board = Board(settings.flows)
        self._catch_up = None if goal is None else CatchUp(goal, settings, self._board)
        self._status = StatusWriter(settings.status)
        self._status_guard = threading.Lock()
        self._conditions = ConditionLog(settings.docs_url)
        self._end = threading.Event()
        # Set once there is no predecessor, or it has left; no flow is taken over before. ``_can_take``: the flows that
        # are prepared for the takeover.
        self._may_take = threading.Event()
        self._can_take: set[str] = set()
        self._superseded_by = ""
        listener = listen_for_tasks(settings.channel, channel_host, context)
        self._leases = Leases(context, settings, self._board, listener, self._superseded)
        self._group_syncs: list[GroupSync] = []
        self._state: ApplicationState = "starting"
        # Until then the status is written more often, because a command that has paused a flow waits for it.
        self._confirms_until = 0.0
        states = [flow.state_name for flow in settings.flows]
        self._pauses = PauseReader(settings.status, settings.environment, self._paused, settings.moved_from, states)
        self._metrics = MetricsEndpoint(settings.metrics_host, settings.metrics_port, self._seen)

    def run(self, stop_asked: Callable[[], bool], phase: Callable[[str], None] = lambda _: None) -> DriverOutcome:
        """``phase`` gets the progress before the first status record."""
        threading.Thread(target=self._pauses.run, args=(self._end,), name="pauses", daemon=True).start()
        for flow in self._settings.flows:
            threading.Thread(target=self._serve, args=(flow,), name=f"flow {flow.name}", daemon=True).start()
        self._leases.start()
        if (ended := self._succeed(stop_asked, phase)) is not None:
            return ended
        self._may_take.set()
        self._report_state("starting")
        self._metrics.open()
        try:
            return self._run(stop_asked)
        finally:
            self._metrics.close()
            self._status.close()

    def _run(self, stop_asked: Callable[[], bool]) -> DriverOutcome:
        """The main loop: writes status, shares rates, and watches tasks, until a stop, a successor or a later owner."""
        number, shared, looked, began, settled = 0.0, 0.0, 0.0, time.monotonic(), False
        state: ApplicationState = "starting"
        usual = self._settings.status_interval_ms / 1000
        while not (self._end.is_set() or stop_asked()):
            if not self._place.is_current():
                # From now on the successor writes the status record; another one from here would replace it.
                self._may_take.clear()
                self._metrics.close()
                self._end.set()
                self._stop_group_syncs()
                self._leases.stop(_STOP_PATIENCE_S, self._place.leave)
                return DriverOutcome("replaced", Exit.SUPERSEDED, "a new application of this mirror has taken over")
            if self._catch_up is not None and (verdict := self._catch_up.look()) is not None:
                return self._ended("stopped" if verdict.reached else "failed", verdict.detail, announced=True)
            # The state stays `running`: a lane that loses its task later is a condition, not another start.
            settled = settled or self._settled(began)
            now: ApplicationState = "running" if settled else "starting"
            if time.monotonic() - looked >= _POLL_S:
                looked = time.monotonic()
                if hopeless := self._leases.report_untasked():
                    return self._ended("failed", hopeless, announced=False)
            # A change of state is written at once, because `apply` waits for it. After a pause or resume the status is
            # written more often, because the command waits for it, and during a cut-over producers wait with it.
            confirms = time.monotonic() < self._confirms_until
            interval = min(usual, _CONFIRM_S) if confirms else usual
            if now != state or time.monotonic() - number >= interval:
                number, state = time.monotonic(), now
                self._metrics.open()
                self._report_metrics()
                self._report_state(state)
            if time.monotonic() - shared >= _SHARE_S:
                shared = time.monotonic()
                self._leases.share_rates()
            self._end.wait(0.1 if settled else 0.02)
        self._stop_group_syncs()
        if self._superseded_by:
            self._leases.stop(patience_s=10.0)
            # Only while this application has written the newest record: the one of another mirror that took a flow does
            # not write this record.
            if self._pauses.writer in ("", self._who.application_id):
                self._report_state("failed", self._superseded_by)
            return DriverOutcome("superseded", Exit.SUPERSEDED, self._superseded_by)
        return self._ended("stopped", "", announced=True)

    def _report_metrics(self) -> None:
        where = (self._settings.metrics_host, self._settings.metrics_port)
        condition = metrics_not_served(*where, refused) if (refused := self._metrics.refused) else None
        for flow in self._settings.flows:
            self._board.set_condition(flow.name, "metrics", condition)

    def _settled(self, began: float) -> bool:
        """Whether the job counts as running: all flows are taken over, or have had ``_SETTLED_S``, and every lane with
        partitions has a task. ``apply`` waits for that, so a mirror without a core never counts as running."""
        taken = self._board.all_run() or time.monotonic() - began > _SETTLED_S
        return taken and not self._leases.lanes_without_task()

    # beside another application

    def _succeed(self, stop_asked: Callable[[], bool], phase: Callable[[str], None]) -> DriverOutcome | None:
        """Prepares, and takes the predecessor's place. None: continue; otherwise this application has ended."""
        if self._place.is_current():
            return None
        phase("Spark is up beside the old application; connections are opened and lanes get ready")
        began, patience, looked, lacks = time.monotonic(), Patience(), 0.0, ""
        while waiting := self._not_ready():
            now = time.monotonic()
            if stop_asked() or self._end.is_set():
                self._leases.stop(_STOP_PATIENCE_S)
                return DriverOutcome("stopped", Exit.STOPPED, "asked to stop before it had taken over")
            if self._leases.context_stopped():
                return DriverOutcome("failed", Exit.FAILED, "Spark has stopped the context of this application")
            # A master without free cores gives this application none until the predecessor ends, so it would never be
            # ready. The predecessor then leaves first: that costs a gap, but avoids a deadlock.
            if now - began > _ROOM_S and self._leases.wait_for_room():
                phase("Spark has no room for two applications: the old one leaves before the new one's tasks can start")
                break
            if now - looked > POLL_S:
                looked, before, lacks = now, lacks, self._lacking(waiting)
                if lacks != before:
                    phase(f"not ready yet: {lacks}")
                if why := patience.ended(lacks):
                    self._leases.stop(5.0)
                    return DriverOutcome("failed", Exit.FAILED, why)
            time.sleep(0.05)
        else:
            phase("ready; the old application commits and leaves")
        # From here on this application is the current one: the predecessor notices, commits its open transactions, and
        # reports that it has left. After ``_PREDECESSOR_S`` the takeover fences it instead.
        self._place.take()
        began = time.monotonic()
        while not (is_gone := self._place.predecessor_left()) and time.monotonic() - began < _PREDECESSOR_S:
            time.sleep(0.01)
        _log.info("takes over from the old application", it_left=is_gone, waited_s=round(time.monotonic() - began, 3))
        return None

    def _not_ready(self) -> tuple[str, ...]:
        """The predecessor's flows that this application is not ready to copy yet."""
        return tuple(
            flow.name
            for flow in self._settings.flows
            if flow.name in self._place.needs and not (flow.name in self._can_take and self._leases.prepared(flow.name))
        )

    def _lacking(self, waiting: tuple[str, ...]) -> str:
        texts = {
            view.settings.name: [condition.text for condition, _ in view.conditions] for view in self._board.view()
        }
        unready = {name: self._leases.unready(name) if name in self._can_take else {} for name in waiting}
        return "; ".join(lacking(name, unready[name], texts.get(name, ())) for name in waiting)

    def _ended(self, state: ApplicationState, detail: str, *, announced: bool) -> DriverOutcome:
        """Ends the application: on request, at its goal, because the goal cannot be reached, or because no task can run
        any more. A new application may get what this one has lost (folders, executors)."""
        self._stop_group_syncs()
        if announced:
            self._report_state("stopping")
        self._end.set()
        if not self._leases.stop(_STOP_PATIENCE_S) and not detail:
            detail = "some leases had to be cancelled; what they had not committed is copied next time"
        self._report_state(state, detail)
        return DriverOutcome(state, Exit.STOPPED if state == "stopped" else Exit.FAILED, detail)

    def _superseded(self, why: str) -> None:
        """A later application owns a flow, so this one has to end."""
        self._superseded_by = why or "another application has taken a flow"
        self._end.set()

    # a flow

    def _serve(self, flow: FlowSettings) -> None:
        """Discovers topics periodically; takes the flow over once both clusters have answered and the predecessor has
        left."""
        source, target = WireTopics(flow.source), WireTopics(flow.target)
        discovery = Discovery(flow, flow.selector(), (source, target))
        takeover: WireTakeover | None = None
        claim: Claim | None = None
        pause, marked = 0.5, 0
        refresh = self._settings.refresh_interval_ms / 1000
        while not self._end.is_set():
            try:
                discovered = discovery.look(self._board.discovered_now(flow.name))
                if self._board.discovered(flow.name, discovered):
                    self._leases.partitions_changed()
                # The endpoints now have the cluster ids, so that the takeover notices if another cluster answers at an
                # address later (decision 289).
                if takeover is None and discovered.complete:
                    flow = replace(flow, source=source.endpoint, target=target.endpoint)
                    takeover = WireTakeover(
                        flow,
                        partial(self._waits_for_positions, flow),
                        environment=self._settings.environment,
                        moved_from=self._settings.moved_from,
                    )
                if takeover is not None and claim is None:
                    claim = self._take_over(flow, takeover)
                if claim is not None and not discovered.specs and hour_now() - marked >= RENEW_AFTER_HOURS:
                    marked = hour_now() if mark_owner(flow, claim) else 0
            except Exception:  # noqa: BLE001  # the thread must live
                _log.exception("bug while looking for partitions; retrying", flow=flow.name)
            if claim is not None:
                self._end.wait(refresh)
            elif self._may_take.is_set():
                self._end.wait(pause)
                pause = min(_LONGEST_PAUSE_S, pause * 2)
        discovery.close()

    def _waits_for_positions(self, flow: FlowSettings, old: int) -> None:
        of = (flow.name, flow.target.cluster, position_group(flow.state_name))
        self._board.set_condition(flow.name, "takeover", waits_for_positions(*of, old, OLD_WITHIN_S))

    def _paused(self, pauses: Pauses) -> None:
        self._confirms_until = time.monotonic() + _CONFIRMS_S
        self._board.set_pauses(pauses.values())
        for flow in self._settings.flows:
            self._board.set_condition(flow.name, "pauses", self._pauses.condition(flow.state_name))
        self._leases.partitions_changed()

    def _take_over(self, flow: FlowSettings, takeover: WireTakeover) -> Claim | None:
        """Prepares, waits for the predecessor's place, and takes the flow over. None: the caller tries again."""
        known = self._pauses.known.wait(_PAUSES_S)  # until then a paused partition could be copied
        self._board.set_condition(flow.name, "pauses", self._pauses.condition(flow.state_name))
        if not known:
            return None
        try:
            # The predecessor copies during ``prepare``, so that the gap lasts no longer than ``take``.
            takeover.prepare()
            self._can_take.add(flow.name)
            if not self._may_take.wait(self._settings.refresh_interval_ms / 1000):
                return None
            specs = self._board.discovered_now(flow.name).specs
            took = takeover.take(self._who.application_id, specs)
            takeover.close()
        except NotReadyError as error:
            self._board.set_condition(flow.name, "takeover", error.condition)
            return None
        except SettingError as error:
            self._board.set_condition(flow.name, "takeover", setting_refused(flow.name, error))
            return None
        except (WireError, LookupError) as error:
            self._can_take.discard(flow.name)  # the failure has closed the prepared connections
            self._board.set_condition(flow.name, "takeover", takeover_refused(flow, error))
            return None
        # From here on the flow is this application's: lanes get the claim and may copy, and only now group sync and
        # heartbeats may write for it.
        self._board.set_condition(flow.name, "takeover", None)
        self._board.taken_over(flow.name)
        self._leases.claimed(flow.name, took.claim)
        if flow.groups is not None:
            sync = GroupSync(
                flow,
                flow.groups,
                lambda: self._board.discovered_now(flow.name).specs,
                partial(self._board.groups_synced, flow.name),
                partial(self._board.unpaused, flow.name),
            )
            self._group_syncs.append(sync)
            sync.start()
        if flow.mirrormaker.heartbeats_ms is not None:
            Heartbeats(flow, self._end, partial(self._board.set_condition, flow.name, "heartbeats")).start()
        _log.info("flow taken over", flow=flow.name, claim=took.claim.number, partitions=len(specs), first=took.started)
        return took.claim

    def _stop_group_syncs(self) -> None:
        for sync in self._group_syncs:
            sync.stop()

    # status

    def _seen(self) -> MetricsSnapshot:
        running, lost = self._leases.counts()
        return MetricsSnapshot(self._settings, self._who, self._state, self._board.view(), running, lost)

    def _report_state(self, state: ApplicationState, detail: str = "") -> None:
        with self._status_guard:
            self._state = state
            flows = self._board.view()
            self._conditions.log_changes(flows)
            value = record(self._settings, self._who, state, flows, now_ms(), detail)
            self._status.write(document(value))


STALLED_S, AT_MOST_S = 120.0, 900.0
"""Seconds until this application gives up: without a change, and in any case. The old one copies meanwhile."""
POLL_S = 1.0


def lacking(flow: str, lanes: Mapping[str, tuple[int, ...]], conditions: Iterable[str]) -> str:
    """The reasons why a flow is not ready. ``lanes``: its lanes by the reason for their wait; none: its topics or
    coordinators are unknown."""
    parts = [f"lane{'s' if len(n) > 1 else ''} {', '.join(map(str, n))}: {why}" for why, n in lanes.items()]
    return f"flow {flow}: {'; '.join([*(parts or ['its topics and coordinators are looked up']), *conditions])}"


class Patience:
    """Decides when to give up waiting for readiness."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._moved = clock()
        self._lacking = ""

    def ended(self, lacks: str) -> str:
        """The reason to give up, or empty. To be called again and again with the present ``lacks``."""
        now = self._clock()
        if lacks != self._lacking:
            self._lacking, self._moved = lacks, now
        if now - self._moved > STALLED_S:
            still = f"nothing changed for {now - self._moved:.0f} s"
        elif now - self._began > AT_MOST_S:
            still = "and it was waited for long enough"
        else:
            return ""
        waited = f"it was not ready to copy after {now - self._began:.0f} s, {still}"
        return f"{waited}, so the old application continues. {lacks}"
