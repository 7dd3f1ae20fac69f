"""Changes of mirror jobs."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.changes.terms import Reason


@dataclass(frozen=True, slots=True)
class StartMirror:
    """``because`` tells which field of which flow decided, one line each."""

    mirror: str
    fingerprint: str
    reason: Reason
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestartMirror:
    mirror: str
    before: str
    fingerprint: str
    reason: Reason
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StopMirror:
    mirror: str
    fingerprint: str | None
    reason: Reason
