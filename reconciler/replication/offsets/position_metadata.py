"""The metadata beside a flow's committed position, and what of it survives a seek.

The mirror job writes and reads all of it (JSON, ended by a NUL byte that librdkafka needs); a seek keeps
what says who owns the flow, and drops what belonged to the old place. Both write the offset into it too (``o``) and a
CRC-32 of all (``d``): so a position that another client committed, or that was damaged on its way, is known for it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from reconciler.replication.json_codec import parsed

# confluent-kafka 2.16 writes it behind a metadata string and reads up to one: without it verify of earlier releases,
# which reads positions by that client, would read on into foreign memory.
END = "\0"
_OF_THE_PLACE = ("i", "e", "o", "d", "q", "x")
_OF_THE_TOPIC = ("m",)


def with_proof(offset: int, fields: Mapping[str, Any]) -> str:
    """The metadata of the position ``offset``, without its END."""
    text = json.dumps({**fields, "o": offset}, separators=(",", ":"))
    return f'{text[:-1]},"d":"{zlib.crc32(text.encode()):08x}"}}'


def is_proved(offset: int, fields: Mapping[str, Any]) -> bool:
    """Whether a mirror or a seek committed ``offset`` with the metadata ``fields``. A release that wrote no proof named
    at least its claim."""
    if "d" not in fields and "o" not in fields:
        return "c" in fields
    if fields.get("o") != offset:
        return False
    others = {key: value for key, value in fields.items() if key not in ("o", "d")}
    return with_proof(offset, others).endswith(f'"d":"{fields.get("d")}"}}')


def moved(offset: int, metadata: str, topic_id: str) -> str:
    """The metadata of a position that a seek sets to ``offset``. ``topic_id``: of the source topic now, as Kafka prints
    it. What cannot be read is dropped."""
    try:
        fields = parsed(metadata.rstrip(END) or "{}")
        same = fields.get("i", "") in ("", topic_id)
    except (ValueError, AttributeError):
        return with_proof(offset, {}) + END
    kept = {key: value for key, value in fields.items() if key not in _OF_THE_PLACE}
    kept = kept if same else {key: value for key, value in kept.items() if key not in _OF_THE_TOPIC}
    return with_proof(offset, kept) + END
