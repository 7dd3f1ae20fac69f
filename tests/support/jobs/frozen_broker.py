"""A broker whose connections stay open while nothing answers, as behind a dead link."""

from __future__ import annotations

import signal

from reconciler_sandbox.brokers import processes
from reconciler_sandbox.brokers.start_stop import running_nodes
from reconciler_sandbox.handles import ClusterHandle


def freeze(cluster: ClusterHandle, node_id: int = 1) -> None:
    """``thaw`` ends it."""
    processes.send(running_nodes(cluster.home, f"{cluster.name}/{node_id}"), signal.SIGSTOP)


def thaw(cluster: ClusterHandle, node_id: int = 1) -> None:
    processes.send(running_nodes(cluster.home, f"{cluster.name}/{node_id}"), signal.SIGCONT)
