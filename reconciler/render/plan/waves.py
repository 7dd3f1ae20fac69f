"""The waves of a plan in words: what opens each wave, and its gates."""

from reconciler.model.config_values import duration
from reconciler.model.environment.rollout import Gates, MirrorGate
from reconciler.model.plan import Plan
from reconciler.text import counted


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
