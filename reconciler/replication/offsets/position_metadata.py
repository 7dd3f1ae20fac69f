"""The metadata of a flow's committed position, its parts that survive a seek, and the flow's owner by it.

The mirror job writes and reads all of it (JSON, ended by a NUL byte that librdkafka needs); a seek keeps the owner, and
drops parts that belong to the old position. Both add the target partition (``t``), the offset (``o``) and a CRC-32 of
everything (``d``), which expose a position that another client committed, that was copied from another partition, or
that was damaged. Its other metadata is then not trusted.

Group ``mirror.FLOW``, its transactional ids and the remote topics belong to the environment that wrote the positions
(``w``). Plans and takeovers ask ``stranger`` before they change them.
"""

import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from shlex import quote
from typing import Any

from reconciler.replication.json_codec import parsed

# confluent-kafka 2.16 ends a metadata string with NUL and reads up to one: without it, verify of earlier releases,
# which uses that client, would read beyond the string's memory.
END = "\0"
Key = tuple[str, int]
_PROOFS = ("d", "u")
_OF_THE_PLACE = ("i", "e", "r", "t", "o", "d", "q", "x", "g", "b")
_OF_THE_TOPIC = ("m",)
_OF_SAME_OFFSETS = ("p", "s")
_OF_A_CLAIM = ("c", "a", "h", "w")
_UNPROVED: Mapping[str, type] = {"i": str, "e": int, "c": int, "a": str}
"""Fields that the release without a proof always wrote."""


class PositionProof(StrEnum):
    """Origin of a committed offset by its metadata. OURS: a mirror or a seek. CLAIMED: another client, and a takeover
    has since written the flow's owner beside it (``u`` instead of ``d``). NONE: another client, or damaged."""

    OURS = "d"
    CLAIMED = "u"
    NONE = ""


def written(key: Key, offset: int, fields: Mapping[str, Any], proof: PositionProof = PositionProof.OURS) -> str:
    """The metadata of the position ``offset`` of target partition ``key``, without its END. ``proof``: not NONE."""
    return _proved({**fields, "t": _place(key), "o": offset}, proof)


def proof_of(key: Key, offset: int, fields: Mapping[str, Any]) -> PositionProof:
    """The proof in read metadata. One release wrote none, and later ones a proof without the partition."""
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
    """Whether a mirror or a seek committed this position; another client's proves nothing about a copy."""
    return proof_of(key, offset, fields_of(metadata)) is PositionProof.OURS


def urlsafe(topic_id: str) -> str:
    """Kafka prints ids in base64 for URLs, librdkafka in plain base64; both without padding."""
    return topic_id.replace("+", "-").replace("/", "_").rstrip("=")


def names_claim(metadata: str) -> bool:
    """Whether the metadata can be a flow's: it has fields about copying."""
    return "c" in fields_of(metadata)


def moved(key: Key, was: tuple[int, str], offset: int, topic_id: str, *, same: bool) -> str:
    """The metadata of a position that a seek sets to ``offset``. ``was``: former offset and metadata; ``topic_id``: the
    source topic's present id, as Kafka prints it; ``same``: the flow keeps offsets. Unproved fields are dropped."""
    before, metadata = was
    fields = fields_of(metadata)
    kept: set[str] = set()
    match proof_of(key, before, fields):
        case PositionProof.OURS:
            dropped = {*_OF_THE_PLACE, *(() if same else _OF_SAME_OFFSETS)}
            dropped |= {*(() if urlsafe(str(fields.get("i", ""))) in ("", urlsafe(topic_id)) else _OF_THE_TOPIC)}
            kept = fields.keys() - dropped
        case PositionProof.CLAIMED:
            kept = {*_OF_A_CLAIM}
        case PositionProof.NONE:
            pass
    return written(key, offset, {name: value for name, value in fields.items() if name in kept}) + END


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a flow. ``source``: its source cluster's id. Empty: unknown, since earlier releases wrote
    neither."""

    environment: str = ""
    source: str = ""


NO_OWNER = Owner()


@dataclass(frozen=True, slots=True)
class PositionMark:
    """Facts about a position's writer."""

    owner: Owner = NO_OWNER
    topic_id: str = ""
    """Of the source topic, empty if missing."""
    application: str = ""
    hour: int = 0
    lost_from: int | None = None
    """The source offset of the first record that the target has lost; None: none, or unknown."""
    foreign: bool = False
    """Another client committed the position, or it is damaged."""


def is_of(owner: Owner, mine: Owner, before: Collection[str] = ()) -> bool:
    """Whether what ``owner`` has written can be of our environment, which had the names ``before``, and of our source:
    environments of two repositories may have one name."""
    same_source = "" in (owner.source, mine.source) or owner.source == mine.source
    return owner.environment in (mine.environment, *before) and same_source


def owner_of(fields: Mapping[str, Any]) -> Owner:
    match fields.get("w"):
        case [str(environment), str(source)]:
            return Owner(environment, source)
        case _:
            return NO_OWNER


def owner_fields(owner: Owner) -> Mapping[str, Any]:
    return {"w": [owner.environment, owner.source]} if owner.environment else {}


def mark_of(key: Key, offset: int, metadata: str) -> PositionMark:
    """The mark of a read position; an unproved one is empty."""
    fields = fields_of(metadata)
    proof = proof_of(key, offset, fields)
    if proof is PositionProof.NONE:
        return PositionMark(foreign=True)
    try:
        lost_from = int(fields.get("g", (0, 0, -1))[2])
        figures = (str(fields.get("i", "")), str(fields.get("a", "")), int(fields.get("h", 0)))
        lost = lost_from if lost_from >= 0 else None
        return PositionMark(owner_of(fields), *figures, lost, proof is PositionProof.CLAIMED)
    except (ValueError, TypeError, LookupError, OverflowError):
        return PositionMark(foreign=True)


def stranger(
    mine: Owner, before: Collection[str], positions: Mapping[Key, PositionMark], topic_ids: Mapping[Key, str]
) -> tuple[Key, PositionMark] | None:
    """The newest position of another owner; None if the flow is ours, or has no owner yet.

    ``before``: former names of our environment. ``topic_ids``: partitions of our remote topics -> present id of the
    source topic, empty if unknown. Positions of other topics count only while ours have none, so that two environments
    that share a group by chance, from before owners were written, both continue. Positions without an owner are ours,
    unless each names a topic id that our source does not have.
    """
    ours = {key: at for key, at in positions.items() if key in topic_ids}
    owned = {key: at for key, at in (ours or positions).items() if at.owner.environment}
    foreign = {key: at for key, at in owned.items() if not is_of(at.owner, mine, before)}
    if foreign and (ours or len(foreign) == len(owned)):
        return max(foreign.items(), key=lambda item: (item[1].hour, item[0]))
    named = {key: (at, urlsafe(at.topic_id), urlsafe(topic_ids[key])) for key, at in ours.items()}
    unfit = {key: at for key, (at, written_id, now) in named.items() if written_id and now and written_id != now}
    if not owned and ours and len(unfit) == len(ours):
        return max(unfit.items(), key=lambda item: (item[1].hour, item[0]))
    return None


def whose(group: str, cluster: str, mine: Owner, key: Key, at: PositionMark) -> str:
    """Words for a result of ``stranger``."""
    by = f"application {at.application or 'unknown'}"
    place = f"position of {key[0]}-{key[1]}"
    if not at.owner.environment:
        return (
            f"group {group} on {cluster} belongs to a flow of another source cluster: its positions name topics that"
            f" the source of environment {mine.environment} does not have ({place}, by {by} of a release that names no"
            " environment)"
        )
    if at.owner.environment == mine.environment:
        return (
            f"group {group} on {cluster} belongs to source cluster {at.owner.source}, and {mine.source} answers as the"
            f" source now ({place}, by {by} of an environment of the same name, {at.owner.environment})"
        )
    return f"group {group} on {cluster} belongs to environment {at.owner.environment} ({place}, by {by})"


def ways_on(flow: str, group: str, mine: Owner, at: PositionMark) -> str:
    """The remedies for a result of ``stranger``, depending on the rightful owner."""
    renamed = ""
    if at.owner.environment not in ("", mine.environment):
        entry = f"moved: [{{environment: {mine.environment}, from: {at.owner.environment}}}]"
        renamed = f" If the environment was renamed, write {entry}."
    return (
        f"Rename the flow {flow} of environment {mine.environment}: another name has another group.{renamed} If the"
        f" other flow is gone for good: kafka-consumer-groups.sh --delete --group {quote(group)}"
    )


def fields_of(metadata: str) -> Mapping[str, Any]:
    """Parsed metadata; empty if unreadable."""
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
