"""What a plan names and does not do: wishes that are refused, fields and things that are left alone."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.acls import AclBinding
from reconciler.changes.terms import Reason
from reconciler.topology import TopicRef


@dataclass(frozen=True, slots=True)
class Refused:
    """A wish that cannot be granted. Blocks apply (exit 3) and is shown beside the changes.

    ``wished`` and ``found`` where a live value differs from the wish, and is therefore drift as well.
    """

    subject: str
    reason: Reason
    todo: str
    wished: str = ""
    found: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A declared or live field that this run leaves alone, by a named rule."""

    subject: str
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """Exists on a cluster, is neither declared nor made by a flow. Never touched."""

    ref: TopicRef
    partitions: int


@dataclass(frozen=True, slots=True)
class UnmanagedAcl:
    """A rule of a cluster whose access is declared that is neither declared nor made by us. Never touched."""

    cluster: str
    acl: AclBinding
