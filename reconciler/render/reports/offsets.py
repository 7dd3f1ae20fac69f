"""Translated positions as a table, as JSON, and as the file that kafka-consumer-groups --reset-offsets reads."""

from __future__ import annotations

import json

from reconciler.counts import counted
from reconciler.translations import Translated, Translations

HOW = {
    "record": "exact",
    "next": "exact: the next record that was copied",
    "end": "exact: nothing after it was copied yet",
    "earlier": "earlier",
    "unknown": "unknown",
}


def translations_text(made: Translations) -> str:
    """One row a position, widths as the longest needs; what is not exact says why."""
    head: tuple[str, ...] = ("group", f"on {made.origin}", "offset", f"on {made.destination}", "offset", "")
    rows = [_cells(row) for row in made.rows]
    if not any(row.group for row in made.rows):
        head, rows = head[1:], [cells[1:] for cells in rows]
    widths = [max(len(cells[at]) for cells in (head, *rows)) for at in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) for cells in (head, *rows)]
    lines += [f"left out: {what}" for what in made.left_out]
    exact = sum(row.found.exact for row in made.rows)
    lines.append(f"{counted(len(rows), 'position')}, {exact} exact")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def translations_json(made: Translations) -> str:
    """As schemas/translations.schema.json."""
    told = {
        "format_version": 1,
        "kind": "translations",
        "environment": made.environment,
        "flow": made.flow,
        "from": made.origin,
        "to": made.destination,
        "exact": made.exact,
        "exit_code": int(made.exit_code),
        "positions": [
            {
                **({"group": row.group} if row.group else {}),
                "topic": row.topic,
                "partition": row.partition,
                "offset": row.offset,
                "to_topic": row.other,
                "to_offset": row.found.offset,
                "exactness": row.found.exactness.value,
                **({"reason": row.found.reason} if row.found.reason else {}),
            }
            for row in made.rows
        ],
        "left_out": list(made.left_out),
    }
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


def translations_csv(made: Translations) -> str:
    """For ``kafka-consumer-groups --reset-offsets --from-file``: topic,partition,offset, with the group first when
    there are several. Positions without an offset are left out, so that the tool does not touch them."""
    several = len({row.group for row in made.rows}) > 1
    known = [row for row in made.rows if row.found.offset is not None]
    lines = [f"{row.other},{row.partition},{row.found.offset}" for row in known]
    if several:
        lines = [f"{row.group},{line}" for row, line in zip(known, lines, strict=True)]
    return "".join(f"{line}\n" for line in lines)


def _cells(row: Translated) -> tuple[str, ...]:
    found = row.found
    how = HOW[found.exactness.value] + (f": {found.reason}" if found.reason else "")
    offset = "-" if found.offset is None else str(found.offset)
    return (row.group, f"{row.topic}-{row.partition}", str(row.offset), f"{row.other}-{row.partition}", offset, how)
