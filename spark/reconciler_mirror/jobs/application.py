"""What the scripts share: Spark settings, arguments of those that a command waits for, and words of errors."""

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
QUIET = {"spark.port.maxRetries": "100", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
_SOCKETS, _SOCKET_FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"


def sockets(master: str, folder: str) -> Mapping[str, str]:
    """Unix sockets between JVM and Python halve the cost of a task. Elsewhere than here their paths may be too long
    for the kernel, unless a ``folder`` is named for them."""
    return {_SOCKETS: "true"} if folder or master.startswith("local") else {}


def with_defaults(own: Mapping[str, str], defaults: Mapping[str, str]) -> Any:
    """A SparkConf of what was submitted: ``own`` win over that, ``defaults`` yield to it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError

    try:
        SparkContext._ensure_initialized()  # without its JVM a SparkConf knows nothing of what was submitted
    except PySparkRuntimeError as error:
        sys.exit(f"Spark's JVM has ended: {error}")  # why is above it in the log
    conf = SparkConf()
    if python := conf.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python  # of the executors; spark-submit hands it on in the same way
    for key, value in own.items():
        conf.set(key, value)
    chosen = sockets(conf.get("spark.master", "local") or "", conf.get(_SOCKET_FOLDER, "") or "")
    for key, value in {**QUIET, **defaults, **chosen}.items():
        conf.setIfMissing(key, value)
    return conf


def waited_for(name: str, description: str, request: str, arguments: list[str]) -> argparse.Namespace:
    """Arguments of a script that a command waits for: ``handover``, ``request``, ``run_dir``. ``request``: its help.

    Once that command is gone, killed with -9, it cannot take its application along: then this process ends, and with it
    the JVM that it has started."""
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
    while alive(pid):
        time.sleep(POLL_S)
    shutil.rmtree(run_dir, ignore_errors=True)
    os._exit(1)  # not sys.exit: this is a thread, and Spark's own threads would keep the process


def before_frames(error: Exception) -> list[str]:
    """The lines of a Java exception's message up to the first frame of its stack."""
    lines = map(str.strip, str(error).splitlines())
    return list(itertools.takewhile(lambda line: not line.startswith("at "), lines))


def failed(problem: str, code: int = 1) -> int:
    sys.stderr.write(f"{problem}\n")
    return code
