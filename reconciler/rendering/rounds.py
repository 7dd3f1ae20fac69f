"""One round of ``run`` as log lines and as figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from reconciler.figures import Figures
from reconciler.live import LiveMirror, LiveState
from reconciler.planfile import KINDS, kind_of
from reconciler.plans import Result
from reconciler.running import Round
from reconciler.summary import verdict

Line = tuple[str, str, Mapping[str, Any]]
"""Level (info, warning, error), event, fields."""


def round_lines(found: Round) -> Iterator[Line]:
    """One line when nothing happened; otherwise that line last, after one line for each thing to know."""
    if found.taken_over:
        yield "info", "topology taken over", {}
    if found.kept:
        yield "warning", "topology kept", {"why": found.kept}
    if found.error:
        yield "error", "round failed", {"round": found.number, "error": found.error, "seconds": round(found.seconds, 2)}
        return
    assert found.plan is not None
    for unknown in found.plan.unknown:
        yield "warning", "unknown", {"subject": unknown.subject, "error": unknown.error}
    for refused in found.plan.refused:
        yield "warning", "refused", {"subject": refused.subject, "why": refused.reason.text, "todo": refused.todo}
    for held in found.held:
        disputed = any(name.startswith(f"{held.id} ") or name == held.id for name in found.contested)
        yield "warning" if disputed else "info", "held back", {"change": held.id, "why": held.why}
    for outcome in found.outcomes:
        if outcome.result is Result.DONE:
            yield "info", "done", {"change": outcome.id, "seconds": round(outcome.seconds, 2)}
        elif outcome.result is Result.SKIPPED and found.plan.rollout is not None:
            yield "info", "waits", {"change": outcome.id, "why": outcome.error}
        else:
            yield "error", outcome.result.value, {"change": outcome.id, "error": outcome.error}
    fields = {"round": found.number, "verdict": verdict(found.plan), "seconds": round(found.seconds, 2)}
    if found.outcomes:
        fields["done"] = sum(outcome.result is Result.DONE for outcome in found.outcomes)
    yield "info", "round", fields


def round_figures(found: Round, live: LiveState | None) -> Figures:
    """``live``: what the round saw."""
    if found.plan is None or found.error:
        return Figures(found.seconds, topology_kept=bool(found.kept))
    kinds = {planned.id: kind_of(planned.change) for planned in found.plan.changes}
    done = Counter(kinds[one.id] for one in found.outcomes if one.result is Result.DONE)
    left = Counter(kinds.values()) - done
    mirrors = [mirror for mirror in live.mirrors.values() if isinstance(mirror, LiveMirror)] if live else []
    flows = [flow for mirror in mirrors for flow in mirror.flows.values()]
    return Figures(
        seconds=found.seconds,
        succeeded_at=found.began + found.seconds,
        pending=MappingProxyType({kind: left[kind] for kind in KINDS}),
        done=MappingProxyType(dict(done)),
        failed=sum(one.result not in (Result.DONE, Result.SKIPPED) for one in found.outcomes),
        refused=len(found.plan.refused),
        unknown_clusters=sum(seen.cluster_id is None for seen in found.plan.basis.clusters),
        contested=len(found.contested),
        topology_kept=bool(found.kept),
        lag_records=MappingProxyType({f.name: float(f.records_lag) for f in flows if f.records_lag is not None}),
        lag_seconds=MappingProxyType({f.name: f.seconds_lag for f in flows if f.seconds_lag is not None}),
    )
