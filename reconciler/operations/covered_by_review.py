"""Is a fresh plan covered by the one that was reviewed? What nobody has seen is not carried out.

Border: compares two plans; what they rest on may have moved, what they would do may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reconciler.changes import AddPartitions, Change, Reason
from reconciler.errors import Moved
from reconciler.plans import Plan
from reconciler.rendering.changes import headline
from reconciler.rendering.waves import duration, gates_words


def uncovered(fresh: Plan, reviewed: Plan) -> tuple[Moved, ...]:
    """Every change of ``fresh`` that ``reviewed`` does not hold, or holds otherwise; empty when all were seen.

    Changes that only ``reviewed`` holds are no matter: they are done, or a half-finished apply did them.
    """
    if fresh.basis.environment != reviewed.basis.environment:
        return (Moved("environment", reviewed.basis.environment, fresh.basis.environment),)
    if fresh.rollout != reviewed.rollout:
        return (Moved("rollout", _course(reviewed), _course(fresh)),)
    return tuple(_uncovered(fresh, reviewed))


def _course(plan: Plan) -> str:
    if plan.rollout is None:
        return "without waves"
    waves = ", then ".join(
        f"{wave.name} ({', '.join(wave.clusters)}; soak {duration(wave.soak_ms)})" for wave in plan.rollout.waves
    )
    return f"{waves}; {gates_words(plan.rollout.gates)}"


def _uncovered(fresh: Plan, reviewed: Plan) -> Iterator[Moved]:
    seen = {planned.id: planned for planned in reviewed.changes}
    for planned in fresh.changes:
        before, now = seen.get(planned.id), headline(planned.change)
        if before is None:
            yield Moved(planned.id, "not in the reviewed plan", now)
        elif _what_it_does(before.change) != _what_it_does(planned.change):
            was = headline(before.change)
            yield Moved(planned.id, was, f"{now}, with other values" if was == now else now)
        elif before.risk != planned.risk:
            yield Moved(planned.id, f"{before.risk} risk", f"{planned.risk} risk: {planned.risk_why}")


def _what_it_does(change: Change) -> Change:
    """Without how many partitions the source has by now: they may have been added meanwhile, with the same outcome."""
    return replace(change, reason=Reason("", "")) if isinstance(change, AddPartitions) else change
