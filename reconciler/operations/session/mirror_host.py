"""``mirror host``: reads its environments and its configuration, and serves until a signal."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

from reconciler.backends.mirror_jobs.host.accept import read_accepted
from reconciler.backends.mirror_jobs.host.serve import HostedEnvironment, serve
from reconciler.backends.mirror_jobs.runner.command_line import require_java, spark_submit
from reconciler.backends.mirror_jobs.runner.run_folder import required, state_folder
from reconciler.backends.state.lock.file_lock import environment_lock
from reconciler.operations.apply.execution import ended_by_signals
from reconciler.operations.session.session import read_topology
from reconciler.render.console import say
from reconciler.replication.allowed import allowed, permit_policies

RUNS = ".host"
"""Beside the run folders of jobs that ``apply`` on the same machine keeps."""


def host(folders: list[Path], accept: Path) -> None:
    """Returns after SIGTERM, SIGINT or SIGHUP. Raises ReconcilerError for what keeps it from serving at all."""
    accepted = read_accepted(accept)
    require_java()
    spark_submit()
    permit_policies(allowed(os.environ))
    stopping = threading.Event()
    with ExitStack() as stack:
        environments = []
        for folder in folders:
            state = required(state_folder(folder) / RUNS)
            stack.enter_context(environment_lock(state, "mirror host"))
            environments.append(HostedEnvironment(read_topology(folder), state))
        stack.enter_context(ended_by_signals(lambda *_: stopping.set(), signal.SIGINT))
        # Refusals repeat text from __mirror_control.
        serve(environments, accepted, stopping, say)
