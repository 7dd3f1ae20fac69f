"""The loop of ``reconciler mirror host`` over all mirrors in the control topics of its environments."""

import os
import socket
import threading
import time
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from reconciler.backends.mirror_jobs.host.accept import AllowList, is_mirror_name
from reconciler.backends.mirror_jobs.host.control_topic import ControlStore, ControlTopic
from reconciler.backends.mirror_jobs.host.jobs import SparkJobs
from reconciler.backends.mirror_jobs.host.keeper import HostProcess, Keeper
from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Cluster, Principal, Topology
from reconciler.model.state.mirror_control import PRESENCE, HostPresence
from reconciler.replication.names import desired_key, presence_key
from reconciler.text import BRIEF, first_of

STEP_S = 1.0
TAKEN_S = 20.0
"""Seconds that an ending host waits for another host to take a mirror."""
REPLACED_S = 90.0
"""Seconds that it then waits for the new application to take over from its own."""
ENDED_S = 75.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class HostedEnvironment:
    """``state``: the folder for this host's run folders."""

    topology: Topology
    state: Path


def this_host() -> HostProcess:
    return HostProcess(uuid.uuid4().hex, socket.gethostname(), os.getpid(), version("kafka-topology-reconciler"))


class ClusterHost:
    """Mirrors of one environment with records on one cluster."""

    def __init__(
        self, host: HostProcess, environment: HostedEnvironment, cluster: Cluster, accepted: AllowList, say: Say
    ) -> None:
        self._host, self._environment, self._accepted = host, environment.topology.environment, accepted
        self._cluster, self._state, self._say = cluster, environment.state, say
        self.control: ControlStore = ControlTopic(cluster, self._environment, Principal.MIRROR)
        self._status = StatusRecords(cluster, self._environment, Principal.MIRROR)
        self._trouble = ""
        place = zlib.crc32(str(environment.state).encode())
        self._presence_key = presence_key(self._environment, f"{host.machine}-{place:08x}")
        """Unchanged by a restart, so that killed hosts do not leave many records."""
        self._present: bytes | None = None
        self.keepers: dict[str, Keeper] = {}
        self.jobs: dict[str, SparkJobs] = {}

    def step(self) -> None:
        """One turn. Raises no ReconcilerError: failures are reported and retried, while applications keep running."""
        name, environment = self._cluster.name, self._environment
        try:
            entries = self.control.read()
            if self.control.missing:
                self._say_once(f"{name}: waiting for its topic {self._cluster.own_topics.control}, which apply makes")
                return

            # The presence record lets ``apply`` name the hosts that it asked. It is written again if it was deleted.
            key, host = self._presence_key, self._host
            if self._present is None or key not in entries:
                since = _wall_ms()
                presence = HostPresence(
                    environment, host.id, host.machine, host.pid, host.version, since, self._accepted.words
                )
                value = PRESENCE.dumps(presence)
                if self.control.swap(key, entries.get(key), value):
                    self._present = value
                    self._say_once(f"{name}: waiting for desired records of environment {environment}")

            # The name becomes part of a path, so an invalid one could lead out of the state folder.
            prefix = desired_key(environment, "")
            named = {key.removeprefix(prefix) for key in entries if key.startswith(prefix)}
            strange = sorted(mirror for mirror in named if not is_mirror_name(mirror))
            if strange:
                self._say_once(
                    f"{name}: left alone, since no mirror can have such a name:"
                    f" {first_of([repr(mirror[:100]) for mirror in strange], BRIEF)}. A writer other than apply put"
                    f" that into {self._cluster.own_topics.control}: check which principals may write there"
                )
            else:
                self._trouble = ""
            for mirror in sorted({*self.keepers, *named.difference(strange)}):
                self._keeper(mirror).step(entries)
        except ReconcilerError as error:
            self._say_once(f"{name}: {error.what}")

    def _say_once(self, words: str) -> None:
        """Reports words only if they differ from the last ones."""
        if words != self._trouble:
            self._say(words)
        self._trouble = words

    def release(self) -> None:
        """Releases leases and presence, so that another host takes over at once and not only after the lease expires.
        Never raises: leases also end by themselves."""
        try:
            for keeper in self.keepers.values():
                keeper.leave()
            key = self._presence_key
            if self._present is not None:
                self.control.swap(key, self._present, None)
        except ReconcilerError as error:
            self._say_once(
                f"{self._cluster.name}: leases could not be given back, so they end by themselves: {error.what}"
            )

    def close(self) -> None:
        self.control.close()
        self._status.close()

    def _keeper(self, mirror: str) -> Keeper:
        """The keeper of a mirror. It is never discarded, because it remembers begun generations and retries."""
        keeper = self.keepers.get(mirror)
        if keeper is None:
            self.jobs[mirror] = jobs = SparkJobs(self._state, mirror, lambda name: self._status.read(name, _wall_ms()))
            keeper = self.keepers[mirror] = Keeper(
                self._host,
                self._environment,
                mirror,
                self._accepted,
                self.control,
                jobs,
                time.monotonic,
                _wall_ms,
                self._say,
            )
        return keeper


def serve(environments: list[HostedEnvironment], accepted: AllowList, stopping: threading.Event, say: Say) -> None:
    """Serves until ``stopping``; then hands mirrors over, or stops those that no other host takes."""
    host = this_host()
    served = [
        ClusterHost(host, environment, cluster, accepted, say)
        for environment in environments
        for cluster in environment.topology.clusters.values()
    ]
    try:
        while not stopping.is_set():
            for cluster_host in served:
                cluster_host.step()
            stopping.wait(STEP_S)
        say("leaving: each mirror goes to another host, or is stopped")
        for cluster_host in served:
            cluster_host.release()
        _hand_over(served, say)
    finally:
        for cluster_host in served:
            cluster_host.close()


def _hand_over(served: list[ClusterHost], say: Say) -> None:
    """Hands mirrors over to other hosts; each application copies until the new one takes over."""
    running = [
        (cluster_host, mirror)
        for cluster_host in served
        for mirror, jobs in cluster_host.jobs.items()
        if jobs.look().alive
    ]
    began = time.monotonic()
    asked: set[str] = set()
    while running and time.monotonic() - began < TAKEN_S + REPLACED_S + ENDED_S:
        # First another host must take the lease, then its application gets time to take over. Mirrors that no host
        # takes are stopped: left running, nothing would restart them after a crash.
        waited = time.monotonic() - began
        for cluster_host, mirror in running:
            taken = cluster_host.keepers[mirror].taken_by_other(cluster_host.control)
            patience = TAKEN_S + REPLACED_S if taken else TAKEN_S
            if waited > patience and mirror not in asked:
                if cluster_host.jobs[mirror].leave_running():
                    say(f"mirror {mirror}: its driver copies on in the cluster; the next host follows it")
                    continue
                say(f"mirror {mirror}: {'the new application is late' if taken else 'no other host took it'}; stopping")
                asked.add(mirror)
                cluster_host.jobs[mirror].end()
        running = [(each, mirror) for each, mirror in running if each.jobs[mirror].look().alive]
        time.sleep(STEP_S / 2)


def _wall_ms() -> int:
    return int(time.time() * 1000)
