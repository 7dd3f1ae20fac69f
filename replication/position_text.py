"""The metadata beside a flow's position, where it has to survive a position that is moved by hand.

The mirror job writes and reads all of it (JSON, ended by a NUL byte that librdkafka needs); whoever moves a position
keeps what says who owns the flow, and drops what belonged to the old place.
"""

from __future__ import annotations

import json

END = "\0"
_OF_THE_PLACE = ("i", "e")
_OF_THE_TOPIC = ("m",)


def moved(metadata: str, topic_id: str) -> str:
    """``topic_id``: of the source topic now, as Kafka prints it. What cannot be read is dropped."""
    try:
        fields = json.loads(metadata.rstrip(END) or "{}")
        same = fields.get("i", "") in ("", topic_id)
    except (ValueError, AttributeError):
        return ""
    left = {key: value for key, value in fields.items() if key not in _OF_THE_PLACE}
    left = left if same else {key: value for key, value in left.items() if key not in _OF_THE_TOPIC}
    return json.dumps(left, separators=(",", ":")) + END
