"""Fingerprints of what a plan rests on, with words to say what moved when they differ later."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from reconciler.changes import (
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    AlterUser,
    Change,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteTopic,
    DeleteUser,
    FinishReassignment,
    ReassignReplicas,
    RestartMirror,
    StartMirror,
    StopMirror,
)
from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.handover import canonical_json
from reconciler.live import LiveCluster, LiveMirror, LiveState, LiveTopic
from reconciler.plans import Observation
from reconciler.quotas import limits_text
from reconciler.routing import Route
from reconciler.sparse import sparse_fields
from reconciler.topic_configs import human
from reconciler.topology import TopicRef, Topology
from reconciler.users import credentials_text

ABSENT = "absent"
_SIMPLE = frozenset({str, int, float, bool, type(None)})
_MAPPINGS = frozenset({dict, MappingProxyType})
"""Told by their type, which is ten times as quick as to ask whether something is a mapping."""


def subjects(changes: Iterable[Change], routes: Iterable[Route]) -> tuple[str, ...]:
    """Exactly what the changes rest on: their topics, the sources of those topics, mirror jobs and clusters."""
    sources = {route.remote: route.source for route in routes}
    found: set[str] = set()
    for change in changes:
        match change:
            case CreateTopic() | AddPartitions() | AlterConfigs() | DeleteTopic():
                touched = {change.ref} | ({sources[change.ref]} if change.ref in sources else set())
                found |= {f"topic {ref}" for ref in touched} | {f"cluster {ref.cluster}" for ref in touched}
            case CreateAcl() | DeleteAcl():
                found |= {f"acl {change.cluster}/{change.acl}", f"cluster {change.cluster}"}
                if isinstance(change, CreateAcl) and change.rests_on:
                    found.add(f"acl {change.rests_on}")
            case AlterQuota():
                found |= {f"quota {change.cluster}/{change.entity}", f"cluster {change.cluster}"}
            case AlterUser() | DeleteUser():
                found |= {f"user {change.cluster}/{change.user}", f"cluster {change.cluster}"}
            case ReassignReplicas():
                found |= {f"{kind} {change.ref}" for kind in ("topic", "replicas")}
                found |= {f"{kind} {change.ref.cluster}" for kind in ("brokers", "cluster")}
            case FinishReassignment():
                found.add(f"cluster {change.cluster}")
            case StartMirror() | RestartMirror() | StopMirror():
                found.add(f"mirror {change.mirror}")
    return tuple(sorted(found))


def observe_again(wanted: Iterable[str], live: LiveState) -> tuple[Observation, ...]:
    """The same subjects, as they are in ``live``."""
    found = []
    rules = {name: _rules(one) for name, one in live.clusters.items() if isinstance(one, LiveCluster) and one.access}
    for subject in wanted:
        text = _rule(subject, rules) if subject.startswith("acl ") else _text(subject, live)
        found.append(Observation(subject, hashlib.sha256(text.encode()).hexdigest()[:16], text))
    return tuple(found)


def shown(text: str) -> str:
    """The text of an observation for people: configs in the units of the plan itself."""
    return ", ".join(_in_units(part) for part in text.split(", "))


def _in_units(part: str) -> str:
    key, sign, value = part.partition("=")
    return f"{key}={human(key, value)}" if sign else part


def topics_to_read(wanted: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Cluster -> topic names, enough to check these subjects without reading everything."""
    found: dict[str, list[str]] = {}
    for subject in wanted:
        kind, _, name = subject.partition(" ")
        if kind in ("topic", "replicas"):
            cluster, _, topic = name.partition("/")
            found.setdefault(cluster, []).append(topic)
        elif kind in ("brokers", "cluster"):
            found.setdefault(name, [])
        elif kind in ("acl", "quota", "user"):
            found.setdefault(name.partition("/")[0], [])
    return {cluster: tuple(names) for cluster, names in found.items()}


def access_to_read(wanted: Iterable[str]) -> frozenset[str]:
    """Clusters whose access rules are needed to check these subjects."""
    return frozenset(subject[4:].partition("/")[0] for subject in wanted if subject.startswith("acl "))


def quotas_to_read(wanted: Iterable[str]) -> frozenset[str]:
    """Clusters whose quotas are needed to check these subjects."""
    return frozenset(subject[6:].partition("/")[0] for subject in wanted if subject.startswith("quota "))


def users_to_read(wanted: Iterable[str]) -> frozenset[str]:
    """Clusters whose SCRAM users are needed to check these subjects."""
    return frozenset(subject[5:].partition("/")[0] for subject in wanted if subject.startswith("user "))


def topology_digest(topology: Topology) -> str:
    """sha256 of everything declared; where it stands in which file does not count."""
    return hashlib.sha256(canonical_json(_plain(topology)).encode()).hexdigest()


def _rules(cluster: LiveCluster) -> Mapping[str, str] | None:
    """Text of each rule -> what is seen of it; None when they could not be read."""
    access = cluster.access
    if access is None or not isinstance(access.acls, frozenset):
        return None
    owned = {} if isinstance(access.owned, Unknown) else access.owned
    shown = {str(acl): "there, made by an earlier run" if acl in owned else "there" for acl in access.acls}
    return {**shown, **{str(acl): f"{shown.get(str(acl), ABSENT)}, not probed yet" for acl in access.pending}}


def _rule(subject: str, rules: Mapping[str, Mapping[str, str] | None]) -> str:
    cluster, _, text = subject[4:].partition("/")
    known = rules.get(cluster)
    return "unknown" if known is None else known.get(text, ABSENT)


def _text(subject: str, live: LiveState) -> str:
    kind, _, name = subject.partition(" ")
    if kind == "mirror":
        return _mirror(live.mirrors.get(name))
    if kind == "quota":
        return _quota(live.known(name.partition("/")[0]), name.partition("/")[2])
    if kind == "user":
        return _user(live.known(name.partition("/")[0]), name.partition("/")[2])
    ref = TopicRef(name, "") if kind in ("brokers", "cluster") else TopicRef(*name.split("/", 1))
    cluster = live.clusters.get(ref.cluster)
    if cluster is None or isinstance(cluster, Unknown):
        return "unknown"
    if kind == "cluster":
        return f"cluster id {cluster.cluster_id}"
    if kind == "brokers":
        return _brokers(cluster)
    if kind == "replicas":
        return _replicas(cluster.topics.get(ref.name))
    return _topic(cluster.topics.get(ref.name))


def _quota(cluster: LiveCluster | None, whom: str) -> str:
    if cluster is None or cluster.quotas is None or isinstance(cluster.quotas, Unknown):
        return "unknown"
    return next((limits_text(limits) for entity, limits in cluster.quotas.items() if str(entity) == whom), ABSENT)


def _user(cluster: LiveCluster | None, name: str) -> str:
    users = cluster.users if cluster is not None else None
    if users is None or not isinstance(users.credentials, Mapping) or isinstance(users.recorded, Unknown):
        return "unknown"
    record, there = users.recorded.get(name), users.credentials.get(name)
    said = "not ours" if record is None else str(record)
    return f"{credentials_text(there) if there else ABSENT}, {said}"


def _topic(topic: LiveTopic | None) -> str:
    if topic is None:
        return ABSENT
    factor = topic.replication_factor or "mixed"
    overrides = ", ".join(f"{key}={value}" for key, value in sorted(topic.overrides.items())) or "no overrides"
    if isinstance(topic.configs, Unknown):
        overrides = "configs unreadable"
    return (
        f"id {topic.topic_id}, {counted(len(topic.partitions), 'partition')}, replication factor {factor}, {overrides}"
    )


def _brokers(cluster: LiveCluster) -> str:
    """Those that live, and where: replicas are placed on them."""
    living = sorted(cluster.brokers, key=lambda broker: broker.id)
    return "; ".join(f"{one.id} (rack {one.rack})" if one.rack is not None else str(one.id) for one in living)


def _replicas(topic: LiveTopic | None) -> str:
    """The set of each partition: its order may change while a reassignment is under way."""
    if topic is None:
        return ABSENT
    return "; ".join(f"{part.index}: {', '.join(map(str, sorted(part.replicas)))}" for part in topic.partitions)


def _mirror(mirror: LiveMirror | Unknown | None) -> str:
    if mirror is None:
        return ABSENT
    if isinstance(mirror, Unknown):
        return "unknown"
    return f"{mirror.state}, application {mirror.application_id or 'none'}, fingerprint {mirror.fingerprint or 'none'}"


def _plain(value: Any) -> object:
    kind: Any = type(value)
    if kind in _SIMPLE:
        return value
    if kind in _MAPPINGS or isinstance(value, Mapping):
        if not value:
            return {}
        return {str(key): v if type(v) in _SIMPLE else _plain(v) for key, v in value.items()}
    if names := _fields(kind):
        told = {n: v if type(v := getattr(value, n)) in _SIMPLE else _plain(v) for n in names}
        for name, default in sparse_fields(kind).items():
            if getattr(value, name) == default:
                del told[name]
        return told
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    return value


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """What a digest sees of a noun; looked up once for a kind, since a topology has tens of thousands."""
    return tuple(f.name for f in fields(kind) if f.name != "where") if is_dataclass(kind) else ()
