"""Ports: the interfaces that backends implement. Planning is given readers; only applying is given writers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from reconciler.errors import ClusterError
from reconciler.model.acls import AclBinding
from reconciler.model.changes import AlterQuota, Subject, TopicChange
from reconciler.model.environment.topology import Principal
from reconciler.model.live import Before, LiveAccess, LiveCluster, LiveMirror, LiveUsers, Made
from reconciler.model.plan import Outcome, Planned
from reconciler.model.quotas import Limits, QuotaEntity
from reconciler.model.replicas import Journal, Partition, ReassignmentInFlight, ReplicaFacts, ThrottleEdit
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.probe import Needs


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

    def read_quotas(self) -> Mapping[QuotaEntity, Limits]:
        """Every client quota of the cluster, in one request."""
        ...

    def read_quota_keys(self) -> Mapping[QuotaEntity, frozenset[str]]:
        """Which keys of whose quotas this environment's runs set, by the ownership record."""
        ...

    def read_users(self) -> LiveUsers:
        """Every SCRAM user of the cluster in one request, and which versions this environment's runs set."""
        ...

    def validate(self, changes: Sequence[TopicChange | AlterQuota]) -> Mapping[Subject, str]:
        """Validate-only requests: subject of a change -> the broker's refusal. Empty when all would be accepted."""
        ...

    def replica_facts(self, environment: str) -> ReplicaFacts:
        """A closer look, where replicas matter: reassignments, sizes, throttles, the journal of ``environment``."""
        ...


class ReplicaAdmin(Protocol):
    """Reassignments of one cluster, for one run. Methods raise ClusterError."""

    @property
    def name(self) -> str: ...

    def read(self, topics: Collection[str] | None = None) -> LiveCluster: ...

    def facts(self) -> ReplicaFacts: ...

    def moves(self) -> tuple[ReassignmentInFlight, ...]:
        """In flight, everybody's (ListPartitionReassignments)."""
        ...

    def sizes(self, topics: Collection[str]) -> Mapping[tuple[str, int, int], int]:
        """Topic, partition, broker -> bytes of that replica; brokers that do not answer are left out."""
        ...

    def reassign(
        self, targets: Mapping[Partition, tuple[int, ...] | None], factor_changes: bool
    ) -> dict[Partition, str]:
        """None cancels. What was refused, with the broker's words. ``factor_changes`` False: brokers that can (KIP-860)
        refuse a target with another number of replicas."""
        ...

    def throttle(self, edits: Sequence[ThrottleEdit]) -> Sequence[ClusterError]:
        """Incremental config changes, each resource atomic; what failed. Returns when the brokers show them."""
        ...

    def elect_preferred(self, partitions: Collection[Partition]) -> None: ...

    def wait(self, seconds: float) -> None:
        """Lets the cluster go on."""
        ...

    def write_journal(self, journal: Journal | None) -> None:
        """None: nothing of ours is left. On disk on the cluster when it returns."""
        ...


class ClusterAdmin(ClusterReader, Protocol):
    """One cluster, changed. ``perform`` batches below KRaft's 10,000 records a request and never raises for one item:
    each gets its ``Outcome``; afterwards the reads of this cluster agree with what was done. Rules are deleted by their
    exact 7-tuple only, and what is made is written to the ownership record before it is made; the version of a password
    after it is set, so that none is claimed that is not."""

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> Sequence[Outcome]: ...

    def replicas(self, environment: str) -> AbstractContextManager[ReplicaAdmin]:
        """Opened for one reassignment; ``environment`` names our journal among those of others."""
        ...

    def rules_by_broker(self) -> Mapping[int, frozenset[AclBinding]]:
        """Every access rule as each broker's authorizer knows it now: they learn of changes one by one."""
        ...

    def own_rules(self, rules: Mapping[AclBinding, Made]) -> None:
        """Writes existing rules to the ownership record. Raises ClusterError."""
        ...

    def keep_pending(self, before: Mapping[AclBinding, Before | None]) -> None:
        """Writes down, beside the ownership record, how rules are before a wave touches them, so that a run that is cut
        off is seen by the next one (``LiveAccess.pending``). None strikes an entry. On disk when it returns."""
        ...

    def put_back(self, before: Mapping[AclBinding, Before]) -> Mapping[AclBinding, str]:
        """Makes rules and their ownership as they were; what failed, with its reason. A rule that was not ours does not
        become ours. Returns when every broker shows it."""
        ...


class Prober(Protocol):
    """The principals that work with a cluster, and what brokers allow each of them."""

    def needs(self, cluster: str, /) -> Sequence[Needs]: ...

    def why_not(self, cluster: str, kind: Principal, /) -> str:
        """Why this principal cannot log in from here, such as a missing secret; empty when it can."""
        ...

    def rights(self, cluster: str, kind: Principal, ask: Ask, /) -> Rights:
        """Never raises: ``failed`` says why the rights are unknown."""
        ...

    def server(self, cluster: str, /) -> str:
        """An address for commands that a person may have to run."""
        ...


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
