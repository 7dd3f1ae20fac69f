"""A flow's positions: offsets of group ``mirror.<flow>`` on the target, with their metadata.

The offset is the next *source* offset. The metadata string is compact JSON: source topic id, leader epoch of the last
record copied and what the header of its batch said, the claim of the application that wrote it, where provenance
begins, the hour, so that idle positions are renewed before the group coordinator forgets them
(offsets.retention.minutes, 7 days by default), and a proof. A position that is written again keeps what it was: one
that another client committed never gets a proof.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import EARLIEST, LATEST, ClusterClient, CommittedPosition, Key
from reconciler.kafka.client.errors import check
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.handover import AGAIN
from reconciler.replication.json_codec import parsed
from reconciler.replication.offsets.position_metadata import (
    END,
    PositionProof,
    owner_fields,
    owner_of,
    proof_of,
    urlsafe,
    written,
)
from reconciler_mirror.model.lane import NO_CLAIM, Claim, LastBatch, TargetLoss

RENEW_AFTER_HOURS = 24


@dataclass(frozen=True, slots=True)
class SameOffsetsPosition:
    """Of a copy at the source's own offsets, whose position is the target's log end: this one follows a moment later.

    ``producer``: the producer id of its data. ``last``: the sequence of the last record before the position, -1 where
    there is none, None where that is not known. ``start``: the source offset of the first record that is copied; below
    it the target had fillers. ``diverged``: the source offset from which on the target has something else.
    """

    producer: int
    last: int | None = None
    start: int = 0
    diverged: int | None = None


@dataclass(frozen=True, slots=True)
class LanePosition:
    """``leader_epoch`` is -1 and ``topic_id`` empty when not known.

    ``marked``: target and source offset from which on every copy carries a provenance header; None: it does not.
    ``proved``: a mirror or a seek wrote it, and it came as it was written. Of any other, offset and claim alone are
    kept. ``same``: where copies keep offsets. ``lost``: what the target's log has lost of what was copied before; until
    a seek nothing goes on behind it. ``remote_id``: of the topic that holds the copies, empty where it is not known.
    ``last``: the source batch that ends there, None where it is not known.
    """

    offset: int
    topic_id: str = ""
    leader_epoch: int = -1
    claim: Claim = NO_CLAIM
    hour: int = 0
    marked: tuple[int, int] | None = None
    proved: bool = True
    same: SameOffsetsPosition | None = None
    lost: TargetLoss | None = None
    remote_id: str = ""
    last: LastBatch | None = None


def is_of_topic(position: LanePosition, topic_id: str) -> bool:
    """Whether it can be a position of the source topic with this id."""
    return position.topic_id == "" or urlsafe(position.topic_id) == urlsafe(topic_id)


def is_of_remote(position: LanePosition, remote_id: str) -> bool:
    """Whether it says what the remote topic with this id holds. Coordinators delete the positions of a deleted topic a
    while after its leader is gone, and take a commit of a lane that does not know yet."""
    return "" in (position.remote_id, remote_id) or not position.proved or position.remote_id == remote_id


def hour_now() -> int:
    return int(time.time()) // 3600


def superseding(positions: Mapping[Key, CommittedPosition], claim: Claim) -> Claim | None:
    """The claim of a later application, where one has written it into one of ``positions``."""
    claims = [decode(key, at.offset, at.metadata).claim for key, at in positions.items()]
    return max((other for other in claims if other > claim), default=None)


def went_back(position: LanePosition, least: int | None) -> bool:
    """Whether a lane or a takeover cannot have left ``position``, because ``least`` had been committed. A seek can: it
    names no topic, and lanes name it again once the offset map has their new place."""
    return least is not None and position.proved and position.topic_id != "" and position.offset < least


def is_older(later: LanePosition | None, earlier: LanePosition) -> bool:
    """Whether the answer that came ``later`` (None: no position) is of a time before ``earlier``, which had been
    decided. Unknown, so False, of a position without a proof, after a seek, or of another topic."""
    if later is None:
        return True
    return later.topic_id == earlier.topic_id and went_back(later, earlier.offset)


def to_commit(key: Key, position: LanePosition) -> CommittedOffset:
    return CommittedOffset(position.offset, position.leader_epoch, encode(key, position) + END)


def encode(key: Key, position: LanePosition) -> str:
    """The metadata string of ``position`` of target partition ``key``; far below the broker's limit of 4096 bytes."""
    same, lost = position.same, position.lost
    kept = {} if same is None else {"p": same.producer, "q": same.last, "s": same.start, "x": same.diverged}
    fields = {
        "i": position.topic_id,
        "e": position.leader_epoch,
        "c": position.claim.number,
        "a": position.claim.application,
        "h": position.hour,
        **owner_fields(position.claim.owner),
        **({} if position.marked is None else {"m": position.marked}),
        **({} if position.remote_id == "" else {"r": position.remote_id}),
        **({} if lost is None else {"g": [lost.end, lost.acknowledged, lost.source]}),
        **({} if position.last is None else {"b": astuple(position.last)}),
        **{key: number for key, number in kept.items() if number is not None},
    }
    return written(key, position.offset, fields, PositionProof.OURS if position.proved else PositionProof.CLAIMED)


def decode(key: Key, offset: int, metadata: str | None) -> LanePosition:
    """What another client committed (``kafka-consumer-groups --reset-offsets``: no metadata) is not ``proved``, nor is
    metadata that a client copied from another partition."""
    try:
        fields = parsed((metadata or "{}").rstrip(END))
        # Fields of metadata count only together with a proof for this very partition and offset: anyone with READ on
        # the group may have committed or copied them.
        proof = proof_of(key, offset, fields)
        if proof is PositionProof.NONE:
            return LanePosition(offset, proved=False)
        claim = Claim(int(fields.get("c", 0)), str(fields.get("a", "")), owner=owner_of(fields))
        hour = int(fields.get("h", 0))
        if proof is PositionProof.CLAIMED:
            return LanePosition(offset, claim=claim, hour=hour, proved=False)
        last, diverged = fields.get("q"), fields.get("x")
        same = None
        if "p" in fields:
            same = SameOffsetsPosition(
                int(fields["p"]),
                None if last is None else int(last),
                int(fields.get("s", 0)),
                None if diverged is None else int(diverged),
            )
        return LanePosition(
            offset,
            str(fields.get("i", "")),
            int(fields.get("e", -1)),
            claim,
            hour,
            None if (marked := fields.get("m")) is None else (int(marked[0]), int(marked[1])),
            same=same,
            lost=None if (lost := fields.get("g")) is None else TargetLoss(int(lost[0]), int(lost[1]), int(lost[2])),
            remote_id=str(fields.get("r", "")),
            last=None if (batch := fields.get("b")) is None else LastBatch(*map(int, batch)),
        )
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError):
        return LanePosition(offset, proved=False)


async def read_all(groups: GroupClient, group: str) -> dict[Key, LanePosition]:
    """All the group holds, also of topics that are not mirrored any more; what is undecided does not count. Raises
    BrokerError and what ``groups`` raises."""
    answer = (await groups.offsets([group]))[group]
    check(answer.error, f"positions of group {group} on {groups.cluster.name}")
    return {key: decode(key, committed.offset, committed.metadata) for key, committed in answer.offsets.items()}


def asked_at(kind: str, timestamp_ms: int | None) -> int:
    """``kind`` earliest, again, latest or timestamp, as ListOffsets asks."""
    return {"earliest": EARLIEST, AGAIN: EARLIEST, "latest": LATEST}.get(kind, timestamp_ms or 0)


async def start_offsets(
    source: ClusterClient, keys: Collection[Key], kind: str, timestamp_ms: int | None, *, committed: bool = True
) -> Mapping[Key, int]:
    """Source offsets for ``kind`` earliest, latest or timestamp (the first record at or after it, else the end).

    Raises BrokerError when one partition cannot be answered, and ConnectionLostError: a start is never guessed.
    """
    await source.refresh({topic for topic, _ in keys})
    offsets = await logs.bounds(source, keys, asked_at(kind, timestamp_ms), committed=committed)
    beyond = [key for key, offset in offsets.items() if offset < 0]
    return offsets | await logs.bounds(source, beyond, LATEST, committed=committed)
