"""Follows a driver that runs on a machine of the cluster, and acts for it in the run folder of this machine.

It turns changes of the folder by the reconciler (a stop, another application in its place) into orders of the run, and
reports of the driver into driver.json, the pointer to the current folder, and the exit code.

A driver outlives its follower. A new follower first looks for a driver of this mirror with the same definition, and
follows that one: the former follower may have crashed, or its machine may be lost.
"""

import contextlib
import os
import re
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Protocol

from reconciler.replication.handover import HandoverError
from reconciler.replication.kept_files import write_json
from reconciler.replication.runs import driver_records
from reconciler.replication.runs.driver_records import NO_DEFINITION
from reconciler.replication.runs.run_folders import GOAL, HANDOVER, RunPlace, written
from reconciler_mirror.cluster_mode.record_run import BEAT_S

FAILED = 1
ALIVE_S = 3 * BEAT_S
"""Seconds within which a live driver has written a report."""
SILENT_S = 30.0
"""Seconds of silence after which a driver counts as dead; a cluster notices the loss of a machine after minutes."""
KNOWN_S = 120.0
KILL_AFTER_S = 34.0
"""Seconds from a stop to a kill; the command that requested the stop waits a little longer for this process."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Folder:
    """The run folder on this machine, and its place among the mirror's two folders."""

    place: RunPlace

    @property
    def path(self) -> Path:
        return self.place.run_folder

    def definition(self) -> driver_records.RunDefinition:
        """Raises HandoverError."""
        return driver_records.RunDefinition(
            written(self.path, HANDOVER) or "",
            written(self.path, GOAL) or "",
            beside=not self.place.is_current(),
            needs=self.place.needs,
        )

    def stop_asked(self) -> bool:
        return (self.path / "stop").exists()

    def announce(self, report: driver_records.DriverReport) -> None:
        """Writes driver.json with the ``pid`` of this process, which runs as long as it follows the driver. Never
        raises."""
        content = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "application_id": report.application_id,
            "started_at_ms": report.started_at_ms,
            "phase": report.phase,
            "driver": {"host": report.host, "pid": report.pid},
        }
        with contextlib.suppress(OSError):
            write_json(self.path / "driver.json", content)


class RunRecords(Protocol):
    """The part of ``RunTopic`` that a follower needs."""

    trouble: str

    def await_known(self, patience_s: float) -> bool: ...
    def wait(self, seconds: float) -> None: ...
    def value(self, run: str, part: driver_records.Part) -> bytes | None: ...
    def values(self, part: driver_records.Part) -> Mapping[str, bytes]: ...
    def silent_s(self, run: str, part: driver_records.Part) -> float: ...
    def write(self, run: str, part: driver_records.Part, value: bytes | None, patience_s: float = ...) -> str: ...
    def delete(self, run: str) -> None: ...


class Submitted(Protocol):
    """The part of ``Submission`` that a follower needs."""

    application_id: str

    def ended(self) -> int | None: ...
    def why(self) -> str: ...


class DriverCluster(Protocol):
    """A cluster on which Spark runs drivers."""

    def submit(self, run: str, digest: str) -> Submitted: ...
    def kill(self, run: str, application_id: str) -> None: ...


class Follower:
    """``run`` blocks until the driver has ended or is dead, or another process follows it; returns the exit code that
    the driver's own process would have in client mode."""

    def __init__(
        self,
        folder: Folder,
        records: RunRecords,
        cluster: DriverCluster,
        say: Say,
        asked: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``asked``: whether a signal has asked this process to end."""
        self._clock = clock
        self._folder, self._records, self._cluster = folder, records, cluster
        self._say, self._asked = say, asked
        self._id = uuid.uuid4().hex[:12]
        self._run = ""
        self._submitted: Submitted | None = None
        self._orders = driver_records.RunOrders(self._id)
        self._written: bytes | None = None
        self._last_report: driver_records.DriverReport | None = None
        self._stopping_since: float | None = None
        self._was_current = folder.place.is_current()
        self._seen_own = False
        self._killed = False

    def run(self) -> int:
        """Finds a live driver with this definition, or submits one, and follows it to its end."""
        if not self._records.await_known(KNOWN_S):
            return self._failed(f"the status topic could not be read in {KNOWN_S:.0f} s: {self._records.trouble}")
        try:
            definition = self._folder.definition()
        except HandoverError as error:
            return self._failed(str(error))
        self._run = self._living(definition.digest)
        if self._run:
            self._say(f"a driver runs with this definition already; following run {self._run}")
        else:
            # Withdraws earlier runs with a silent driver, and, unless this run starts beside a predecessor, runs
            # without a driver yet: a driver that still waits for a place then finds no definition when it starts.
            silent = [run for run in self._records.values("report") if self._records.silent_s(run, "report") > ALIVE_S]
            unborn = [run for run in self._records.values("definition") if self._records.value(run, "report") is None]
            for run in [*silent, *(unborn if self._was_current else ())]:
                self._records.delete(run)
            self._run = uuid.uuid4().hex[:12]
            self._say(f"run {self._run} is submitted")
            if why := self._records.write(
                self._run, "definition", driver_records.dumps_definition(definition), KNOWN_S
            ):
                return self._failed(f"the status topic did not take its definition: {why}")
            self._submitted = self._cluster.submit(self._run, definition.digest)
        while (code := self._step()) is None:
            self._records.wait(0.2)
        return code

    def _failed(self, why: str) -> int:
        self._say(f"The mirror job cannot run: {why}")
        return FAILED

    # which run

    def _living(self, digest: str) -> str:
        """The run of a live driver with this definition and without an order to leave; empty without one."""
        if not self._was_current:
            return ""
        reports = {run: self._report_of(run) for run in self._records.values("report")}
        candidates = [run for run, report in reports.items() if report is not None and _may_live(report, digest)]
        before = {run: self._records.value(run, "report") for run in candidates}
        until = self._clock() + ALIVE_S
        while candidates and self._clock() < until:
            for run in candidates:
                report, orders = self._report_of(run), driver_records.orders_in(self._records.value(run, "orders"))
                beats = self._records.value(run, "report") != before[run]
                if beats and report is not None and _may_live(report, digest) and not (orders.stop or orders.replaced):
                    self._orders = replace(orders, follower=self._id)
                    return run
            self._records.wait(0.2)
        return ""

    def _report_of(self, run: str) -> driver_records.DriverReport | None:
        try:
            return driver_records.REPORT.loads(self._records.value(run, "report") or b"")
        except ValueError:
            return None

    # following it

    def _step(self) -> int | None:
        """Checks both sides once; returns the exit code at the end."""
        report = self._report_of(self._run)
        other = driver_records.orders_in(self._records.value(self._run, "orders")).follower
        # Two followers would both give orders. The later one has replaced this one, which leaves without an order.
        self._seen_own = self._seen_own or other == self._id
        if self._seen_own and other not in ("", self._id):
            self._say(f"run {self._run} is followed by another process ({other}) now")
            return 0
        if report is not None:
            self._hear(report)
            if report.exit_code is not None:
                failed = report.exit_code == FAILED
                if report.detail:
                    self._say(f"The mirror job cannot run: {report.detail}" if failed else report.detail)
                self._records.delete(self._run)
                return report.exit_code
        # Orders before the question whether it is dead: an order to stop explains its silence.
        self._order(report)
        if (why := self._death(report)) is not None:
            self._records.delete(self._run)
            if self._orders.stop:
                return 0
            return self._failed(why)
        return None

    def _hear(self, report: driver_records.DriverReport) -> None:
        """Repeats the driver's reports in the run folder and in this process's output."""
        before = self._last_report
        if before is None or replace(before, beat=0) != replace(report, beat=0):
            if report.application_id:  # without one Spark may have refused to start, which no restart would change
                self._folder.announce(report)
            if report.application_id and (before is None or before.application_id != report.application_id):
                self._say(f"{report.application_id} runs on {report.host}, process {report.pid}")
            if report.phase and (before is None or before.phase != report.phase):
                self._say(report.phase)
        place = self._folder.place
        if report.taken and not self._was_current and not place.is_current():
            with contextlib.suppress(OSError):
                place.take()
        if report.left and (before is None or not before.left):
            with contextlib.suppress(OSError):
                place.leave()
        self._last_report = report

    def _order(self, report: driver_records.DriverReport | None) -> None:
        """Writes the driver's orders as a record, and kills the driver if it does not obey. Orders are never withdrawn:
        a driver that reads late must not miss one. A run is replaced once the mirror's pointer has moved from this run
        folder to another; while the pointer has never been here, this run is the newcomer itself."""
        is_current = self._folder.place.is_current()
        self._was_current = self._was_current or is_current
        orders = driver_records.orders_in(self._records.value(self._run, "orders"))
        wanted = replace(
            self._orders,
            stop=self._orders.stop or orders.stop or self._folder.stop_asked() or self._asked(),
            replaced=self._orders.replaced or (self._was_current and not is_current),
            predecessor_left=self._orders.predecessor_left
            or (report is not None and report.taken and self._folder.place.predecessor_left()),
        )
        self._orders = wanted
        value = driver_records.ORDERS.dumps(wanted)
        if value != self._written and not self._records.write(self._run, "orders", value):
            self._written = value
        if wanted.stop or wanted.replaced:
            now = self._clock()
            self._stopping_since = self._stopping_since or now
            # Before its first report a driver reads no orders, so Spark has to end the submission. Later the driver
            # gets time to commit. A kill loses no record: the next lane copies uncommitted ones again.
            if report is None and self._submitted is not None:
                self._kill("its driver has not begun, so it is killed", report)
            elif now - self._stopping_since > KILL_AFTER_S:
                self._kill(f"its driver did not leave in {KILL_AFTER_S:.0f} s and is killed: no record is lost", report)

    def _kill(self, why: str, report: driver_records.DriverReport | None) -> None:
        if not self._killed:
            self._killed = True
            self._say(f"run {self._run}: {why}")
            reported = report.application_id if report is not None else ""
            submitted = self._submitted.application_id if self._submitted is not None else ""
            self._cluster.kill(self._run, reported or submitted)

    def _death(self, report: driver_records.DriverReport | None) -> str | None:
        """Why the driver counts as dead; None while it may live. Kills a silent one, which may only be cut off."""
        code = self._submitted.ended() if self._submitted is not None else None
        watched = self._submitted is not None and code is None
        if report is None:
            if watched:
                return None  # it waits for a place from Spark, or is starting
            return self._submitted.why() if self._submitted is not None else "its report is gone"
        silent = self._records.silent_s(self._run, "report")
        if silent <= (ALIVE_S if code else SILENT_S):
            return None
        if self._submitted is not None and code:
            why = self._submitted.why()
        else:
            why = "it is dead or cut off"
            self._kill("its driver is silent, so what is left of it is killed", report)
        return f"{report.application_id} on {report.host} has said nothing for {silent:.0f} s: {why}"


def _may_live(report: driver_records.DriverReport, digest: str) -> bool:
    return report.exit_code is None and not report.left and report.definition == digest


# spark-submit in deploy mode cluster: its process, the meaning of its output, and killing an application.
#
# The process lives as long as Spark's client watches the application; its end does not end the application.

KILL_S = 20.0
"""Seconds that a kill command may take."""
_YARN_ID = re.compile(r"\b(application_[0-9]+_[0-9]+)\b")
_EXIT_STATUS = re.compile(r"exited with (?:status |exitCode: )?([0-9]+)")
_EXCEPTION = re.compile(r"Exception in thread \"main\" [\w.$]+: (.+)")
_LONGEST_REASON = 400
_DRIVER_POD = "spark.kubernetes.driver.pod.name"
_LONGEST_POD = 63
"""Most characters of a name in Kubernetes (RFC 1123 label)."""


def setting(words: Sequence[str], name: str, default: str = "") -> str:
    """The value of ``--conf NAME=VALUE``; the last one counts, as in Spark."""
    values = [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
    return values[-1] if values else default


def option(words: Sequence[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words[:-1] else ""


class Submission:
    """One run of ``words``, a spark-submit command line that ends with the job's own arguments. ``run``: name of the
    started driver. Passes the output on."""

    def __init__(self, words: Sequence[str], run: str, address: str, say: Say) -> None:
        """Starts spark-submit with a pipe for both outputs. A separate thread empties the pipe: spark-submit may run as
        long as the application, and a full pipe would block it."""
        self._say = say
        self.application_id = ""
        self._status: int | None = None
        self._exception = ""
        self._process = subprocess.Popen(
            [*with_run(words, run), "--run", address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert self._process.stdout is not None
        self._reading = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reading.start()

    def ended(self) -> int | None:
        """The exit code, once all output has been passed on; None while the process runs."""
        code = self._process.poll()
        if code is not None:
            self._reading.join(5.0)
        return code

    def why(self) -> str:
        """The reason why an application ended without a report of its driver, as far as known."""
        logs = f"; its own log says it: yarn logs -applicationId {self.application_id}" if self.application_id else ""
        if self._status == NO_DEFINITION:
            return (
                "the driver could not read its definition from the status topic: the brokers or the secrets of the "
                f"status cluster are not within reach of the machine that Spark chose{logs}"
            )
        if self._exception and not self.application_id:
            return f"spark-submit could not submit it: {self._exception}"
        status = "" if self._status is None else f" with exit code {self._status}"
        lacks = ". It may lack a package, or Python (mirrors.NAME.python)" if self._status == 1 else ""
        return f"the application ended{status} before its driver said why{lacks}{logs}"

    def _read(self, output: IO[str]) -> None:
        """Passes each line on, and keeps facts that only Spark's log has: YARN's application id, the first exception
        (later ones follow from it), and the driver's exit status. ValueError: the pipe was closed meanwhile."""
        with contextlib.suppress(ValueError):
            for line in output:
                self._say(line.rstrip("\n"))
                if not self.application_id and (named := _YARN_ID.search(line)):
                    self.application_id = named.group(1)
                if (failed := _EXCEPTION.match(line)) and not self._exception:
                    self._exception = failed.group(1)[:_LONGEST_REASON]
                if status := _EXIT_STATUS.search(line):
                    self._status = int(status.group(1))


def pod_of(words: Sequence[str], run: str) -> str:
    """The name of the driver's pod on Kubernetes, for killing it."""
    name = re.sub(r"[^a-z0-9-]", "-", option(words, "--name").lower()).strip("-")
    return f"{name[: _LONGEST_POD - len(run) - 8]}-{run}-driver"


def with_run(words: Sequence[str], run: str) -> list[str]:
    """``words`` with settings that name this run, unless the user has set them."""
    master = option(words, "--master")
    own = {}
    if master.startswith("k8s://"):
        own = {_DRIVER_POD: pod_of(words, run)}
    if master == "yarn":
        own = {"spark.yarn.tags": f"mirror-run-{run}"}
    added = [part for key, value in own.items() if not setting(words, key) for part in ("--conf", f"{key}={value}")]
    return [words[0], *added, *words[1:]]


def kill_command(words: Sequence[str], run: str, application_id: str) -> list[str]:
    """The command that kills an application; empty if YARN has not accepted it yet, so that it has no id."""
    master = option(words, "--master")
    if master.startswith("k8s://"):
        pod = setting(words, _DRIVER_POD) or pod_of(words, run)
        namespace = setting(words, "spark.kubernetes.namespace", "default")
        of_kubernetes = [word for word in words if word.startswith("spark.kubernetes.") and "=" in word]
        conf = [part for word in of_kubernetes for part in ("--conf", word)]
        return [words[0], "--master", master, *conf, "--kill", f"{namespace}:{pod}"]
    if not application_id:
        return []
    client = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
    return [str(Path(words[0]).parent / "spark-class"), client, "application", "-kill", application_id]


def kill(words: Sequence[str], run: str, application_id: str, say: Say) -> None:
    """Has the resource manager end the application: ``yarn application -kill``, or spark-submit's own ``--kill``. Never
    raises: without its definition record the driver ends by itself, only later."""
    command = kill_command(words, run, application_id)
    if not command:
        say("the application has no id yet, so it cannot be killed; without its definition it ends by itself")
        return
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=KILL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"the application could not be killed: {error}; once it is superseded it ends by itself")
        return
    lines = (done.stdout + done.stderr).strip().splitlines()
    say(f"killed: {lines[-1] if lines else f'exit code {done.returncode}'}")
