"""What the doings ask of the world. Planning is given readers; only applying is given writers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from reconciler.changes import TopicChange
from reconciler.live import LiveAccess, LiveCluster, LiveMirror
from reconciler.plans import Outcome, Planned


class ClusterReader(Protocol):
    """One cluster, read only. Every method raises ``ClusterError`` and nothing else."""

    @property
    def name(self) -> str: ...

    def read(self, topics: Collection[str] | None = None) -> LiveCluster:
        """All visible topics, or only ``topics`` (those that do not exist are left out)."""
        ...

    def read_access(self) -> LiveAccess:
        """Every access rule of the cluster in one request, and which of them this environment's runs made."""
        ...

    def validate(self, changes: Sequence[TopicChange]) -> Mapping[str, str]:
        """Validate-only requests: str(ref) -> the broker's refusal. Empty when all would be accepted."""
        ...


class ClusterAdmin(ClusterReader, Protocol):
    """One cluster, changed. ``perform`` batches below KRaft's 10,000 records a request and never raises for one item:
    each gets its ``Outcome``; afterwards the reads of this cluster agree with what was done. Rules are deleted by their
    exact 7-tuple only, and what is made is written to the ownership record before it is made."""

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> Sequence[Outcome]: ...


class MirrorRunner(Protocol):
    """Starts, finds and stops the Spark application of one mirror. Raises ``RunnerError``."""

    def observe(self, mirror: str) -> LiveMirror: ...

    def start(self, mirror: str, handover: str, progress: Callable[[str], None]) -> LiveMirror:
        """Submits with the text of the hand-over file; returns when the job reports its fingerprint as running."""
        ...

    def restart(self, mirror: str, handover: str, progress: Callable[[str], None]) -> LiveMirror:
        """As ``start``, while the running application copies until the new one takes over from it. What is raised says
        whether the old one runs on."""
        ...

    def stop(self, mirror: str, progress: Callable[[str], None]) -> None:
        """Graceful: open transactions are committed, then the job leaves. Returns when it has left."""
        ...
