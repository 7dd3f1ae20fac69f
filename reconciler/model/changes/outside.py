"""What changed on a cluster other than by an apply, and undeclared values that are set there."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.model.changes.subject import Subject
from reconciler.replication.json_codec import SPARSE


class Outside(StrEnum):
    """The value is the code in plans: stable. DELETED to DEFAULT: against what the last apply left. UNDECLARED: an
    override where ``undeclared`` is ``drift``. MIN_INSYNC: min.insync.replicas above the replication factor."""

    DELETED = "deleted"
    MADE_ANEW = "made-anew"
    PARTITIONS = "partitions"
    OVERRIDE = "override"
    DEFAULT = "broker-default"
    UNDECLARED = "undeclared-override"
    MIN_INSYNC = "min-insync-above-factor"


COUNTED = (Outside.MADE_ANEW, Outside.UNDECLARED)
"""What is drift although no planned change shows it."""


@dataclass(frozen=True, slots=True)
class CopiedAgain:
    """The source of a copy that is gone. ``records``: offsets between its begin and end, so at most; ``bytes``: on the
    disks of all replicas. None: unknown, and why."""

    source: Subject
    records: int | None = None
    bytes: int | None = None
    unknown: str = "it was not read"


@dataclass(frozen=True, slots=True)
class OutsideChange:
    """``subject``: a topic or a cluster; ``key``: of a config, else empty. ``before`` and ``after`` in words.
    ``since``: the apply that left ``before``, or empty. ``why``: what it means, where that is not plain.
    ``copied_again``: what the end of a copy leads to."""

    kind: Outside
    subject: Subject
    key: str
    before: str
    after: str
    since: str = ""
    why: str = ""
    copied_again: CopiedAgain | None = field(default=None, metadata=SPARSE)

    @property
    def name(self) -> str:
        return f"{self.subject} {self.key}" if self.key else str(self.subject)
