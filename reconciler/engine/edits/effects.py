"""Finds entries of an edit without effect on clusters, with the reason, by searching the plan of the same edit.

An entry has an effect if the plan changes, blocks or does not know its subject. Every other entry is named, first those
that look like removals.
"""

from reconciler.engine.edits import entry_effects, noun_effects
from reconciler.engine.edits.edit_and_plan import EditAndPlan
from reconciler.model.reports.edit import Against, EditComparison, NoEffect
from reconciler.text import counted

_JUDGES = {**noun_effects.JUDGES, **entry_effects.JUDGES}
LED_BY = 2
"""Most edits without effect in a plan's headline."""


def without_effect(comparison: EditComparison, sides: EditAndPlan) -> tuple[NoEffect, ...]:
    effectless = [
        each for item in comparison.items for each in _JUDGES.get(item.kind, noun_effects.of_later_runs)(item, sides)
    ]
    return tuple(sorted(effectless, key=lambda each: not each.headline))


def lead(
    effectless: tuple[NoEffect, ...], comparison: EditComparison | None = None, against: Against | None = None
) -> str:
    """A headline such as ``This edit revokes nothing: 3 access rules of User:a stay on east.`` Empty if the plan has a
    change for each entry."""
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
