"""All changes of a plan as tables, before beside after: folded by kind and by the owner of what changes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.engine.kinds import KINDS
from reconciler.model.changes import AclChange, Action, ChangeOfTopic, KindName, Risk
from reconciler.model.environment.topology import TopicRef
from reconciler.model.plan import Plan, Planned
from reconciler.render.elements import codes, column_head, folded, mono
from reconciler.render.escape import findable
from reconciler.render.escape import page as safe
from reconciler.render.plan.kinds import fields_of, signature, words_of
from reconciler.render.plan.kinds.words import FieldValues
from reconciler.render.plan.outline import FOLD, risk_label
from reconciler.text import counted, grouped

Owners = Mapping[TopicRef, str]
SIGN_CLASSES = {"+": "add", "~": "change", "!": "restart", "-": "remove"}
NOBODY = "without an owner"
OPEN_ROWS = 150
"""A kind with more lines than that is folded at first."""
_HEADS = ("", "what", "on", "field", "before", "after", "risk", "step")
_NOT_THERE, _REMOVED = '<span class="faint">not there</span>', '<span class="remove">removed</span>'
_TITLES = {
    KindName.TOPICS: "Topics",
    KindName.REPLICAS: "Replicas",
    KindName.ACLS: "Access rules",
    KindName.QUOTAS: "Quotas",
    KindName.USERS: "Users",
    KindName.MIRRORS: "Mirror jobs",
}


def change_tables(plan: Plan, owners: Owners) -> Iterator[str]:
    """Each line leads to its step (``outline``). Where no owner is known none is told."""
    if not plan.changes:
        return
    step_of = {(wave, stage): number for number, (wave, stage) in enumerate(_stages(plan), start=1)}
    yield f'<section id="changes"><h2>Changes, before and after ({len(plan.changes):,})</h2>'
    by_kind = grouped((planned.change.kind, planned) for planned in plan.changes)
    for kind in KINDS:
        if some := by_kind.get(kind.name):
            yield from _kind(kind.name, some, step_of, owners)
    yield "</section>"


def anchor(planned_id: str) -> str:
    """The same for the same change in each plan, so that a link to it can be sent to others."""
    return f"change-{hashlib.sha256(planned_id.encode()).hexdigest()[:12]}"


def _stages(plan: Plan) -> Iterable[tuple[str, str]]:
    return dict.fromkeys((planned.wave, planned.stage) for planned in plan.changes)


def _kind(
    kind: KindName, some: Sequence[Planned], step_of: Mapping[tuple[str, str], int], owners: Owners
) -> Iterator[str]:
    signs = Counter(planned.change.action.value for planned in some)
    order = [action.value for action in Action]
    words = " ".join(
        counted(signs[sign], "restart") if sign == Action.RESTART.value else f"{sign}{signs[sign]:,}"
        for sign in sorted(signs, key=order.index)
    )
    rows: list[str] = []
    by_owner = grouped((_owner(planned, owners), planned) for planned in some)
    for owner in sorted(by_owner, key=lambda owner: (owner == NOBODY, owner)):
        if owners and (len(by_owner) > 1 or owner != NOBODY):
            title = safe(owner if owner == NOBODY else f"owner {owner}")
            head = f"{title}: {counted(len(by_owner[owner]), 'change')}"
            rows.append(f'<tr class="group"><th colspan="{len(_HEADS)}" scope="rowgroup">{head}</th></tr>')
        rows += _rows(by_owner[owner], step_of)
    heads = "".join(column_head(head) for head in _HEADS)
    opened = " open" if len(rows) <= OPEN_ROWS else ""
    yield (
        f'<details class="kind" id="kind-{kind.value}"{opened}><summary>{_TITLES[kind]} ({len(some):,}): {safe(words)}'
        f'</summary><div class="scroll changes" tabindex="0"><table><tr>{heads}</tr>{"".join(rows)}</table></div>'
        "</details>"
    )


def _owner(planned: Planned, owners: Owners) -> str:
    change = planned.change
    return owners.get(change.ref, NOBODY) if isinstance(change, ChangeOfTopic) else NOBODY


def _rows(some: Sequence[Planned], step_of: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """By step, cluster and name; equal changes on one cluster are told once."""
    alike = grouped(
        ((step_of[each.wave, each.stage], each.change.cluster, signature(each.change), each.risk), each)
        for each in some
    )
    together = [group for members in alike.values() for group in _together(members)]
    together.sort(key=lambda members: (step_of[members[0].wave, members[0].stage], members[0].change.cluster))
    for members in together:
        yield from _lines(members, step_of[members[0].wave, members[0].stage])


def _together(members: Sequence[Planned]) -> Iterator[Sequence[Planned]]:
    if len(members) >= FOLD or isinstance(members[0].change, AclChange):
        yield members
    else:
        yield from ([planned] for planned in members)


def _lines(members: Sequence[Planned], step: int) -> Iterator[str]:
    """A line for each field; the first one says of what."""
    first = members[0]
    change, words = first.change, words_of(first.change)
    rules = isinstance(change, AclChange)
    names = list(dict.fromkeys(words.subject(planned.change) for planned in members))
    subject = mono(names[0]) if len(names) == 1 else folded(f"{counted(len(names), words.noun)}, each", codes(names))
    values = [value for planned in (members if rules else members[:1]) for value in fields_of(planned.change)]
    texts = [value for each in values for value in (each.name, each.before or "", each.after)]
    find = findable((change.cluster, *names, *texts, f"{first.risk} risk"))
    sign, name = change.action.value, anchor(first.id)
    link = f'<a class="sign {SIGN_CLASSES[sign]}" id="{name}" href="#{name}" title="a link to this">{safe(sign)}</a>'
    badge = f'<span class="badge {first.risk}">{risk_label(Risk(first.risk))}</span>'
    head = link, subject, mono(change.cluster) if change.cluster else ""
    tail = badge, f'<a href="#step-{step}">{step}</a>'
    for number, value in enumerate(values):
        cells = (*head, *_cells(value), *tail) if number == 0 else ("", "", "", *_cells(value), "", "")
        style = "" if number == 0 else ' class="more"'
        yield f'<tr{style} data-find="{find}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _cells(value: FieldValues) -> tuple[str, str, str]:
    before = "" if value.before is None else mono(value.before) if value.before else _NOT_THERE
    after = mono(value.after) if value.after else _REMOVED
    return safe(value.name), before, after
