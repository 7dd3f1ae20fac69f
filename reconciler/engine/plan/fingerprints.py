"""Fingerprints of a plan's basis, words for changes of it since, and the reads by which apply checks it."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from reconciler.engine.kinds import STATES, kind_of
from reconciler.engine.observe.read_all import ReadScope
from reconciler.errors import Unknown
from reconciler.model.changes import About, Change, Subject
from reconciler.model.config_values import human
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveCluster, LiveState
from reconciler.model.plan import Observation
from reconciler.replication.handover import canonical_json
from reconciler.replication.json_codec import sparse_fields
from reconciler.resources.flows.routes import Route

_SIMPLE = frozenset({str, int, float, bool, type(None)})
_MAPPINGS = frozenset({dict, MappingProxyType})
"""Compared by type, which is ten times as fast as asking whether something is a mapping."""


def subjects(changes: Iterable[Change], routes: Iterable[Route]) -> set[Subject]:
    """Exactly what the changes rest on: their topics, the sources of those topics, mirror jobs and clusters."""
    sources = {route.remote: route.source for route in routes}
    return {subject for change in changes for subject in kind_of(change).rests_on(change, sources)}


def observe_again(subjects: Iterable[Subject], live: LiveState) -> tuple[Observation, ...]:
    """The same subjects with their state in ``live``. Raises KeyError for one that no kind observes."""
    states: dict[About, Callable[[Subject], str]] = {}
    observed = []
    for subject in subjects:
        if (state := states.get(subject.about)) is None:
            state = states[subject.about] = STATES[subject.about](live)
        text = state(subject)
        observed.append(Observation(subject, hashlib.sha256(text.encode()).hexdigest()[:16], text))
    return tuple(observed)


def shown(text: str) -> str:
    """The text of an observation for people: configs in the units of the plan itself."""
    pairs = (part.partition("=") for part in text.split(", "))
    return ", ".join(f"{key}={human(key, value)}" if sign else key for key, sign, value in pairs)


def topology_digest(topology: Topology) -> str:
    """sha256 of everything declared; files and lines do not count."""
    return hashlib.sha256(canonical_json(_plain(topology)).encode()).hexdigest()


def _plain(value: Any) -> object:
    """The value as JSON has it, in a canonical form. Fields at their sparse default are left out, so that a new field
    changes no fingerprint of old files."""
    kind: Any = type(value)
    if kind in _SIMPLE:
        return value
    if kind in _MAPPINGS or isinstance(value, Mapping):
        if not value:
            return {}
        return {str(key): v if type(v) in _SIMPLE else _plain(v) for key, v in value.items()}
    if names := _fields(kind):
        by_name = {n: v if type(v := getattr(value, n)) in _SIMPLE else _plain(v) for n in names}
        for name, default in sparse_fields(kind).items():
            if getattr(value, name) == default:
                del by_name[name]
        return by_name
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else value


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """The fields of a class that a digest covers; looked up once for each class, since a topology has tens of thousands
    of values."""
    return tuple(f.name for f in fields(kind) if f.compare and f.name != "where") if is_dataclass(kind) else ()


@dataclass(frozen=True, slots=True)
class RereadScope:
    """The basis of a saved plan and nothing more: ``wanted`` of clusters, and the ``mirrors``."""

    wanted: ReadScope
    mirrors: tuple[str, ...]


def basis(observed: Collection[Subject]) -> RereadScope:
    """``observed``: the subjects of a plan's basis."""
    topics: dict[str, list[str]] = {subject.cluster: [] for subject in observed if subject.cluster}
    for subject in observed:
        if subject.about in (About.TOPIC_STATE, About.REPLICAS):
            topics[subject.cluster].append(subject.name)

    def clusters(about: About) -> frozenset[str]:
        return frozenset(subject.cluster for subject in observed if subject.about is about)

    mirrors = tuple(subject.name for subject in observed if subject.about is About.MIRROR)
    return RereadScope(
        ReadScope(clusters(About.ACL), clusters(About.QUOTA_STATE), (), clusters(About.USER), topics), mirrors
    )


def unreadable(live: LiveState) -> list[Unknown]:
    """Every requested part without an answer."""
    unknowns = [item for item in (*live.clusters.values(), *live.mirrors.values()) if isinstance(item, Unknown)]
    for cluster in (each for each in live.clusters.values() if isinstance(each, LiveCluster)):
        acls = cluster.acls if cluster.access is not None else None
        users = (cluster.users.credentials, cluster.users.recorded) if cluster.users is not None else ()
        parts = (*cluster.hidden.values(), acls, cluster.quotas, *users)
        unknowns += [part for part in parts if isinstance(part, Unknown)]
    return unknowns
