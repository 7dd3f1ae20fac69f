"""The report of ``failover`` and ``failback``: verdict, checks, steps, and the records that each group reads again."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from reconciler.model.reports.failover import FailoverCheck, GroupMove, Level, PartedPartition, Report, StepResult
from reconciler.render.markup import PLAIN, Style, lines_of, markdown, report_json, table_lines
from reconciler.render.markup import page as safe
from reconciler.render.page import code, page_html, table
from reconciler.render.plan.html import report_body
from reconciler.render.plan.sections import ReportPage, Section, SectionItem
from reconciler.text import counted, grouped, moment, one_line, sentence, total

MOST_ROWS = 40
_SIGNS = {Level.FINE: "ok", Level.WARNS: "note", Level.STOPS: "STOP"}
_COLOURS = {Level.FINE: "+", Level.WARNS: "~", Level.STOPS: "alarm"}
_DONE = {result: result.value for result in StepResult} | {StepResult.FAILED: "FAILED", StepResult.PLANNED: "would"}


def failover_verdict(report: Report) -> str:
    move = report.seen.move
    description = f"{move.way} of {move.flow}"
    # A blocked dry run and a failed run have moved nothing to count.
    failed = [step for step in report.steps if step.result is StepResult.FAILED]
    if report.dry and report.blocked:
        stops = sum(check.level is Level.STOPS for check in report.checks)
        return f"Blocked: {description}: {stops} check{'s' if stops > 1 else ''} stop{'' if stops > 1 else 's'} it"
    if failed:
        return f"Failed: {description} at step {failed[0].name}"
    groups_left = sum(map(_left_alone, report.seen.groups))
    groups = f"{counted(len(report.seen.groups) - groups_left, 'group')} from {move.origin} to {move.destination}"
    head = "Would move" if report.dry else "Moved"
    if all(step.result in (StepResult.ALREADY, StepResult.SKIPPED) for step in report.steps):
        head = "Nothing to do, already moved"
    alone = f"; {counted(groups_left, 'group')} left alone, with members on {move.destination}" if groups_left else ""
    moves = f"{head} {groups}: "

    # Records that moved groups read again or miss, exactly or as a bound.
    moved = [move for move in report.seen.groups if not _left_alone(move)]
    again, missed = (total([group_total(move, which) for move in moved]) for which in ("again", "missed"))
    exact, went_on = all(map(_exact, moved)), any(map(_went_on, moved))
    if again is None or missed is None:
        unset = sum(group_total(move, "again") is None for move in moved)
        without = f"{counted(unset, 'group')} without offsets for some partition"
        return f"{moves}{without}; auto.offset.reset decides there{alone}"
    if not report.seen.reachable and not exact:
        unread = f"{counted(again, 'record')} unread there, {'<= ' if missed else ''}{missed:,} missed"
        return f"{moves}by their last checkpoints, {unread}; what they read since then is read again{alone}"
    bound = "" if exact else "at most "
    at_most = "at most " if missed and went_on else bound
    return f"{moves}{bound}{counted(again, 'record')} read again, {at_most}{missed:,} missed{alone}"


def _left_alone(group: GroupMove) -> bool:
    """The group reads at the destination, so its offsets are its own."""
    return bool(group.note) and group.destination.members > 0


def group_total(group: GroupMove, which: str) -> int | None:
    """The sum over all its partitions; None if one is unknown."""
    return total([offset.again if which == "again" else offset.missed for offset in group.offsets])


def _exact(group: GroupMove) -> bool:
    return all(offset.translated.exact for offset in group.offsets)


def _went_on(group: GroupMove) -> bool:
    return any(offset.went_on for offset in group.offsets)


def failover_text(report: Report, style: Style = PLAIN) -> str:
    lines = [style.paint("bold", failover_verdict(report))]
    lines.append(f"environment {report.environment}{', dry run: nothing was changed' if report.dry else ''}")
    lines += ["", "checks"]
    for check in report.checks:
        lines.append(f"  {style.paint(_COLOURS[check.level], f'{_SIGNS[check.level]:5}')} {check.text}")
        lines += [f"        {check.todo}"] if check.todo else []
    lines += ["", "steps"]
    for step in report.steps:
        took = f" ({step.seconds:.1f} s)" if step.seconds >= 0.05 else ""
        lines.append(f"  {_DONE[step.result]:8}{step.name:9}{one_line(step.text)}{took}")
    for title, rows in _tables(report):
        lines += ["", title, *table_lines(rows[: MOST_ROWS + 1], style.width, range(1, 6)), *_more(rows)]
    return lines_of([*lines, *_left_behind(report)], style)


def _tables(report: Report) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """A title, and rows, of which the first has the heads."""
    # At a failback the destination is the flow's source.
    source, target = report.seen.move.destination, report.seen.move.origin
    head = ("partition", "from", "up to", f"only on {source}", "up to", f"only on {target}", f"times on {source}")
    rows: list[tuple[str, ...]] = [head]
    for each in report.seen.parted:
        numbers = (each.at, each.source_end, each.source_records, each.target_end, each.target_records)
        times = ""
        if each.first_ms is not None and each.last_ms is not None:
            times = f"{moment(each.first_ms)} to {moment(each.last_ms)}"
        shown = ("?",) * 5 if each.unknown else tuple(f"{number:,}" for number in numbers)
        rows.append((each.name, *shown, each.unknown or times))
    if len(rows) > 1:
        yield "records on one side only", rows

    # A checkpoint only gives a bound: the group reads again at most everything that was unread then.
    move, again = report.seen.move, "again" if report.seen.reachable else "unread"
    rows = [("group", f"members {move.origin}", f"members {move.destination}", "offsets", again, "missed", "note")]
    for group in report.seen.groups:
        members = f"{group.origin.members:,}" if report.seen.reachable else "?", f"{group.destination.members:,}"
        unread = group_total(group, "again")
        waiting = f"{unread:,}" if again == "unread" and unread is not None else _bounded(group, "again")
        offsets, missed = f"{len(group.offsets):,}", _bounded(group, "missed")
        rows.append((group.group, *members, offsets, waiting, missed, group.note))
    if len(rows) > 1:
        yield "groups", rows


def _more(rows: Sequence[tuple[str, ...]]) -> list[str]:
    more = len(rows) - 1 - MOST_ROWS
    return [f"and {counted(more, f'more {rows[0][0]}')}; --format json has them all"] if more > 0 else []


def _bounded(group: GroupMove, which: str) -> str:
    total = group_total(group, which)
    if total is None:
        return "?"
    sure = _exact(group) and not (which == "missed" and _went_on(group))
    return f"{total:,}" if sure or total == 0 else f"<= {total:,}"


def _left_behind(report: Report) -> list[str]:
    if report.dry or not report.seen.move.drained:
        return []
    origin, left_behind = report.seen.move.origin, report.left_behind
    if left_behind is None:
        why = "it does not report where every partition ends" if report.seen.reachable else "it does not answer"
        return ["", f"what was written on {origin} and not copied is not known: {why}"]
    copied = f"nothing is left behind on {origin}"
    return ["", f"not copied: {counted(left_behind, 'offset')} written on {origin} since" if left_behind else copied]


def failover_markdown(report: Report) -> str:
    lines = [f"**{failover_verdict(report)}**", ""]
    for check in report.checks:
        lines.append(f"- {_SIGNS[check.level]}: {markdown(check.text)}")
        lines += [f"  - {markdown(check.todo)}"] if check.todo else []
    lines += ["", *(f"1. {_DONE[step.result]}: {markdown(one_line(step.text))}" for step in report.steps)]
    for _, (head, *rows) in _tables(report):
        cells = (f"| {' | '.join(map(markdown, row))} |" for row in rows[:MOST_ROWS])
        lines += ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|", *cells]
        lines += [line for more in _more([head, *rows]) for line in ("", more)]
    return lines_of([*lines, *_left_behind(report)])


def failover_html(report: Report) -> str:
    """One page, in the dress of a plan's: what stops it first, then steps and groups."""
    stops, warns, fine = check_sections(report.checks)
    steps = tuple(SectionItem(f"{_DONE[step.result]}: {step.name}: {one_line(step.text)}") for step in report.steps)
    course = Section("Steps", "dry run: nothing was changed" if report.dry else "", steps)
    shown = tuple(section for section in (stops, warns, course, fine) if section.items)
    page = ReportPage(report.seen.move.way.value, report.environment, failover_verdict(report), shown)
    body = report_body(page)
    for title, (head, *rows) in _tables(report):
        body.append(f"<h2>{sentence(title)} ({len(rows):,})</h2>")
        body.append(table(tuple(map(safe, head)), [(code(name), *map(safe, cells)) for name, *cells in rows]))
    body += [f"<p>{safe(line)}</p>" for line in _left_behind(report) if line]
    return page_html(f"{report.environment}: {report.seen.move.way}", body)


def check_sections(checks: Iterable[FailoverCheck]) -> tuple[Section, Section, Section]:
    """Checks that stop a move, those to know before it, and those in order."""
    items = grouped((check.level, SectionItem(check.text, (check.todo,) if check.todo else ())) for check in checks)
    stops, warns, fine = (tuple(items.get(level, ())) for level in (Level.STOPS, Level.WARNS, Level.FINE))
    return (
        Section("Stops it", "nothing is done until this is resolved", stops, urgent=True),
        Section("To know", "it continues, with this consequence", warns, urgent=True),
        Section("In order", "", fine),
    )


def failover_json(report: Report, exit_code: int) -> str:
    """As schemas/failover.schema.json."""
    facts = report.seen
    # Before the move the flow has offsets to copy; after it, those that were not copied are left behind.
    to_copy = None if facts.flow is None else facts.flow.left
    groups = [
        {
            "group": move.group,
            "members_origin": move.origin.members,
            "members_destination": move.destination.members,
            "read_again": group_total(move, "again"),
            "missed": group_total(move, "missed"),
            "exact": _exact(move),
            "note": move.note,
            "offsets": [
                {
                    "origin_topic": offset.origin[0],
                    "destination_topic": offset.destination[0],
                    "partition": offset.destination[1],
                    "committed": offset.committed,
                    "translated": offset.translated.offset,
                    "exact": offset.translated.exact,
                    "before": offset.before,
                    "after": offset.after,
                }
                for offset in move.offsets
            ],
        }
        for move in facts.groups
    ]
    return report_json(
        facts.move.way,
        report.environment,
        flow=facts.move.flow,
        origin=facts.move.origin,
        destination=facts.move.destination,
        verdict=failover_verdict(report),
        exit_code=exit_code,
        dry_run=report.dry,
        origin_answers=facts.reachable,
        left_on_origin=to_copy if report.dry else report.left_behind,
        may_be_lost=None if facts.reachable or facts.flow is None else facts.flow.lag,
        seconds=round(report.seconds, 3),
        checks=report.checks,
        steps=[replace(step, seconds=round(step.seconds, 3)) for step in report.steps],
        groups=groups,
        # At a failback the destination is the flow's source: fields are named by the move, as in the text.
        one_sided=[
            {
                "topic": each.source[0],
                "partition": each.source[1],
                "from": each.at,
                "destination_end": each.source_end,
                "destination_records": each.source_records,
                "origin_end": each.target_end,
                "origin_records": each.target_records,
                "first_ms": each.first_ms,
                "last_ms": each.last_ms,
                "unknown": each.unknown,
            }
            for each in facts.parted
        ],
        unsupported=dict(sorted(facts.unsupported.items())),
    )


def parted_text(
    flow: str, clusters: tuple[str, str], partitions: Sequence[PartedPartition], compared: int, width: int | None = None
) -> str:
    """Records that only one side of a flow with same offsets has. ``clusters``: its source and target; ``compared``:
    number of compared partitions; ``width``: of the terminal, in columns."""
    source, target = clusters
    if not partitions:
        return (
            f"The same: {counted(compared, 'partition')} of flow {flow}, offset by offset, on {source} and {target}\n"
        )
    rows = [("partition", "the same below", f"only on {source}", "up to", f"only on {target}", "up to", "")]
    for each in partitions:
        counts = (each.at, each.source_records, each.source_end, each.target_records, each.target_end)
        ours = [f"{count:,}" for count in counts]
        behind = "the copy is behind" if each.source_records else "the target continues"
        said = each.unknown or ("diverged" if each.diverged else behind)
        rows.append((each.name, *(("?",) * 5 if each.unknown else ours), said))
    diverged, unknown = sum(each.diverged for each in partitions), sum(bool(each.unknown) for each in partitions)
    parts = [f"{diverged} diverged"] if diverged else []
    parts += [f"{unknown} unknown"] if unknown else []
    parts += [f"{left} where one side continues"] if (left := len(partitions) - diverged - unknown) else []
    head = f"Flow {flow}, {counted(compared, 'partition')}: {', '.join(parts)}; the others are the same"
    return "\n".join([head, "", *table_lines(rows, width, range(1, 6))]) + "\n"
