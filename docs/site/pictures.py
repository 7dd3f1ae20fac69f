"""The drawings of docs/begin/concepts.md. Offsets are translated by the program's own map, not by the drawing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from reconciler.replication.offsets.map import CopiedRun, PartitionMap, Stretch

_STYLE = """<style>
.c{--ink:#1d2329;--faint:#57606a;--card:#fff;--line:#8b949e;--back:#f6f7f9;--copy:#0969da;--empty:#d8dee4;--group:#8250df}
@media screen and (prefers-color-scheme:dark){
.c{--ink:#e6e9ed;--faint:#a0a9b4;--card:#1a1f25;--line:#6e7781;--back:#111418;--copy:#58a6ff;--empty:#39424c;--group:#c3a1f5}}
.c text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--ink)}
.c .faint{fill:var(--faint);font-size:12px}.c .name{font-weight:600}
.c .back{fill:var(--back)}.c .cell{fill:var(--card);stroke:var(--line)}.c .empty{fill:var(--empty);stroke:var(--line)}
.c .copy{stroke:var(--copy);stroke-width:1.6}.c .group{stroke:var(--group);stroke-width:2.4;stroke-dasharray:5 3}
.c .group-text{fill:var(--group);font-weight:600}
</style>"""
_CELL, _LEFT, _TOP, _BELOW = 62, 164, 54, 190
"""Pixels: width of an offset, where logs begin, and the upper edges of both logs."""

RECORD, MARKER, ABORTED, FILLER = "record", "marker", "aborted", "filler"
SOURCE = (RECORD, RECORD, MARKER, ABORTED, MARKER, RECORD, RECORD, RECORD)
"""What a source partition has from offset 100 on: a transaction that committed, one that aborted, then records."""
FIRST, GROUP = 100, 103
TRANSLATED = PartitionMap([Stretch(100, 108, (CopiedRun(100, 40, 2), CopiedRun(105, 43, 3)))])


def pictures() -> dict[str, str]:
    """Each drawing by the name of its file."""
    return {"offsets.svg": offsets(), "same-offsets.svg": same_offsets(), "ownership.svg": ownership()}


def offsets() -> str:
    """A group at source offset 103, where no record is to be read, continues at the copy of the next one."""
    copies = (RECORD, RECORD, MARKER, RECORD, RECORD, RECORD, MARKER)
    to = {FIRST + at: TRANSLATED.downstream(FIRST + at).offset for at, kind in enumerate(SOURCE) if kind == RECORD}
    goal = TRANSLATED.downstream(GROUP)
    return _logs(
        "A flow translates offsets: a map says which target offset each source offset got",
        ("orders on east", FIRST, SOURCE),
        ("east.orders on west", 40, copies),
        [(source, target) for source, target in to.items() if target is not None],
        [(GROUP, goal.offset if goal.offset is not None else GROUP)],
        f"group billing: {GROUP} on east, {goal.offset} on west, {goal.exactness.value}",
    )


def same_offsets() -> str:
    """The copy has a filler wherever its source has no record for committed readers."""
    copies = tuple(kind if kind == RECORD else FILLER for kind in SOURCE)
    pairs = [(FIRST + at, FIRST + at) for at, kind in enumerate(SOURCE) if kind == RECORD]
    return _logs(
        "offsets: same: records keep their offsets; committed readers never see fillers",
        ("orders on east", FIRST, SOURCE),
        ("east.orders on west", FIRST, copies),
        pairs,
        [(GROUP, GROUP)],
        f"group billing: {GROUP} on both",
    )


def ownership() -> str:
    rows = (
        ("declared in a file", "apply makes it so"),
        ("made by a flow: remote topics, derived access", "apply keeps it as its source"),
        ("access rule that an earlier apply made, in no file now", "apply deletes it, last"),
        ("topic, quota or user that left the files", "stays; tombstone, absent or --prune deletes it"),
        ("anything else on the cluster", "never touched; drift lists it"),
    )
    parts = [f'<text class="name" x="20" y="30">{escape("What apply does with what is on a cluster")}</text>']
    for number, (what, then) in enumerate(rows):
        y = 48 + number * 46
        parts += [
            f'<rect class="cell" x="20" y="{y}" width="410" height="34" rx="6"/>',
            f'<text x="34" y="{y + 22}">{escape(what)}</text>',
            f'<line class="copy" x1="432" y1="{y + 17}" x2="468" y2="{y + 17}" marker-end="url(#arrow)"/>',
            f'<rect class="empty" x="472" y="{y}" width="360" height="34" rx="6"/>',
            f'<text x="486" y="{y + 22}">{escape(then)}</text>',
        ]
    return _svg(850, 48 + len(rows) * 46 + 8, "what apply owns", parts)


def _logs(
    title: str,
    source: tuple[str, int, Sequence[str]],
    target: tuple[str, int, Sequence[str]],
    copies: Iterable[tuple[int, int]],
    groups: Iterable[tuple[int, int]],
    below: str,
) -> str:
    parts = [f'<text class="name" x="20" y="28">{escape(title)}</text>']
    parts += [*_log(_TOP, *source), *_log(_BELOW, *target)]
    parts += [_line("copy", source[1], target[1], pair, _CELL // 2) for pair in copies]
    parts += [_line("group", source[1], target[1], pair, 3) for pair in groups]
    parts.append(f'<text class="group-text" x="{_LEFT}" y="{_BELOW + 84}">{escape(below)}</text>')
    return _svg(_LEFT + _CELL * max(len(source[2]), len(target[2])) + 30, _BELOW + 100, title, parts)


def _log(y: int, name: str, first: int, kinds: Sequence[str]) -> Iterator[str]:
    yield f'<text class="faint" x="20" y="{y + 25}">{escape(name)}</text>'
    for at, kind in enumerate(kinds):
        x = _LEFT + at * _CELL
        yield f'<rect class="{"cell" if kind == RECORD else "empty"}" x="{x}" y="{y}" width="{_CELL}" height="40"/>'
        yield f'<text x="{x + _CELL // 2}" y="{y + 17}" text-anchor="middle">{first + at}</text>'
        yield f'<text class="faint" x="{x + _CELL // 2}" y="{y + 33}" text-anchor="middle">{kind}</text>'


def _line(kind: str, first: int, first_target: int, pair: tuple[int, int], beside: int) -> str:
    x1, x2 = _LEFT + (pair[0] - first) * _CELL + beside, _LEFT + (pair[1] - first_target) * _CELL + beside
    return f'<line class="{kind}" x1="{x1}" y1="{_TOP + 42}" x2="{x2}" y2="{_BELOW - 4}" marker-end="url(#arrow)"/>'


def _svg(width: int, height: int, label: str, parts: Iterable[str]) -> str:
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0,0 10,5 0,10z" fill="#6e7781"/></marker></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="c" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(label)}">'
    )
    back = f'<rect class="back" x="0" y="0" width="{width}" height="{height}"/>'
    return "\n".join([head, _STYLE, arrow, back, *parts, "</svg>", ""])
