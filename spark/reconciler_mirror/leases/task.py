"""A lease in a Spark task: runs each of its lanes in a thread, until stop, deadline or supersession."""

from __future__ import annotations

import gc
import random
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
"""How often a lease says which of its lanes are at work: a lane without news says nothing else."""
LOOK_AGAIN_S = 30.0
"""How often an executor with a problem looks whether it is over."""
_AT_WORK_S = 5.0  # a session reports once a second, and a little later the more partitions it has
_log = logs.logger("lease")
CopyPath = Callable[[LaneSpec, Control, LaneCounts], LaneReport]
"""``batch_path``; a test gives another."""


@dataclass(frozen=True, slots=True)
class LeaseSpec:
    """What a Spark task is given. The lanes' partitions are a first idea; the channel brings the newest."""

    name: str
    lanes: tuple[LaneSpec, ...]
    seconds: float
    driver: tuple[str, int]
    token: str
    environment: str
    mirror: str
    packages: Mapping[str, str | None] | None = None
    """Those of the driver, where the task runs on another machine, which is read then."""
    rows_per_s: float = 0.0
    """Rows of progress that it may send a second, on average; 0: as fast as lanes have some."""


class ReportDelta:
    """What of a lane's snapshots the driver does not know yet. ``everything``: send all of the next one."""

    def __init__(self) -> None:
        self.everything = False
        self._snapshot: LaneProgress | None = None
        self._rows: dict[tuple[str, int], PartitionProgress] = {}
        self._lane: LaneProgress | None = None

    def of(self, now: LaneProgress) -> LaneProgress | None:
        """Rows that changed since the last report, or None where nothing did. A lane makes a new row only if the
        partition moved, so most are compared by identity. When partitions have left, everything is sent once: the
        driver only learns from a whole report what is gone."""
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
    """A ``Control`` for one lane, over all its attempts."""

    def __init__(self, lane: LaneSpec, lease: LeaseState) -> None:
        self._lease = lease
        self.specs = lane.partitions
        self.paused_now = lane.paused
        self.rate_now = lane.rate
        self.latest = LaneProgress(lane.flow, lane.lane, (), at_work=False)
        self.newly_prepared = self._is_prepared = False
        self.reported_at = float("-inf")
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
        """Its session looks at the partitions."""
        late = time.monotonic() - self.reported_at
        return self.latest.at_work and late < _AT_WORK_S + len(self.latest.partitions) / 1_000

    def report(self, progress: LaneProgress) -> None:
        self.reported_at = time.monotonic()
        if progress != self.latest:
            self.latest = progress
            self._lease.news.set()

    def take(self, specs: tuple[PartitionSpec, ...]) -> None:
        """The lane's partitions from now on. The driver forgets those that leave, so all are sent once more."""
        if specs != self.specs:
            self.specs = specs
            self._unreported.everything = True
            self._lease.news.set()

    def report_again(self) -> None:
        """The line to the driver broke, and what came through is unknown."""
        self.newly_prepared = self._is_prepared
        self._unreported.everything = True

    def unreported(self) -> LaneProgress | None:
        """What the driver does not know yet: only the partitions that changed; None when nothing did."""
        return self._unreported.of(self.latest)


class LeaseState:
    """The flags, the deadline and the claims that all lanes of a lease share."""

    def __init__(self, seconds: float) -> None:
        self.claims: dict[str, Claim] = {}
        self.stop = threading.Event()
        self.over = threading.Event()
        self.ended = threading.Event()
        self.news = threading.Event()  # a lane has something to report, or has ended
        self.deadline = time.monotonic() + seconds


def run_lease(lease: LeaseSpec, path: CopyPath = batch_path) -> tuple[LaneReport, ...]:
    """Blocks until every lane has ended; one report a lane, in the order of ``lease.lanes``."""
    if not gc.get_freeze_count():  # modules stay: a collection that walks them takes 35 ms, while no lane copies
        gc.freeze()
    state = LeaseState(lease.seconds)
    controls = {(lane.flow, lane.lane): LaneControl(lane, state) for lane in lease.lanes}
    reports: dict[LaneKey, LaneReport] = {}
    ended_lanes: list[LaneKey] = []

    def of_lanes(message: channel.Message, name: str) -> list[tuple[LaneControl, Any]]:
        entries = ((controls.get((flow, lane)), content) for flow, lane, content in message.get(name, ()))
        return [(control, content) for control, content in entries if control is not None]

    def heard(message: channel.Message) -> None:
        """A message of the driver, in the channel's thread. Each part is optional; lanes wake up to look at what
        changed."""
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
        key = (lane.flow, lane.lane)
        try:
            reports[key] = run_lane(
                lane, controls[key], path, lambda report: line.send({"report": ROWS.encoded(report)})
            )
            line.send({"left": [*key]})
        finally:
            ended_lanes.append(key)
            state.news.set()

    try:
        threads = [threading.Thread(target=run, args=(lane,), name=lane.transactional_id) for lane in lease.lanes]
        for thread in threads:
            thread.start()
        if lease.packages is not None:
            threading.Thread(target=_look, args=(lease, state, line), name="preflight", daemon=True).start()
        told_alive, told_until, lines = 0.0, 0.0, line.lines
        while len(ended_lanes) < len(threads):
            state.news.wait(ALIVE_S)
            state.news.clear()
            # On a new connection everything is reported again: the driver may have lost what the one before carried.
            if lines != line.lines:
                lines = line.lines
                for control in controls.values():
                    control.report_again()
                for key in ended_lanes:
                    line.send({"left": [*key]})
            _report_prepared(line, controls)
            # Progress waits until the driver can take as many rows again as the last message had.
            if time.monotonic() >= told_until:
                rows = _report(line, controls)
                told_until = time.monotonic() + (rows / lease.rows_per_s if lease.rows_per_s else 0.0)
            if time.monotonic() - told_alive >= ALIVE_S:
                told_alive = time.monotonic()
                line.send({"alive": [[*key] for key, control in controls.items() if control.at_work()]})
            state.stop.wait(_REPORT_S)  # snapshots of that time travel as one
        _report_prepared(line, controls)
        _report(line, controls)
    finally:  # Spark uses this process again, and an open line would dial on
        state.ended.set()
        line.close()
    return tuple(
        reports.get((lane.flow, lane.lane))
        or LaneReport(LaneEnd.FAILED, controls[lane.flow, lane.lane].latest, "the lane's thread died")
        for lane in lease.lanes
    )


def in_task(specs: Iterable[LeaseSpec]) -> Iterator[LaneReport]:
    """What Spark runs."""
    with stderr_while_at_work():
        for spec in specs:
            logs.configure(environment=spec.environment, mirror=spec.mirror, lease=spec.name)
            yield from run_lease(spec)


def _look(lease: LeaseSpec, state: LeaseState, line: channel.ChannelClient) -> None:
    """Beside the lanes, which wait for nothing: what keeps them is named with the machine."""
    sides = {side.cluster: side for lane in lease.lanes for side in (lane.source, lane.target)}
    while not state.ended.is_set():
        report = preflight.look(sides.values(), lease.packages or {})
        line.send({"executor": {"host": report.host, "python": report.python, "problems": [*report.problems]}})
        if not report.problems or state.ended.wait(LOOK_AGAIN_S):
            return


def run_lane(lane: LaneSpec, control: LaneControl, path: CopyPath, tell: Callable[[LaneReport], None]) -> LaneReport:
    """Runs the path again after failures, with growing pauses, so that one bad lane costs the others nothing. Counts go
    on from one attempt to the next."""
    pause, counts = _FIRST_PAUSE_S, LaneCounts()
    report = LaneReport(LaneEnd.LEASE_OVER, control.latest)
    while not (control.stopping() or control.lease_over()):
        if not control.partitions():
            time.sleep(0.1)
            continue
        began = time.monotonic()
        # A path never raises; should it, the defect costs this lane a try and not the lease.
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
    """What changed; returns how many rows."""
    rows = 0
    for control in controls.values():
        if (news := control.unreported()) is not None:
            line.send({"progress": ROWS.encoded(news)})
            rows += len(news.partitions)
    return rows
