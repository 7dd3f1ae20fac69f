"""One round of ``run`` as log lines and as figures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.engine.loop import Round
from reconciler.engine.plan.file import KINDS
from reconciler.engine.plan.summary import verdict
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.plan import Result
from reconciler.model.reports.health import Figures, Verdict
from reconciler.render.markup import SHOWN
from reconciler.text import grouped

Line = tuple[str, str, Mapping[str, Any]]
"""Level (info, warning, error), event, fields."""
_Said = tuple[tuple[str, str, str, str], str]
"""Level, event, name of the field that says why, and why; and the id of one change."""


def round_lines(current: Round) -> Iterator[Line]:
    """One line if nothing happened; otherwise that line last, after one line for each thing to know."""
    if current.taken_over:
        yield "info", "topology taken over", {}
    if current.kept:
        yield "warning", "topology kept", {"why": current.kept}
    if current.error:
        fields = {"round": current.number, "error": current.error, "seconds": round(current.seconds, 2)}
        yield "error", "round failed", fields
        return
    assert current.plan is not None
    for unknown in current.plan.unknown:
        yield "warning", "unknown", {"subject": unknown.subject, "error": unknown.error}
    for refused in current.plan.refused:
        yield "warning", "refused", {"subject": str(refused.subject), "why": refused.reason.text, "todo": refused.todo}
    held_back: list[_Said] = []
    for held in current.held:
        # A contested field waits for a person, unlike a change that only waits for a higher autonomy level.
        disputed = any(name.startswith(f"{held.id} ") or name == held.id for name in current.contested)
        held_back.append((("warning" if disputed else "info", "held back", "why", held.why), held.id))
    yield from _alike(held_back)
    for outcome in current.outcomes:
        if outcome.result is Result.DONE:
            yield "info", "done", {"change": outcome.id, "seconds": round(outcome.seconds, 2)}

    # An unbegun change is no error if it waits for its wave, or if nothing failed: then a requested stop left it out.
    in_waves = current.plan.rollout is not None
    failed = any(outcome.result not in (Result.DONE, Result.SKIPPED) for outcome in current.outcomes)
    not_done: list[_Said] = []
    for outcome in current.outcomes:
        if outcome.result is Result.SKIPPED and in_waves:
            not_done.append((("info", "waits", "why", outcome.error), outcome.id))
        elif outcome.result is Result.SKIPPED and not failed:
            not_done.append((("info", "not begun", "why", outcome.error), outcome.id))
        elif outcome.result is not Result.DONE:
            not_done.append((("error", outcome.result.value, "error", outcome.error), outcome.id))
    yield from _alike(not_done)
    fields = {"round": current.number, "verdict": verdict(current.plan), "seconds": round(current.seconds, 2)}
    if current.outcomes:
        fields["done"] = sum(outcome.result is Result.DONE for outcome in current.outcomes)
    yield "info", "round", fields


def _alike(entries: Iterable[_Said]) -> Iterator[Line]:
    """Changes with the same words share a line: each round says it again."""
    for (level, event, word, why), changes in grouped(entries).items():
        if len(changes) == 1:
            yield level, event, {"change": changes[0], word: why}
        else:
            yield level, event, {"changes": len(changes), "first": changes[:SHOWN], word: why}


def round_figures(current: Round, live: LiveState | None, verdict: Verdict | None = None) -> Figures:
    """``live``: the state that the round read, and ``verdict`` on it."""
    if current.plan is None or current.error:
        return Figures(current.seconds, topology_kept=bool(current.kept))
    # A change that was planned and not done stays pending until a later round does it.
    kinds = {planned.id: planned.change.word for planned in current.plan.changes}
    done = Counter(kinds[outcome.id] for outcome in current.outcomes if outcome.result is Result.DONE)
    not_done = Counter(kinds.values()) - done
    # A lag that is not current is left out rather than exported: an alert must not fire, or rest, on an old figure.
    reported = list(live.as_reported().mirrors.values()) if live else []
    mirrors = [mirror for mirror in reported if isinstance(mirror, LiveMirror)]
    flows = [flow for mirror in mirrors if mirror.lag_is_current for flow in mirror.flows.values()]
    return Figures(
        seconds=current.seconds,
        succeeded_at=current.began + current.seconds,
        pending={kind: not_done[kind] for kind in KINDS},
        done=dict(done),
        failed=sum(outcome.result not in (Result.DONE, Result.SKIPPED) for outcome in current.outcomes),
        refused=len(current.plan.refused),
        unknown_clusters=sum(seen.cluster_id is None for seen in current.plan.basis.clusters),
        contested=len(current.contested),
        topology_kept=bool(current.kept),
        lag_records={f.name: float(f.records_lag) for f in flows if f.records_lag is not None},
        lag_seconds={f.name: f.seconds_lag for f in flows if f.seconds_lag is not None},
        lag_known={name: 0.0 for mirror in mirrors for name in mirror.flows}
        | {f.name: float(f.records_lag is not None) for f in flows},
        unknown_mirrors=len(reported) - len(mirrors),
        health=verdict.health if verdict is not None else None,
    )
