"""Elements of HTML that several pages share.

``mono``, ``code`` and ``codes`` take texts, and escape them; the others take HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reconciler.render.escape import page as safe


def mono(text: str) -> str:
    return f'<span class="mono">{safe(text)}</span>'


def code(text: str) -> str:
    return f"<code>{safe(text)}</code>"


def codes(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))


def folded(summary: str, inner: str, name: str = "") -> str:
    """``name``: of the element, where somebody may come back to it."""
    place = f' id="{safe(name)}"' if name else ""
    return f"<details{place}><summary>{summary}</summary>{inner}</details>"


def table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """``heads`` are words of ours. Where it is wider than the page it is moved under its frame, also by keys."""
    head = "".join(f'<th scope="col">{head}</th>' for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0"><table><tr>{head}</tr>{body}</table></div>'
