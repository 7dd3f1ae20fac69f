"""Which consumer groups a flow syncs, and when a translated offset may be written on the other side.

Rules of MirrorMaker 2's DefaultGroupFilter, MirrorCheckpointTask and KIP-545, and where ours are stricter. Both the
mirror job (continuous sync) and the reconciler (failover) decide by these functions.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reconciler.replication.expressions.match import Expressions, expressions

# DefaultGroupFilter, groups.exclude (MirrorMaker 2)
EXCLUDED_GROUPS = (r"console-consumer-.*", r"connect-.*", r"__.*")
POSITIONS = "mirror."
"""Groups of this prefix hold positions of mirrors, not consumers."""

_IDLE = frozenset({"", "empty", "dead"})


@dataclass(frozen=True, slots=True)
class GroupSelector:
    """Whole-name match; exclude wins; groups that hold positions of mirrors never travel."""

    include: Expressions
    exclude: Expressions

    def why_not(self, group: str) -> str | None:
        """None if the group's offsets are synced, else the rule against it."""
        if group.startswith(POSITIONS):
            return "holds positions of a mirror"
        if not group:
            return "has no name"
        if not self.include.match(group):
            return "no pattern matches"
        return "excluded" if self.exclude.match(group) else None


def make_group_selector(include: Sequence[str], exclude: Sequence[str]) -> GroupSelector:
    """Raises ExpressionError. An empty include list matches nothing, an empty exclude list nothing."""
    return GroupSelector(expressions(include), expressions(exclude))


def idle(state: str) -> bool:
    """Whether a group of this state has no members, so that its offsets may be set. ``state`` as brokers say it."""
    return state.lower() in _IDLE


class UnsupportedGroup(StrEnum):
    """Reasons against syncing a group: its state is more than committed offsets. The value completes a sentence about
    the group."""

    SHARE = "is a share group (KIP-932): brokers keep its state per record, there is no offset to carry over"
    SHARE_START = (
        "is a share group (KIP-932): its start offset is carried over; records from there on that it has acknowledged "
        "out of order are delivered again"
    )
    STREAMS = (
        "is a Kafka Streams group (KIP-1071): its offsets belong to its state stores and internal topics, which a "
        "mirror does not copy"
    )
    STREAMS_CLASSIC = (
        "is a Kafka Streams application: its offsets were carried over, its state stores and internal topics were not"
    )
    OTHER = "is of a group type that this version does not know"


def unsupported(
    kind: str, group: str, assignor: str, topics: Collection[str], *, share_starts: bool = False
) -> UnsupportedGroup | None:
    """``kind``: the group type as brokers name it; ``assignor``: empty if unknown; ``topics``: with committed offsets;
    ``share_starts``: start offsets of share groups are synced.

    SHARE_START and STREAMS_CLASSIC are warnings, their offsets are synced. The latter is recognised by the assignor
    while it has members, else by the repartition topics, which Streams names after the application.
    """
    match kind:
        case "share":
            return UnsupportedGroup.SHARE_START if share_starts else UnsupportedGroup.SHARE
        case "streams":
            return UnsupportedGroup.STREAMS
        case "classic" | "consumer":
            mine = any(t.startswith(f"{group}-") and t.endswith(("-repartition", "-changelog")) for t in topics)
            return UnsupportedGroup.STREAMS_CLASSIC if assignor == "stream" or mine else None
        case _:
            return UnsupportedGroup.OTHER


@dataclass(frozen=True, slots=True)
class Synced:
    """A group's last checkpoint of one partition: source offset and target offset."""

    upstream: int
    downstream: int


def checkpoint_due(last: Synced | None, now: Synced, *, exact: bool) -> bool:
    """MirrorMaker 2's rule: the first checkpoint, or the group went back at the source, or the target offset advanced.
    In addition an ``exact`` offset below the last one of a group that did not go back: the remote topic was recreated
    since."""
    if last is None or now.upstream < last.upstream:
        return True
    return now.downstream != last.downstream if exact else now.downstream > last.downstream


def may_write(translated: int, on_target: int | None, *, rewound: bool) -> bool:
    """Whether a group without members at the target may be set to ``translated``.

    Never backwards, unless the group itself went back at the source (``rewound``) and the flow follows rewinds.
    """
    if on_target is None:
        return True
    return translated > on_target or (rewound and translated != on_target)
