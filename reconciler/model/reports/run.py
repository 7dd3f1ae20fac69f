"""Figures of one round of ``run``, for logs and metrics. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.model.reports.health import Health


@dataclass(frozen=True, slots=True)
class Figures:
    """``succeeded_at``: seconds since 1970, None when the round failed. ``pending`` and ``done`` by kind of change;
    lag by flow, only where the job reports it now; ``lag_known`` has 1 or 0 for every flow of a job that was seen, and
    ``unknown_mirrors`` counts those whose job could not be. ``health``: the verdict, None: nothing was looked at."""

    seconds: float
    succeeded_at: float | None = None
    pending: Mapping[str, int] = field(default_factory=dict)
    done: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    refused: int = 0
    unknown_clusters: int = 0
    contested: int = 0
    topology_kept: bool = False
    lag_records: Mapping[str, float] = field(default_factory=dict)
    lag_seconds: Mapping[str, float] = field(default_factory=dict)
    lag_known: Mapping[str, float] = field(default_factory=dict)
    unknown_mirrors: int = 0
    health: Health | None = None
