"""The record of the last apply, kept beside the lock: its declarations and the clusters that it met. Frozen.

The record is advice: it can only make a run refuse more, never do more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.replication.json_codec import Codec, JsonRecord


def applied_key(environment: str) -> str:
    return f"applied/{environment}"


@dataclass(frozen=True, slots=True)
class Consent:
    """Explicit consents of the user, for one run."""

    first_contact: bool = False
    """Changes to a cluster that the last apply did not know, or by files of another repository."""
    shrink: bool = False
    """A loss above ``shrink_limit``."""
    prune: bool = False
    """Deleting topics that no file declares."""
    lower_limits: bool = False
    """Limits of copies that no file declares."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The record of the last apply. Guards compare the next plan with it."""

    environment: str
    at_ms: int
    """Since 1970; ``commit`` may be empty."""
    who: str
    commit: str
    clusters: Mapping[str, str]
    """Alias -> id of the cluster that was changed under it."""
    topics: tuple[str, ...]
    """Declared ones, as ``cluster/name``."""
    flows: tuple[str, ...]
    origin: str = ""
    """Repository and folder; empty without git."""

    def same_desired(self, other: Applied) -> bool:
        ours, theirs = ((applied.clusters, applied.topics, applied.flows, applied.origin) for applied in (self, other))
        return ours == theirs


_RECORD = JsonRecord(Applied, "record of an apply", codec=Codec(lenient=True))
dumps, loads = _RECORD.dumps, _RECORD.loads
