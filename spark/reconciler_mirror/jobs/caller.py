"""Ends a job in the foreground whose command is gone: killed with -9, it cannot take its application along."""

import os
import shutil
import threading
import time
from pathlib import Path

from reconciler.replication.runs.run_folders import alive

LOOK_S = 1.0


def leave_with(pid: int, run_dir: Path) -> None:
    """From now on, once no process ``pid`` is left on this machine, ``run_dir`` is removed and this process ends with
    1, which ends its Spark application."""
    threading.Thread(target=_watch, args=(pid, run_dir), name="caller", daemon=True).start()


def _watch(pid: int, run_dir: Path) -> None:
    while alive(pid):
        time.sleep(LOOK_S)
    shutil.rmtree(run_dir, ignore_errors=True)
    os._exit(1)  # not sys.exit: this is a thread, and Spark's own threads would keep the process
