"""Whether a fresh plan is covered by the reviewed one; an unreviewed change is not carried out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reconciler.errors import Moved
from reconciler.model.changes import AddPartitions, Change, Reason, Why
from reconciler.model.plan import Plan
from reconciler.render.plan.kinds import headline
from reconciler.render.plan.waves import duration, gates_words


def uncovered(fresh: Plan, reviewed: Plan) -> tuple[Moved, ...]:
    """Every change of ``fresh`` that ``reviewed`` does not hold, or holds otherwise; empty when all were seen.

    Changes that only ``reviewed`` holds are no matter: they are done, or a half-finished apply did them.
    """
    if fresh.basis.environment != reviewed.basis.environment:
        return (Moved("environment", reviewed.basis.environment, fresh.basis.environment),)
    if fresh.rollout != reviewed.rollout:
        return (Moved("rollout", _course(reviewed), _course(fresh)),)
    return tuple(_uncovered(fresh, reviewed))


def beyond(saved: Plan, fresh: Plan) -> Iterator[Moved]:
    """What of ``saved`` a fresh plan does not hold, or does otherwise: other changes, waves, or what waits for what."""
    if fresh.rollout != saved.rollout:
        yield Moved("rollout", _course(saved), _course(fresh))
    now = {planned.id: planned for planned in fresh.changes}
    for planned in saved.changes:
        same = now.get(planned.id)
        if same is None:
            yield Moved(planned.id, headline(planned.change), "not in a fresh plan")
        elif _what_it_does(same.change) != _what_it_does(planned.change):
            yield Moved(planned.id, headline(planned.change), f"{headline(same.change)}, with other values")
        elif (same.needs, same.stage, same.wave) != (planned.needs, planned.stage, planned.wave):
            yield Moved(planned.id, f"in {planned.stage}", f"in {same.stage}, at another place of the order")


def _course(plan: Plan) -> str:
    if plan.rollout is None:
        return "without waves"
    waves = [f"{wave.name} ({', '.join(wave.clusters)}; soak {duration(wave.soak_ms)})" for wave in plan.rollout.waves]
    return f"{', then '.join(waves)}; {gates_words(plan.rollout.gates)}"


def _uncovered(fresh: Plan, reviewed: Plan) -> Iterator[Moved]:
    reviewed_changes = {planned.id: planned for planned in reviewed.changes}
    for planned in fresh.changes:
        before, now = reviewed_changes.get(planned.id), headline(planned.change)
        if before is None:
            yield Moved(planned.id, "not in the reviewed plan", now)
        elif _what_it_does(before.change) != _what_it_does(planned.change):
            was = headline(before.change)
            yield Moved(planned.id, was, f"{now}, with other values" if was == now else now)
        elif before.risk != planned.risk:
            yield Moved(planned.id, f"{before.risk} risk", f"{planned.risk} risk: {planned.risk_why}")


def _what_it_does(change: Change) -> Change:
    """Without how many partitions the source has by now: they may have been added meanwhile, with the same outcome."""
    return replace(change, reason=Reason(Why.NOTHING, "")) if isinstance(change, AddPartitions) else change
