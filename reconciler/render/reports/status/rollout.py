"""The rollout in ``status``: which wave soaks, for how long yet, which gates fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.engine.rollout.status import RolloutStatus, wave_state
from reconciler.errors import Unknown
from reconciler.model.environment.rollout import CourseWave
from reconciler.model.state.rollout_progress import Promotion
from reconciler.text import time_words


def standing_value(status: RolloutStatus, now_ms: int) -> Mapping[str, Any]:
    """For JSON."""
    kept = status.promotion if isinstance(status.promotion, Promotion) else None
    return {
        "under_way": None if isinstance(status.promotion, Unknown) else status.under_way,
        "halted": kept.halted if kept else "",
        "holder": _holder(status, now_ms) or None,
        "waves": [
            {"name": wave.name, "clusters": list(wave.clusters), "state": wave_state(wave, status.promotion)}
            | ({"soaked_ms": kept.soaked_ms(wave.clusters), "soak_ms": wave.soak_ms} if kept else {})
            for wave in status.course.waves
        ],
        "gates": [{"gate": fault.gate, "subject": fault.subject, "text": fault.text} for fault in status.found],
    }


def standing_lines(status: RolloutStatus, now_ms: int) -> list[str]:
    if isinstance(status.promotion, Unknown):
        lines = [f"rollout: unknown: {status.promotion.error}. {status.promotion.todo}"]
    elif status.under_way:
        holder = _holder(status, now_ms)
        lines = [f"rollout: under way, {'by ' + holder if holder else 'and no run goes on with it'}"]
        lines += [f"  wave {wave.name}: {_words(wave, status.promotion)}" for wave in status.course.waves]
        if status.promotion is not None and status.promotion.halted:
            lines.append(f"  halted: {status.promotion.halted}")
    else:
        lines = [f"rollout: none under way; waves: {', '.join(status.course.names)}"]
    lines += [f"  gate: {fault}" for fault in status.found] or ["  all gates hold"]
    return lines


def _holder(status: RolloutStatus, now_ms: int) -> str:
    if status.lock is None or status.lock.left_ms(now_ms) <= 0:
        return ""
    return status.lock.words(now_ms)


def _words(wave: CourseWave, kept: Promotion | Unknown | None) -> str:
    match wave_state(wave, kept):
        case "begun":
            return "begun, its changes are not all done"
        case "soaking" if isinstance(kept, Promotion):
            rest = max(0, wave.soak_ms - kept.soaked_ms(kept.pending(wave.clusters)))
            return f"its changes are done, {time_words(rest / 1000)} of {time_words(wave.soak_ms / 1000)} left to soak"
        case other:
            return other
