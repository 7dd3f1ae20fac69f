"""A flow's positions: offsets of group ``mirror.<flow>`` on the target, with their metadata.

The offset is the next *source* offset. The metadata string is compact JSON: source topic id, leader epoch of the last
copied record and the header of its batch, the claim of the application that wrote it, where provenance begins, the
hour, and a proof. The hour lets lanes commit idle positions again before the group coordinator deletes them
(offsets.retention.minutes, 7 days by default). Committing again keeps the kind of proof: a position that another client
committed never gets one.
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
from reconciler.replication.names import is_own_topic
from reconciler.replication.offsets.position_metadata import (
    END,
    PositionProof,
    fields_of,
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
    """For a copy at the source's own offsets. Its true position is the target's log end; the committed one lags behind.

    ``producer``: the producer id of its data. ``last``: the sequence of the last record before the position, -1 for no
    record, None if unknown. ``start``: the source offset of the first copied record; before it the target had fillers.
    ``diverged``: the source offset from which on the target has other records.
    """

    producer: int
    last: int | None = None
    start: int = 0
    diverged: int | None = None


@dataclass(frozen=True, slots=True)
class LanePosition:
    """``leader_epoch`` is -1 and ``topic_id`` empty if unknown.

    ``marked``: target and source offset from which on every copy has a provenance header; None: no copy has one.
    ``proved``: a mirror or a seek wrote it, and it is intact; of any other position only offset and claim are kept.
    ``same``: set where copies keep offsets. ``lost``: the target's loss of copied records, which stops the partition
    until a seek. ``remote_id``: id of the remote topic, empty if unknown. ``last``: the source batch that ends there,
    None if unknown.
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
    """Whether it can be a position in the remote topic with this id. It may be a deleted topic's: coordinators delete
    those positions some time after the topic, and until then accept commits of lanes that do not know of the deletion.
    """
    return "" in (position.remote_id, remote_id) or not position.proved or position.remote_id == remote_id


def hour_now() -> int:
    return int(time.time()) // 3600


def superseding(positions: Mapping[Key, CommittedPosition], claim: Claim) -> Claim | None:
    """The claim of a later application in any of ``positions``."""
    claims = [decode(key, at.offset, at.metadata).claim for key, at in positions.items()]
    return max((other for other in claims if other > claim), default=None)


def went_back(position: LanePosition, least: int | None) -> bool:
    """Whether ``position`` is older than ``least``, which had been committed, so that the coordinator must have lost a
    commit. Not after a seek, which may go back: its positions name no topic until the offset map has the new place."""
    return least is not None and position.proved and position.topic_id != "" and position.offset < least


def is_older(later: LanePosition | None, earlier: LanePosition) -> bool:
    """Whether the ``later`` answer (None: no position) is older than the committed ``earlier`` one. False, because
    unknown, for a position without a proof, after a seek, or of another topic."""
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
    """The position that was committed. It is not ``proved`` if another client committed it (as ``kafka-consumer-groups
    --reset-offsets`` does, without metadata), or with metadata copied from another partition."""
    try:
        fields = fields_of(metadata or "")
        # Metadata counts only with a proof for this very partition and offset: every principal with READ on the group
        # may commit or copy it.
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
    # Metadata of any other shape was not written by a mirror, so it proves nothing.
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError):
        return LanePosition(offset, proved=False)


async def read_all(groups: GroupClient, group: str) -> dict[Key, LanePosition]:
    """All positions of the group, including those of topics no longer mirrored, but none of an open transaction, and
    not the owner's mark. Raises BrokerError and the exceptions of ``groups``."""
    answer = (await groups.offsets([group]))[group]
    check(answer.error, f"positions of group {group} on {groups.cluster.name}")
    committed = {key: at for key, at in answer.offsets.items() if not is_own_topic(key[0])}
    return {key: decode(key, at.offset, at.metadata) for key, at in committed.items()}


def asked_at(kind: str, timestamp_ms: int | None) -> int:
    """The ListOffsets timestamp for ``kind`` earliest, again, latest or timestamp."""
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
