"""Shared parts of the scripts: Spark settings, arguments for scripts that a command waits for, and error texts."""

import argparse
import itertools
import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.replication.runs.run_folders import alive

POLL_S = 1.0
# Several applications run on one machine, and each looks for free ports up from the same defaults. Spark's log and
# progress bars would hide what the job itself writes.
QUIET = {"spark.port.maxRetries": "100", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
_SOCKETS, _SOCKET_FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"


def sockets(master: str, folder: str) -> Mapping[str, str]:
    """Unix sockets between JVM and Python halve the cost of a task. On other machines their paths may be too long for
    the kernel, unless a ``folder`` is set for them."""
    return {_SOCKETS: "true"} if folder or master.startswith("local") else {}


def with_defaults(own: Mapping[str, str], defaults: Mapping[str, str]) -> Any:
    """A SparkConf with the submitted settings; ``own`` override them, ``defaults`` do not."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError

    try:
        SparkContext._ensure_initialized()  # a SparkConf gets the submitted settings from its JVM
    except PySparkRuntimeError as error:
        sys.exit(f"Spark's JVM has ended: {error}")  # the log has the reason just before
    conf = SparkConf()
    if python := conf.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python  # for the executors, as spark-submit does it
    for key, value in own.items():
        conf.set(key, value)
    chosen = sockets(conf.get("spark.master", "local") or "", conf.get(_SOCKET_FOLDER, "") or "")
    for key, value in {**QUIET, **defaults, **chosen}.items():
        conf.setIfMissing(key, value)
    return conf


def waited_for(name: str, description: str, request: str, arguments: list[str]) -> argparse.Namespace:
    """Arguments of a script that a command waits for: ``handover``, ``request``, ``run_dir``. ``request``: its help.

    A command that is killed with SIGKILL cannot end its application. So this process watches the command and ends
    after it, together with the JVM that it has started."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument("--handover", type=Path, required=True, help="file the reconciler wrote for the mirror")
    parser.add_argument("--request", type=Path, required=True, help=request)
    parser.add_argument("--run-dir", type=Path, required=True, help="gets result.json")
    parser.add_argument("--caller", type=int, help="pid of the command that waits for the answer")
    parser.add_argument("options", nargs="*", help="of spark-submit, behind --")
    given = parser.parse_args(arguments)
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*given.options, "pyspark-shell"])
    if given.caller is not None:
        watch = threading.Thread(target=_end_with, args=(given.caller, given.run_dir), name="caller", daemon=True)
        watch.start()
    return given


def _end_with(pid: int, run_dir: Path) -> None:
    """Ends this process once the command ``pid`` is gone, and removes its run folder, which nothing else would."""
    while alive(pid):
        time.sleep(POLL_S)
    shutil.rmtree(run_dir, ignore_errors=True)
    os._exit(1)  # sys.exit would end only this thread, and Spark's threads would keep the process


def before_frames(error: Exception) -> list[str]:
    """The lines of a Java exception's message up to the first frame of its stack."""
    lines = map(str.strip, str(error).splitlines())
    return list(itertools.takewhile(lambda line: not line.startswith("at "), lines))


def in_words(error: Exception) -> str:
    """The error of a Python worker or the JVM without frames: of a traceback the last line, which has the cause."""
    lines = [line for line in before_frames(error) if line and not line.startswith(("SQLSTATE", "Driver stacktrace"))]
    causes = [line for line in lines if "Cannot run program" in line or "Error" in line or "Exception" in line]
    return (causes or lines or [type(error).__name__])[-1].removeprefix(": ")


def failed(problem: str, code: int = 1) -> int:
    sys.stderr.write(f"{problem}\n")
    return code
