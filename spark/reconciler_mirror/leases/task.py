"""A lease in a Spark task: runs each lane in a thread, until a stop, the deadline or a later owner ends it."""

from __future__ import annotations

import gc
import platform
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler_mirror import log_lines as logs
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.lane.state import LaneCounts
from reconciler_mirror.leases import channel, preflight
from reconciler_mirror.leases.channel import ROWS, SPECS
from reconciler_mirror.leases.worker_stderr import stderr_while_at_work
from reconciler_mirror.model.lane import (
    Claim,
    Control,
    LaneEnd,
    LaneKey,
    LaneProgress,
    LaneReport,
    LaneSpec,
    PartitionProgress,
    PartitionSpec,
)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 15.0
_REPORT_S = 0.25
ALIVE_S = 2.0
"""How often a lease reports which of its lanes are at work, even if those have no news."""
LOOK_AGAIN_S = 30.0
"""How often an executor with a problem checks again."""
_AT_WORK_S = 5.0  # a session reports once a second, and a little later the more partitions it has
_log = logs.logger("lease")
CopyPath = Callable[[LaneSpec, Control, LaneCounts], LaneReport]
"""``batch_path``; tests pass another one."""


@dataclass(frozen=True, slots=True)
class LeaseSpec:
    """A lease, as its Spark task gets it. The channel replaces the lanes' partitions with the newest."""

    name: str
    lanes: tuple[LaneSpec, ...]
    seconds: float
    driver: tuple[str, int]
    token: str
    environment: str
    mirror: str
    packages: Mapping[str, str | None] | None = None
    """The driver's packages, if the task runs on another machine, which then compares its own."""
    rows_per_s: float = 0.0
    """Average rows of progress that it may send per second; 0: no limit."""


class ReportDelta:
    """The part of a lane's snapshots that the driver does not know yet. ``everything``: send the next one in full."""

    def __init__(self) -> None:
        self.everything = False
        self._snapshot: LaneProgress | None = None
        self._rows: dict[tuple[str, int], PartitionProgress] = {}
        self._lane: LaneProgress | None = None

    def of(self, now: LaneProgress) -> LaneProgress | None:
        """The rows that changed since the last report; None if nothing did. A lane makes a new row only for a partition
        that moved, so identity settles most comparisons. After partitions have left, everything is sent once: only a
        full report lets the driver drop rows."""
        if now is self._snapshot and not self.everything:
            return None
        self._snapshot = now
        if self.everything or len(self._rows) > len(now.partitions):
            self.everything, self._rows = False, {}
        rows: list[PartitionProgress] = []
        for row in now.partitions:
            known = self._rows.get(key := (row.topic, row.partition))
            if known is not row:
                self._rows[key] = row
                if known != row:
                    rows.append(row)
        lane = replace(now, partitions=())
        if not rows and lane == self._lane:
            return None
        self._lane = lane
        return replace(now, partitions=tuple(rows))


class LaneControl:
    """A ``Control`` for one lane, over all its attempts.

    The channel's thread sets what the driver wants, the lane's thread asks for it and reports, and the lease's thread
    takes the reports. Each field is replaced as a whole, never changed in place, so no lock is needed.
    """

    def __init__(self, lane: LaneSpec, lease: LeaseState) -> None:
        self._lease = lease
        self.specs = lane.partitions
        self.paused_now = lane.paused
        self.rate_now = lane.rate
        self.latest = LaneProgress(lane.flow, lane.lane, (), at_work=False)
        """The lane's last snapshot, whether the driver knows it or not."""
        self.newly_prepared = self._is_prepared = False
        """``newly_prepared``: the driver does not know yet that the lane is ready to copy."""
        self.reported_at = float("-inf")
        """Monotonic time of the last snapshot, even of an unchanged one: it proves that the lane is alive."""
        self.wake: Callable[[], None] = lambda: None
        self._unreported = ReportDelta()
        self._flow, self._claim = lane.flow, lane.claim

    def stopping(self) -> bool:
        return self._lease.stop.is_set()

    def lease_over(self) -> bool:
        return self._lease.over.is_set() or time.monotonic() >= self._lease.deadline

    def partitions(self) -> tuple[PartitionSpec, ...]:
        return self.specs

    def claim(self) -> Claim:
        return self._lease.claims.get(self._flow, self._claim)

    def prepared(self) -> None:
        self.newly_prepared = self._is_prepared = True
        self._lease.news.set()

    def watch(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def rate(self) -> float:
        return self.rate_now

    def paused(self) -> frozenset[tuple[str, int]]:
        return self.paused_now

    def at_work(self) -> bool:
        """Whether its session has reported recently, so that the lane is alive."""
        late = time.monotonic() - self.reported_at
        return self.latest.at_work and late < _AT_WORK_S + len(self.latest.partitions) / 1_000

    def report(self, progress: LaneProgress) -> None:
        self.reported_at = time.monotonic()
        if progress != self.latest:
            self.latest = progress
            self._lease.news.set()

    def take(self, specs: tuple[PartitionSpec, ...]) -> None:
        """Sets the lane's partitions. The driver forgets the ones that leave, so the next report is a full one."""
        if specs != self.specs:
            self.specs = specs
            self._unreported.everything = True
            self._lease.news.set()

    def report_again(self) -> None:
        """The line to the driver broke, and it is unknown which messages arrived."""
        self.newly_prepared = self._is_prepared
        self._unreported.everything = True

    def unreported(self) -> LaneProgress | None:
        """Changes that the driver does not know yet; None if there are none."""
        return self._unreported.of(self.latest)


class LeaseState:
    """The flags, the deadline and the claims that all lanes of a lease share. The channel's thread sets them, except
    for ``ended`` and ``news``."""

    def __init__(self, seconds: float) -> None:
        self.claims: dict[str, Claim] = {}
        """By flow, once it is taken over; each lane of the flow waits for it."""
        self.stop = threading.Event()
        """The mirror stops: lanes commit and leave at once."""
        self.over = threading.Event()
        """Only this lease ends, for a new placement; its lanes begin again in another one."""
        self.ended = threading.Event()
        """All lanes have ended; the check of the executor ends, too."""
        self.news = threading.Event()  # a lane has something to report, or has ended
        self.deadline = time.monotonic() + seconds
        """Without a message of the driver the lease ends then, so that a driver that has lost the task can give its
        lanes away."""


def run_lease(lease: LeaseSpec, path: CopyPath = batch_path) -> tuple[LaneReport, ...]:
    """Blocks until every lane has ended; returns one report per lane, in the order of ``lease.lanes``."""
    if not gc.get_freeze_count():  # a collection over the imported modules takes 35 ms, in which no lane copies
        gc.freeze()
    state = LeaseState(lease.seconds)
    controls = {(lane.flow, lane.lane): LaneControl(lane, state) for lane in lease.lanes}
    reports: dict[LaneKey, LaneReport] = {}
    ended_lanes: list[LaneKey] = []

    def of_lanes(message: channel.Message, name: str) -> list[tuple[LaneControl, Any]]:
        """The controls that a part of a message is for, with its content."""
        entries = ((controls.get((flow, lane)), content) for flow, lane, content in message.get(name, ()))
        return [(control, content) for control, content in entries if control is not None]

    def heard(message: channel.Message) -> None:
        """Takes a message of the driver, in the channel's thread. Each part is optional; lanes wake up to look for
        changes."""
        for control, rows in of_lanes(message, "lanes"):
            control.take(ROWS.decoded(SPECS, rows))
        for control, keys in of_lanes(message, "paused"):
            control.paused_now = frozenset((topic, partition) for topic, partition in keys)
        state.claims.update((flow, ROWS.decoded(Claim, row)) for flow, row in message.get("claims", ()))
        for control, rate in of_lanes(message, "rates"):
            control.rate_now = rate
        if "seconds" in message:
            state.deadline = time.monotonic() + message["seconds"]
        if message.get("stop"):
            state.stop.set()
        if message.get("over"):
            state.over.set()
        for control in controls.values():
            control.wake()

    line = channel.ChannelClient(lease.driver, lease.token, lease.name, heard)

    def run(lane: LaneSpec) -> None:
        """One lane, in its thread. ``left`` is sent as soon as it has ended, before Spark reports the end of the whole
        task: a successor of this application waits for the lanes only."""
        key = (lane.flow, lane.lane)
        try:
            reports[key] = run_lane(
                lane, controls[key], path, lambda report: line.send({"report": ROWS.encoded(report)})
            )
            line.send({"left": [*key]})
        finally:
            ended_lanes.append(key)
            state.news.set()

    # A thread for each lane: each has an event loop of its own, and a failing one leaves the others alone.
    try:
        threads = [threading.Thread(target=run, args=(lane,), name=lane.transactional_id) for lane in lease.lanes]
        for thread in threads:
            thread.start()
        if lease.packages is not None:
            threading.Thread(target=_look, args=(lease, state, line), name="preflight", daemon=True).start()
        alive_at, silent_until, lines = 0.0, 0.0, line.lines
        while len(ended_lanes) < len(threads):
            state.news.wait(ALIVE_S)
            state.news.clear()
            # A new connection reports everything again: the last messages of the one before may be lost.
            if lines != line.lines:
                lines = line.lines
                for control in controls.values():
                    control.report_again()
                for key in ended_lanes:
                    line.send({"left": [*key]})
            _report_prepared(line, controls)
            # After a message the lease is silent until the driver has had time for its rows (``rows_per_s``).
            if time.monotonic() >= silent_until:
                rows = _report(line, controls)
                silent_until = time.monotonic() + (rows / lease.rows_per_s if lease.rows_per_s else 0.0)
            if time.monotonic() - alive_at >= ALIVE_S:
                alive_at = time.monotonic()
                line.send({"alive": [[*key] for key, control in controls.items() if control.at_work()]})
            state.stop.wait(_REPORT_S)  # the snapshots of this time share a message
        # Lanes may have reported after the last turn.
        _report_prepared(line, controls)
        _report(line, controls)
    finally:  # Spark reuses this process, and an open line would keep dialling
        state.ended.set()
        line.close()
    return tuple(
        reports.get((lane.flow, lane.lane))
        or LaneReport(LaneEnd.FAILED, controls[lane.flow, lane.lane].latest, "the lane's thread died")
        for lane in lease.lanes
    )


def in_task(specs: Iterable[LeaseSpec]) -> Iterator[LaneReport]:
    """The function that Spark runs."""
    with stderr_while_at_work():
        for spec in specs:
            logs.configure(environment=spec.environment, mirror=spec.mirror, lease=spec.name)
            yield from run_lease(spec)


def _look(lease: LeaseSpec, state: LeaseState, line: channel.ChannelClient) -> None:
    """Checks this executor beside the lanes, which do not wait for it, and reports problems with its host name."""
    sides = {side.cluster: side for lane in lease.lanes for side in (lane.source, lane.target)}
    while not state.ended.is_set():
        problems = preflight.look(sides.values(), lease.packages or {})
        machine = {"host": socket.gethostname(), "python": platform.python_version()}
        line.send({"executor": {**machine, "problems": problems}})
        if not problems or state.ended.wait(LOOK_AGAIN_S):
            return


def run_lane(lane: LaneSpec, control: LaneControl, path: CopyPath, tell: Callable[[LaneReport], None]) -> LaneReport:
    """Runs the path again after each failure, with growing pauses, so that one bad lane costs the others nothing.
    Counters continue from one attempt to the next."""
    pause, counts = _FIRST_PAUSE_S, LaneCounts()
    report = LaneReport(LaneEnd.LEASE_OVER, control.latest)
    while not (control.stopping() or control.lease_over()):
        if not control.partitions():
            time.sleep(0.1)
            continue
        began = time.monotonic()
        # A path should never raise; if it does, the defect costs this lane an attempt, but not the lease.
        try:
            report = path(replace(lane, claim=control.claim()), control, counts)
        except Exception as error:  # noqa: BLE001  # whatever a bug raises
            _log.exception("bug in the copy path", flow=lane.flow, lane=lane.lane)
            nothing = replace(control.latest, partitions=(), conditions=(), at_work=False)
            report = LaneReport(LaneEnd.FAILED, nothing, f"{type(error).__name__}: {error}")
        if report.end is not LaneEnd.FAILED:
            control.report(report.progress)
            break
        counts.retries += 1
        report = replace(report, progress=replace(report.progress, retries=counts.retries))
        control.report(report.progress)
        _log.warning("lane failed, retrying", flow=lane.flow, lane=lane.lane, error=report.error, pause_s=pause)
        tell(report)
        # An attempt that has lasted shows that the former cause is over.
        if time.monotonic() - began > 30:
            pause = _FIRST_PAUSE_S
        again = time.monotonic() + pause * random.uniform(0.7, 1.3)  # noqa: S311  # no secret: spreads the tries
        while time.monotonic() < again and not (control.stopping() or control.lease_over()):
            time.sleep(0.1)
        pause = min(_LONGEST_PAUSE_S, pause * 2)
    tell(report)
    return report


def _report_prepared(line: channel.ChannelClient, controls: dict[LaneKey, LaneControl]) -> None:
    for key, control in controls.items():
        if control.newly_prepared:
            control.newly_prepared = False
            line.send({"prepared": [*key]})


def _report(line: channel.ChannelClient, controls: dict[LaneKey, LaneControl]) -> int:
    """Sends the changed rows; returns how many."""
    rows = 0
    for control in controls.values():
        if (news := control.unreported()) is not None:
            line.send({"progress": ROWS.encoded(news)})
            rows += len(news.partitions)
    return rows
