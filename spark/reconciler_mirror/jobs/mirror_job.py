"""Entry script of the mirror job for spark-submit: ``mirror_job.py --handover FILE --run-dir DIR``.

Exit codes: 0 stopped on request (SIGTERM, SIGINT or a file ``stop`` in the run directory), 3 superseded by another
application, 1 failed, with one paragraph on standard error.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import socket
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

from reconciler.replication.handover import HandoverError, MirrorSettings
from reconciler.replication.handover_reader import parse
from reconciler.replication.run_folders import place_of
from reconciler_mirror import log_lines as logs
from reconciler_mirror.driver.driver import Driver, DriverOutcome, Exit
from reconciler_mirror.driver.until_caught_up import goal_of
from reconciler_mirror.jobs.spark_settings import with_defaults
from reconciler_mirror.report.status import Application, now_ms


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="mirror_job.py", description="Copies records between Kafka clusters.")
    parser.add_argument("--handover", type=Path, required=True, help="file the reconciler wrote")
    parser.add_argument(
        "--run-dir", type=Path, required=True, help="gets driver.json; a file `stop` in it ends the job"
    )
    given = parser.parse_args(arguments)
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    try:
        settings = parse(given.handover.read_text(encoding="utf-8"))
        for flow in settings.flows:
            flow.selector()
        given.run_dir.mkdir(parents=True, exist_ok=True)
    except (HandoverError, OSError) as error:
        return _failed(str(error))
    logs.configure(environment=settings.environment, mirror=settings.mirror)
    try:
        started = now_ms()
        context = _context(settings)
    except Exception as error:  # noqa: BLE001  # Py4J hands on whatever the JVM throws
        return _failed(f"Spark did not start: {_in_words(error)}")
    try:
        outcome = _run(context, settings, given.run_dir, started, asked)
    except HandoverError as error:
        return _failed(str(error))
    logs.logger("driver").info("ended", state=outcome.state, detail=outcome.detail)
    if outcome.code is Exit.FAILED:
        return _failed(outcome.detail)
    return int(outcome.code)


def _run(context: Any, settings: MirrorSettings, run_dir: Path, started: int, asked: threading.Event) -> DriverOutcome:
    for number in (signal.SIGTERM, signal.SIGINT):  # Spark has put its own SIGINT handler
        signal.signal(number, lambda *_: asked.set())
    try:
        if (path := context.getConf().get("spark.mirror.path", "batch")) != "batch":
            logs.logger("driver").warning("spark.mirror.path has no effect: there is one way of copying", value=path)
        who = Application(context.applicationId, started, socket.gethostname(), os.getpid())
        _write_driver_file(run_dir, who)
        local = context.master.startswith("local")
        host = "127.0.0.1" if local else context.getConf().get("spark.driver.host")
        driver = Driver(context, settings, who, host, place_of(run_dir), goal_of(run_dir))
        stop = run_dir / "stop"
        return driver.run(lambda: asked.is_set() or stop.exists(), partial(_write_driver_file, run_dir, who))
    finally:
        context.stop()


def _context(settings: MirrorSettings) -> Any:
    """No SparkSession: leases are plain jobs, and Spark SQL would only make the start longer."""
    from pyspark import SparkContext

    own = {
        "spark.app.name": f"mirror {settings.environment}/{settings.mirror}",
        "spark.scheduler.mode": "FAIR",
        "spark.speculation": "false",  # a copy of a task would fence the task
    }
    return SparkContext.getOrCreate(with_defaults(own, {}))


def _write_driver_file(run_dir: Path, who: Application, phase: str = "") -> None:
    content = {
        "pid": who.pid,
        "host": who.host,
        "application_id": who.application_id,
        "started_at_ms": who.started_at_ms,
        "phase": phase,
    }
    draft = run_dir / "driver.json.new"
    draft.write_text(json.dumps(content), encoding="utf-8")
    draft.replace(run_dir / "driver.json")


def _in_words(error: Exception) -> str:
    """The message of a Java exception without its stack: the lines between the call and the first frame."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = list(itertools.takewhile(lambda line: not line.startswith("at "), lines[1:] or lines))
    return " ".join(said).removeprefix(": ") or type(error).__name__


def _failed(text: str) -> int:
    sys.stderr.write(f"The mirror job cannot run: {text}\n")
    return int(Exit.FAILED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
