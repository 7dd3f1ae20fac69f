"""A plan cut down to what may be carried out now; what is held back is told with its reason.

Border: removes changes from a plan, and those that need them; adds and reorders nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import assert_never

from reconciler.changes import (
    AclChange,
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    Change,
    ConfigChange,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteTopic,
    DeleteUser,
    RestartMirror,
    Risk,
    Role,
    Stage,
    StopMirror,
    cluster_of,
    touched,
)
from reconciler.choices import Autonomy
from reconciler.ordering import stage_of
from reconciler.plans import Outcome, Plan, Planned, Result


@dataclass(frozen=True, slots=True)
class Held:
    """A planned change that is not carried out by this run."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Narrowed:
    """``plan`` has no unknown and no refused any more: everything in it may be carried out."""

    plan: Plan
    held: tuple[Held, ...] = ()


def with_held(plan: Plan, held: Iterable[Held], outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """One outcome for each change of the whole ``plan``, in its order: what was held back counts as not begun."""
    found = {outcome.id: outcome for outcome in outcomes}
    left = {one.id: Outcome(one.id, Result.SKIPPED, f"not begun: {one.why}") for one in held}
    return tuple({**left, **found}[planned.id] for planned in plan.changes)


def unexpired(plan: Plan, today: date) -> Plan:
    """``plan`` without what rests on tombstones that have expired. Files that hold such a one are refused when they are
    read; a loop goes on with those that it has read before."""
    over = {
        one.id: f"its tombstone counted until {one.change.expires}"
        for one in plan.changes
        if isinstance(one.change, DeleteTopic) and one.change.expires
        if date.fromisoformat(one.change.expires) < today
    }
    return replace(plan, changes=without(plan, over).plan.changes) if over else plan


def without(plan: Plan, reasons: Mapping[str, str]) -> Narrowed:
    """``reasons``: id of a change -> why it is held back. What needs a held change is held with it.

    Who gains and loses access is told no longer where only a part of the rules changes.
    """
    held: dict[str, str] = {}
    kept: list[Planned] = []
    for planned in plan.changes:
        missing = [need for need in planned.needs if need in held]
        why = reasons.get(planned.id) or (f"it needs {missing[0]}, which is held back" if missing else "")
        if why:
            held[planned.id] = why
        else:
            kept.append(planned)
    parted = {cluster_of(one.change) for one in plan.changes if one.id in held and isinstance(one.change, AclChange)}
    shifts = tuple(one for one in plan.shifts if one.cluster not in parted)
    narrowed = replace(plan, changes=tuple(kept), shifts=shifts)
    return Narrowed(narrowed, tuple(Held(name, why) for name, why in held.items()))


def known_part(plan: Plan) -> Narrowed:
    """What may go ahead although something is unknown or refused.

    Changes that rest on a failed read were never planned. Held back besides: changes of a topic or mirror that has a
    refusal; while anything is unknown, growth of declared topics, because a silent cluster may carry their remote
    topics; and removals, which need a plan without unknown and refused.
    """
    doubt = [one.subject for one in plan.unknown] or [one.subject for one in plan.refused]
    strange = {one.subject for one in plan.refused if one.subject.startswith("cluster ")}
    shrunk = next((one.reason.text for one in plan.refused if one.subject.startswith("declared ")), "")
    refused = {_subject(one.subject): one.reason.text for one in plan.refused}
    reasons: dict[str, str] = {}
    foreign = next((one.reason.text for one in plan.refused if one.subject.startswith("environment ")), "")
    for planned in plan.changes:
        if text := foreign or refused.get(_touched(planned)):
            reasons[planned.id] = f"refused: {text}"
        elif cluster := _at(planned, strange):
            reasons[planned.id] = f"refused: {refused[cluster]}"
        elif shrunk and _takes_away(planned):
            reasons[planned.id] = f"refused: {shrunk}"
        elif plan.unknown and _is_growth(planned):
            reasons[planned.id] = f"irreversible, and {plan.unknown[0].subject} could not be read"
        elif doubt and _removes(planned.change):
            reasons[planned.id] = f"nothing is deleted while the plan is in doubt about {doubt[0]}"
    return without(replace(plan, refused=(), unknown=()), reasons)


def within(plan: Plan, autonomy: Autonomy) -> Narrowed:
    """The part that ``autonomy`` allows. SAFE: low-risk changes of remote topics, and what flows derive for their
    readers; never a mirror, never a deletion."""
    match autonomy:
        case Autonomy.ALL:
            wait = "a step of retention is left to apply: somebody should look between two steps"
            return without(plan, {planned.id: wait for planned in plan.changes if is_step(planned)})
        case Autonomy.NONE:
            return without(plan, {planned.id: "autonomy none only looks" for planned in plan.changes})
        case Autonomy.SAFE:
            wait = "autonomy safe leaves it to apply"
            return without(plan, {planned.id: wait for planned in plan.changes if not is_safe(planned)})
        case _:
            assert_never(autonomy)


def is_step(planned: Planned) -> bool:
    """One of several steps of a retention that is lowered slowly."""
    change = planned.change
    return isinstance(change, AlterConfigs) and any(one.goal is not None for one in change.configs)


def retention_steps_only(left: Plan, made: Plan) -> int:
    """How many changes are left after ``made``, when each of them is the next of such steps; else 0. The last one is
    known by the step before it, its own or its source's: it is what was wished all along."""
    begun = {
        (planned.id, one.key, one.goal)
        for planned in made.changes
        if isinstance(planned.change, AlterConfigs)
        for one in planned.change.configs
        if one.goal is not None
    }
    begun_by = {whose for whose, _, _ in begun}

    def goes_on(planned: Planned) -> bool:
        change = planned.change
        return isinstance(change, AlterConfigs) and all(
            (whose, one.key, one.after if one.goal is None else one.goal) in begun
            for one in change.configs
            for whose in [planned.id if planned.id in begun_by else f"configs:{_source_of(one)}"]
        )

    blocked = left.unknown or left.refused
    return 0 if blocked or not all(map(goes_on, left.changes)) else len(left.changes)


def _source_of(one: ConfigChange) -> str:
    """``east/orders`` of ``source east/orders, a step to 1d``; empty for what comes from no source."""
    word, _, ref = one.origin.partition(" ")
    return ref.partition(",")[0] if word == "source" else ""


def is_safe(planned: Planned) -> bool:
    change = planned.change
    if isinstance(change, CreateAcl):
        return bool(change.rests_on) and planned.risk != Risk.HIGH
    if not isinstance(change, CreateTopic | AddPartitions | AlterConfigs):
        return False
    return change.role is Role.REMOTE and planned.risk == Risk.LOW


def _at(planned: Planned, strange: Collection[str]) -> str:
    """The refused cluster that a change writes to, or empty. A mirror waits for all of them."""
    name = cluster_of(planned.change)
    if not name:
        return min(strange, default="")
    found = f"cluster {name}"
    return found if found in strange else ""


def _takes_away(planned: Planned) -> bool:
    """What a half-read folder would do harm with."""
    return isinstance(planned.change, DeleteTopic | DeleteAcl | DeleteUser | RestartMirror | StopMirror)


def _removes(change: Change) -> bool:
    """Also a limit that goes by prune, which rests on everything that was read."""
    pruned = isinstance(change, AlterQuota) and stage_of(change) is Stage.REMOVALS
    return pruned or isinstance(change, DeleteTopic | DeleteAcl | DeleteUser)


def _is_growth(planned: Planned) -> bool:
    return isinstance(planned.change, AddPartitions) and planned.change.role is Role.DECLARED


def _touched(planned: Planned) -> str:
    return touched(planned.change)


def _subject(text: str) -> str:
    """``east/orders partitions`` is about the topic east/orders."""
    kinds = ("mirror ", "cluster ", "flow ", "access ", "quota ", "user ")
    return text if text.startswith(kinds) else text.split(" ")[0]
