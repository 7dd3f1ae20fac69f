"""Ends a job in the foreground whose command is gone: killed with -9, it cannot take its application along."""

import os
import shutil
import threading
import time
from pathlib import Path

LOOK_S = 1.0


def leave_with(pid: int, run_dir: Path) -> None:
    """From now on, once no process ``pid`` is left on this machine, ``run_dir`` is removed and this process ends with
    1, which ends its Spark application."""
    threading.Thread(target=_watch, args=(pid, run_dir), name="caller", daemon=True).start()


def _watch(pid: int, run_dir: Path) -> None:
    while is_there(pid):
        time.sleep(LOOK_S)
    shutil.rmtree(run_dir, ignore_errors=True)
    os._exit(1)  # not sys.exit: this is a thread, and Spark's own threads would keep the process


def is_there(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return True
