"""Every page of the live page: its parts, and the whole with style, script and the policy that allows only these."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never
from urllib.parse import urlencode

from reconciler.errors import Unknown
from reconciler.model.state.audit_chain import ChainReport
from reconciler.render.live.flows import Standings, flows_page, groups_page, overview
from reconciler.render.live.view import (
    TOO_OLD_MS,
    LivePage,
    LiveView,
    PageKind,
    Region,
    affairs_now,
    age,
    ages_of,
    live_now,
    pill,
)
from reconciler.render.markup import Format
from reconciler.render.markup import page as safe
from reconciler.render.page import CSS, SCRIPT, code, codes, folded, table
from reconciler.render.plan.html import plan_body, report_body
from reconciler.render.plan.sections import AboutPlan
from reconciler.render.reports.drift import drift_page
from reconciler.render.reports.status import lock_line
from reconciler.text import command_of, counted, grouped

TITLES = {
    PageKind.OVERVIEW: "Overview",
    PageKind.FLOWS: "Flows",
    PageKind.TOPICS: "Topics",
    PageKind.GROUPS: "Groups",
    PageKind.PLAN: "Plan",
    PageKind.DRIFT: "Drift",
    PageKind.AUDIT: "Lock and history",
}
_AGAIN_SECONDS = 10
"""How often a browser without scripts asks again."""
MOST_RUNS = 50
MOST_CHANGES = 200
AT_ONCE = 100
"""Topics on a page: with 10,000 of them a reader does not wait for all."""
_NUMBERS = frozenset(("partitions", "replicas"))
Line = Mapping[str, Any]


def regions(view: LiveView, page: LivePage, now_ms: int, standings: Standings | Unknown | None) -> tuple[Region, ...]:
    """``standings``: of the flow of a page of groups; each other page has none."""
    folder = safe(view.folder)
    parts = _regions(view, page, now_ms, standings)
    return tuple(replace(part, html=command_of(part.html, folder, page.flow or "FLOW")) for part in parts)


def _regions(view: LiveView, page: LivePage, now_ms: int, standings: Standings | Unknown | None) -> tuple[Region, ...]:
    """The regions of one kind of page. A calm one is not replaced while a person reads it."""
    match page.kind:
        case PageKind.OVERVIEW:
            return overview(view, now_ms)
        case PageKind.FLOWS:
            return flows_page(view, page, now_ms)
        case PageKind.TOPICS:
            return topics_page(view, page, now_ms)
        case PageKind.GROUPS:
            return groups_page(view, page, standings)
        case PageKind.PLAN:
            ages = Region("ages", age("plan", view.review, now_ms))
            if (review := view.review.value) is None:
                return (Region("head", "<h1>Pending plan: unknown</h1>"), ages)
            about = AboutPlan((), review.drawn, review.owners, review.amounts)
            return ages, Region("plan", "".join(plan_body(review.plan, about=about)), calm=True)
        case PageKind.DRIFT:
            ages = Region("ages", age("drift", view.review, now_ms))
            if (review := view.review.value) is None:
                return (Region("head", "<h1>Drift: unknown</h1>"), ages)
            report = drift_page(review.plan, Format.HTML, review.history)
            return ages, Region("drift", "".join(report_body(report)), calm=True)
        case PageKind.AUDIT:
            return history_page(view, now_ms)
        case _:
            assert_never(page.kind)


def topics_page(view: LiveView, page: LivePage, now_ms: int) -> tuple[Region, ...]:
    """Topics that match the search, ``AT_ONCE`` to a page. Search and pages are plain links and forms, so they work
    without scripts."""
    if (seen := view.clusters.value) is None:
        return (Region("head", "<h1>Topics: unknown</h1>"), Region("ages", age("topics", view.clusters, now_ms)))
    # Every word of the search has to be in the name, the owner or the problem of a topic.
    search = page.search.lower().split()
    rows = []
    for row in seen.topics:
        text = f"{row.name} {row.owner} {row.problem}".lower()
        if page.cluster in ("", row.cluster) and all(word in text for word in search):
            rows.append(row)
    old = " when they were last read" if view.clusters.age_ms(now_ms) > TOO_OLD_MS else ""
    problems = sum(bool(row.problem) for row in rows)

    # A form, so that it works without scripts.
    options = ['<option value="">all clusters</option>']
    for name in view.topology.clusters:
        chosen = " selected" if name == page.cluster else ""
        options.append(f'<option value="{safe(name)}"{chosen}>{safe(name)}</option>')
    hint = "name, flow, file, problem"
    choice = (
        f'<form action="/{PageKind.TOPICS.value}" method="get" role="search">'
        f'<label>cluster <select name="cluster">{"".join(options)}</select></label>'
        f'<label>search <input type="search" name="q" value="{safe(page.search)}" placeholder="{hint}"></label>'
        "<button>Show</button></form>"
    )

    pages = max(1, -(-len(rows) // AT_ONCE))
    number = min(max(1, page.number), pages)
    cells = []
    for row in rows[(number - 1) * AT_ONCE : number * AT_ONCE]:
        partitions = "" if row.partitions is None else f"{row.partitions:,}"
        factor = "" if row.partitions is None else "differ" if row.factor is None else f"{row.factor}"
        problem = pill(row.problem, "unknown" if row.problem.startswith("unknown") else "problem")
        shown = partitions, factor, problem if row.problem else "", safe(row.owner)
        cells.append((code(row.cluster), code(row.name), *shown))
    heads = ("cluster", "topic", "partitions", "replicas", "problem", "whose")
    topics = table(heads, cells, _NUMBERS) if cells else "<p>no topic matches</p>"
    if pages > 1:
        topics += f'<nav class="pages" aria-label="pages">{"".join(_numbers(page, number, pages))}</nav>'
    return (
        Region("head", f"<h1>{counted(len(rows), 'topic')}, {problems:,} with a problem{old}</h1>"),
        Region("ages", age("topics", view.clusters, now_ms)),
        Region("choice", choice, calm=True),
        Region("topics", topics, calm=True),
    )


def _numbers(page: LivePage, number: int, pages: int) -> Iterator[str]:
    """Links to the first pages, the last ones and those around this one."""
    wanted = sorted({1, 2, number - 1, number, number + 1, pages - 1, pages} & set(range(1, pages + 1)))
    for before, each in zip([0, *wanted], wanted, strict=False):
        yield "<span>\u2026</span>" if each - before > 1 else ""
        query = urlencode({"cluster": page.cluster, "q": page.search, "page": each})
        here = ' aria-current="page"' if each == number else ""
        yield f'<a href="/{PageKind.TOPICS.value}?{safe(query)}"{here}>{each:,}</a>'


def history_page(view: LiveView, now_ms: int) -> tuple[Region, ...]:
    """The lock and who changed what, newest first, with whether the record is whole."""
    lock = lock_line(affairs_now(view, now_ms).lock, live_now(view, now_ms), now_ms)
    chains, history = "", "<p class=unknown>unknown: it was not read</p>"
    if (trail := view.audit.value) is not None:
        rows = [(code(place), *_chain(report)) for place, report in trail.checked.places.items()]
        chains = table(("audit record of", "state", "why"), rows)
        runs = list(grouped((str(line.get("run", "")), line) for line in trail.lines).items())
        history = "".join(_run(name, its) for name, its in reversed(runs[-MOST_RUNS:])) or "<p>no run is recorded</p>"
        if len(runs) > MOST_RUNS:
            history += f"<p>and {len(runs) - MOST_RUNS:,} earlier runs in the record</p>"
    return (
        Region("head", f"<h1>{safe(lock[:1].upper() + lock[1:])}</h1>"),
        Region("ages", ages_of({"lock": view.lock, "audit record": view.audit}, now_ms)),
        Region("chains", chains),
        Region("runs", f"<h2>Who changed what</h2>{history}", calm=True),
    )


def _chain(report: ChainReport | Unknown) -> tuple[str, str]:
    """State and why."""
    if isinstance(report, Unknown):
        return pill("unknown", "unknown"), safe(report.with_todo)
    if report.broken is not None:
        return pill("broken", "problem"), safe(f"{report.broken.problem}, at {report.broken.at}")
    if report.doubts:
        return pill("not proved", "problem"), safe("; ".join(report.doubts))
    if not report.since:
        return pill("not checked", "unknown"), "no record has a digest of the one before it"
    return pill("whole", "ok"), safe(f"{counted(report.records, 'record')} since {report.since}")


def _run(name: str, lines: Sequence[Line]) -> str:
    begin = next((line for line in lines if line.get("kind") == "begin"), lines[0])
    ended = any(line.get("kind") == "end" for line in lines)
    changes = [line for line in lines if line.get("kind") == "change"]
    undone = sum(line.get("result") != "done" for line in changes)
    state = pill("ended", "ok") if ended else pill("no end recorded", "unknown")
    state += f" {pill(f'{undone} not done', 'problem')}" if undone else ""
    who = f"{begin.get('who', 'unknown')}@{begin.get('host', 'unknown')}"
    words = f"{safe(str(begin.get('at', '')))} {code(str(begin.get('command', 'unknown')))} by {safe(who)}"
    summary = f"{words}: {counted(len(changes), 'change')} {state}"
    rows = ((code(str(c.get("id"))), safe(str(c.get("result"))), safe(str(c.get("error") or ""))) for c in changes)
    shown = table(("change", "result", "error"), list(rows)[:MOST_CHANGES]) if changes else "<p>no change</p>"
    more = f"<p>and {len(changes) - MOST_CHANGES:,} more</p>" if len(changes) > MOST_CHANGES else ""
    commit = f"<p>commit {codes([str(begin['commit'])])}</p>" if begin.get("commit") else ""
    return folded(summary, f"{commit}{shown}{more}", f"run-{name}")


# the whole page


def digest(html: str) -> str:
    """A digest, by which a browser recognises a region that it already has."""
    return hashlib.sha256(html.encode()).hexdigest()[:16]


def live_html(view: LiveView, page: LivePage, parts: Sequence[Region], query: str, now_ms: int) -> str:
    """A whole page. ``query``: of its address, with ``?``, or empty. Its policy is a header (``live_policy``)."""
    environment = view.topology.environment
    title = f"{environment}: {TITLES[page.kind].lower()}"
    path = f"/{page.kind.value}" + (f"/{page.flow}" if page.flow and page.kind is PageKind.FLOWS else "")
    # The page's script replaces regions whose digest has changed, so that the others keep focus and place.
    links, sections = [], []
    for kind, name in TITLES.items():
        here = ' aria-current="page"' if kind is page.kind else ""
        links.append(f'<a href="/{kind.value}"{here}>{name}</a>')
    for part in parts:
        calm = ' data-calm=""' if part.calm else ""
        sections.append(f'<section id="{part.name}" data-digest="{digest(part.html)}"{calm}>{part.html}</section>')
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f'<noscript><meta http-equiv="refresh" content="{_AGAIN_SECONDS}"></noscript>',
            f"<title>{safe(title)}</title>",
            f"<style>{LIVE_CSS}</style>",
            "</head>",
            '<body><a class="skip" href="#main">to the page</a>',
            f'<header class="bar"><strong>{safe(environment)}</strong><nav aria-label="pages">{"".join(links)}</nav>',
            f'<span id="connection" role="status"><noscript>again every {_AGAIN_SECONDS} s</noscript></span></header>',
            '<p id="changed" class="changed" role="status" hidden>This has changed since you opened it.'
            ' <a href="">Show it as it is now</a></p>',
            f'<main id="main" data-events="/events{safe(path + query)}" data-now="{now_ms}">',
            *sections,
            "</main>",
            f"<script>{SCRIPT}</script>",
            f"<script>{LIVE_SCRIPT}</script>",
            "</body></html>",
        )
    )


_OWN_CSS = """
.skip{position:absolute;left:-99rem}.skip:focus{left:.5rem;top:.5rem;background:var(--card);padding:.4rem;z-index:3}
.bar{position:sticky;top:0;z-index:2;display:flex;flex-wrap:wrap;align-items:center;gap:.3rem 1rem;padding:.45rem 1rem;
background:var(--card);border-bottom:1px solid var(--line)}
.bar nav{margin:0;gap:.2rem}.bar nav a{border-color:transparent}
nav a[aria-current]{border-color:var(--ink);font-weight:600}
#connection{margin-left:auto;font-size:.85rem;color:var(--faint)}
.cut #connection{color:var(--remove);font-weight:600}
.changed{position:sticky;top:3rem;z-index:1;margin:0;padding:.4rem 1rem;background:var(--warn);
border-bottom:1px solid var(--warnline)}
main{max-width:90rem}
a{color:inherit}a:focus-visible,summary:focus-visible,.scroll:focus-visible,input:focus-visible,select:focus-visible,
button:focus-visible{outline:2px solid var(--restart);outline-offset:2px}
#tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(11.5rem,100%),1fr));gap:.5rem;margin:.6rem 0}
.tile{display:flex;flex-direction:column;gap:.1rem;background:var(--card);border:1px solid var(--line);
border-left:4px solid var(--line);border-radius:8px;padding:.4rem .7rem;text-decoration:none;line-height:1.35}
.tile small{color:var(--faint)}.tile span{font-size:.95rem;font-weight:600}
.tile.ok{border-left-color:var(--add)}.tile.problem{border-left-color:var(--remove)}
.tile.unknown{border-left-color:var(--faint);border-left-style:dashed}.tile.idle,.tile.busy{border-left-color:var(--change)}
.pill{display:inline-block;border:1px solid var(--line);border-radius:99px;padding:0 .5rem;font-size:.8rem;
white-space:nowrap}.pill.ok{color:var(--add);border-color:var(--add)}
.pill.problem{color:var(--remove);border-color:var(--remove);font-weight:600}
.pill.unknown{border-style:dashed;border-color:var(--faint);color:var(--faint)}
.pill.idle,.pill.busy{color:var(--change);border-color:var(--change)}
p.unknown{color:var(--faint);border-left:3px dashed var(--faint);padding-left:.6rem}
.late{color:var(--remove);font-weight:600}
form{display:flex;flex-wrap:wrap;gap:.6rem;align-items:center;margin:.6rem 0}
form label{display:flex;align-items:center;gap:.4rem;color:var(--faint);font-size:.9rem}
form label{white-space:nowrap}@media (min-width:36.01rem){form input{min-width:18rem}}
form input,select,button{font:inherit;font-size:.95rem;line-height:1.4;width:auto;padding:.35rem .6rem;
border:1px solid var(--line);border-radius:8px;background:var(--card);color:var(--ink);margin:0}
button{cursor:pointer}
td:nth-child(n+4),.number{font-variant-numeric:tabular-nums}
@media (min-width:36.01rem){th.number,td.number{text-align:right;padding-right:1.4rem}}
.urgent .cards{margin-bottom:.4rem}
@media (max-width:36rem){main{display:flex;flex-direction:column}main>section{min-width:0;order:2}
main>#head{order:0}main>#todo{order:1}}
@media print{.bar,.changed,.skip{display:none}}
"""
LIVE_CSS = CSS + _OWN_CSS

# Parts come as HTML that the server escaped; the policy of the page keeps scripts out of them whatever they hold.
LIVE_SCRIPT = """
(function(){
var main=document.getElementById('main'),state=document.getElementById('connection');
var offset=Date.now()-Number(main.getAttribute('data-now')),heard=Date.now();
function cut(){document.body.classList.add('cut');
state.textContent='not connected: what you see is old, and is asked for again'}
function ages(){if(Date.now()-heard>20000){cut()}
[].forEach.call(document.querySelectorAll('time[data-at]'),function(each){
var seconds=Math.max(0,Math.round((Date.now()-offset-Number(each.getAttribute('data-at')))/1000));
each.title=each.getAttribute('datetime');
each.textContent=seconds<120?seconds+' s ago':seconds<7200?Math.round(seconds/60)+' min ago':
seconds<172800?Math.round(seconds/3600)+' h ago':Math.round(seconds/86400)+' days ago'})}
function opened(part){var names={};[].forEach.call(part.querySelectorAll('details[id]'),function(each){
names[each.id]=each.open});return names}
function put(name,html,digest){var part=document.getElementById(name);
if(!part||part.getAttribute('data-digest')===digest){return}
if(part.hasAttribute('data-calm')){document.getElementById('changed').hidden=false;return}
var names=opened(part),active=document.activeElement,
place=active&&part.contains(active)?[].indexOf.call(part.querySelectorAll('a,summary,[tabindex]'),active):-1,
moved=[].map.call(part.querySelectorAll('.scroll'),function(each){return each.scrollLeft});
part.innerHTML=html;part.setAttribute('data-digest',digest);
[].forEach.call(part.querySelectorAll('details[id]'),function(each){if(each.id in names){each.open=names[each.id]}});
[].forEach.call(part.querySelectorAll('.scroll'),function(each,i){if(moved[i]){each.scrollLeft=moved[i]}});
var again=place<0?null:part.querySelectorAll('a,summary,[tabindex]')[place];
if(again){again.focus({preventScroll:true})}}
ages();setInterval(ages,1000);
if(!window.EventSource){state.textContent='this browser cannot listen: reload the page';return}
var source=new EventSource(main.getAttribute('data-events'));
source.addEventListener('parts',function(event){var told=JSON.parse(event.data);
heard=Date.now();offset=heard-told.now;document.body.classList.remove('cut');state.textContent='live';
told.parts.forEach(function(each){put(each.name,each.html,each.digest)});ages()});
source.onerror=cut})();
"""


def live_policy() -> str:
    """The Content-Security-Policy of every page: its own style and scripts by their digests, its own events."""
    scripts = " ".join(f"'sha256-{_allowed(script)}'" for script in (SCRIPT, LIVE_SCRIPT))
    return (
        f"default-src 'none'; style-src 'sha256-{_allowed(LIVE_CSS)}'; script-src {scripts}; connect-src 'self';"
        " img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def _allowed(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
