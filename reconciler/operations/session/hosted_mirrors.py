"""The way of a session to the hosts of its mirrors: which mirrors have hosts, and over which connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from reconciler.backends.git import revision
from reconciler.backends.mirror_jobs.host.ask import Asker, HostedMirror
from reconciler.backends.mirror_jobs.host.control_topic import ControlTopic
from reconciler.backends.state.lock.kafka_lock import this_process
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Mirror, Principal, Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.state.mirror_control import Document
from reconciler.replication.names import CONTROL_TOPIC
from reconciler.resources.mirrors.handover import submission_of


class HostedMirrors:
    """``Hosts`` of a session. Connects at the first question."""

    def __init__(
        self,
        folder: Path,
        topology: Topology,
        principal: Principal,
        seen: Callable[[], LiveState | None],
        status: Callable[[str], LiveMirror | None],
    ) -> None:
        """``seen``: what the session observed last, None before it did; ``status``: the newest record of a mirror."""
        self._folder, self._topology, self._principal = folder, topology, principal
        self._seen, self._status = seen, status
        self._control: dict[str, ControlTopic] = {}

    def of(self, mirror: str) -> HostedMirror | None:
        """None for a mirror that is not declared ``hosted`` and that no host was asked to keep. Raises ClusterError of
        one that is declared so."""
        topology, seen = self._topology, self._seen()
        declared = topology.mirrors.get(mirror)
        if declared is not None and declared.hosted:
            return self._on(topology.status_cluster(declared), mirror)
        for cluster in [topology.status_cluster(declared)] if declared is not None else topology.clusters:
            live = seen.known(cluster) if seen is not None else None
            if seen is None or (live is not None and CONTROL_TOPIC in live.topics):
                with suppress(ClusterError):  # it was not asked for: its absence stops nothing
                    hosted = self._on(cluster, mirror)
                    if hosted.is_kept():
                        return hosted
        return None

    def handover(self, mirror: Mirror) -> Mapping[str, object]:
        """What a host was last given of it; empty where that is not known."""
        hosted = self._on(self._topology.status_cluster(mirror), mirror.name)
        with suppress(ClusterError):
            desired = hosted.desired()
            return desired.handover if desired is not None else {}
        return {}

    def submission(self, mirror: Mirror) -> Document:
        return submission_of(mirror)

    def asker(self) -> Asker:
        return Asker(this_process("").who, revision(self._folder).commit)

    def close(self) -> None:
        for control in self._control.values():
            control.close()

    def _on(self, cluster: str, mirror: str) -> HostedMirror:
        topology = self._topology
        control = self._control.setdefault(
            cluster, ControlTopic(topology.clusters[cluster], topology.environment, self._principal)
        )
        return HostedMirror(topology.environment, mirror, control, lambda: self._status(mirror))
