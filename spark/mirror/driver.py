"""The driver: discovers, takes flows over, keeps leases and status going, ends gracefully. No pyspark in here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

from confluent_kafka import KafkaException

from mirror import logs
from mirror.board import Board
from mirror.condition_log import ConditionLog
from mirror.discovery import Discovered, LiveCluster, discover
from mirror.lanes import Condition, Endpoint
from mirror.leases import Leases
from mirror.metrics import Seen
from mirror.metrics_endpoint import MetricsEndpoint
from mirror.settings import FlowSettings, Settings
from mirror.status import Application, StatusWriter, now_ms, record
from mirror.takeover import take_over

_STOP_PATIENCE_S = 45.0
_LONGEST_PAUSE_S = 10.0
_SETTLED_S = 30.0  # by then the job runs, and flows that wait for a cluster say so themselves
_TOGETHER_S = 5.0  # flows that are ready by then share the first leases
_log = logs.logger("driver")


class Exit(IntEnum):
    STOPPED = 0
    FAILED = 1
    SUPERSEDED = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    state: str
    code: Exit
    detail: str = ""


class Driver:
    """``run`` blocks until ``stop_asked`` says so or another application has taken a flow."""

    def __init__(self, context: Any, settings: Settings, who: Application, channel_host: str) -> None:
        self._settings = settings
        self._who = who
        self._board = Board(settings.flows)
        self._status = StatusWriter(settings.status)
        self._status_guard = threading.Lock()
        self._conditions = ConditionLog()
        self._end = threading.Event()
        self._superseded_by = ""
        self._leases = Leases(context, settings, self._board, channel_host, self._superseded)
        self._state = "starting"
        self._metrics = MetricsEndpoint(settings.metrics_host, settings.metrics_port, self._seen)

    def run(self, stop_asked: Callable[[], bool]) -> Outcome:
        self._tell("starting")
        self._metrics.open()
        try:
            return self._run(stop_asked)
        finally:
            self._metrics.close()

    def _run(self, stop_asked: Callable[[], bool]) -> Outcome:
        for flow in self._settings.flows:
            threading.Thread(target=self._serve, args=(flow,), name=f"flow {flow.name}", daemon=True).start()
        told, state, began = 0.0, "starting", time.monotonic()
        while not (self._end.is_set() or stop_asked()):
            if not self._leases.started and (self._all_taken() or time.monotonic() - began > _TOGETHER_S):
                self._leases.start()
            settled = self._all_taken() or time.monotonic() - began > _SETTLED_S
            now = "running" if settled else "starting"
            if now != state or time.monotonic() - told >= self._settings.status_interval_ms / 1000:
                told, state = time.monotonic(), now
                self._tell(state)
                self._metrics.open()
            self._end.wait(0.1)
        return self._leave()

    def _all_taken(self) -> bool:
        return self._board.all_run()

    def _leave(self) -> Outcome:
        if self._superseded_by:
            self._leases.stop(patience_s=10.0)
            return Outcome("superseded", Exit.SUPERSEDED, self._superseded_by)
        self._tell("stopping")
        self._end.set()
        graceful = self._leases.stop(_STOP_PATIENCE_S)
        detail = "" if graceful else "some leases had to be cancelled; what they had not committed is copied next time"
        self._tell("stopped", detail)
        return Outcome("stopped", Exit.STOPPED, detail)

    def _superseded(self, why: str) -> None:
        """A later application writes the status record now; ours would hide it."""
        self._superseded_by = why or "another application has taken a flow"
        self._end.set()

    # a flow

    def _serve(self, flow: FlowSettings) -> None:
        """Discovery on and on; the flow is taken over once both clusters have answered."""
        look = partial(discover, flow, flow.selector(), LiveCluster(flow.source), LiveCluster(flow.target))
        taken, pause = False, 0.5
        while not self._end.is_set():
            try:
                taken = self._refresh(flow, look, taken)
            except Exception:  # noqa: BLE001  # the thread must live
                _log.exception("defect while looking for partitions; tried again", flow=flow.name)
            if taken:
                self._end.wait(self._settings.refresh_interval_ms / 1000)
            else:
                self._end.wait(pause)
                pause = min(_LONGEST_PAUSE_S, pause * 2)

    def _refresh(self, flow: FlowSettings, look: Callable[[Discovered], Discovered], taken: bool) -> bool:
        found = look(self._board.discovered_now(flow.name))
        changed = self._board.discovered(flow.name, found)
        if taken and changed:
            self._leases.partitions_changed()
        return taken or (found.complete and self._take_over(flow))

    def _take_over(self, flow: FlowSettings) -> bool:
        try:
            specs = self._board.discovered_now(flow.name).specs
            took = take_over(flow, self._who.application_id, specs)
        except (KafkaException, LookupError) as error:
            self._board.set_condition(flow.name, "takeover", _not_taken(flow, flow.target, error))
            return False
        self._board.set_condition(flow.name, "takeover", None)
        self._board.taken_over(flow.name)
        self._leases.add(flow, took.claim)
        _log.info("flow taken over", flow=flow.name, claim=took.claim.number, partitions=len(specs), first=took.started)
        return True

    # status

    def _seen(self) -> Seen:
        running, lost = self._leases.counts()
        return Seen(self._settings, self._who, self._state, self._board.view(), running, lost)

    def _tell(self, state: str, detail: str = "") -> None:
        with self._status_guard:
            self._state = state
            flows = self._board.view()
            self._conditions.told(flows)
            self._status.write(record(self._settings, self._who, state, flows, now_ms(), detail))


def _not_taken(flow: FlowSettings, target: Endpoint, error: Exception) -> Condition:
    why = error.args[0].str() if isinstance(error, KafkaException) else str(error)
    return Condition(
        "target_unreachable",
        f"{flow.name} is not copied yet: {target.cluster} did not let the mirror fence and read positions: {why}",
        f"Check {', '.join(target.bootstrap_servers)} and the mirror's rights there (transactional ids "
        f"mirror.{flow.name}.*, group mirror.{flow.name}). It is tried again by itself.",
        stops=True,
    )
