"""What ``failover`` and ``failback`` print: the verdict first, then checks, steps, and what each group reads again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.failovers import Check, GroupMove, GroupOffset, Level, Report, Step, StepResult
from reconciler.rendering.style import Style

FORMAT_VERSION = 1
MOST_ROWS = 40
_SIGNS = {Level.FINE: "ok", Level.WARNS: "note", Level.STOPS: "STOP"}
_COLOURS = {Level.FINE: "+", Level.WARNS: "~", Level.STOPS: "alarm"}
_DONE = {
    StepResult.DONE: "done",
    StepResult.ALREADY: "already",
    StepResult.SKIPPED: "skipped",
    StepResult.FAILED: "FAILED",
    StepResult.PLANNED: "would",
}


def failover_verdict(report: Report) -> str:
    move = report.seen.move
    what = f"{move.way} of {move.flow}"
    failed = [step for step in report.steps if step.result is StepResult.FAILED]
    if report.dry and report.blocked:
        stops = sum(check.level is Level.STOPS for check in report.checks)
        return f"Blocked: {what}: {stops} check{'s' if stops > 1 else ''} stop{'' if stops > 1 else 's'} it"
    if failed:
        return f"Failed: {what} at step {failed[0].name}"
    left = sum(_left_alone(one) for one in report.seen.groups)
    groups = f"{counted(len(report.seen.groups) - left, 'group')} from {move.origin} to {move.destination}"
    head = "Would move" if report.dry else "Moved"
    if all(step.result in (StepResult.ALREADY, StepResult.SKIPPED) for step in report.steps):
        head = "Nothing to do, already moved"
    alone = f"; {counted(left, 'group')} left alone, with members on {move.destination}" if left else ""
    return f"{head} {groups}: {_sums(report)}{alone}"


def _left_alone(group: GroupMove) -> bool:
    """It reads at the destination, so its offsets are its own matter."""
    return bool(group.note) and group.destination.members > 0


def _sums(report: Report) -> str:
    """Of groups that are moved."""
    moved = [one for one in report.seen.groups if not _left_alone(one)]
    again = [group_total(one, "again") for one in moved]
    missed = [group_total(one, "missed") for one in moved]
    if None in again or None in missed:
        unset = sum(a is None for a in again)
        return f"{counted(unset, 'group')} without offsets for some partition; auto.offset.reset decides there"
    bound = "" if report.seen.reachable and all(map(_exact, moved)) else "at most "
    read_again, of_missed = counted(sum(a or 0 for a in again), "record"), sum(m or 0 for m in missed)
    at_most = "at most " if of_missed and any(map(_went_on, moved)) else bound
    return f"{bound}{read_again} read again, {at_most}{of_missed:,} missed"


def group_total(group: GroupMove, which: str) -> int | None:
    """Of all its partitions; None when one of them is not known."""
    found = [one.again if which == "again" else one.missed for one in group.offsets]
    return None if None in found else sum(one or 0 for one in found)


def _exact(group: GroupMove) -> bool:
    return all(one.translated.exact for one in group.offsets)


def _went_on(group: GroupMove) -> bool:
    return any(one.went_on for one in group.offsets)


def failover_text(report: Report, style: Style | None = None) -> str:
    chosen = style or Style()
    lines = [chosen.paint("bold", failover_verdict(report))]
    lines.append(f"environment {report.environment}{', dry run: nothing was changed' if report.dry else ''}")
    lines += ["", "checks", *(_check(check, chosen) for check in report.checks)]
    lines += ["", "steps", *(f"  {_DONE[step.result]:8}{step.name:9}{step.text}{_took(step)}" for step in report.steps)]
    if report.seen.groups:
        lines += ["", *_table(report)]
    lines += _left(report)
    return "\n".join(lines) + "\n"


def _check(check: Check, style: Style) -> str:
    sign = style.paint(_COLOURS[check.level], f"{_SIGNS[check.level]:5}")
    return f"  {sign} {check.text}" + (f"\n        {check.todo}" if check.todo else "")


def _took(step: Step) -> str:
    return f" ({step.seconds:.1f} s)" if step.seconds >= 0.05 else ""


def _table(report: Report) -> Iterator[str]:
    move = report.seen.move
    titles = ("group", f"members {move.origin}", f"members {move.destination}", "offsets", "again", "missed", "note")
    rows = [
        (
            one.group,
            str(one.origin.members) if report.seen.reachable else "?",
            str(one.destination.members),
            str(len(one.offsets)),
            *(_bounded(one, which) for which in ("again", "missed")),
            one.note,
        )
        for one in report.seen.groups[:MOST_ROWS]
    ]
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    for row in (titles, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if len(report.seen.groups) > MOST_ROWS:
        yield f"and {len(report.seen.groups) - MOST_ROWS} more groups; --format json has them all"


def _bounded(group: GroupMove, which: str) -> str:
    total = group_total(group, which)
    if total is None:
        return "?"
    sure = _exact(group) and not (which == "missed" and _went_on(group))
    return f"{total:,}" if sure or total == 0 else f"<= {total:,}"


def _left(report: Report) -> list[str]:
    if report.dry or not report.seen.move.drained:
        return []
    origin = report.seen.move.origin
    if report.left_behind is None:
        return ["", f"what was written on {origin} and not copied is not known: it does not answer"]
    if report.left_behind == 0:
        return ["", f"nothing is left behind on {origin}"]
    return ["", f"not copied: {counted(report.left_behind, 'offset')} written on {origin} since"]


def failover_markdown(report: Report) -> str:
    lines = [f"**{failover_verdict(report)}**", ""]
    lines += [f"- {_SIGNS[check.level]}: {check.text}" for check in report.checks]
    lines += ["", *(f"1. {_DONE[step.result]}: {step.text}" for step in report.steps)]
    if report.seen.groups:
        lines += ["", "| group | offsets | again | missed | note |", "|---|---|---|---|---|"]
        lines += [
            f"| {one.group} | {len(one.offsets)} | {_bounded(one, 'again')} | {_bounded(one, 'missed')} | {one.note} |"
            for one in report.seen.groups[:MOST_ROWS]
        ]
    return "\n".join([*lines, *_left(report)]) + "\n"


def failover_json(report: Report, exit_code: int) -> str:
    """As schemas/failover.schema.json."""
    seen = report.seen
    document = {
        "format_version": FORMAT_VERSION,
        "kind": str(seen.move.way),
        "environment": report.environment,
        "flow": seen.move.flow,
        "origin": seen.move.origin,
        "destination": seen.move.destination,
        "verdict": failover_verdict(report),
        "exit_code": exit_code,
        "dry_run": report.dry,
        "origin_answers": seen.reachable,
        "left_on_origin": _left_on_origin(report),
        "seconds": round(report.seconds, 3),
        "checks": [{"code": c.code, "level": str(c.level), "text": c.text, "todo": c.todo} for c in report.checks],
        "steps": [
            {"name": s.name, "result": str(s.result), "text": s.text, "seconds": round(s.seconds, 3)}
            for s in report.steps
        ],
        "groups": [_group(one) for one in seen.groups],
        "unsupported": dict(sorted(seen.unsupported.items())),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _left_on_origin(report: Report) -> int | None:
    flow = report.seen.flow
    if not report.dry:
        return report.left_behind
    return None if flow is None or isinstance(flow.partitions, Unknown) else flow.left


def _group(one: GroupMove) -> dict[str, Any]:
    return {
        "group": one.group,
        "members_origin": one.origin.members,
        "members_destination": one.destination.members,
        "read_again": group_total(one, "again"),
        "missed": group_total(one, "missed"),
        "exact": _exact(one),
        "note": one.note,
        "offsets": [*_offsets(one.offsets)],
    }


def _offsets(offsets: Sequence[GroupOffset]) -> Iterator[dict[str, Any]]:
    for one in offsets:
        yield {
            "origin_topic": one.origin[0],
            "destination_topic": one.destination[0],
            "partition": one.destination[1],
            "committed": one.committed,
            "translated": one.translated.offset,
            "exact": one.translated.exact,
            "before": one.before,
            "after": one.after,
        }
