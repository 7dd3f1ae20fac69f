"""Notices that someone else sets back what this program sets: then correcting is a quarrel, not a repair.

Border: remembers what was done when, in frozen values; does nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias, assert_never

from reconciler.changes import (
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    AlterUser,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteTopic,
    DeleteUser,
    FinishReassignment,
    ReassignReplicas,
    RestartMirror,
    StartMirror,
    StopMirror,
)
from reconciler.narrowing import Held, Narrowed, without
from reconciler.plans import Outcome, Plan, Planned, Result

LIMIT = 3
WINDOW_SECONDS = 3_600.0

Field: TypeAlias = str
"""One field with the value wished for it: ``configs:west/east.orders retention.ms = 60000``."""


@dataclass(frozen=True, slots=True)
class Corrections:
    """``done``: field -> when it was corrected, newest last. A value that git changes makes another field."""

    limit: int = LIMIT
    window: float = WINDOW_SECONDS
    done: Mapping[Field, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    contested: frozenset[Field] = frozenset()


def fields_of(planned: Planned) -> tuple[Field, ...]:
    change = planned.change
    match change:
        case AlterConfigs():
            return tuple(f"{planned.id} {one.key} = {one.after}" for one in change.configs)
        case AddPartitions():
            return (f"{planned.id} = {change.after}",)
        case AlterQuota():
            return tuple(f"{planned.id} {one.key} = {one.after}" for one in change.limits)
        case AlterUser():
            return (f"{planned.id} = version {change.version}",)
        case StartMirror() | RestartMirror():
            return (f"{planned.id} = {change.fingerprint}",)
        case ReassignReplicas():
            return (f"{planned.id} = {change.after}",)
        case CreateTopic() | StopMirror() | DeleteTopic() | CreateAcl() | DeleteAcl() | DeleteUser():
            return (planned.id,)
        case FinishReassignment():
            return (planned.id,)
        case _:
            assert_never(change)


def looked(history: Corrections, plan: Plan, now: float) -> Corrections:
    """After a look at the clusters: what is as wished again is no longer contested; old corrections are forgotten.

    A field becomes contested when it differs again after ``limit`` corrections within ``window`` seconds.
    """
    differing = {name for planned in plan.changes for name in fields_of(planned)}
    recent = {name: tuple(at for at in times if now - at <= history.window) for name, times in history.done.items()}
    again = {name for name in differing if len(recent.get(name, ())) >= history.limit}
    return replace(
        history,
        done=MappingProxyType({name: times for name, times in recent.items() if times}),
        contested=(history.contested & differing) | again,
    )


def uncontested(plan: Plan, history: Corrections) -> Narrowed:
    """The plan without contested fields. A topic keeps the configs nobody contests."""
    kept: list[Planned] = []
    held: list[Held] = []
    reasons: dict[str, str] = {}
    for planned in plan.changes:
        disputed = [name for name in fields_of(planned) if name in history.contested]
        change = planned.change
        if disputed and isinstance(change, AlterConfigs) and len(disputed) < len(change.configs):
            left = tuple(one for one in change.configs if f"{planned.id} {one.key} = {one.after}" not in disputed)
            planned = replace(planned, change=replace(change, configs=left))
            held.append(Held(planned.id, quarrel(history, disputed)))
        elif disputed:
            reasons[planned.id] = quarrel(history, disputed)
        kept.append(planned)
    narrowed = without(replace(plan, changes=tuple(kept)), reasons)
    return replace(narrowed, held=(*held, *narrowed.held))


def quarrel(history: Corrections, disputed: Iterable[Field]) -> str:
    return (
        f"{', '.join(disputed)}: corrected {history.limit} times within {history.window / 60:.0f} min and set back"
        " each time: someone else disagrees. It is left alone until it is as wished, or git wishes another value"
    )


def corrected(history: Corrections, plan: Plan, outcomes: Iterable[Outcome], now: float) -> Corrections:
    """With what was just done. ``plan`` is the one that was carried out. What a probe took back counts, too: doing and
    undoing it every round would be a quarrel as well."""
    acted = (Result.DONE, Result.UNDONE, Result.UNPROVEN)
    succeeded = {outcome.id for outcome in outcomes if outcome.result in acted}
    done = dict(history.done)
    for planned in plan.changes:
        if planned.id in succeeded:
            for name in fields_of(planned):
                done[name] = (*done.get(name, ()), now)
    return replace(history, done=MappingProxyType(done))
