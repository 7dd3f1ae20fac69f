"""Selects the part of a plan that may be applied now; the rest is held back with its reason.

Removes changes and those that need them; adds and reorders nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import assert_never

from reconciler.engine.kinds import kind_of
from reconciler.model import changes
from reconciler.model.options import Autonomy
from reconciler.model.plan import Outcome, Plan, Planned, Result


@dataclass(frozen=True, slots=True)
class Held:
    """A planned change that this run does not carry out."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Narrowed:
    """``plan`` has no unknown and no refused part any more, so all of it may be carried out."""

    plan: Plan
    held: tuple[Held, ...] = ()


def with_held(plan: Plan, held: Iterable[Held], outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """One outcome for each change of the whole ``plan``, in its order; held-back changes count as not begun."""
    all_outcomes = {outcome.id: outcome for outcome in outcomes}
    skipped = {each.id: Outcome(each.id, Result.SKIPPED, f"not begun: {each.why}") for each in held}
    return tuple({**skipped, **all_outcomes}[planned.id] for planned in plan.changes)


def unexpired(plan: Plan, today: date) -> Plan:
    """``plan`` without changes of expired tombstones. Reading refuses files with one; a loop continues with files that
    it has read before."""
    over = {
        planned.id: f"its tombstone counted until {planned.change.expires}"
        for planned in plan.changes
        if isinstance(planned.change, changes.DeleteTopic) and planned.change.expires
        if date.fromisoformat(planned.change.expires) < today
    }
    return replace(plan, changes=without(plan, over).plan.changes) if over else plan


def without(plan: Plan, reasons: Mapping[str, str]) -> Narrowed:
    """``reasons``: id of a change -> why it is held back. Changes that need it are held back, too. Shifts of access,
    which were computed for all rules, are left out if only some of the rules change."""
    held: dict[str, str] = {}
    kept: list[Planned] = []
    for planned in plan.changes:
        # One pass is enough: a change comes after all that it needs.
        missing = [need for need in planned.needs if need in held]
        why = reasons.get(planned.id) or (f"it needs {missing[0]}, which is held back" if missing else "")
        if why:
            held[planned.id] = why
        else:
            kept.append(planned)
    parted = {
        planned.change.cluster
        for planned in plan.changes
        if planned.id in held and isinstance(planned.change, changes.AclChange)
    }
    shifts = tuple(shift for shift in plan.shifts if shift.cluster not in parted)
    narrowed = replace(plan, changes=tuple(kept), shifts=shifts)
    return Narrowed(narrowed, tuple(Held(name, why) for name, why in held.items()))


def known_part(plan: Plan) -> Narrowed:
    """The part that may be applied although something is unknown or refused.

    Changes that depend on a failed read were never planned. Also held back: changes of a topic or mirror with a
    refusal; while anything is unknown, growth of declared topics, because a silent cluster may carry their remote
    topics; and removals, which need a plan without unknown and refused parts.
    """
    doubt = [unknown.subject for unknown in plan.unknown] or [str(refusal.subject) for refusal in plan.refused]
    refused = {refusal.subject.whole: refusal.reason.text for refusal in plan.refused}
    strange = {subject.cluster: text for subject, text in refused.items() if subject.about is changes.About.CLUSTER}
    shrunk = _first_about(changes.About.DECLARED, plan)
    foreign = _first_about(changes.About.ENVIRONMENT, plan)
    reasons: dict[str, str] = {}
    for planned in plan.changes:
        change = planned.change
        # A mirror writes to no cluster of its own: it waits for all of them.
        elsewhere = strange.get(change.cluster) if change.cluster else strange[min(strange)] if strange else ""
        growth = isinstance(change, changes.AddPartitions) and change.role is changes.Role.DECLARED

        # A refusal holds back its subject, whatever else is known. The other reasons are lack of knowledge: waiting
        # costs nothing, and a mistake could not be reverted.
        if text := foreign or refused.get(change.subject) or elsewhere:
            reasons[planned.id] = f"refused: {text}"
        elif shrunk and isinstance(change, kind_of(change).takes_away):
            reasons[planned.id] = f"refused: {shrunk}"
        elif plan.unknown and growth:
            reasons[planned.id] = f"irreversible, and {plan.unknown[0].subject} could not be read"
        elif doubt and change.stage is changes.Stage.REMOVALS:
            reasons[planned.id] = f"nothing is deleted while the plan is in doubt about {doubt[0]}"
    kept = [] if shrunk or foreign else [each for each in plan.adopted_acls if each.cluster not in strange]
    return without(replace(plan, refused=(), unknown=(), adopted_acls=tuple(kept)), reasons)


def within(plan: Plan, autonomy: Autonomy) -> Narrowed:
    """The part that ``autonomy`` allows. SAFE: low-risk changes of remote topics, and rules that flows derive for their
    readers; never a mirror, never a deletion."""
    match autonomy:
        case Autonomy.ALL:
            wait = "a step of retention is left to apply: check the topic between two steps"
            return without(plan, {planned.id: wait for planned in plan.changes if is_step(planned)})
        case Autonomy.NONE:
            return without(plan, {planned.id: "autonomy none only plans" for planned in plan.changes})
        case Autonomy.SAFE:
            wait = "autonomy safe leaves it to apply"
            return without(plan, {planned.id: wait for planned in plan.changes if not is_safe(planned)})
        case _:
            assert_never(autonomy)


def is_step(planned: Planned) -> bool:
    """A step of a retention that is lowered slowly."""
    change = planned.change
    return isinstance(change, changes.AlterConfigs) and any(config.goal is not None for config in change.configs)


def retention_steps_only(remaining: Plan, plan: Plan) -> int:
    """Number of such steps after ``plan``, if each of its changes is one; else 0. The step before, of the topic or its
    source, identifies the last one: its value was the goal all along."""
    begun = {
        (planned.id, config.key, config.goal)
        for planned in plan.changes
        if isinstance(planned.change, changes.AlterConfigs)
        for config in planned.change.configs
        if config.goal is not None
    }
    begun_by = {whose for whose, _, _ in begun}

    def goes_on(planned: Planned) -> bool:
        change = planned.change
        return isinstance(change, changes.AlterConfigs) and all(
            (whose, config.key, config.after if config.goal is None else config.goal) in begun
            for config in change.configs
            for whose in [planned.id if planned.id in begun_by else f"configs:{config.source}"]
        )

    blocked = remaining.unknown or remaining.refused
    return 0 if blocked or not all(map(goes_on, remaining.changes)) else len(remaining.changes)


def is_safe(planned: Planned) -> bool:
    return kind_of(planned.change).is_safe(planned.change, changes.Risk(planned.risk))


def _first_about(about: changes.About, plan: Plan) -> str:
    """Why the first such subject is refused, or empty."""
    return next((refused.reason.text for refused in plan.refused if refused.subject.about is about), "")
