"""Translated offsets as a table, as JSON, and as the file kafka-consumer-groups --reset-offsets reads."""

from __future__ import annotations

from reconciler.model.reports.offsets import TranslatedOffset, Translations
from reconciler.render.escape import lines_of
from reconciler.render.report_json import report_json
from reconciler.render.wrap import table_lines
from reconciler.text import counted

_EXACT = {"record": "", "next": ": the next record that was copied", "end": ": nothing after it was copied yet"}


def translations_text(report: Translations, width: int | None = None) -> str:
    """One row a position, widths as the longest needs; what is not exact says why. ``width``: of the terminal, in
    columns."""
    head: tuple[str, ...] = "group", f"on {report.origin}", "offset", f"on {report.destination}", "offset", ""
    rows = [_cells(row) for row in report.rows]
    if not any(row.group for row in report.rows):
        head, rows = head[1:], [cells[1:] for cells in rows]
    lines = table_lines((head, *rows), width)
    lines += [f"left out: {description}" for description in report.left_out]
    exact = sum(row.found.exact for row in report.rows)
    lines.append(f"{counted(len(rows), 'position')}, {exact} exact")
    return lines_of(line.rstrip() for line in lines)


def translations_json(report: Translations) -> str:
    """As schemas/reports/translations.schema.json."""
    positions = [
        {
            **({"group": row.group} if row.group else {}),
            "topic": row.topic,
            "partition": row.partition,
            "offset": row.offset,
            "to_topic": row.other,
            "to_offset": row.found.offset,
            "exactness": row.found.exactness,
            **({"reason": row.found.reason} if row.found.reason else {}),
        }
        for row in report.rows
    ]
    names = {"flow": report.flow, "from": report.origin, "to": report.destination}
    result = {"exact": report.exact, "exit_code": report.exit_code, "positions": positions, "left_out": report.left_out}
    return report_json("translations", report.environment, **names, **result)


def translations_csv(report: Translations) -> str:
    """For ``kafka-consumer-groups --reset-offsets --from-file``: topic,partition,offset, with the group first when
    there are several. Positions without an offset are left out, so that the tool does not touch them."""
    several = len({row.group for row in report.rows}) > 1
    known = [row for row in report.rows if row.found.offset is not None]
    groups = [f"{row.group}," if several else "" for row in known]
    rows = zip(groups, known, strict=True)
    return "".join(f"{group}{row.other},{row.partition},{row.found.offset}\n" for group, row in rows)


def _cells(row: TranslatedOffset) -> tuple[str, ...]:
    translation = row.found
    exactness = translation.exactness.value
    how = f"exact{_EXACT[exactness]}" if translation.exact else exactness
    how += f": {translation.reason}" if translation.reason else ""
    offset = "-" if translation.offset is None else str(translation.offset)
    return (row.group, f"{row.topic}-{row.partition}", str(row.offset), f"{row.other}-{row.partition}", offset, how)
