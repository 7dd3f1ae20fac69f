"""Which entries of an edit do nothing on the clusters, and why: each is looked for in the plan of the same edit.

An entry has an effect where the plan changes, blocks or does not know what it is about. Every other one is named, those
first that look as if they took something away.
"""

from __future__ import annotations

from reconciler.engine.edits import entry_effects, noun_effects
from reconciler.engine.edits.edit_and_plan import EditAndPlan
from reconciler.model.reports.edit import EditComparison, NoEffect

_JUDGES = {**noun_effects.JUDGES, **entry_effects.JUDGES}
LED_BY = 2
"""Headlines of edits without effect that a plan's own headline begins with."""


def without_effect(comparison: EditComparison, sides: EditAndPlan) -> tuple[NoEffect, ...]:
    effectless = [
        each for item in comparison.items for each in _JUDGES.get(item.kind, noun_effects.of_later_runs)(item, sides)
    ]
    return tuple(sorted(effectless, key=lambda each: not each.headline))


def lead(effectless: tuple[NoEffect, ...]) -> str:
    """``This edit revokes nothing: 3 access rules of User:a stay on east.`` Empty where nothing looks like more."""
    said = list(dict.fromkeys(each.headline for each in effectless if each.headline))
    more = f"; {len(said) - LED_BY} more edits have no effect" if len(said) > LED_BY else ""
    return f"This edit {'; it '.join(said[:LED_BY])}{more}. " if said else ""
