"""The report of ``mirror import-positions``: a table, the YAML to write, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.environment.importers.positions.judge import Inheritance
from reconciler.environment.importers.positions.write_yaml import merged, written
from reconciler.model.environment.topology import TopicRef
from reconciler.render.escape import lines_of
from reconciler.render.report_json import report_json
from reconciler.text import columns, counted


def inherited_text(flows: Sequence[Inheritance], absent: Mapping[str, TopicRef], files: Sequence[str]) -> str:
    """``files``: those that were written; then the lines to write by hand are left out."""
    lines: list[str] = []
    for inheritance in flows:
        lines += [*_flow(inheritance), *([] if files else _to_write(inheritance)), ""]
    lines += [f"flow {name}: {place} is not there; nothing is taken over" for name, place in absent.items()]
    if files:
        lines += [f"Written into {', '.join(files)}; review and commit. Then: reconciler plan, reconciler apply."]
    return lines_of(lines).rstrip("\n") + "\n"


def _flow(inheritance: Inheritance) -> Iterator[str]:
    taken = [topic for topic in inheritance.topics if topic.positions]
    count = sum(len(topic.positions) for topic in taken)
    positions = f"{counted(count, 'position')} of {counted(len(taken), 'topic')}"
    yield f"flow {inheritance.flow.name}: {positions} from {inheritance.place}"
    rows = [("topic", "partitions", "positions", "behind", "goes on in")]
    for topic in taken:
        numbers = (str(topic.partitions), str(len(topic.positions)), f"{topic.behind:,}")
        rows.append((topic.name, *numbers, f"{inheritance.flow.target}/{topic.remote}"))
    if taken:
        yield from (f"  {line}" for line in columns(rows, right=(1, 2, 3)))
    if inheritance.left:
        yield "  left aside:"
        yield from (f"    {left.subject}: {left.why}" for left in inheritance.left)
    yield from (f"  note: {note}" for note in inheritance.notes)
    yield from (f"  prevents taking over: {why}" for why in inheritance.obstacles)


def _to_write(inheritance: Inheritance) -> Iterator[str]:
    if inheritance.offsets and inheritance.flow.start.kind != "timestamp":
        yield f"  into flow {inheritance.flow.name} ({inheritance.flow.where}), or run again with --write:"
        for line in written(merged(inheritance.flow.start, inheritance.offsets), 4).splitlines():
            yield line if line.startswith(" ") else f"    {line}"


def inherited_json(
    environment: str, flows: Sequence[Inheritance], absent: Mapping[str, TopicRef], files: Sequence[str]
) -> str:
    """As schemas/reports/imported-positions.schema.json."""
    lacking = [{"flow": name, **_offsets_topic(place)} for name, place in absent.items()]
    documents = [_document(flow) for flow in flows]
    return report_json("imported", environment, exit_code=0, flows=documents, absent=lacking, written=files)


def _offsets_topic(place: TopicRef) -> dict[str, str]:
    return {"cluster": place.cluster, "offsets_topic": place.name}


def _document(inheritance: Inheritance) -> dict[str, Any]:
    return {
        "flow": inheritance.flow.name,
        "source": inheritance.flow.source,
        "target": inheritance.flow.target,
        **_offsets_topic(inheritance.place),
        "topics": [
            {
                "topic": topic.name,
                "remote_topic": topic.remote,
                "partitions": topic.partitions,
                "positions": dict(topic.positions),
                "behind": topic.behind,
                "without_position": topic.fresh,
            }
            for topic in inheritance.topics
            if topic.positions or topic.fresh
        ],
        "left": inheritance.left,
        "notes": inheritance.notes,
        "obstacles": inheritance.obstacles,
    }
