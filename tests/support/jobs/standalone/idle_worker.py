"""A Spark application whose worker sees the end of the JVM before its daemon can kill it: ``idle_worker HEARD FILE``.

The worker writes its standard error to FILE, within ``stderr_while_at_work`` if HEARD is ``within``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial


def main(heard: str, file: str) -> None:
    from pyspark import SparkConf, SparkContext

    wanted = {"spark.python.unix.domain.socket.enabled": "true", "spark.ui.enabled": "false"}
    context = SparkContext(conf=SparkConf().setMaster("local[1]").setAll(list(wanted.items())))
    workers = {context.parallelize([1], 1).mapPartitions(partial(task, heard, file)).collect()[0] for _ in range(2)}
    ((worker, daemon),) = workers
    os.kill(daemon, signal.SIGSTOP)
    try:
        context.stop()
        until = time.monotonic() + 20
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < until:
                os.kill(worker, 0)
                time.sleep(0.05)
    finally:
        os.kill(daemon, signal.SIGCONT)


def task(heard: str, file: str, rows: Iterable[int]) -> Iterator[tuple[int, int]]:
    from reconciler_mirror.leases import worker_stderr as worker_words

    if worker_words._held is None:
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    with worker_words.stderr_while_at_work() if heard == "within" else contextlib.nullcontext():
        sys.stderr.write("at work\n")
        sys.stderr.flush()
        yield from ((os.getpid(), os.getppid()) for _ in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
