"""The report of ``mirror seek``: positions of a topic, as a table or sentences, and as JSON."""

from __future__ import annotations

from dataclasses import asdict

from reconciler.render.escape import lines_of
from reconciler.render.report_json import report_json
from reconciler.resources.mirrors.seek import TopicPositions, table


def positions_text(positions: TopicPositions) -> str:
    if not positions.moved and not positions.left:
        return lines_of(table(positions.standings))
    lines = [f"{positions.topic}-{number} goes on at source offset {at}" for number, at in positions.moved.items()]
    lines += [
        f"{positions.topic}-{number} stays: flow {positions.taken_from} has no position for it"
        for number in positions.left
    ]
    lines.append("A paused partition goes on when it is resumed, a stopped one by itself within a minute.")
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
