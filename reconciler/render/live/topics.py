"""Topics on the live page, a hundred at a time: with 10,000 of them nobody waits for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from reconciler.engine.topic_list import TopicRow
from reconciler.render.elements import code, table
from reconciler.render.escape import page as safe
from reconciler.render.live.parts import age, pill
from reconciler.render.live.view import TOO_OLD_MS, LivePage, LiveView, PageKind, Region
from reconciler.text import counted

AT_ONCE = 100
_NUMBERS = frozenset(("partitions", "replicas"))


def topics_page(view: LiveView, page: LivePage, now_ms: int) -> tuple[Region, ...]:
    if (seen := view.clusters.value) is None:
        return (Region("head", "<h1>Topics: unknown</h1>"), Region("ages", age("topics", view.clusters, now_ms)))
    rows = [row for row in seen.topics if _matches(row, page)]
    old = " when they were last read" if view.clusters.age_ms(now_ms) > TOO_OLD_MS else ""
    problems = sum(bool(row.problem) for row in rows)
    words = f"{counted(len(rows), 'topic')}, {problems:,} with a problem{old}"
    return (
        Region("head", f"<h1>{words}</h1>"),
        Region("ages", age("topics", view.clusters, now_ms)),
        Region("choice", "".join(_choice(view, page)), calm=True),
        Region("topics", "".join(_page(rows, page)), calm=True),
    )


def _matches(row: TopicRow, page: LivePage) -> bool:
    """Every word stands in the name, the owner or what is wrong."""
    if page.cluster not in ("", row.cluster):
        return False
    text = f"{row.name} {row.owner} {row.problem}".lower()
    return all(word in text for word in page.search.lower().split())


def _choice(view: LiveView, page: LivePage) -> Iterator[str]:
    """A form, so that it works without scripts."""
    options = ['<option value="">all clusters</option>']
    for name in view.topology.clusters:
        chosen = " selected" if name == page.cluster else ""
        options.append(f'<option value="{safe(name)}"{chosen}>{safe(name)}</option>')
    yield f'<form action="/{PageKind.TOPICS.value}" method="get" role="search">'
    yield f'<label>cluster <select name="cluster">{"".join(options)}</select></label>'
    hint = "name, flow, file, problem"
    yield f'<label>search <input type="search" name="q" value="{safe(page.search)}" placeholder="{hint}"></label>'
    yield "<button>Show</button></form>"


def _page(rows: Sequence[TopicRow], page: LivePage) -> Iterator[str]:
    pages = max(1, -(-len(rows) // AT_ONCE))
    number = min(max(1, page.number), pages)
    shown = rows[(number - 1) * AT_ONCE : number * AT_ONCE]
    if not shown:
        yield "<p>no topic is so</p>"
        return
    yield table(("cluster", "topic", "partitions", "replicas", "problem", "whose"), map(_row, shown), _NUMBERS)
    if pages > 1:
        yield f'<nav class="pages" aria-label="pages">{"".join(_numbers(page, number, pages))}</nav>'


def _row(row: TopicRow) -> tuple[str, ...]:
    partitions = "" if row.partitions is None else f"{row.partitions:,}"
    factor = "" if row.partitions is None else "differ" if row.factor is None else f"{row.factor}"
    state = "unknown" if row.problem.startswith("unknown") else "problem"
    problem = pill(row.problem, state) if row.problem else ""
    return code(row.cluster), code(row.name), partitions, factor, problem, safe(row.owner)


def _numbers(page: LivePage, number: int, pages: int) -> Iterator[str]:
    wanted = sorted({1, 2, number - 1, number, number + 1, pages - 1, pages} & set(range(1, pages + 1)))
    for before, each in zip([0, *wanted], wanted, strict=False):
        yield "<span>\u2026</span>" if each - before > 1 else ""
        query = urlencode({"cluster": page.cluster, "q": page.search, "page": each})
        here = ' aria-current="page"' if each == number else ""
        yield f'<a href="/{PageKind.TOPICS.value}?{safe(query)}"{here}>{each:,}</a>'
