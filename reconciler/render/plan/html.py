"""A plan as one HTML file: for phones and desks, light and dark, paper; it asks nothing of any server.

Everything is in the page without its script, which only adds a filter. A content security policy forbids the rest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence

from reconciler import planfile
from reconciler.causes import History
from reconciler.changes import Risk
from reconciler.counts import counted
from reconciler.plans import Outcome, Plan
from reconciler.probes import Probe
from reconciler.rendering.drift import NOTHING, differences, drift_verdict
from reconciler.rendering.escaping import page as safe
from reconciler.rendering.fitting import Handoff
from reconciler.rendering.html_style import CSS, SCRIPT
from reconciler.rendering.outcomes import Rolled, outcome_sections
from reconciler.rendering.outline import Entry, Place, Step, Value, ground, outline, seen
from reconciler.rendering.sections import Item, Section, left_sections, load_sections
from reconciler.rendering.shifts import shift_sections
from reconciler.rendering.waves import gates_words
from reconciler.summary import applied_verdict, verdict

_KINDS = {"+": "add", "~": "change", "!": "restart", "-": "remove"}
_OPEN = 40


def plan_html(plan: Plan, handoff: Handoff | None = None, before: Sequence[Section] = ()) -> str:
    """``before``: sections told ahead of the changes, such as what an edit means."""
    goes_on = handoff or Handoff()
    steps, left = outline(plan), (*load_sections(plan), *shift_sections(plan), *left_sections(plan))
    ready = plan.changes and not plan.refused and not plan.unknown
    body = [
        *_top(plan, verdict(plan), _links(steps, (*before, *left))),
        *_sections(one for one in left if one.urgent),
        *_sections(before),
        *([f'<p class="faint">{safe(gates_words(plan.rollout.gates))}</p>'] if plan.rollout and plan.changes else ()),
        *(line for step in steps for line in _step(step)),
        *_sections(one for one in left if not one.urgent),
        *([f"<h2>Apply exactly this</h2><pre>{safe(goes_on.apply)}</pre>"] if goes_on.apply and ready else ()),
        f'<p class="faint">plan digest <code>{planfile.digest(plan)}</code></p>',
    ]
    return _page(f"{plan.basis.environment}: plan", body)


def offline_html(environment: str, sections: Sequence[Section]) -> str:
    """What is known without any cluster."""
    top = f"<h1>{safe(environment)}: {safe(sections[0].why)}</h1>"
    said = "<p>No cluster was asked: this is the edit alone, not a plan.</p>"
    return _page(f"{environment}: edit", [top, said, f"<nav>{_links((), sections)}</nav>", *_sections(sections)])


def drift_html(plan: Plan, seen: History = NOTHING) -> str:
    found = tuple(
        Item(one.subject, (f"found {one.found}", one.aim, f"{one.cause}: {one.why}"), sign="~")
        for one in differences(plan, seen)
    )
    drifted = (Section("Differences", "the clusters are not as git declares", found, urgent=True),) if found else ()
    sections = (*drifted, *left_sections(plan))
    body = [*_top(plan, drift_verdict(plan), _links((), sections)), *_sections(sections)]
    return _page(f"{plan.basis.environment}: drift", body)


def report_html(kind: str, environment: str, said: str, sections: Sequence[Section]) -> str:
    """A report that is no plan: its verdict and its sections."""
    top = (f"<h1>{safe(said)}</h1>", f'<p class="faint">environment {safe(environment)}</p>')
    return _page(f"{environment}: {kind}", [*top, f"<nav>{_links((), sections)}</nav>", *_sections(sections)])


def outcomes_html(
    plan: Plan, outcomes: Sequence[Outcome], probes: Sequence[Probe] = (), rolled: Rolled | None = None
) -> str:
    sections = outcome_sections(outcomes, probes, rolled)
    body = [*_top(plan, applied_verdict(plan, outcomes), _links((), sections)), *_sections(sections)]
    return _page(f"{plan.basis.environment}: apply", body)


def _page(title: str, body: Iterable[str]) -> str:
    allowed = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    head = (
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{safe(title)}</title>",
        f"<style>{CSS}</style>",
        "</head>",
        "<body><main>",
    )
    return "\n".join([*head, *body, "</main>", f"<script>{SCRIPT}</script>", "</body></html>"]) + "\n"


def _top(plan: Plan, said: str, links: str) -> Iterator[str]:
    yield f"<h1>{safe(said)}</h1>"
    yield f'<p class="faint">{safe(ground(plan.basis))}</p>'
    rows = [(f"<code>{safe(one.name)}</code>", safe(seen(one))) for one in plan.basis.clusters]
    if rows:
        yield _table(("cluster", "as it was read"), rows)
    yield f"<nav>{links}</nav>"


def _links(steps: Sequence[Step], sections: Iterable[Section]) -> str:
    found = [(f"step-{step.number}", f"{step.number}. {step.title} ({step.count:,})") for step in steps]
    found += [(_anchor(one), f"{one.title} ({one.count or len(one.items):,})") for one in sections]
    return " ".join(f'<a href="#{name}">{safe(text)}</a>' for name, text in found)


def _anchor(section: Section) -> str:
    return "-".join(word for word in "".join(c if c.isalnum() else " " for c in section.title.lower()).split())


def _step(step: Step) -> Iterator[str]:
    if step.opens:
        yield f'<p class="wave"><strong>{safe(step.opens)}</strong></p>'
    title = f"{step.number}. {safe(step.title)}: {counted(step.count, 'change')}"
    yield f'<section><h2 id="step-{step.number}">{title} <small>{safe(step.why)}</small></h2>'
    for place in step.places:
        yield f"<h3>on {safe(place.cluster)}</h3>" if place.cluster else ""
        yield from (_card(entry, place) for entry in place.entries)
    yield "</section>"


def _card(entry: Entry, place: Place) -> str:
    find = " ".join((place.cluster, *entry.names, entry.headline, *entry.lines, f"{entry.risk} risk")).lower()
    kind = _KINDS.get(entry.sign, "change")
    lasting = ' <span class="badge lasting">irreversible</span>' if entry.irreversible else ""
    parts = [
        f'<article class="card" data-find="{safe(find)}"><header><span class="sign {kind}">{safe(entry.sign)}</span>'
        f' <span class="mono">{safe(entry.title)}</span> {_badge(entry.risk)}{lasting}</header>',
        f'<p class="what">{safe(entry.headline)}</p>',
        _many(entry),
        _values(entry.values) if entry.values else _list(Item(line) for line in entry.lines),
        _list(Item(line) for line in entry.stakes),
    ]
    if entry.risk_text:
        parts.append(
            f'<p class="risk {entry.risk}">{safe(entry.risk_text)} <span class="faint">({safe(entry.reversibility)})'
            "</span></p>"
        )
    if entry.needs:
        after = ", ".join(f"<code>{safe(need)}</code>" for need in entry.needs)
        parts.append(_folded(f"waits for {counted(len(entry.needs), 'change')}: {safe(entry.needs_why)}", after))
    if entry.later:
        parts.append(f'<p class="faint">{safe(entry.later)}</p>')
    return "".join((*parts, "</article>"))


def _badge(risk: Risk) -> str:
    return f'<span class="badge {risk}">{risk.upper() if risk is Risk.HIGH else risk} risk</span>'


def _many(entry: Entry) -> str:
    if len(entry.names) == 1:
        return ""
    names = ", ".join(f"<code>{safe(name)}</code>" for name in entry.names)
    return f'<p class="what">why: {safe(entry.why)}</p>{_folded(counted(len(entry.names), entry.noun), names)}'


def _folded(summary: str, inner: str) -> str:
    return f"<details><summary>{summary}</summary>{inner}</details>"


def _values(values: Sequence[Value]) -> str:
    if all(not one.before for one in values):
        fresh = [(_mono(one.key), _mono(one.after), safe(one.by)) for one in values]
        return _table(("config", "value", "because of"), fresh)
    found = [
        (_mono(one.key), f"{_mono(one.before)} <span class=faint>{safe(one.before_source)}</span>", _mono(one.after))
        for one in values
    ]
    rows = [(*row, safe(one.by)) for row, one in zip(found, values, strict=True)]
    return _table(("config", "now", "then", "because of"), rows)


def _mono(text: str) -> str:
    return f'<span class="mono">{safe(text)}</span>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{one}</th>' for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0"><table><tr>{head}</tr>{body}</table></div>'


def _sections(sections: Iterable[Section]) -> Iterator[str]:
    for section in sections:
        count = len(section.items) if section.count is None else section.count
        why = f"<small>{safe(section.why)}</small>" if section.why else ""
        inner = _list(section.items)
        if section.urgent:
            title = f'<h2 id="{_anchor(section)}">{safe(section.title)} ({count:,}) {why}</h2>'
            yield f'<section class="urgent">{title}{inner}</section>'
        else:
            opened = " open" if len(section.items) <= _OPEN else ""
            summary = f"<summary>{safe(section.title)} ({count:,}) {why}</summary>"
            yield f'<details class="section" id="{_anchor(section)}"{opened}>{summary}{inner}</details>'


def _list(items: Iterable[Item]) -> str:
    found = []
    for item in items:
        sign = f'<span class="sign {_KINDS.get(item.sign, "change")}">{safe(item.sign)}</span> ' if item.sign else ""
        more = "".join(f"<li>{safe(line)}</li>" for line in item.more)
        which = ""
        if item.names:
            names = ", ".join(f"<code>{safe(name)}</code>" for name in item.names)
            which = _folded(f"all {len(item.names):,}", names)
        found.append(f"<li>{sign}{safe(item.text)}{which}{f'<ul>{more}</ul>' if more else ''}</li>")
    return f"<ul>{''.join(found)}</ul>" if found else ""
