"""Where a session has mirrors run: hosts are asked to keep those that are theirs, the others run on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from reconciler.backends.git import revision
from reconciler.backends.mirror_jobs.await_copying import CopyWait
from reconciler.backends.mirror_jobs.host.ask import Asker, HostedMirror
from reconciler.backends.mirror_jobs.host.control_topic import ControlTopic
from reconciler.backends.mirror_jobs.runner.spark_submit import Progress, SparkRunner
from reconciler.backends.state.lock.kafka_lock import this_process
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.environment.topology import Mirror, Principal, Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.replication.names import CONTROL_TOPIC
from reconciler.resources.mirrors.handover import submission_of


class MirrorRunners:
    """``MirrorRunner`` of all mirrors of an environment. Asks hosts only where it must: an environment without hosts
    does not wait for any. Connects at the first question."""

    def __init__(
        self,
        folder: Path,
        topology: Topology,
        principal: Principal,
        here: SparkRunner,
        seen: Callable[[], LiveState | None],
    ) -> None:
        """``here``: of this machine. ``seen``: what the session observed last, None before it did."""
        self._folder, self._topology, self._principal = folder, topology, principal
        self.here = here
        self._seen = seen
        self._control: dict[str, ControlTopic] = {}

    def close(self) -> None:
        for control in self._control.values():
            control.close()

    def observe(self, mirror: str) -> LiveMirror:
        hosted = self._declared_hosted(mirror)
        return self.here.observe(mirror) if hosted is None else hosted.observe()

    def require_startable(self, mirrors: Iterable[str]) -> None:
        """Raises RunnerError for what would keep a job from starting, before anything else is changed."""
        self.here.require_startable([name for name in mirrors if self._host_of(name) is None])

    def start(self, mirror: str, handover: str, progress: Progress) -> LiveMirror:
        """Returns when its flows copy, or wait for others. Raises RunnerError, also where its job runs and they do
        not copy."""
        return self._until_copying(mirror, handover, progress, self.here.start)

    def restart(self, mirror: str, handover: str, progress: Progress) -> LiveMirror:
        """As ``start``, while the running application copies until the new one takes over from it."""
        return self._until_copying(mirror, handover, progress, self.here.restart)

    def _until_copying(
        self, mirror: str, handover: str, progress: Progress, here: Callable[[str, str, Progress], LiveMirror]
    ) -> LiveMirror:
        # A host starts and replaces by itself: it is only told what to run.
        hosted = self._host_of(mirror)
        if hosted is None:
            started = here(mirror, handover, progress)
        else:
            submission = submission_of(self._topology.mirrors[mirror])
            started = hosted.run(handover, submission, self._asker(), progress)
        return CopyWait(self.observe, progress).until_copying(started)

    def stop(self, mirror: str, progress: Progress) -> None:
        """Graceful: open transactions are committed, then the job leaves. Returns when it has left."""
        hosted = self._host_of(mirror)
        if hosted is not None and hosted.is_kept():
            hosted.stop(self._asker(), progress)
        else:
            self.here.stop(mirror, progress)

    def on_this_machine(self, mirrors: Iterable[str]) -> SparkRunner:
        """Raises RunnerError where a host keeps one of ``mirrors``."""
        for mirror in mirrors:
            if self._host_of(mirror) is not None:
                raise RunnerError(
                    f"mirror {mirror} is kept by hosts, which cannot run it until it has caught up",
                    "Only a job on this machine ends by itself.",
                    "Stop it, take hosted away for the migration, and start it so from here.",
                )
        return self.here

    def handover_before(self, mirror: Mirror) -> Mapping[str, object]:
        """What its job was last given, by a host or on this machine; empty where that is not known."""
        if (hosted := self._declared_hosted(mirror.name)) is not None:
            with suppress(ClusterError):
                desired = hosted.desired()
                if desired is not None and desired.handover:
                    return desired.handover
        return self.here.folder(mirror.name).read("handover.json")

    def _host_of(self, mirror: str) -> HostedMirror | None:
        """None: its job runs on this machine, or is to. One that is declared ``hosted`` never does, though a host that
        cannot announce itself looks like no host. Raises ClusterError of one that is declared so."""
        if (hosted := self._declared_hosted(mirror)) is not None:
            return hosted
        if any(folder.supervisor_pid() for folder in (self.here.folder(mirror), self.here.other_folder(mirror))):
            return None

        # One that was hosted before, or that another environment's file declared, may still be kept by a host.
        topology, seen = self._topology, self._seen()
        declared = topology.mirrors.get(mirror)
        for cluster in [topology.status_cluster(declared)] if declared is not None else topology.clusters:
            live = seen.known(cluster) if seen is not None else None
            if seen is None or (live is not None and CONTROL_TOPIC in live.topics):
                with suppress(ClusterError):  # it was not asked for: its absence stops nothing
                    hosted = self._on(cluster, mirror)
                    if hosted.is_kept():
                        return hosted
        return None

    def _declared_hosted(self, mirror: str) -> HostedMirror | None:
        declared = self._topology.mirrors.get(mirror)
        if declared is None or not declared.hosted:
            return None
        return self._on(self._topology.status_cluster(declared), mirror)

    def _on(self, cluster: str, mirror: str) -> HostedMirror:
        topology = self._topology
        control = self._control.setdefault(
            cluster, ControlTopic(topology.clusters[cluster], topology.environment, self._principal)
        )
        return HostedMirror(topology.environment, mirror, control, lambda: self.here.status(mirror))

    def _asker(self) -> Asker:
        return Asker(this_process("").who, revision(self._folder).commit)
