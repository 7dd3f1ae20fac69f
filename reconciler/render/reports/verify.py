"""The report of ``verify``: verdict, a table, every difference and every unknown with its remedy."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from reconciler.model.reports.verify import Verification, VerificationRequest
from reconciler.render.markup import PLAIN, Style, lines_of, report_json, table_lines
from reconciler.render.markup import page as safe
from reconciler.render.page import code, page_html, table
from reconciler.render.plan.html import report_body
from reconciler.render.plan.outline import edition_words
from reconciler.render.plan.sections import ReportPage, Section, SectionItem
from reconciler.replication.runs.verification import ComparedPartition, Equality, FieldDigest, FirstDifference
from reconciler.text import counted, moment

MOST_ROWS = 40
_MARKS = {Equality.EQUAL: "+", Equality.DIFFERENT: "alarm", Equality.UNKNOWN: "~"}
_TITLES = ("source", "target", "compared", "lag", "state")


def verify_verdict(verification: Verification) -> str:
    equal, different, unknown = (verification.of(state) for state in Equality)
    total = counted(len(verification.partitions), "partition")
    if different:
        text = f"Different: {len(different)} of {total}"
        return f"{text}, {len(unknown)} unknown" if unknown else text
    if unknown:
        rest = f"; {len(equal)} equal" if equal else ""
        return f"Unknown: {len(unknown)} of {total} could not be compared{rest}"
    if not equal:
        return "Unknown: there was nothing to compare"
    lag = sum(partition.lag for partition in equal)
    behind = f"; {counted(lag, 'offset')} not copied yet" if lag else ""
    left_out = "; not all that is matched is carried" if verification.left_out else ""
    records, keys = (sum(each.equal for each in equal if each.compared == unit) for unit in ("records", "keys"))
    compared = f"{counted(records, 'record')}{' and ' + counted(keys, 'key') if keys else ''} compared"
    sampled = any(partition.parts is not None for partition in verification.partitions)
    how_far = "Equal as far as sampled" if sampled else "Equal"
    return f"{how_far}: {total}, {compared}{behind}{left_out}"


def verify_text(verification: Verification, style: Style = PLAIN) -> str:
    lines = [style.paint("bold", verify_verdict(verification))]
    lines += _origin(verification)
    for flow, partitions in groupby(sorted(verification.partitions, key=_place), key=lambda each: each.flow):
        members = list(partitions)
        rows = _folded(members) if len(members) > MOST_ROWS and not style.full else list(map(_row, members))
        painted = [(*row[:4], style.paint(_MARKS[Equality(row[4])], row[4])) for row in rows]
        lines += ["", f"flow {flow}", *table_lines([_TITLES, *painted], style.width, (2, 3), "  ")]
    for partition in sorted(verification.of(Equality.DIFFERENT), key=_place):
        lines += ["", *_difference(partition, style)]
    for partition in sorted(verification.of(Equality.UNKNOWN), key=_place):
        lines += ["", f"{style.paint('~', 'unknown')}: {_row(partition)[0]}: {partition.reason}"]
        lines.append(f"  {partition.todo}")
    notes = [("not compared", words) for words in verification.left_out]
    notes += [("one client", words) for words in verification.one_client]
    lines += [line for kind, words in notes for line in ("", f"{style.paint('~', kind)}: {words}")]
    return lines_of(lines, style)


def _origin(verification: Verification) -> tuple[str, ...]:
    """Answers for an auditor: which files, when, by which command, and what that proves."""
    at = f"{moment(verification.at_ms)}, " if verification.at_ms else ""
    head = f"{edition_words(verification.environment, verification.edition)}, {at}{verification.seconds:.0f} s"
    more = verify_command(verification.request), _sample(verification), _by_bytes(verification)
    return head, *filter(None, more)


def verify_command(request: VerificationRequest) -> str:
    """The command that repeats the comparison."""
    options = (
        ("--from", request.from_ms),
        ("--to", request.to_ms),
        ("--sample", request.sample and (request.sample.records or f"{100 * request.sample.fraction:g}%")),
        ("--seed", request.seed if request.sample else None),
    )
    words = [
        *((request.flow,) if request.flow else ()),
        *(f"{name} {value}" for name, value in options if value is not None),
    ]
    return " ".join(["reconciler verify ENV", *words])


def _sample(verification: Verification) -> str:
    """The limits of a sample's proof."""
    size, partitions = verification.request.sample, verification.partitions
    if size is None:
        return ""
    parts = [part for partition in partitions for part in partition.parts or ()]
    compared = sum(end - start for start, end in parts)
    there = sum(
        partition.source.end - partition.source.start
        for partition in partitions
        if partition.parts is not None and partition.source is not None
    )
    whole = sum(partition.parts is None and partition.compared != "nothing" for partition in partitions)
    more = f"; {counted(whole, 'partition')} compared whole, being compacted or no larger" if whole else ""
    return (
        f"a sample of {size} of each partition: {compared:,} of {there:,} offsets, in {counted(len(parts), 'part')}"
        f"{more}; nothing is said of the others"
    )


def _by_bytes(verification: Verification) -> str:
    whole = sum(partition.by_bytes for partition in verification.partitions)
    again = sum(partition.sampled for partition in verification.partitions)
    return (
        f"{counted(whole, 'record')} in batches of the same bytes; librdkafka read {again:,} of them, too"
        if whole
        else ""
    )


def verify_json(verification: Verification) -> str:
    """As schemas/verify.schema.json."""
    return report_json(
        "verify",
        verification.environment,
        verdict=verify_verdict(verification),
        exit_code=verification.exit_code,
        from_ms=verification.request.from_ms,
        to_ms=verification.request.to_ms,
        command=verify_command(verification.request),
        at_ms=verification.at_ms,
        revision=verification.edition.revision,
        dirty=verification.edition.dirty,
        sample=verification.request.sample
        and {"of_each": str(verification.request.sample), "seed": verification.request.seed},
        seconds=round(verification.seconds, 3),
        applications=verification.applications,
        left_out=verification.left_out,
        one_client=verification.one_client,
        partitions=sorted(verification.partitions, key=_place),
    )


def verify_html(verification: Verification) -> str:
    """One page, in the dress of a plan's: differences and unknowns first, then every partition."""
    different = []
    for partition in sorted(verification.of(Equality.DIFFERENT), key=_place):
        head, *more = (line.strip() for line in _difference(partition, PLAIN))
        different.append(SectionItem(head, tuple(more)))
    unknown = tuple(
        SectionItem(f"{partition.flow}, {_row(partition)[0]}: {partition.reason}", (partition.todo,))
        for partition in sorted(verification.of(Equality.UNKNOWN), key=_place)
    )
    why = "the first difference of each partition; never its content"
    sections = (
        Section("Different", why, tuple(different), urgent=True),
        Section("Unknown", "could not be compared, so nothing is concluded", unknown, urgent=True),
        Section("Not compared", "not carried", tuple(map(SectionItem, verification.left_out))),
        Section("One client", "no second client read these", tuple(map(SectionItem, verification.one_client))),
    )
    shown = tuple(section for section in sections if section.items)
    verdict, origin = verify_verdict(verification), _origin(verification)
    report = ReportPage("verify", verification.environment, verdict, shown, origin=origin)
    ordered = sorted(verification.partitions, key=_place)
    rows = [(code(partition.flow), *map(safe, _row(partition))) for partition in ordered]
    whole = ["<h2>Partitions</h2>", table(("flow", *_TITLES), rows)] if rows else []
    return page_html(f"{verification.environment}: verify", [*report_body(report), *whole])


def _place(partition: ComparedPartition) -> tuple[str, str, int]:
    return partition.flow, partition.source_topic, partition.partition


def _names(partition: ComparedPartition) -> tuple[str, str]:
    return f"{partition.source_topic}-{partition.partition}", f"{partition.target_topic}-{partition.partition}"


def _row(partition: ComparedPartition) -> tuple[str, ...]:
    if partition.partition < 0:
        return partition.source_topic or "all topics", partition.target_topic, "-", "-", partition.state.value
    names = _names(partition)
    if partition.compared == "nothing":
        return *names, "-", "-", partition.state.value
    return *names, f"{partition.equal:,} {partition.compared}", f"{partition.lag:,}", partition.state.value


def _folded(partitions: Sequence[ComparedPartition]) -> list[tuple[str, ...]]:
    """Equal partitions of a topic share a row."""
    rows: list[tuple[str, ...]] = []
    for (topic, target), group in groupby(partitions, key=lambda each: (each.source_topic, each.target_topic)):
        members = list(group)
        equal = [each for each in members if each.state is Equality.EQUAL]
        if equal:
            name = f"{topic} ({counted(len(equal), 'partition')})"
            count = f"{sum(each.equal for each in equal):,} {equal[0].compared}"
            rows.append((name, target, count, f"{sum(each.lag for each in equal):,}", Equality.EQUAL.value))
        rows += [_row(each) for each in members if each.state is not Equality.EQUAL]
    return rows


def _difference(partition: ComparedPartition, style: Style) -> Iterator[str]:
    """The first difference in full, without the content of records, then the places of others."""
    head = f"{style.paint('alarm', 'different')}: {' and '.join(_names(partition))}"
    if (first := partition.difference) is None:
        yield head
        return
    difference = _kind(first)
    yield f"{head} part first at source {_at(first.source_offset)}, target {_at(first.target_offset)}: {difference}"
    if first.what[0] in ("missing", "extra", "swapped"):
        at_source = first.source_offset is not None and first.what[0] != "extra"
        if (shown := first.source if at_source else first.target) is not None:
            parts = f"key {_part(shown.key, 'byte')}, value {_part(shown.value, 'byte')}"
            yield f"  the record: {parts}, {_part(shown.headers, 'header')}, timestamp {shown.timestamp} ms"
    elif first.source is not None and first.target is not None:
        for name in first.what:
            ours, theirs = getattr(first.source, name, None), getattr(first.target, name, None)
            if name == "timestamp":
                yield f"  timestamp: {ours} ms at the source, {theirs} ms at the target"
            elif isinstance(ours, FieldDigest) and isinstance(theirs, FieldDigest):  # the headline has both offsets
                unit = "header" if name == "headers" else "byte"
                yield f"  {name}: {_part(ours, unit)} at the source, {_part(theirs, unit)} at the target"
    for more in partition.differences[1:]:
        yield f"  also at source {_at(more.source_offset)}, target {_at(more.target_offset)}: {_kind(more)}"
    if partition.reason:
        yield f"  {partition.reason}"
        yield f"  {partition.todo}"
    if partition.compared == "records":
        if (differing := partition.differing) > 1:
            yield f"  {differing:,} records differ in all"
        read = f"{counted(partition.source_records, 'record')} at the source"
        yield f"  read: {read}, {partition.target_records:,} at the target"
    else:
        yield f"  {partition.differing:,} of {max(partition.source_records, partition.target_records):,} keys differ"


def _kind(difference: FirstDifference) -> str:
    """The kind of difference: a record that one side lacks, another order, or different fields of one record."""
    more = f" ({difference.count} in a row)" if difference.count > 1 else ""
    match difference.what:
        case ("missing",):
            return f"missing at the target{more}"
        case ("extra",):
            return f"more at the target than at the source{more}"
        case ("swapped",):
            return "records are in another order"
        case _:
            single = len(difference.what) == 1 and difference.what[0] != "headers"
            return f"{', '.join(difference.what)} {'differs' if single else 'differ'}"


def _at(offset: int | None) -> str:
    return "has nothing" if offset is None else f"offset {offset}"


def _part(part: FieldDigest, unit: str) -> str:
    """Never the content: readers of the report may not be allowed to read the records."""
    return "null" if part.length is None else f"{counted(part.length, unit)} [{part.digest[:12]}]"
