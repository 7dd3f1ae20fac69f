"""Reports on positions: translated by ``offsets``, set by ``mirror seek``, taken by ``mirror import-positions``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from reconciler.environment.importers.positions.judge import Inheritance
from reconciler.environment.importers.positions.write_yaml import merged, written
from reconciler.model.environment.topology import TopicRef
from reconciler.model.reports.offsets import Translations
from reconciler.render.markup import lines_of, report_json, table_lines
from reconciler.resources.mirrors.pause_and_seek import TopicPositions, table
from reconciler.text import columns, counted

_EXACT = {"record": "", "next": ": the next record that was copied", "end": ": nothing after it was copied yet"}


def translations_text(report: Translations, width: int | None = None) -> str:
    """One row for each position, as wide as the longest needs; inexact ones have the reason. ``width``: of the
    terminal, in columns."""
    head: tuple[str, ...] = "group", f"on {report.origin}", "offset", f"on {report.destination}", "offset", ""
    rows: list[tuple[str, ...]] = []
    for row in report.rows:
        to, offset = row.found, "-" if row.found.offset is None else str(row.found.offset)
        how = f"exact{_EXACT[to.exactness.value]}" if to.exact else to.exactness.value
        how += f": {to.reason}" if to.reason else ""
        here, there = (f"{topic}-{row.partition}" for topic in (row.topic, row.other))
        rows.append((row.group, here, str(row.offset), there, offset, how))
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
    """For ``kafka-consumer-groups --reset-offsets --from-file``: topic,partition,offset, with the group first if there
    are several. Positions without an offset are left out, so the tool does not touch them."""
    several = len({row.group for row in report.rows}) > 1
    known = [row for row in report.rows if row.found.offset is not None]
    groups = [f"{row.group}," if several else "" for row in known]
    rows = zip(groups, known, strict=True)
    return "".join(f"{group}{row.other},{row.partition},{row.found.offset}\n" for group, row in rows)


def positions_text(positions: TopicPositions) -> str:
    if not positions.moved and not positions.left:
        return lines_of(table(positions.standings))
    lines = [f"{positions.topic}-{number} continues at source offset {at}" for number, at in positions.moved.items()]
    lines += [
        f"{positions.topic}-{number} stays: flow {positions.taken_from} has no position for it"
        for number in positions.left
    ]
    lines.append("A paused partition continues when it is resumed, a stopped one by itself within a minute.")
    return lines_of(lines)


def positions_json(positions: TopicPositions) -> str:
    """As schemas/reports/positions.schema.json."""
    partitions = [{**asdict(partition), "behind": partition.behind} for partition in positions.standings]
    for row in partitions:
        row |= {"moved_to": positions.moved[row["partition"]]} if row["partition"] in positions.moved else {}
    return report_json(
        "positions",
        positions.environment,
        exit_code=0,
        flow=positions.flow.name,
        source=positions.flow.source,
        target=positions.flow.target,
        topic=positions.topic,
        remote_topic=positions.remote,
        partitions=partitions,
    )


def inherited_text(
    flows: Sequence[Inheritance], absent: Mapping[str, TopicRef], files: Sequence[str], *, onward: bool = True
) -> str:
    """``files``: written files; without them the report has the lines to write. ``onward``: names the commands that
    follow."""
    lines: list[str] = []
    for inheritance in flows:
        flow, taken = inheritance.flow, [topic for topic in inheritance.topics if topic.positions]
        count = sum(len(topic.positions) for topic in taken)
        positions = f"{counted(count, 'position')} of {counted(len(taken), 'topic')}"
        lines.append(f"flow {flow.name}: {positions} from {inheritance.place}")
        rows = [("topic", "partitions", "positions", "behind", "continues in")]
        for topic in taken:
            numbers = (str(topic.partitions), str(len(topic.positions)), f"{topic.behind:,}")
            rows.append((topic.name, *numbers, f"{flow.target}/{topic.remote}"))
        lines += [f"  {line}" for line in columns(rows, right=(1, 2, 3))] if taken else []
        lines += ["  left aside:"] if inheritance.left else []
        lines += [f"    {left.subject}: {left.why}" for left in inheritance.left]
        lines += [f"  note: {note}" for note in inheritance.notes]
        lines += [f"  prevents taking over: {why}" for why in inheritance.obstacles]
        # A flow that starts at a timestamp cannot have offsets beside it; its author decides which of them goes.
        if inheritance.offsets and flow.start.kind != "timestamp" and not files:
            lines.append(f"  into flow {flow.name} ({flow.where}), or run again with --write:")
            to_write = written(merged(flow.start, inheritance.offsets), 4).splitlines()
            lines += [line if line.startswith(" ") else f"    {line}" for line in to_write]
        lines.append("")
    lines += [f"flow {name}: {place} does not exist; nothing is taken over" for name, place in absent.items()]
    if files:
        then = " Then: reconciler plan ENV, reconciler apply ENV." if onward else ""
        if stopped := sum(each.stopped for each in flows):
            then = f" Then decide about {counted(stopped, 'partition')} not copied (note above): plan is blocked."
        lines += [f"Written into {', '.join(files)}; review and commit.{then}"]
    return lines_of(lines).rstrip("\n") + "\n"


def inherited_json(
    environment: str, flows: Sequence[Inheritance], absent: Mapping[str, TopicRef], files: Sequence[str]
) -> str:
    """As schemas/reports/imported-positions.schema.json."""
    documents = [
        {
            "flow": inheritance.flow.name,
            "source": inheritance.flow.source,
            "target": inheritance.flow.target,
            "cluster": inheritance.place.cluster,
            "offsets_topic": inheritance.place.name,
            "topics": [
                {
                    "topic": topic.name,
                    "remote_topic": topic.remote,
                    "partitions": topic.partitions,
                    "positions": dict(topic.positions),
                    "behind": topic.behind,
                    "without_position": topic.fresh,
                    "stopped": topic.stopped,
                }
                for topic in inheritance.topics
                if topic.positions or topic.fresh
            ],
            "left": inheritance.left,
            "notes": inheritance.notes,
            "obstacles": inheritance.obstacles,
        }
        for inheritance in flows
    ]
    lacking = [{"flow": name, "cluster": place.cluster, "offsets_topic": place.name} for name, place in absent.items()]
    return report_json("imported", environment, exit_code=0, flows=documents, absent=lacking, written=files)
