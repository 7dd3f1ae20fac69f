"""What the last apply of an environment wished and which clusters it has met, as kept in Kafka beside the lock.

Frozen, standard library only. The record is advice: it can only make a run refuse more, never do more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

FORMAT_VERSION = 1
SANDBOX_PREFIX = "sandbox-"
"""Ids of clusters that ``sandbox up`` makes begin with it: they are there to be changed by anybody."""


def applied_key(environment: str) -> str:
    return f"applied/{environment}"


@dataclass(frozen=True, slots=True)
class Consent:
    """What somebody has agreed to on purpose, for one run."""

    first_contact: bool = False
    shrink: bool = False
    prune: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """``clusters``: alias -> id of the cluster that was changed under it. ``topics``: ``cluster/name``, declared ones.

    ``at_ms``: since 1970; ``commit`` may be empty. ``origin``: repository and folder; empty where git did not tell.
    """

    environment: str
    at_ms: int
    who: str
    commit: str
    clusters: Mapping[str, str]
    topics: tuple[str, ...]
    flows: tuple[str, ...]
    origin: str = ""

    def same_wish(self, other: Applied) -> bool:
        ours, theirs = ((one.clusters, one.topics, one.flows, one.origin) for one in (self, other))
        return ours == theirs


def dumps(applied: Applied) -> bytes:
    return json.dumps({"format_version": FORMAT_VERSION, **asdict(applied)}, sort_keys=True).encode()


def loads(value: bytes) -> Applied:
    """Also of a version that wrote less or more. Raises ValueError for anything else."""
    try:
        read: dict[str, Any] = json.loads(value)
        if read.pop("format_version") != FORMAT_VERSION:
            raise ValueError("another format version")
        known = {one.name for one in fields(Applied)}
        found = {name: one for name, one in read.items() if name in known}
        topics, flows = (tuple(map(str, found.pop(name))) for name in ("topics", "flows"))
        clusters = {str(name): str(one) for name, one in dict(found.pop("clusters")).items()}
        return Applied(clusters=clusters, topics=topics, flows=flows, **found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no record of an apply: {error}") from None
