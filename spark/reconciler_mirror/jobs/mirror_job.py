"""Entry script of the mirror job for spark-submit: ``mirror_job.py --handover FILE --run-dir DIR``; in deploy mode
cluster ``mirror_job.py --run WORD``.

Exit codes: 0 stopped on request (SIGTERM, SIGINT or a file ``stop`` in the run directory); 3 superseded by another
application, in deploy mode cluster 0, too; 1 failed; 20 no definition found (deploy mode cluster). Failures come with
one paragraph on standard error.
"""

import argparse
import os
import signal
import socket
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from reconciler.replication.handover import HandoverError, MirrorSettings
from reconciler.replication.handover_reader import parse
from reconciler.replication.kept_files import read_kept, write_json
from reconciler.replication.runs.driver_records import loads_address
from reconciler.replication.runs.run_folders import GOAL, HANDOVER, place_of, written
from reconciler_mirror import log_lines as logs
from reconciler_mirror.cluster_mode.record_run import RecordRun, RunTopic
from reconciler_mirror.driver.driver import Driver, DriverOutcome, DriverPlace, Exit
from reconciler_mirror.driver.until_caught_up import Goal, goal_of
from reconciler_mirror.jobs.application import before_frames, failed, with_defaults
from reconciler_mirror.report.status import Application, now_ms


class JobRun(Protocol):
    """One run of the application: from its hand-over to its exit code."""

    @property
    def run(self) -> str:
        """The name of the run in deploy mode cluster; otherwise empty."""
        ...

    def handover(self) -> str:
        """The text of the hand-over. Raises HandoverError or OSError."""
        ...

    def place(self) -> DriverPlace: ...
    def goal(self) -> Goal | None: ...
    def stop_asked(self) -> bool: ...

    def announce(self, who: Application, phase: str) -> None:
        """Reports the application, and its progress before the first status record."""
        ...

    def ended(self, outcome: DriverOutcome, *, signalled: bool) -> int:
        """Reports the end; returns the exit code of the process. ``signalled``: a signal asked the process to end."""
        ...


class FolderRun:
    """A run in deploy mode client, or a manual one: ``folder`` gets driver.json; a file ``stop`` in it ends the job."""

    run = ""

    def __init__(self, handover: Path, folder: Path) -> None:
        self._handover, self._folder = handover, folder

    def handover(self) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._handover != self._folder / HANDOVER:  # started manually
            return read_kept(self._handover)
        return written(self._folder, HANDOVER) or ""

    def place(self) -> DriverPlace:
        return place_of(self._folder)

    def goal(self) -> Goal | None:
        return goal_of(written(self._folder, GOAL))

    def stop_asked(self) -> bool:
        return (self._folder / "stop").exists()

    def announce(self, who: Application, phase: str) -> None:
        """Replaces the file at each phase, in one step, so that a reader never finds half of it."""
        content = {
            "pid": who.pid,
            "host": who.host,
            "application_id": who.application_id,
            "started_at_ms": who.started_at_ms,
            "phase": phase,
        }
        write_json(self._folder / "driver.json", content)

    def ended(self, outcome: DriverOutcome, *, signalled: bool) -> int:  # noqa: ARG002  # here a signal requests a stop
        return int(outcome.code)


def main(arguments: list[str]) -> int:
    """Returns the exit code, by which the supervisor decides on a restart (``Exit``). Signals only set a flag: an
    exception in a handler would interrupt a commit. The selectors of all flows are made before Spark starts, so that a
    naming policy that cannot be loaded costs seconds and no cluster resources."""
    parser = argparse.ArgumentParser(prog="mirror_job.py", description="Copies records between Kafka clusters.")
    parser.add_argument("--handover", type=Path, help="file the reconciler wrote")
    parser.add_argument("--run-dir", type=Path, help="gets driver.json; a file `stop` in it ends the job")
    parser.add_argument("--run", help="deploy mode cluster: where the records of this run are")
    given = parser.parse_args(arguments)
    if not given.run and not (given.handover and given.run_dir):
        parser.error("--handover and --run-dir are needed, or --run")

    # Handlers come first, because a signal during the reading of the hand-over must end the job, too.
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    try:
        if given.run:
            address = loads_address(given.run)
            run: JobRun = RecordRun(address, RunTopic(address.status).start())
        else:
            run = FolderRun(given.handover, given.run_dir)
    except HandoverError as error:
        return _failed(str(error))
    try:
        settings = parse(run.handover())
        for flow in settings.flows:
            flow.selector()
    except (HandoverError, OSError) as error:
        code = run.ended(DriverOutcome("failed", Exit.FAILED, str(error)), signalled=False)
        return _failed(str(error), code)
    logs.configure(environment=settings.environment, mirror=settings.mirror)
    outcome = _outcome(run, settings, asked)
    logs.logger("driver").info("ended", state=outcome.state, detail=outcome.detail)
    code = run.ended(outcome, signalled=asked.is_set())
    return _failed(outcome.detail, code) if outcome.code is Exit.FAILED else code


def _outcome(run: JobRun, settings: MirrorSettings, asked: threading.Event) -> DriverOutcome:
    """Starts Spark and runs the driver. A failure to start is one sentence: Py4J's text is pages of Java frames."""
    try:
        started = now_ms()
        context = _context(settings)
    except Exception as error:  # noqa: BLE001  # Py4J raises anything that the JVM throws
        # The message of a Java exception without its stack: the lines between the call and the first frame.
        lines = before_frames(error)
        why = " ".join(lines[1:] or lines).removeprefix(": ") or type(error).__name__
        return DriverOutcome("failed", Exit.FAILED, f"Spark did not start: {why}")
    try:
        return _run(context, settings, run, started, asked)
    except HandoverError as error:
        return DriverOutcome("failed", Exit.FAILED, str(error))


def _run(context: Any, settings: MirrorSettings, run: JobRun, started: int, asked: threading.Event) -> DriverOutcome:
    """Runs the driver on a context, and stops that whatever happens: an application that stays would keep its cores.
    ``started``: ms since 1970."""
    for number in (signal.SIGTERM, signal.SIGINT):  # again, because Spark has set its own SIGINT handler
        signal.signal(number, lambda *_: asked.set())
    try:
        if (path := context.getConf().get("spark.mirror.path", "batch")) != "batch":
            logs.logger("driver").warning("spark.mirror.path has no effect: there is one way of copying", value=path)
        who = Application(context.applicationId, started, socket.gethostname(), os.getpid(), run.run)
        run.announce(who, "")
        # Tasks of a local master run on this machine, where no other one needs to reach the control channel.
        local = context.master.startswith("local")
        host = "127.0.0.1" if local else context.getConf().get("spark.driver.host")
        driver = Driver(context, settings, who, host, run.place(), run.goal())
        return driver.run(lambda: asked.is_set() or run.stop_asked(), partial(run.announce, who))
    finally:
        context.stop()


def _context(settings: MirrorSettings) -> Any:
    """A SparkContext without a SparkSession: leases are plain jobs, and Spark SQL would only delay the start."""
    from pyspark import SparkContext

    own = {
        "spark.app.name": f"mirror {settings.environment}/{settings.mirror}",
        "spark.scheduler.mode": "FAIR",
        "spark.speculation": "false",  # a speculative copy of a task would fence the task
    }
    return SparkContext.getOrCreate(with_defaults(own, {}))


def _failed(text: str, code: int = int(Exit.FAILED)) -> int:
    return failed(f"The mirror job cannot run: {text}", code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
