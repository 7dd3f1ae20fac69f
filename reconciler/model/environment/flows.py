"""Settings of a flow beside its records: topic config sync, consumer groups, ACLs, MirrorMaker 2's topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from reconciler.replication import handover
from reconciler.replication.groups import EXCLUDED_GROUPS
from reconciler.replication.json_codec import SPARSE


def _no_principals() -> Mapping[str, str]:
    return MappingProxyType({})


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
    """MirrorMaker 2's topic config sync. ``use_defaults_from`` is ``target`` or ``source`` (KIP-894).

    ``carry_undeclared_limits``: also an undeclared lower limit of the source, without asking each time.
    """

    enabled: bool = True
    exclude: tuple[str, ...] = MM2_CONFIG_EXCLUDE
    use_defaults_from: str = "target"
    carry_undeclared_limits: bool = field(default=False, metadata=SPARSE)


GROUPS_INTERVAL_MS = 3_000


@dataclass(frozen=True, slots=True)
class Groups:
    """Which consumer groups travel with a flow. ``exclude`` is MirrorMaker 2's unless written.

    ``follow_rewinds``: a group that goes back at the source goes back at the target, too. ``both_ways``: of a flow that
    keeps offsets, what groups commit on the target is kept on the source, too.
    """

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = EXCLUDED_GROUPS
    sync_offsets: bool = False
    interval_ms: int = GROUPS_INTERVAL_MS
    follow_rewinds: bool = False
    both_ways: bool = field(default=False, metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class MirrorMakerTopics:
    """MirrorMaker 2's own internal topics, for tools built for it; checkpoints come with synced groups, the others only
    when asked for.

    ``heartbeats``: interval in ms, or None. ``offset_syncs``: ``source`` or ``target``, where they lie, or None.
    ``internal_separator``: KIP-949, names before 3.1 when False.
    """

    heartbeats: int | None = None
    offset_syncs: str | None = None
    internal_separator: bool = True


class OffsetsKept(StrEnum):
    """What the offsets of copies are. TRANSLATED: the target's own, and the offset map translates between them. SAME:
    record 4711 of the source is record 4711 of the copy."""

    TRANSLATED = handover.TRANSLATED
    SAME = handover.SAME


@dataclass(frozen=True, slots=True)
class AccessSync:
    """Flow-derived access: who may read a source topic may read its remote topic. ``groups``: also its group rules.

    ``principals``: a principal's name on the source -> its name on the target, where it differs.
    """

    enabled: bool = False
    groups: bool = False
    principals: Mapping[str, str] = field(default_factory=_no_principals)
