"""The report of ``mirror seek``: positions of a topic, as a table or sentences, and as JSON."""

from __future__ import annotations

from dataclasses import asdict

from reconciler.render.report_json import report_json
from reconciler.resources.mirrors.seek import TopicPositions, table


def positions_text(seen: TopicPositions) -> str:
    if not seen.moved and not seen.left:
        return "\n".join(table(seen.standings)) + "\n"
    lines = [f"{seen.topic}-{number} goes on at source offset {at}" for number, at in seen.moved.items()]
    lines += [f"{seen.topic}-{number} stays: flow {seen.taken_from} has no position for it" for number in seen.left]
    lines.append("A paused partition goes on when it is resumed, a stopped one by itself within a minute.")
    return "\n".join(lines) + "\n"


def positions_json(seen: TopicPositions) -> str:
    """As schemas/reports/positions.schema.json."""
    partitions = [{**asdict(partition), "behind": partition.behind} for partition in seen.standings]
    for row in partitions:
        row |= {"moved_to": seen.moved[row["partition"]]} if row["partition"] in seen.moved else {}
    return report_json(
        "positions",
        seen.environment,
        exit_code=0,
        flow=seen.flow.name,
        source=seen.flow.source,
        target=seen.flow.target,
        topic=seen.topic,
        remote_topic=seen.remote,
        partitions=partitions,
    )
