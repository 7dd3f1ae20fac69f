"""The metadata beside a flow's committed position, and what of it survives a seek.

The mirror job writes and reads all of it (JSON, ended by a NUL byte that librdkafka needs); a seek keeps
what says who owns the flow, and drops what belonged to the old place. Both write the target partition (``t``) and the
offset (``o``) into it too and a CRC-32 of all (``d``): so a position that another client committed, that was copied
from elsewhere, or that was damaged on its way, is known for it. Nothing else of its metadata is believed then.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from reconciler.replication.json_codec import parsed

# confluent-kafka 2.16 writes it behind a metadata string and reads up to one: without it verify of earlier releases,
# which reads positions by that client, would read on into foreign memory.
END = "\0"
Key = tuple[str, int]
_PROOFS = ("d", "u")
_OF_THE_PLACE = ("i", "e", "t", "o", "d", "q", "x")
_OF_THE_TOPIC = ("m",)
_OF_SAME_OFFSETS = ("p", "s")
_OF_A_CLAIM = ("c", "a", "h")
_UNPROVED: Mapping[str, type] = {"i": str, "e": int, "c": int, "a": str, "h": int}
"""What the release that wrote no proof always wrote."""


class PositionProof(StrEnum):
    """What metadata says of the offset that it stands beside. OURS: a mirror or a seek committed it. CLAIMED: another
    client did, and since then a takeover has written who owns the flow beside it (``u`` instead of ``d``). NONE:
    another client did, or it was damaged on its way."""

    OURS = "d"
    CLAIMED = "u"
    NONE = ""


def written(key: Key, offset: int, fields: Mapping[str, Any], proof: PositionProof = PositionProof.OURS) -> str:
    """The metadata of the position ``offset`` of target partition ``key``, without its END. ``proof``: not NONE."""
    return _proved({**fields, "t": _place(key), "o": offset}, proof)


def proof_of(key: Key, offset: int, fields: Mapping[str, Any]) -> PositionProof:
    """Of what was read. One release wrote no proof, and later ones one that did not name the partition."""
    if not fields.keys() & {"d", "u", "o"}:
        return (
            PositionProof.OURS
            if all(type(fields.get(name)) is kind for name, kind in _UNPROVED.items())
            else PositionProof.NONE
        )
    if fields.get("o") != offset or fields.get("t", _place(key)) != _place(key):
        return PositionProof.NONE
    others = {name: value for name, value in fields.items() if name not in ("o", *_PROOFS)}
    for proof in (PositionProof.OURS, PositionProof.CLAIMED):
        if _proved({**others, "o": offset}, proof).endswith(f'"{proof}":"{fields.get(proof)}"}}'):
            return proof
    return PositionProof.NONE


def is_ours(key: Key, offset: int, metadata: str) -> bool:
    """Whether a mirror or a seek committed this position: what another client committed says nothing of a copy."""
    return proof_of(key, offset, _parsed(metadata)) is PositionProof.OURS


def moved(key: Key, was: tuple[int, str], offset: int, topic_id: str, *, same: bool) -> str:
    """The metadata of a position that a seek sets to ``offset``. ``was``: offset and metadata before; ``topic_id``: of
    the source topic now, as Kafka prints it; ``same``: the flow keeps offsets. What is not proved is dropped."""
    before, metadata = was
    fields = _parsed(metadata)
    kept: set[str] = set()
    match proof_of(key, before, fields):
        case PositionProof.OURS:
            dropped = {*_OF_THE_PLACE, *(() if same else _OF_SAME_OFFSETS)}
            dropped |= {*(() if fields.get("i", "") in ("", topic_id) else _OF_THE_TOPIC)}
            kept = fields.keys() - dropped
        case PositionProof.CLAIMED:
            kept = {*_OF_A_CLAIM}
        case PositionProof.NONE:
            pass
    return written(key, offset, {name: value for name, value in fields.items() if name in kept}) + END


def _parsed(metadata: str) -> Mapping[str, Any]:
    """Empty where it cannot be read."""
    try:
        fields = parsed(metadata.rstrip(END) or "{}")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _place(key: Key) -> str:
    return f"{key[0]}-{key[1]}"


def _proved(fields: Mapping[str, Any], proof: PositionProof) -> str:
    text = json.dumps(fields, separators=(",", ":"))
    return f'{text[:-1]},"{proof}":"{zlib.crc32(text.encode()):08x}"}}'
