"""Limits of a topic: configs by which records are deleted, compacted or refused earlier when they are lowered.

A limit that stands in no file is not carried to a copy until somebody agrees (decision 109).
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model.config_values import LONG_MAX, number

_LOWER: Mapping[str, str] = {
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "delete.retention.ms": "86400000",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": str(LONG_MAX),
    "max.message.bytes": "1048588",
    "message.timestamp.difference.max.ms": str(LONG_MAX),
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.after.max.ms": "3600000",
}
"""With Kafka's built-in values (4.3), for clusters of which no topic tells what is the default."""
_HIGHER: Mapping[str, str] = {"min.insync.replicas": "1"}
_OTHERS: Mapping[str, str] = {"cleanup.policy": "delete", "unclean.leader.election.enable": "false"}
BUILT_IN: Mapping[str, str] = {**_LOWER, **_HIGHER, **_OTHERS}


def loses_earlier(key: str, before: str | None, after: str | None) -> bool:
    """Whether records are lost or refused with ``after`` that are kept or taken with ``before``. None, or a value that
    is no number: not known, which counts as losing where ``key`` is a limit at all."""
    if key not in BUILT_IN:
        return False
    if before is None or after is None:
        return True
    if key == "cleanup.policy":
        return bool(_policies(after) - _policies(before))
    if key == "unclean.leader.election.enable":
        return after.strip().lower() == "true" and before.strip().lower() != "true"
    was, now = number(before), number(after)
    if was is None or now is None:
        return before.strip() != after.strip()
    return now > was if key in _HIGHER else now < was


def _policies(value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(",") if part.strip())


def min_insync_above(factor: int) -> str:
    """What min.insync.replicas above a replication factor means. Kafka 4.3 takes records with acks=all on one replica
    where three must be in sync; brokers before 3.7 (KAFKA-15583) do not."""
    return (
        f"Brokers before Kafka 3.7 refuse every write with acks=all there; later ones count it as {factor}, so it"
        " protects less than it says"
    )
