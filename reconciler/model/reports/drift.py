"""What differs from git, and why, as far as facts show: the plan's own, and the audit record of earlier runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from reconciler.model.changes import ConfigChange

Line = Mapping[str, Any]
"""One line of an audit record (schemas/audit.schema.json)."""


class Cause(StrEnum):
    """A throttle of a reassignment is never a difference: it is among the ignored, rule ``throttle``."""

    EDITED_OUTSIDE = "edited-outside"
    HALF_FINISHED = "half-finished-apply"
    DEFAULT_CHANGED = "broker-default-changed"
    NORMALISED = "vendor-normalised"
    NOT_TOLD = "not-told"


@dataclass(frozen=True, slots=True)
class Told:
    cause: Cause
    why: str


@dataclass(frozen=True, slots=True)
class History:
    """By change id: the outcomes of earlier runs, oldest first; and when runs began that never ended their plan.

    ``cut_off``: none has ended since, so what is not done is what they left. ``overtaken``: the last one after which
    others ended; what these held back may be left of it, or be new. ``known``: there is a record at all.
    """

    changes: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    cut_off: Mapping[str, str] = field(default_factory=dict)
    known: bool = False
    overtaken: str = ""

    @property
    def nobody(self) -> str:
        """Why no run is known that did something: there was none, or there is no record of runs here."""
        return "no earlier run did it" if self.known else "no record of earlier runs is here"

    def last(self, change_id: str) -> Line | None:
        """What became of a change the last time."""
        lines = self.changes.get(change_id, ())
        return lines[-1] if lines else None


@dataclass(frozen=True, slots=True)
class Deviation:
    """What one change would bring back. ``kind`` is stable. ``origin``: as in ``Difference``; ``config``: of which it
    is, where a change has several."""

    subject: str
    kind: str
    wished: str
    found: str
    origin: str = ""
    config: ConfigChange | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """``kind`` is stable; ``mended_by`` is the id of the planned change that would bring it back.

    ``cause`` and ``why``: how it came to be, as far as facts show. ``origin``: who needs it, of a topic that git does
    not declare and of a config that the topic itself does not.
    """

    subject: str
    kind: str
    wished: str
    found: str
    risk: str
    mended_by: str
    cause: Cause
    why: str
    origin: str = ""

    @property
    def aim(self) -> str:
        return f"desired: {self.wished} ({self.origin})" if self.origin else f"declared: {self.wished}"
