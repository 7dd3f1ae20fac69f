"""A plan as one HTML page: risk badges, tables before beside after, cards, values; for phones, desks and paper.

Everything is in the page without its script, which only adds a filter. A content security policy forbids the rest.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.engine.kinds import KINDS
from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.summary import verdict
from reconciler.model.changes import AclChange, Action, ChangeOfTopic, KindName, Risk
from reconciler.model.plan import Basis, Plan, Planned
from reconciler.render.map.formats import map_section
from reconciler.render.markup import findable
from reconciler.render.markup import page as safe
from reconciler.render.page import code, codes, column_head, folded, mono, page_html, table
from reconciler.render.plan import impact, kinds
from reconciler.render.plan.outline import (
    FOLD,
    EntryPlace,
    PlanEntry,
    PlanStep,
    basis_words,
    gates_words,
    outline,
    risk_label,
    seen,
)
from reconciler.render.plan.sections import (
    NO_HANDOFF,
    NOTHING_ABOUT,
    AboutPlan,
    Handoff,
    Owners,
    ReportPage,
    Section,
    SectionItem,
    left_sections,
    load_sections,
    outside_sections,
    shift_sections,
)
from reconciler.text import counted, grouped

WITHOUT_OWNER = "without an owner"
SIGN_CLASSES = {"+": "add", "~": "change", "!": "restart", "-": "remove"}
OPEN_ROWS = 150
"""A kind with more lines than that is folded at first."""
_OPEN = 40
_FEW = 8
"""Entries of a plan whose steps are open."""
_CELL_NAMES = 3
"""Names in a cell that are not folded."""
_CARDS = 24
"""Limit of cards of dangerous changes: a reader does not read more one by one, and the page would have all of them
twice."""
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


def plan_html(plan: Plan, handoff: Handoff = NO_HANDOFF, about: AboutPlan = NOTHING_ABOUT) -> str:
    return page_html(f"{plan.basis.environment}: plan", plan_body(plan, handoff, about))


def plan_body(plan: Plan, handoff: Handoff = NO_HANDOFF, about: AboutPlan = NOTHING_ABOUT) -> list[str]:
    """The elements of ``plan_html``: first what a reader must see before agreeing, last what is only for reference."""
    # The same sections as in Markdown and text, in another order: a page is not cut, and has an index at its top.
    steps, outside = outline(plan), outside_sections(plan)
    sections = *load_sections(plan), *shift_sections(plan), *left_sections(plan)
    body = [
        *_top(
            f"{about.lead}{verdict(plan)}",
            plan.basis.environment,
            plan.basis,
            _links(steps, (*outside, *about.before, *sections)),
        ),
        *_sections(outside),
        *_dangers(steps),
        *impact.amounts_section(about.amounts),
        *_sections(section for section in (*about.before, *sections) if section.urgent),
    ]
    if about.drawn is not None:
        body += map_section(about.drawn)
    body += _sections(section for section in about.before if not section.urgent)
    if plan.changes and plan.rollout and about.drawn is None:  # the map has the gates beneath its waves
        body.append(f'<p class="faint">{safe(gates_words(plan.rollout.gates))}</p>')
    body += change_tables(plan, about.owners)
    if steps:  # many of them are folded: the tables show the changes already
        opened = " open" if sum(len(step.entries) for step in steps) <= _FEW else ""
        title = f"In the order of apply, with reasons ({counted(len(steps), 'step')})"
        body.append(f'<details class="section" id="steps"{opened}><summary>{title}</summary>')
        body += [line for step in steps for line in _step(step)]
        body.append("</details>")
    body += _sections(section for section in sections if not section.urgent)
    if handoff.apply and plan.changes and not plan.refused and not plan.unknown:
        body.append(f"<h2>Apply exactly this</h2><pre>{safe(handoff.apply)}</pre>")
    return [*body, f'<p class="faint">plan digest <code>{planfile.digest(plan)}</code></p>']


def offline_html(environment: str, sections: Sequence[Section]) -> str:
    """The page without any cluster's answers."""
    top = f"<h1>{safe(environment)}: {safe(sections[0].why)}</h1>"
    said = "<p>No cluster was asked: this is the edit alone, not a plan.</p>"
    return page_html(f"{environment}: edit", [top, said, f"<nav>{_links((), sections)}</nav>", *_sections(sections)])


def report_html(report: ReportPage) -> str:
    return page_html(f"{report.environment}: {report.title or report.kind}", report_body(report))


def report_body(report: ReportPage) -> list[str]:
    sections = report.sections
    top = _top(report.verdict, report.environment, report.basis, _links((), sections), report.origin)
    return [*top, *_sections(sections)]


def _top(said: str, environment: str, basis: Basis | None, links: str, origin: Sequence[str] = ()) -> Iterator[str]:
    yield f"<h1>{safe(said)}</h1>"
    for line in origin or (basis_words(basis) if basis else f"environment {environment}",):
        yield f'<p class="faint">{safe(line)}</p>'
    clusters = basis.clusters if basis else ()
    rows = [(code(cluster.name), safe(seen(cluster))) for cluster in clusters]
    if rows:
        yield table(("cluster", "as it was read"), rows)
    yield f"<nav>{links}</nav>"


def _links(steps: Sequence[PlanStep], sections: Iterable[Section]) -> str:
    links = [(f"step-{step.number}", f"{step.number}. {step.title} ({step.count:,})") for step in steps]
    links += [(_anchor(section), f"{section.title} ({section.count or len(section.items):,})") for section in sections]
    return " ".join(f'<a href="#{name}">{safe(text)}</a>' for name, text in links)


def _anchor(section: Section) -> str:
    """An anchor from the title, so that links to a section stay valid in later plans."""
    return "-".join(word for word in "".join(c if c.isalnum() else " " for c in section.title.lower()).split())


def _dangers(steps: Sequence[PlanStep]) -> Iterator[str]:
    """Dangerous changes: subject, place, stakes, readers, and whether the change can be reverted."""
    high = [
        (step, place, entry)
        for step in steps
        for place in step.places
        for entry in place.entries
        if entry.risk is Risk.HIGH
    ]
    if not high:
        return
    count = sum(len(entry.names) for _, _, entry in high)
    yield f'<section class="urgent" id="dangerous"><h2>Dangerous ({count:,})</h2><div class="cards">'
    for step, place, entry in high[:_CARDS]:
        where = f" on {mono(place.cluster)}" if place.cluster else ""
        # A mirror's change consists of its reasons to restart, which the headline lacks.
        causes = [line for line in entry.lines if entry.noun == "mirror" and not line.startswith("fingerprint ")]
        facts = (*causes, *(entry.stakes or ("what it puts at stake was not measured",)), entry.reversibility)
        yield (
            f'<article class="card"><header>{mono(entry.title)}{where}</header><p>{safe(entry.headline)}</p>'
            f"{_list(SectionItem(fact) for fact in facts)}"
            f'<p class="risk high">{safe(entry.risk_text)}</p>'
            f'<p class="faint"><a href="#step-{step.number}">step {step.number}, {safe(step.title)}</a></p></article>'
        )
    left = len(high) - _CARDS
    more = f"<p>and {left:,} more among the changes, with the badge HIGH risk</p>" if left > 0 else ""
    yield f"</div>{more}</section>"


# tables of changes


def change_tables(plan: Plan, owners: Owners) -> Iterator[str]:
    """All changes, before beside after, folded by kind and by owner. Each line leads to its step (``outline``). Without
    ``owners`` the page names none."""
    if not plan.changes:
        return
    stages = dict.fromkeys((planned.wave, planned.stage) for planned in plan.changes)
    step_of = {stage: number for number, stage in enumerate(stages, start=1)}
    yield f'<section id="changes"><h2>Changes, before and after ({len(plan.changes):,})</h2>'
    by_kind = grouped((planned.change.kind, planned) for planned in plan.changes)
    for kind in (kind.name for kind in KINDS if kind.name in by_kind):
        rows: list[str] = []
        # An owner reads the changes of its own topics; without labels there is one group, and it has no heading.
        by_owner: dict[str, list[Planned]] = {}
        for planned in by_kind[kind]:
            change = planned.change
            owner = owners.get(change.ref, WITHOUT_OWNER) if isinstance(change, ChangeOfTopic) else WITHOUT_OWNER
            by_owner.setdefault(owner, []).append(planned)
        for owner in sorted(by_owner, key=lambda owner: (owner == WITHOUT_OWNER, owner)):
            if owners and (len(by_owner) > 1 or owner != WITHOUT_OWNER):
                title = safe(owner if owner == WITHOUT_OWNER else f"owner {owner}")
                head = f"{title}: {counted(len(by_owner[owner]), 'change')}"
                rows.append(f'<tr class="group"><th colspan="{len(_HEADS)}" scope="rowgroup">{head}</th></tr>')
            rows += _rows(by_owner[owner], step_of)
        signs = Counter(planned.change.action for planned in by_kind[kind])
        counts = " ".join(
            counted(signs[action], "restart") if action is Action.RESTART else f"{action.value}{signs[action]:,}"
            for action in Action
            if action in signs
        )
        opened = " open" if len(rows) <= OPEN_ROWS else ""
        summary = f"{_TITLES[kind]} ({len(by_kind[kind]):,}): {safe(counts)}"
        heads = "".join(column_head(head) for head in _HEADS)
        yield (
            f'<details class="kind" id="kind-{kind.value}"{opened}><summary>{summary}</summary>'
            f'<div class="scroll changes" tabindex="0"><table><tr>{heads}</tr>{"".join(rows)}</table></div></details>'
        )
    yield "</section>"


def anchor(planned_id: str) -> str:
    """The same for the same change in each plan, so that a link to it can be sent to others."""
    return f"change-{hashlib.sha256(planned_id.encode()).hexdigest()[:12]}"


def _rows(some: Sequence[Planned], step_of: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """By step, cluster and name; equal changes on one cluster share a row, which has a line for each field."""
    together: list[list[Planned]] = []
    alike = grouped(
        (
            (
                step_of[each.wave, each.stage],
                each.change.cluster,
                kinds.words_of(each.change).signature(each.change),
                each.risk,
            ),
            each,
        )
        for each in some
    )
    for members in alike.values():
        one_row = len(members) >= FOLD or isinstance(members[0].change, AclChange)
        # Two equal changes are read faster as two rows than as a fold; rules of one purpose always belong together.
        together += [members] if one_row else [[planned] for planned in members]
    together.sort(key=lambda members: (step_of[members[0].wave, members[0].stage], members[0].change.cluster))
    for members in together:
        first = members[0]
        change, words, step = first.change, kinds.words_of(first.change), step_of[first.wave, first.stage]
        names = list(dict.fromkeys(words.subject(planned.change) for planned in members))
        subject = (
            mono(names[0]) if len(names) == 1 else folded(f"{counted(len(names), words.noun)}, each", codes(names))
        )
        # Rules that share a row differ in their fields; of other changes with one signature all have the same.
        rules = [planned.change.acl for planned in members if isinstance(planned.change, AclChange)]
        values = [value for planned in (members if rules else members[:1]) for value in words.fields(planned.change)]
        texts = [value for each in values for value in (each.name, each.before or "", each.after)]
        columns = []
        for value in values if not rules else ():
            before = "" if value.before is None else mono(value.before) if value.before else _NOT_THERE
            columns.append((safe(value.name), before, mono(value.after) if value.after else _REMOVED))
        for said, alike_rules in kinds.rules_together(rules):
            cell = mono(said) if len(alike_rules) == 1 else folded(safe(said), codes(map(str, alike_rules)))
            columns.append(("", _NOT_THERE, cell) if change.action is Action.CREATE else ("", cell, _REMOVED))
        find = findable((change.cluster, *names, *texts, f"{first.risk} risk"))
        sign, name = change.action.value, anchor(first.id)
        link = (
            f'<a class="sign {SIGN_CLASSES[sign]}" id="{name}" href="#{name}" title="a link to this">{safe(sign)}</a>'
        )
        badge = f'<span class="badge {first.risk}">{risk_label(Risk(first.risk))}</span>'
        head = link, subject, mono(change.cluster) if change.cluster else ""
        tail = badge, f'<a href="#step-{step}">{step}</a>'
        for number, shown in enumerate(columns):
            cells = (*head, *shown, *tail) if number == 0 else ("", "", "", *shown, "", "")
            style = "" if number == 0 else ' class="more"'
            yield f'<tr{style} data-find="{find}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


# steps


def _step(step: PlanStep) -> Iterator[str]:
    if step.opens:
        yield f'<p class="wave"><strong>{safe(step.opens)}</strong></p>'
    title = f"{step.number}. {safe(step.title)}: {counted(step.count, 'change')}"
    yield f'<section><h2 id="step-{step.number}">{title} <small>{safe(step.why)}</small></h2>'
    for place in step.places:
        yield f"<h3>on {safe(place.cluster)}</h3>" if place.cluster else ""
        yield from (_card(entry, place) for entry in place.entries)
    yield "</section>"


def _card(entry: PlanEntry, place: EntryPlace) -> str:
    """One entry of the plan: what happens, the values, what is at stake, the risk with the way back, and what it waits
    for."""
    # The filter script searches this attribute alone, so it holds each word of the card, folded ones too, once.
    lines = dict.fromkeys((*entry.lines, *entry.rules))
    find = findable((place.cluster, *entry.names, entry.headline, *lines, f"{entry.risk} risk"))
    kind = SIGN_CLASSES.get(entry.sign, "change")
    lasting = ' <span class="badge lasting">irreversible</span>' if entry.irreversible else ""
    badge = f'<span class="badge {entry.risk}">{risk_label(entry.risk)}</span>'
    parts = [
        f'<article class="card" data-find="{find}"><header><span class="sign {kind}">{safe(entry.sign)}</span>'
        f' <span class="mono">{safe(entry.title)}</span> {badge}{lasting}</header>',
        f'<p class="what">{safe(entry.headline)}</p>',
    ]
    if len(entry.names) > 1:
        names = folded(counted(len(entry.names), entry.noun), codes(entry.names))
        parts.append(f'<p class="what">why: {safe(entry.why)}</p>{names}')
    if entry.values:
        # A new topic has no values before: an empty column would only take width from the others on a phone.
        fresh = not any(value.before for value in entry.values)
        rows = []
        for value in entry.values:
            before = f"{mono(value.before)} <span class=faint>{safe(value.before_source)}</span>"
            rows.append((mono(value.key), *(() if fresh else (before,)), mono(value.after), safe(value.by)))
        heads = ("config", "value", "because of") if fresh else ("config", "now", "then", "because of")
        parts.append(table(heads, rows))
    else:
        parts.append(_list(SectionItem(line) for line in entry.lines))
    parts.append(_list(SectionItem(line) for line in entry.stakes))
    if entry.risk_text:
        lasts = f'<span class="faint">({safe(entry.reversibility)})</span>'
        parts.append(f'<p class="risk {entry.risk}">{safe(entry.risk_text)} {lasts}</p>')
    if entry.needs:
        waits = f"waits for {counted(len(entry.needs), 'change')}: {safe(entry.needs_why)}"
        parts.append(folded(waits, codes(entry.needs)))
    if entry.later:
        parts.append(f'<p class="faint">{safe(entry.later)}</p>')
    return "".join((*parts, "</article>"))


# sections


def _sections(sections: Iterable[Section]) -> Iterator[str]:
    for section in sections:
        count = len(section.items) if section.count is None else section.count
        why = f"<small>{safe(section.why)}</small>" if section.why else ""
        inner = _list(section.items)
        if section.table is not None:
            rows = section.table.rows
            cells = ([safe(cell) if isinstance(cell, str) else _names(cell) for cell in row] for row in rows)
            inner = table(section.table.heads, cells)
        if section.urgent:
            title = f'<h2 id="{_anchor(section)}">{safe(section.title)} ({count:,}) {why}</h2>'
            yield f'<section class="urgent">{title}{inner}</section>'
        else:
            opened = " open" if len(section.items) <= _OPEN else ""
            summary = f"<summary>{safe(section.title)} ({count:,}) {why}</summary>"
            yield f'<details class="section" id="{_anchor(section)}"{opened}>{summary}{inner}</details>'


def _names(names: Sequence[str]) -> str:
    """In a cell: three stay in sight, more are folded."""
    return codes(names) if len(names) <= _CELL_NAMES else folded(f"{len(names):,} alike", codes(names))


def _list(items: Iterable[SectionItem]) -> str:
    words = []
    for item in items:
        kind = SIGN_CLASSES.get(item.sign, "change")
        sign = f'<span class="sign {kind}">{safe(item.sign)}</span> ' if item.sign else ""
        more = "".join(f"<li>{safe(line)}</li>" for line in item.more)
        which = folded(f"all {len(item.names):,}", codes(item.names)) if item.names else ""
        words.append(f"<li>{sign}{safe(item.text)}{which}{f'<ul>{more}</ul>' if more else ''}</li>")
    return f"<ul>{''.join(words)}</ul>" if words else ""
