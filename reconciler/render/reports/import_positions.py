"""MirrorMaker 2's positions, as a table with what is left aside and the YAML to write, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.counts import counted
from reconciler.inheriting import Inheritance, merged, written
from reconciler.topology import TopicRef


def inherited_text(flows: Sequence[Inheritance], absent: Mapping[str, TopicRef], files: Sequence[str]) -> str:
    """``files``: those that were written; then the lines to write by hand are left out."""
    lines: list[str] = []
    for one in flows:
        lines += [*_flow(one), *([] if files else _to_write(one)), ""]
    lines += [f"flow {name}: {place} is not there; nothing is taken over" for name, place in absent.items()]
    if files:
        lines += [f"Written into {', '.join(files)}; review and commit. Then: reconciler plan, reconciler apply."]
    return "\n".join(lines).rstrip("\n") + "\n"


def _flow(one: Inheritance) -> Iterator[str]:
    taken = [topic for topic in one.topics if topic.positions]
    count = sum(len(topic.positions) for topic in taken)
    yield f"flow {one.flow.name}: {counted(count, 'position')} of {counted(len(taken), 'topic')} from {one.place}"
    rows: list[tuple[str, ...]] = [("topic", "partitions", "positions", "behind", "goes on in")]
    for topic in taken:
        numbers = (str(topic.partitions), str(len(topic.positions)), f"{topic.behind:,}")
        rows.append((topic.name, *numbers, f"{one.flow.target}/{topic.remote}"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows if taken else ():
        counts = [cell.rjust(width) for cell, width in zip(row[1:4], widths[1:4], strict=True)]
        yield "  ".join(["", row[0].ljust(widths[0]), *counts, row[4]])
    if one.left:
        yield "  left aside:"
        yield from (f"    {left.subject}: {left.why}" for left in one.left)
    yield from (f"  note: {note}" for note in one.notes)
    yield from (f"  stands against taking over: {why}" for why in one.obstacles)


def _to_write(one: Inheritance) -> Iterator[str]:
    if one.offsets and one.flow.start.kind != "timestamp":
        yield f"  into flow {one.flow.name} ({one.flow.where}), or run again with --write:"
        for line in written(merged(one.flow.start, one.offsets), 4).splitlines():
            yield line if line.startswith(" ") else f"    {line}"


def inherited_json(
    environment: str, flows: Sequence[Inheritance], absent: Mapping[str, TopicRef], files: Sequence[str]
) -> str:
    """As schemas/imported-positions.schema.json."""
    document = {
        "format_version": 1,
        "kind": "imported",
        "environment": environment,
        "exit_code": 0,
        "flows": [_document(one) for one in flows],
        "absent": [
            {"flow": name, "cluster": place.cluster, "offsets_topic": place.name} for name, place in absent.items()
        ],
        "written": list(files),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _document(one: Inheritance) -> dict[str, Any]:
    return {
        "flow": one.flow.name,
        "source": one.flow.source,
        "target": one.flow.target,
        "cluster": one.place.cluster,
        "offsets_topic": one.place.name,
        "topics": [
            {
                "topic": topic.name,
                "remote_topic": topic.remote,
                "partitions": topic.partitions,
                "positions": {str(number): at for number, at in topic.positions.items()},
                "behind": topic.behind,
                "without_position": list(topic.fresh),
            }
            for topic in one.topics
            if topic.positions or topic.fresh
        ],
        "left": [{"subject": left.subject, "why": left.why} for left in one.left],
        "notes": list(one.notes),
        "obstacles": list(one.obstacles),
    }
