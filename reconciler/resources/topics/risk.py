"""How dangerous a change is, why, and whether it can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import assert_never

from reconciler.acls import ANYONE, Permission
from reconciler.changes import (
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    AlterUser,
    Change,
    ConfigChange,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteTopic,
    DeleteUser,
    FinishReassignment,
    ReassignReplicas,
    RestartMirror,
    Risk,
    StartMirror,
    StopMirror,
)
from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.live import LiveState
from reconciler.prospects import BrokerConfigs, broker_configs, different_configs
from reconciler.sizes import size_words
from reconciler.topic_configs import human, number
from reconciler.topology import TopicRef, Topology

REVERSIBLE = "reversible"
DATA_LOSS = "irreversible: records that expire are gone"
GONE = "irreversible: its records and its id are gone"
GROWTH = "irreversible: Kafka cannot remove partitions"
OLD_PASSWORD = "reversible only with the password it had"  # noqa: S105 - words
_RETENTION = ("retention.ms", "retention.bytes")
_ORDER = (Risk.LOW, Risk.MEDIUM, Risk.HIGH)


@dataclass(frozen=True, slots=True)
class Assessment:
    risk: Risk
    why: str = ""
    reversibility: str = REVERSIBLE


Fallbacks = Callable[[str], BrokerConfigs]
"""Cluster -> what its topics have without overrides, as far as other topics tell."""


def fallbacks_of(live: LiveState) -> Fallbacks:
    """Worked out once for each cluster that is asked about, however many changes ask."""

    @cache
    def fallbacks(cluster: str) -> BrokerConfigs:
        known = live.known(cluster)
        return broker_configs(different_configs(known)) if known else {}

    return fallbacks


def assess(change: Change, topology: Topology, live: LiveState, fallbacks: Fallbacks) -> Assessment:
    match change:
        case CreateTopic():
            return Assessment(Risk.LOW, "", "reversible while nobody has written to it")
        case AddPartitions():
            return _growth(change, topology, live)
        case AlterConfigs():
            found = [assess_config(one, _fallback(change.ref.cluster, one, fallbacks)) for one in change.configs]
            worst = max(found, key=lambda one: _ORDER.index(one.risk))
            lasting = next((one.reversibility for one in found if one.reversibility != REVERSIBLE), REVERSIBLE)
            return Assessment(worst.risk, "; ".join(one.why for one in found if one.why), lasting)
        case StartMirror():
            return Assessment(Risk.LOW)
        case RestartMirror():
            return Assessment(Risk.MEDIUM, "copying pauses while the job restarts; no record is lost or doubled")
        case StopMirror():
            return Assessment(Risk.MEDIUM, "its flows are no longer copied; positions stay for a later start")
        case DeleteTopic():
            return Assessment(Risk.HIGH, _what_goes(change), GONE)
        case CreateAcl() | DeleteAcl():
            return _access(change)
        case AlterQuota():
            return _quota(change)
        case AlterUser():
            return _user(change)
        case DeleteUser():
            return _user_gone(change)
        case ReassignReplicas():
            return _replicas(change, live)
        case FinishReassignment():
            return Assessment(Risk.LOW, "", "reversible")
        case _:
            assert_never(change)


def on_nothing(change: AddPartitions | AlterConfigs, found: Assessment) -> Assessment:
    """``found``, told of a topic that holds no record now: what there is cannot be lost. What is written from then on
    can, so a setting that endangers new records (unclean elections) stays what it is."""
    if found.risk is not Risk.HIGH:
        return found
    if isinstance(change, AlterConfigs) and any(
        one.key not in (*_RETENTION, "cleanup.policy") and assess_config(one).risk is Risk.HIGH
        for one in change.configs
    ):
        return found
    lasting = GROWTH if isinstance(change, AddPartitions) else "reversible while nobody has written to it"
    return Assessment(Risk.MEDIUM, f"it holds no record now; {found.why}", lasting)


def _access(change: CreateAcl | DeleteAcl) -> Assessment:
    """What is new for those the rule is about; who that is today is for the what-if to say."""
    allows = change.acl.permission is Permission.ALLOW
    if isinstance(change, DeleteAcl):
        if allows:
            return Assessment(Risk.MEDIUM, "clients that still use this right are refused from then on")
        return Assessment(Risk.MEDIUM, "what was denied may be allowed by other rules from then on")
    if not allows:
        return Assessment(Risk.MEDIUM, "a denial wins over every rule that allows")
    if change.acl.principal == ANYONE:
        return Assessment(Risk.HIGH, "everybody who can connect is allowed", REVERSIBLE)
    return Assessment(Risk.LOW)


def _quota(change: AlterQuota) -> Assessment:
    """How much a client uses today is not known to Kafka's admin API, so every tighter limit may meet one."""
    tighter = any(one.after is not None and (one.before is None or one.after < one.before) for one in change.limits)
    if tighter:
        return Assessment(Risk.MEDIUM, "clients that use more are slowed down from then on; nothing of theirs is lost")
    return Assessment(Risk.LOW)


def _user(change: AlterUser) -> Assessment:
    if all(one.before is None for one in change.credentials):
        return Assessment(Risk.LOW)
    if change.reason.code == "take-over":
        why = "the password that is there was set by someone else: clients that have it cannot connect any more"
        return Assessment(Risk.HIGH, why, OLD_PASSWORD)
    why = "clients that still have the old password cannot connect anew; open connections go on until they end"
    return Assessment(Risk.MEDIUM, why, OLD_PASSWORD)


def _user_gone(change: DeleteUser) -> Assessment:
    by = f" by {' or '.join(change.mechanisms)}" if change.left else ""
    why = f"clients that log in with it{by} cannot connect anew; Kafka does not tell who does"
    return Assessment(Risk.HIGH, why, OLD_PASSWORD)


def _what_goes(change: DeleteTopic) -> str:
    partitions = counted(change.partitions, "partition")
    return f"all records of its {partitions} are deleted; remote topics of other clusters stay as they are"


def _replicas(change: ReassignReplicas, live: LiveState) -> Assessment:
    least = _min_insync(change, live)
    if change.after == 1:
        return Assessment(Risk.HIGH, "one copy is left: a lost disk loses its records", "reversible: copied again")
    if least == change.after:
        why = f"with min.insync.replicas {least} no replica may be missing: one stopped broker stops its producers"
        return Assessment(Risk.HIGH, why, "reversible: copied again")
    if not change.bytes_to_copy:
        fewer = change.before is not None and change.after < change.before
        return Assessment(Risk.MEDIUM if fewer else Risk.LOW, "fewer copies; nothing is copied" if fewer else "")
    return Assessment(Risk.MEDIUM, f"brokers copy meanwhile, at up to {size_words(change.pace.throttle)}/s each")


def _min_insync(change: ReassignReplicas, live: LiveState) -> int:
    cluster = live.known(change.ref.cluster)
    topic = cluster.topics.get(change.ref.name) if cluster else None
    if topic is None or isinstance(topic.configs, Unknown):
        return 1
    entry = topic.configs.get("min.insync.replicas")
    return int(number(entry.value) or 1) if entry else 1


def _growth(change: AddPartitions, topology: Topology, live: LiveState) -> Assessment:
    if change.depth > 0:
        return Assessment(Risk.LOW, "each record keeps the partition it has at the source", GROWTH)
    moved = f"keys move to other partitions when {change.before} become {change.after}"
    if keyed := _keyed(change.ref, topology, live):
        why = f"{moved}; {keyed}, so old and new records of one key are no longer in order, nor compacted together"
        return Assessment(Risk.HIGH, why, GROWTH)
    return Assessment(Risk.MEDIUM, f"{moved}; consumers that rely on the order of a key notice", GROWTH)


def _keyed(ref: TopicRef, topology: Topology, live: LiveState) -> str:
    """Why the topic must be taken as keyed, or empty."""
    wish, cluster = topology.topics.get(ref.name), live.known(ref.cluster)
    if wish is not None and wish.labels.get("keyed", "").lower() in ("true", "yes"):
        return "the topic is labelled keyed"
    topic = cluster.topics.get(ref.name) if cluster else None
    if topic is None or isinstance(topic.configs, Unknown):
        return ""
    policy = topic.configs.get("cleanup.policy")
    return "the topic is compacted" if policy and "compact" in (policy.value or "") else ""


def _fallback(cluster: str, change: ConfigChange, fallbacks: Fallbacks) -> str | None:
    """What the topic gets when its override goes, where another topic of the cluster tells."""
    entry = fallbacks(cluster).get(change.key) if change.after is None else None
    return entry.value if entry is not None else None


def assess_config(change: ConfigChange, fallback: str | None = None) -> Assessment:
    """``fallback``: the value after an override was removed, None when not known."""
    key, value = change.key, fallback if change.after is None else change.after
    before, after = number(change.before), number(value)
    shown = f"{key} {human(key, change.before)} -> {human(key, value)}"
    if key in _RETENTION and value is None:
        return Assessment(Risk.HIGH, f"{key} falls back to the cluster's value, which may keep less", DATA_LOSS)
    lowered = before is not None and after is not None and after < before
    if key in _RETENTION and lowered:
        return Assessment(Risk.HIGH, f"{shown}: records beyond the new limit are deleted at once", DATA_LOSS)
    if key == "cleanup.policy":
        return Assessment(Risk.HIGH, f"{shown}: other records are deleted than before", DATA_LOSS)
    if key == "unclean.leader.election.enable" and value == "true":
        return Assessment(Risk.HIGH, "acknowledged records can be lost when a leader fails", DATA_LOSS)
    if key == "min.insync.replicas" and before != after:
        why = "fewer replicas must have a record" if lowered else "producers fail sooner when replicas are missing"
        return Assessment(Risk.MEDIUM, f"{shown}: {why}")
    if key == "max.message.bytes" and lowered:
        return Assessment(Risk.MEDIUM, f"{shown}: larger records are refused from now on")
    return Assessment(Risk.LOW)
