"""The waves of a rollout: in a plan, the opening and gates of each; in a status, the progress of each."""

from collections.abc import Mapping
from typing import Any

from reconciler.engine.rollout.gates import RolloutStatus, wave_state
from reconciler.errors import Unknown
from reconciler.model.config_values import duration
from reconciler.model.environment.rollout import Gates, MirrorGate
from reconciler.model.plan import Plan
from reconciler.model.state.rollout_progress import Promotion
from reconciler.text import counted, time_words


def wave_heading(plan: Plan, name: str, ungated: bool = False) -> str:
    """``wave canary (1 of 2): east; 3 changes; then its gates and 10m of soak``. ``ungated``: without that."""
    assert plan.rollout is not None
    wave, index = plan.rollout.wave(name), plan.rollout.index(name)
    count = sum(planned.wave == name for planned in plan.changes)
    soak = f" and {duration(wave.soak_ms)} of soak" if wave.soak_ms else ""
    then = "" if ungated else f"; then its gates{soak}"
    place = f"{index + 1} of {len(plan.rollout.waves)}"
    return f"wave {name} ({place}): {', '.join(wave.clusters)}; {counted(count, 'change')}{then}"


def gates_words(gates: Gates) -> str:
    parts = [
        f"at most {gates.offline_partitions} offline and"
        f" {gates.under_replicated_partitions} under-replicated partitions a cluster"
    ]
    if gates.mirrors is not MirrorGate.IGNORED:
        parts.append(f"mirrors {gates.mirrors}")
    if gates.lag_ms is not None:
        parts.append(f"flows at most {duration(gates.lag_ms)} behind")
    wait = f"after a wave they have {duration(gates.wait_ms)} to hold"
    return f"gates before the first wave, after each and through its soak: {', '.join(parts)}; {wait}"


def ignored_words(reason: str) -> str:
    return f"gates and soaks are left out: {reason}"


def rollout_value(status: RolloutStatus, now_ms: int) -> Mapping[str, Any]:
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


def rollout_lines(status: RolloutStatus, now_ms: int) -> list[str]:
    if isinstance(status.promotion, Unknown):
        lines = [f"rollout: unknown: {status.promotion.with_todo}"]
    elif status.under_way:
        holder = _holder(status, now_ms)
        lines = [f"rollout: under way, {'by ' + holder if holder else 'and no run continues with it'}"]
        for wave in status.course.waves:
            state = wave_state(wave, status.promotion)
            if state == "begun":
                state = "begun, its changes are not all done"
            elif state == "soaking" and status.promotion is not None:
                rest = max(0, wave.soak_ms - status.promotion.soaked_ms(status.promotion.pending(wave.clusters)))
                left = f"{time_words(rest / 1000)} of {time_words(wave.soak_ms / 1000)} left to soak"
                state = f"its changes are done, {left}"
            lines.append(f"  wave {wave.name}: {state}")
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
