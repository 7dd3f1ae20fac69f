"""What ``verify`` prints: verdict first, a table, then every difference and every unknown with what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

from reconciler.counts import counted
from reconciler.rendering.style import Style
from reconciler.verification import ComparedPartition, Equality, FirstDifference, Part, ShownRecord, Verification

FORMAT_VERSION = 1
MOST_ROWS = 40
_MARKS = {Equality.EQUAL: "+", Equality.DIFFERENT: "alarm", Equality.UNKNOWN: "~"}
_TITLES = ("source", "target", "compared", "lag", "state")


def verify_verdict(found: Verification) -> str:
    equal, different, unknown = (found.of(state) for state in Equality)
    total = counted(len(found.partitions), "partition")
    if different:
        told = f"Different: {len(different)} of {total}"
        return f"{told}, {len(unknown)} unknown" if unknown else told
    if unknown:
        rest = f"; the other {len(equal)} are equal" if equal else ""
        return f"Unknown: {len(unknown)} of {total} could not be compared{rest}"
    if not equal:
        return "Unknown: there was nothing to compare"
    lag = sum(one.lag for one in equal)
    behind = f"; {counted(lag, 'offset')} not copied yet" if lag else ""
    return f"Equal: {total}, {_compared(equal)}{behind}"


def verify_text(found: Verification, style: Style | None = None) -> str:
    chosen = style or Style()
    lines = [chosen.paint("bold", verify_verdict(found)), f"environment {found.environment}, {found.seconds:.0f} s"]
    for flow, group in groupby(sorted(found.partitions, key=_place), key=lambda one: one.flow):
        partitions = list(group)
        lines += ["", f"flow {flow}", *_table(partitions, chosen)]
    for one in sorted(found.of(Equality.DIFFERENT), key=_place):
        lines += ["", *_difference(one, chosen)]
    for one in sorted(found.of(Equality.UNKNOWN), key=_place):
        lines += ["", f"{chosen.paint('~', 'unknown')}: {_row(one)[0]}: {one.reason}", f"  {one.todo}"]
    return "\n".join(lines) + "\n"


def verify_json(found: Verification) -> str:
    """As schemas/verify.schema.json."""
    document = {
        "format_version": FORMAT_VERSION,
        "kind": "verify",
        "environment": found.environment,
        "verdict": verify_verdict(found),
        "exit_code": int(found.exit_code),
        "from_ms": found.wish.from_ms,
        "to_ms": found.wish.to_ms,
        "seconds": round(found.seconds, 3),
        "applications": list(found.applications),
        "partitions": [asdict(one) for one in sorted(found.partitions, key=_place)],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _place(one: ComparedPartition) -> tuple[str, str, int]:
    return one.flow, one.source_topic, one.partition


def _compared(partitions: Sequence[ComparedPartition]) -> str:
    counts = {unit: sum(one.equal for one in partitions if one.compared == unit) for unit in ("records", "keys")}
    words = [f"{count:,} {unit}" for unit, count in counts.items() if count or unit == "records"]
    return " and ".join(words) + " compared"


def _table(partitions: Sequence[ComparedPartition], style: Style) -> Iterator[str]:
    """A row a partition; where there are many, those of a topic that are equal share one."""
    rows = [_row(one) for one in partitions] if len(partitions) <= MOST_ROWS or style.full else _folded(partitions)
    widths = [max(len(row[column]) for row in (_TITLES, *rows)) for column in range(4)]
    yield style.paint("faint", _aligned(_TITLES, widths))
    for row in rows:
        word = style.paint(_MARKS[Equality(row[4])], row[4])
        yield _aligned((*row[:4], word), widths)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    source, target, compared, lag = widths
    return f"  {row[0]:{source}}  {row[1]:{target}}  {row[2]:>{compared}}  {row[3]:>{lag}}  {row[4]}"


def _row(one: ComparedPartition) -> tuple[str, ...]:
    if one.partition < 0:
        return one.source_topic or "all topics", one.target_topic, "-", "-", one.state.value
    names = f"{one.source_topic}-{one.partition}", f"{one.target_topic}-{one.partition}"
    if one.compared == "nothing":
        return *names, "-", "-", one.state.value
    return *names, f"{one.equal:,} {one.compared}", f"{one.lag:,}", one.state.value


def _folded(partitions: Sequence[ComparedPartition]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for (topic, target), group in groupby(partitions, key=lambda one: (one.source_topic, one.target_topic)):
        members = list(group)
        equal = [one for one in members if one.state is Equality.EQUAL]
        if equal:
            name = f"{topic} ({counted(len(equal), 'partition')})"
            count = f"{sum(one.equal for one in equal):,} {equal[0].compared}"
            rows.append((name, target, count, f"{sum(one.lag for one in equal):,}", Equality.EQUAL.value))
        rows += [_row(one) for one in members if one.state is not Equality.EQUAL]
    return rows


def _difference(one: ComparedPartition, style: Style) -> Iterator[str]:
    name = f"{one.source_topic}-{one.partition} and {one.target_topic}-{one.partition}"
    found = one.difference
    if found is None:
        yield f"{style.paint('alarm', 'different')}: {name}"
        return
    where = f"source {_at(found.source_offset)}, target {_at(found.target_offset)}"
    yield f"{style.paint('alarm', 'different')}: {name} part first at {where}: {_words(found)}"
    if found.what[0] in ("missing", "extra", "swapped"):
        shown = found.source if found.source_offset is not None and found.what[0] != "extra" else found.target
        if shown is not None:
            yield f"  the record: {_record(shown)}"
    else:
        yield from (f"  {line}" for line in _fields(found))
    if one.compared == "records":
        yield f"  read: {counted(one.source_records, 'record')} at the source, {one.target_records:,} at the target"
    else:
        yield f"  {one.differing:,} of {max(one.source_records, one.target_records):,} keys differ"


def _at(offset: int | None) -> str:
    return "has nothing" if offset is None else f"offset {offset}"


def _words(found: FirstDifference) -> str:
    more = f" ({found.count} in a row)" if found.count > 1 else ""
    match found.what:
        case ("missing",):
            return f"missing at the target{more}"
        case ("extra",):
            return f"more at the target than at the source{more}"
        case ("swapped",):
            return "records stand in another order"
        case _:
            one = len(found.what) == 1 and found.what[0] != "headers"
            return f"{', '.join(found.what)} {'differs' if one else 'differ'}"


def _fields(found: FirstDifference) -> Iterator[str]:
    if found.source is None or found.target is None:
        return
    for name in found.what:
        ours, theirs = getattr(found.source, name), getattr(found.target, name)
        if name == "timestamp":
            yield f"timestamp: {ours} ms at the source, {theirs} ms at the target"
        else:
            unit = "header" if name == "headers" else "byte"
            yield f"{name}: {_part(ours, unit)} at the source, {_part(theirs, unit)} at the target"


def _record(shown: ShownRecord) -> str:
    parts = [f"key {_part(shown.key, 'byte')}", f"value {_part(shown.value, 'byte')}"]
    return ", ".join([*parts, _part(shown.headers, "header"), f"timestamp {shown.timestamp} ms"])


def _part(part: Part, unit: str) -> str:
    """Never the content: it may be nobody's business who reads the report."""
    return "null" if part.length is None else f"{counted(part.length, unit)} [{part.digest[:12]}]"
