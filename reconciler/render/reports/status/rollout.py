"""A rollout that is under way, as ``status`` tells it: which wave soaks, how long yet, which gates do not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.errors import Unknown
from reconciler.promotions import Promotion
from reconciler.rollout.standing import Standing
from reconciler.rollouts import CourseWave
from reconciler.sizes import time_words


def standing_value(one: Standing, now_ms: int) -> Mapping[str, Any]:
    """For JSON."""
    kept = one.promotion if isinstance(one.promotion, Promotion) else None
    return {
        "under_way": None if isinstance(one.promotion, Unknown) else one.under_way,
        "halted": kept.halted if kept else "",
        "holder": _holder(one, now_ms) or None,
        "waves": [
            {"name": wave.name, "clusters": list(wave.clusters), "state": _state(wave, one.promotion)}
            | ({"soaked_ms": kept.soaked_ms(wave.clusters), "soak_ms": wave.soak_ms} if kept else {})
            for wave in one.course.waves
        ],
        "gates": [{"gate": fault.gate, "subject": fault.subject, "text": fault.text} for fault in one.found],
    }


def standing_lines(one: Standing, now_ms: int) -> list[str]:
    if isinstance(one.promotion, Unknown):
        lines = [f"rollout: unknown: {one.promotion.error}. {one.promotion.todo}"]
    elif one.under_way:
        holder = _holder(one, now_ms)
        lines = [f"rollout: under way, {'by ' + holder if holder else 'and no run goes on with it'}"]
        lines += [f"  wave {wave.name}: {_words(wave, one.promotion)}" for wave in one.course.waves]
        if one.promotion is not None and one.promotion.halted:
            lines.append(f"  halted: {one.promotion.halted}")
    else:
        lines = [f"rollout: none under way; waves: {', '.join(one.course.names)}"]
    lines += [f"  gate: {fault}" for fault in one.found] or ["  all gates hold"]
    return lines


def _holder(one: Standing, now_ms: int) -> str:
    if one.lock is None or one.lock.left_ms(now_ms) <= 0:
        return ""
    return one.lock.words(now_ms)


def _state(wave: CourseWave, kept: Promotion | Unknown | None) -> str:
    if isinstance(kept, Unknown):
        return "unknown"
    if kept is None or not any(name in kept.clusters for name in wave.clusters):
        return "not begun"
    pending = kept.pending(wave.clusters)
    return "passed" if not pending else "begun" if kept.begun(pending) else "soaking"


def _words(wave: CourseWave, kept: Promotion | Unknown | None) -> str:
    match _state(wave, kept):
        case "begun":
            return "begun, its changes are not all done"
        case "soaking" if isinstance(kept, Promotion):
            left = max(0, wave.soak_ms - kept.soaked_ms(kept.pending(wave.clusters)))
            return f"its changes are done, {time_words(left / 1000)} of {time_words(wave.soak_ms / 1000)} left to soak"
        case other:
            return other
