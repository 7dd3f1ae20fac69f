"""The plan: changes in order, refusals and other findings, and its basis."""

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import ExitCode, Unknown
from reconciler.model.changes import (
    AdoptedAcl,
    Change,
    Ignored,
    OutsideChange,
    Refused,
    Subject,
    Unmanaged,
    UnmanagedAcl,
)
from reconciler.model.environment.rollout import Course
from reconciler.model.replicas import BrokerLoad
from reconciler.model.reports.impact import AccessShift, Stakes
from reconciler.replication.json_codec import SPARSE

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A cluster at planning time; apply checks ``cluster_id`` again. None: not read, or not reported."""

    name: str
    cluster_id: str | None
    brokers: int
    """Number of live brokers."""
    topics: int
    """Number of topics that the principal sees."""
    acls: int | None = None
    """Number of rules; ``quotas`` and ``users`` likewise."""
    sees_all: bool = True
    """False: it hides topics from the principal."""
    metadata_version: int | None = None
    """Finalized level of that feature."""
    authorizer: bool | None = None
    """Whether it has one."""
    quotas: int | None = None
    """Number of entities with quotas; ``users``: of SCRAM users."""
    users: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """Fingerprint of an observed subject behind a change, with words for messages about a difference."""

    subject: Subject
    fingerprint: str
    text: str


@dataclass(frozen=True, slots=True)
class Edition:
    """Version of the files of a plan. ``revision``, ``dirty``: as in ``Basis``. ``digest``: of their topology
    (``engine.plan.fingerprints.topology_digest``); None: not computed yet."""

    revision: str = ""
    dirty: bool = False
    digest: str | None = None


NO_EDITION = Edition()


@dataclass(frozen=True, slots=True)
class Basis:
    """The ground of a plan: the files and the live state that it was made of. Apply refuses a saved plan whose ground
    has moved."""

    environment: str
    topology_digest: str
    """Of what the files declare, not of their text: comments and order do not count."""
    revision: str = ""
    """Git commit of the files, or empty."""
    dirty: bool = False
    """The files differ from ``revision``."""
    clusters: tuple[SeenCluster, ...] = ()
    observed: tuple[Observation, ...] = ()
    """Live subjects on which the changes rest, each with its state in words."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One change with its place in the order."""

    id: str
    """Stable for a change of a subject, so that plans can be compared."""
    change: Change
    stage: str
    """Of ``Stage``; the order of stages is fixed (``engine.plan.order``)."""
    risk: str
    risk_why: str
    """The reason for ``risk``, for readers."""
    reversibility: str
    """How to revert it, or that this is impossible."""
    needs: tuple[str, ...] = ()
    """Ids of changes that must succeed first."""
    needs_why: str = ""
    """Why these come first; empty without ``needs``."""
    stakes: Stakes | None = None
    """The cluster's facts about a dangerous change; None if not asked."""
    wave: str = field(default="", metadata=SPARSE)
    """Wave of the plan's rollout; empty without one."""
    wave_why: str = field(default="", metadata=SPARSE)
    """Why its wave is later than its cluster's."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes in order, and findings without a change. Preview and execution walk ``changes`` in this order."""

    basis: Basis
    changes: tuple[Planned, ...] = ()
    refused: tuple[Refused, ...] = ()
    """Stops the whole plan: the rest is safe only after a person has checked it."""
    unknown: tuple[Unknown, ...] = ()
    """Failed reads, which stop the plan, too."""
    unmanaged: tuple[Unmanaged, ...] = ()
    """Topics that nothing asks for; never touched."""
    unmanaged_acls: tuple[UnmanagedAcl, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    """Ignored differences, with reasons."""
    notes: tuple[str, ...] = ()
    unchanged: int = 0
    """Number of subjects in their declared state."""
    loads: tuple[BrokerLoad, ...] = ()
    """Loads of brokers, for clusters with moving replicas."""
    shifts: tuple[AccessShift, ...] = ()
    """Access that principals gain or lose by the whole plan."""
    rollout: Course | None = field(default=None, metadata=SPARSE)
    """The waves of the plan."""
    outside: tuple[OutsideChange, ...] = field(default=(), metadata=SPARSE)
    """Changes since the last apply that no apply made."""
    adopted_acls: tuple[AdoptedAcl, ...] = field(default=(), metadata=SPARSE)
    """Rules that it adopts without a change."""
    format_version: int = field(default=FORMAT_VERSION)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code for callers, decided only here."""
        if self.unknown:
            return ExitCode.ERROR
        if self.refused:
            return ExitCode.BLOCKED
        return ExitCode.CHANGES if self.changes else ExitCode.DONE


class Result(StrEnum):
    """UNDONE: done, and reverted after its probe failed. UNPROVEN: done, but could not be probed. LEFT: its probe
    failed, and it could not be reverted."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNDONE = "undone"
    UNPROVEN = "unproven"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one planned change. ``error``: problem, reason and remedy."""

    id: str
    result: Result
    error: str = ""
    """Problem, reason and remedy, a line each; empty if done."""
    seconds: float = 0.0
    """Time that it took; changes that go to a cluster in one batch share the batch's evenly."""
