"""The ZooKeeper of a cluster whose brokers keep their metadata there (Kafka before 4, outside KRaft)."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import TYPE_CHECKING

from reconciler_sandbox.brokers import processes
from reconciler_sandbox.brokers import start_stop as control
from reconciler_sandbox.brokers.ports import answers
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.install import prerequisites
from reconciler_sandbox.profiles import HOST, QUICK_START
from reconciler_sandbox.releases import Release

if TYPE_CHECKING:
    from reconciler_sandbox.handles import ClusterHandle

_NODE = "zookeeper"
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_SHELL = "org.apache.zookeeper.ZooKeeperMain"
_TICK_MS = 1000  # the shortest session is two of them
_TRIES = 10


def start(release: Release, cluster: ClusterHandle) -> None:
    """Starts it unless it runs, and writes the cluster's id, so that brokers do not choose one. Raises SandboxError."""
    node, folder = f"{cluster.name}/{_NODE}", cluster.folder / _NODE
    if control.running_nodes(cluster.home, node):
        return
    folder.mkdir(parents=True, exist_ok=True)
    port = cluster.brokers[0].controller_port
    config = folder / "zookeeper.properties"
    config.write_text(
        f"tickTime={_TICK_MS}\ndataDir={folder / 'data'}\nclientPort={port}\nclientPortAddress={HOST}\n"
        "maxClientCnxns=0\nadmin.enableServer=false\n"
    )
    jvm = [prerequisites.java(), "-Xmx128m", *QUICK_START, "-cp", f"{release.jars}{os.sep}*"]
    marks = processes.marks(cluster.home, node)
    logging = control.logging_flag(folder, release)
    processes.start([*jvm, *marks, logging, _MAIN, str(config)], folder / "zookeeper.log")
    deadline = time.monotonic() + control.START_SECONDS
    while not answers(port):
        if time.monotonic() > deadline or not control.running_nodes(cluster.home, node):
            why = "The brokers keep their metadata there."
            raise SandboxError(f"ZooKeeper of {cluster.name} did not start", why, f"Read its log: {folder}")
        time.sleep(0.1)
    written = folder / "cluster.id"
    if not written.exists():
        _write_id([*jvm, logging, _SHELL, "-server", f"{HOST}:{port}"], cluster.cluster_id)
        written.write_text(cluster.cluster_id)


def _write_id(shell: list[str], cluster_id: str) -> None:
    document = json.dumps({"version": "1", "id": cluster_id}, separators=(",", ":"))
    words = f"create /cluster ''\ncreate /cluster/id '{document}'\n"
    said = ""
    for _ in range(_TRIES):  # on a busy machine the shell gives its first command up before it is connected
        done = subprocess.run(shell, input=words, capture_output=True, text=True, check=False, timeout=120)
        said = done.stdout + done.stderr
        if "Created /cluster/id" in said:
            return
    end = "\n".join(said.strip().splitlines()[-5:])
    raise SandboxError("the cluster's id could not be written to ZooKeeper", end, "See the lines above.")
