"""Which SCRAM credentials a user has, where they are declared, and which version of the password is set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.explaining.topics import Ground
from reconciler.explanation import RuleAnswer
from reconciler.live import LiveUsers
from reconciler.users import AS_FOUND, ScramUser, credentials_text

_BEGINS = "User:"


def credentials_of(ground: Ground, subject: str) -> tuple[RuleAnswer, ...]:
    """``subject``: ``User:orders-app``."""
    if not subject.startswith(_BEGINS):
        return ()
    name = subject.removeprefix(_BEGINS)
    return tuple(answer for cluster in ground.topology.clusters for answer in _answers(ground, cluster, name))


def _answers(ground: Ground, cluster: str, name: str) -> Iterator[RuleAnswer]:
    declared = next((one for one in ground.topology.users if one.name == name and cluster in one.clusters), None)
    known = ground.live.known(cluster) if cluster in ground.answered else None
    live = known.users if known is not None else None
    there = live.credentials.get(name) if live is not None and isinstance(live.credentials, Mapping) else None
    if declared is None and not there:
        return
    place = f"{declared.where.file}:{declared.where.line}" if declared is not None and declared.where.line else ""
    because = "unmanaged: not declared" if declared is None else "declared"
    text = _wished(declared) if declared is not None else credentials_text(there or {})
    yield RuleAnswer(cluster, text, because, place, _state(live, name))


def _wished(user: ScramUser) -> str:
    if user.absent:
        return "absent"
    version = "the password that is there" if user.version == AS_FOUND else f"version {user.version}"
    return f"{', '.join(user.mechanisms)}, {version}"


def _state(live: LiveUsers | None, name: str) -> str:
    if live is None or not isinstance(live.credentials, Mapping):
        return ""
    there = live.credentials.get(name)
    record = live.recorded.get(name) if isinstance(live.recorded, Mapping) else None
    said = "" if record is None else f", {record}"
    return f"live {credentials_text(there)}{said}" if there else "missing"
