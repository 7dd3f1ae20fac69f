"""Which entries of an edit do nothing on the clusters, and why: each is looked for in the plan of the same edit.

An entry has an effect where the plan changes, blocks or does not know what it is about. Every other one is named, those
first that look as if they took something away.
"""

from reconciler.engine.edits import entry_effects, noun_effects
from reconciler.engine.edits.edit_and_plan import EditAndPlan
from reconciler.model.reports.edit import Against, EditComparison, NoEffect
from reconciler.text import counted

_JUDGES = {**noun_effects.JUDGES, **entry_effects.JUDGES}
LED_BY = 2
"""Edits without effect that a plan's own headline begins with."""


def without_effect(comparison: EditComparison, sides: EditAndPlan) -> tuple[NoEffect, ...]:
    effectless = [
        each for item in comparison.items for each in _JUDGES.get(item.kind, noun_effects.of_later_runs)(item, sides)
    ]
    return tuple(sorted(effectless, key=lambda each: not each.headline))


def lead(
    effectless: tuple[NoEffect, ...], comparison: EditComparison | None = None, against: Against | None = None
) -> str:
    """``This edit revokes nothing: 3 access rules of User:a stay on east.`` Empty where the plan has a change for each
    entry."""
    said: list[str] = []
    for each in effectless:
        setting = f" ({each.setting})" if each.setting else ""
        said.append(each.headline or f"has no effect in {each.kind} {each.name}{setting}: {each.why}")
    said = list(dict.fromkeys(said))
    if comparison is not None and comparison.empty and not comparison.same_text:
        said.append("changes no declared value: only comments, layout, order or spelling")
    left = len(said) - LED_BY
    more = f"; {counted(left, 'more edit')} {'has' if left == 1 else 'have'} no effect" if left > 0 else ""
    who = "Going back" if against is not None and against.revert else "This edit"
    return f"{who} {'; it '.join(said[:LED_BY])}{more}. " if said else ""
