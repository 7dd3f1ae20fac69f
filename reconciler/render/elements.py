"""Elements of HTML that several pages share.

``mono``, ``code`` and ``codes`` take texts, and escape them; the others take HTML.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from reconciler.render.escape import page as safe


def mono(text: str) -> str:
    return f'<span class="mono">{safe(text)}</span>'


def code(text: str) -> str:
    return f"<code>{safe(text)}</code>"


def codes(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))


def folded(summary: str, inner: str, name: str = "", opened: bool = False) -> str:
    """``name``: of the element, where somebody may come back to it."""
    place = (f' id="{safe(name)}"' if name else "") + (" open" if opened else "")
    return f"<details{place}><summary>{summary}</summary>{inner}</details>"


def table(heads: Sequence[str], rows: Iterable[Iterable[str]], numbers: Collection[str] = ()) -> str:
    """``heads`` are words of ours; columns of ``numbers`` are aligned at their last digit. Where it is wider
    than the page it is moved under its frame, also by keys. On a phone, where a row is no row any more, each cell has
    its head before it, but two or three columns speak for themselves."""
    labelled = len(heads) > 3
    classes = [' class="number"' if head in numbers else "" for head in heads]
    head = "".join(column_head(each, css) for each, css in zip(heads, classes, strict=True))
    labels = [f' data-head="{head}"' if labelled and head else "" for head in heads]
    starts = [f"<td{label}{css}>" for label, css in zip(labels, classes, strict=True)]
    body = "".join(
        f"<tr>{''.join(f'{start}{cell}</td>' for start, cell in zip(starts, row, strict=True))}</tr>" for row in rows
    )
    return f'<div class="scroll" tabindex="0"><table><tr>{head}</tr>{body}</table></div>'


def column_head(head: str, css: str = "") -> str:
    """``head`` in markup. A column without one is no header: a screen reader would read out an empty one."""
    return f'<th scope="col"{css}>{head}</th>' if head else "<td></td>"
