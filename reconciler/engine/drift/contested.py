"""Detects contested values: another tool sets back what we set, so correcting would go on for ever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from reconciler.engine.plan.select import Held, Narrowed, without
from reconciler.model.changes import AlterConfigs
from reconciler.model.plan import Outcome, Plan, Planned, Result

LIMIT = 3
WINDOW_SECONDS = 3_600.0

Field: TypeAlias = str
"""One field with the value desired for it: ``configs:west/east.orders retention.ms = 60000``."""


@dataclass(frozen=True, slots=True)
class Corrections:
    """``done``: field -> when it was corrected, newest last. A value that git changes makes another field."""

    limit: int = LIMIT
    window: float = WINDOW_SECONDS
    done: Mapping[Field, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    contested: frozenset[Field] = frozenset()


def looked(history: Corrections, plan: Plan, now: float) -> Corrections:
    """After a look at the clusters: what is as desired again is no longer contested; old corrections are forgotten.

    A field becomes contested when it differs again after ``limit`` corrections within ``window`` seconds.
    """
    differing = {name for planned in plan.changes for name in planned.change.values}
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
        disputed = [name for name in planned.change.values if name in history.contested]
        change = planned.change
        if disputed and isinstance(change, AlterConfigs) and len(disputed) < len(change.configs):
            other_configs = tuple(
                config for config in change.configs if f"{planned.id} {config.key} = {config.after}" not in disputed
            )
            planned = replace(planned, change=replace(change, configs=other_configs))
            held.append(Held(planned.id, quarrel(history, disputed)))
        elif disputed:
            reasons[planned.id] = quarrel(history, disputed)
        kept.append(planned)
    narrowed = without(replace(plan, changes=tuple(kept)), reasons)
    return replace(narrowed, held=(*held, *narrowed.held))


def quarrel(history: Corrections, disputed: Iterable[Field]) -> str:
    return (
        f"{', '.join(disputed)}: corrected {history.limit} times within {history.window / 60:.0f} min and set back"
        " each time: someone else sets it to another value. It is left alone until it has the declared value, or git"
        " declares another one"
    )


def corrected(history: Corrections, plan: Plan, outcomes: Iterable[Outcome], now: float) -> Corrections:
    """With what was just done. ``plan`` is the one that was carried out. What a probe took back counts, too: doing and
    undoing it every round would be a quarrel as well."""
    acted = (Result.DONE, Result.UNDONE, Result.UNPROVEN)
    succeeded = {outcome.id for outcome in outcomes if outcome.result in acted}
    done = dict(history.done)
    for planned in plan.changes:
        if planned.id in succeeded:
            for name in planned.change.values:
                done[name] = (*done.get(name, ()), now)
    return replace(history, done=MappingProxyType(done))
