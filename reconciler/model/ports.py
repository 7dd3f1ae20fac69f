"""Ports: the interfaces that backends implement. Planning gets readers; only applying gets writers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from reconciler.errors import ClusterError
from reconciler.model.changes import AlterQuota, Subject, TopicChange
from reconciler.model.environment.topology import Principal
from reconciler.model.live import Before, LiveAccess, LiveCluster, LiveMirror, LiveUsers, Made
from reconciler.model.plan import Outcome, Planned
from reconciler.model.principals import AclBinding, QuotaEntity, QuotaLimits
from reconciler.model.replicas import Journal, Partition, ReassignmentInFlight, ReplicaFacts, ThrottleEdit
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.probe import Needs


class ClusterReader(Protocol):
    """One cluster, read only. Every method raises ``ClusterError`` and nothing else."""

    @property
    def name(self) -> str: ...

    def read(self, topics: Collection[str] | None = None) -> LiveCluster:
        """All visible topics, or only ``topics``; missing ones are left out."""
        ...

    def read_access(self) -> LiveAccess:
        """Every access rule of the cluster in one request, and the rules that runs of this environment made."""
        ...

    def read_quotas(self) -> Mapping[QuotaEntity, QuotaLimits]:
        """Every client quota of the cluster, in one request."""
        ...

    def read_quota_keys(self) -> Mapping[QuotaEntity, frozenset[str]]:
        """Entity -> keys that runs of this environment set, by the ownership record."""
        ...

    def read_users(self) -> LiveUsers:
        """Every SCRAM user of the cluster in one request, and the versions that runs of this environment set."""
        ...

    def validate(self, changes: Sequence[TopicChange | AlterQuota]) -> Mapping[Subject, str]:
        """Validate-only requests: subject of a change -> the broker's refusal. Empty when all would be accepted."""
        ...

    def replica_facts(self, environment: str) -> ReplicaFacts:
        """Details for changes of replicas: reassignments, sizes, throttles, the journal of ``environment``."""
        ...


class ReplicaAdmin(Protocol):
    """Reassignments of one cluster, for one run. Methods raise ClusterError."""

    @property
    def name(self) -> str: ...

    def read(self, topics: Collection[str] | None = None) -> LiveCluster: ...

    def facts(self) -> ReplicaFacts: ...

    def moves(self) -> tuple[ReassignmentInFlight, ...]:
        """Running reassignments of anyone (ListPartitionReassignments)."""
        ...

    def sizes(self, topics: Collection[str]) -> Mapping[tuple[str, int, int], int]:
        """Topic, partition, broker -> bytes of that replica; brokers that do not answer are left out."""
        ...

    def reassign(
        self, targets: Mapping[Partition, tuple[int, ...] | None], factor_changes: bool
    ) -> dict[Partition, str]:
        """Target None: cancel. Returns refusals in the broker's words. ``factor_changes`` False: brokers with KIP-860
        refuse a target with another number of replicas."""
        ...

    def throttle(self, edits: Sequence[ThrottleEdit]) -> Sequence[ClusterError]:
        """Incremental config changes, atomic for each resource; returns the failed ones once the brokers show the
        others."""
        ...

    def elect_preferred(self, partitions: Collection[Partition]) -> None: ...

    def wait(self, seconds: float) -> None:
        """Lets the cluster go on."""
        ...

    def write_journal(self, journal: Journal | None) -> None:
        """None: nothing of ours is left. Returns once the cluster has it on disk."""
        ...


class ClusterAdmin(ClusterReader, Protocol):
    """Changes one cluster.

    ``perform`` batches below KRaft's 10,000 records a request and never raises for a single item: each gets its
    ``Outcome``, with which later reads agree. Rules are deleted by their exact 7-tuple only. The ownership record gets
    an object before it is created, and the version of a password after it is set, so that it never claims an unset one.
    """

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> Sequence[Outcome]: ...

    def replicas(self, environment: str) -> AbstractContextManager[ReplicaAdmin]:
        """For one reassignment; ``environment`` identifies our journal among those of others."""
        ...

    def rules_by_broker(self) -> Mapping[int, frozenset[AclBinding]]:
        """The access rules in each broker's authorizer now: brokers learn of changes one by one."""
        ...

    def own_rules(self, rules: Mapping[AclBinding, Made]) -> None:
        """Writes existing rules to the ownership record. Raises ClusterError."""
        ...

    def keep_pending(self, before: Mapping[AclBinding, Before | None]) -> None:
        """Writes the state of rules before a wave beside the ownership record, by which the next run detects an
        interrupted one (``LiveAccess.pending``). None deletes an entry. Returns once it is on disk."""
        ...

    def put_back(self, before: Mapping[AclBinding, Before]) -> Mapping[AclBinding, str]:
        """Restores rules and their ownership; returns failures with their reasons. A rule of others does not become
        ours. Returns once every broker shows the rules."""
        ...


class Prober(Protocol):
    """The principals that use a cluster, and their rights by each broker."""

    def needs(self, cluster: str, /) -> Sequence[Needs]: ...

    def why_not(self, cluster: str, kind: Principal, /) -> str:
        """Why this principal cannot log in from here, such as a missing secret; empty if it can."""
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
        """As ``start``, while the running application copies until the new one takes over. An error says whether the
        old one still runs."""
        ...

    def stop(self, mirror: str, progress: Callable[[str], None]) -> None:
        """Gracefully: the job commits open transactions and leaves. Returns when it has left."""
        ...
