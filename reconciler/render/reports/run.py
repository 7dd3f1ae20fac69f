"""One round of ``run`` as log lines and as figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from reconciler.figures import Figures
from reconciler.live import LiveMirror, LiveState
from reconciler.planfile import KINDS, kind_of
from reconciler.plans import Result
from reconciler.rendering.style import SHOWN
from reconciler.running import Round
from reconciler.summary import verdict

Line = tuple[str, str, Mapping[str, Any]]
"""Level (info, warning, error), event, fields."""
_Told = tuple[tuple[str, str, str, str], str]
"""Level, event, name of the field that says why, and why; and the id of one change it is said of."""


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
    yield from _alike(_left(found))
    for outcome in found.outcomes:
        if outcome.result is Result.DONE:
            yield "info", "done", {"change": outcome.id, "seconds": round(outcome.seconds, 2)}
    yield from _alike(_not_done(found))
    fields = {"round": found.number, "verdict": verdict(found.plan), "seconds": round(found.seconds, 2)}
    if found.outcomes:
        fields["done"] = sum(outcome.result is Result.DONE for outcome in found.outcomes)
    yield "info", "round", fields


def _left(found: Round) -> Iterator[_Told]:
    for held in found.held:
        disputed = any(name.startswith(f"{held.id} ") or name == held.id for name in found.contested)
        yield ("warning" if disputed else "info", "held back", "why", held.why), held.id


def _not_done(found: Round) -> Iterator[_Told]:
    """What is not begun though nothing failed was left by a wished stop, and is no error."""
    in_waves = found.plan is not None and found.plan.rollout is not None
    failed = any(outcome.result not in (Result.DONE, Result.SKIPPED) for outcome in found.outcomes)
    for outcome in found.outcomes:
        if outcome.result is Result.SKIPPED and in_waves:
            yield ("info", "waits", "why", outcome.error), outcome.id
        elif outcome.result is Result.SKIPPED and not failed:
            yield ("info", "not begun", "why", outcome.error), outcome.id
        elif outcome.result is not Result.DONE:
            yield ("error", outcome.result.value, "error", outcome.error), outcome.id


def _alike(told: Iterable[_Told]) -> Iterator[Line]:
    """One line for all changes of which the same is to be said: each round says it again."""
    together: dict[tuple[str, str, str, str], list[str]] = {}
    for (level, event, word, why), change in told:
        together.setdefault((level, event, word, why), []).append(change)
    for (level, event, word, why), changes in together.items():
        if len(changes) == 1:
            yield level, event, {"change": changes[0], word: why}
        else:
            yield level, event, {"changes": len(changes), "first": changes[:SHOWN], word: why}


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
