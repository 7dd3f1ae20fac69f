"""Settings of a flow, as YAML gives them: what of topics, groups and access follows to the target, and how."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from reconciler.replication import handover
from reconciler.replication.groups import EXCLUDED_GROUPS
from reconciler.replication.json_codec import SPARSE

# MirrorMaker 2's DefaultConfigPropertyFilter, config.properties.exclude (MirrorMaker 2.4 to 4.3)
MM2_CONFIG_EXCLUDE = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
)


@dataclass(frozen=True, slots=True)
class ConfigSync:
    """MirrorMaker 2's topic config sync: the configs of a source that its copies follow."""

    enabled: bool = True
    exclude: tuple[str, ...] = MM2_CONFIG_EXCLUDE
    """Expressions of config names that are left to the copy."""
    use_defaults_from: str = "target"
    """``target`` or ``source`` (KIP-894): the cluster with the default of configs that the source does not override."""
    carry_undeclared_limits: bool = field(default=False, metadata=SPARSE)
    """Carries even an undeclared lower limit of the source, without asking each time."""


GROUPS_INTERVAL_MS = 3_000


@dataclass(frozen=True, slots=True)
class Groups:
    """Consumer groups of a flow, and the sync of their offsets to the target."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = EXCLUDED_GROUPS
    """MirrorMaker 2's by default; exclusions win."""
    sync_offsets: bool = False
    """False: only a failover reads groups."""
    interval_ms: int = GROUPS_INTERVAL_MS
    follow_rewinds: bool = False
    """A group that goes back at the source goes back at the target, too."""
    both_ways: bool = field(default=False, metadata=SPARSE)
    """For a flow that keeps offsets: commits of groups on the target are synced to the source, too."""


@dataclass(frozen=True, slots=True)
class MirrorMakerTopics:
    """MirrorMaker 2's internal topics, for its tools. Checkpoints come with synced groups, the others only on
    request."""

    heartbeats: int | None = None
    """Interval in ms, or None."""
    offset_syncs: str | None = None
    """Cluster of the topic: ``source`` or ``target``; None: not written."""
    internal_separator: bool = True
    """``replication.policy.internal.topic.separator.enabled`` (KIP-949): False for names as before 3.1."""


class OffsetsKept(StrEnum):
    """Offsets of copies. TRANSLATED: the target's own, with an offset map between both. SAME: record 4711 of the source
    is record 4711 of the copy."""

    TRANSLATED = handover.TRANSLATED
    SAME = handover.SAME


class CopyMode(StrEnum):
    """Writers of a flow's remote topics, as far as rules decide. READ_ONLY: only the mirror. WRITABLE: all principals
    that the cluster's rules allow; rules of READ_ONLY are removed."""

    READ_ONLY = "read_only"
    WRITABLE = "writable"


@dataclass(frozen=True, slots=True)
class Objectives:
    """Objectives of a flow, which drills measure, in milliseconds; None: not declared."""

    rto_ms: int | None = None
    """Objective for the time until a group has read a record written at the target."""
    rpo_ms: int | None = None
    """Objective for the age of the oldest uncopied record."""
    drill_every_ms: int | None = None
    """The longest time between two drills that met both objectives."""


@dataclass(frozen=True, slots=True)
class AccessSync:
    """Flow-derived access: readers of a source topic may read its remote topic. ``groups``: also its group rules.

    ``principals``: a principal's name on the source -> its name on the target, where it differs.
    """

    enabled: bool = False
    groups: bool = False
    principals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class Delivery(StrEnum):
    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Carry(StrEnum):
    """Records that a flow with provenance carries. LOCAL: records written at its source. FORWARD: also records from
    other clusters that have not been at the target."""

    LOCAL = "local"
    FORWARD = "forward"
