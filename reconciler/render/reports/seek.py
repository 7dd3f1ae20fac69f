"""Where copying of a topic stands, or was moved to by hand: as a table or sentences, and as JSON."""

from __future__ import annotations

import json

from reconciler.repositioning import Seen, table


def positions_text(seen: Seen) -> str:
    if not seen.moved and not seen.left:
        return "\n".join(table(seen.standings)) + "\n"
    lines = [f"{seen.topic}-{number} goes on at source offset {at}" for number, at in seen.moved.items()]
    lines += [f"{seen.topic}-{number} stays: flow {seen.taken_from} has no position for it" for number in seen.left]
    lines.append("A paused partition goes on when it is resumed, a stopped one by itself within a minute.")
    return "\n".join(lines) + "\n"


def positions_json(seen: Seen) -> str:
    """As schemas/positions.schema.json."""
    document = {
        "format_version": 1,
        "kind": "positions",
        "environment": seen.environment,
        "exit_code": 0,
        "flow": seen.flow.name,
        "source": seen.flow.source,
        "target": seen.flow.target,
        "topic": seen.topic,
        "remote_topic": seen.remote,
        "partitions": [
            {
                "partition": one.partition,
                "position": one.position,
                "begin": one.begin,
                "end": one.end,
                "behind": one.behind,
                **({"moved_to": seen.moved[one.partition]} if one.partition in seen.moved else {}),
            }
            for one in seen.standings
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
