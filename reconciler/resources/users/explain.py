"""Explains SCRAM users: credentials, where they are declared, the version of the password that is set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.model.live import LiveUsers
from reconciler.model.reports.explain import RuleAnswer
from reconciler.model.users import AS_FOUND, ScramUser, credentials_text
from reconciler.resources.topics.explain import ExplainBasis

_BEGINS = "User:"


def credentials_of(basis: ExplainBasis, subject: str) -> tuple[RuleAnswer, ...]:
    """``subject``: ``User:orders-app``."""
    if not subject.startswith(_BEGINS):
        return ()
    name = subject.removeprefix(_BEGINS)
    return tuple(answer for cluster in basis.topology.clusters for answer in _answers(basis, cluster, name))


def _answers(basis: ExplainBasis, cluster: str, name: str) -> Iterator[RuleAnswer]:
    declared = next((user for user in basis.topology.users if user.name == name and cluster in user.clusters), None)
    known = basis.live.known(cluster) if cluster in basis.answered else None
    live = known.users if known is not None else None
    credentials = live.credentials.get(name) if live is not None and isinstance(live.credentials, Mapping) else None
    if declared is None and not credentials:
        return
    place = declared.where.line_words if declared is not None else ""
    because = "unmanaged: not declared" if declared is None else "declared"
    text = _desired(declared) if declared is not None else credentials_text(credentials or {})
    yield RuleAnswer(cluster, text, because, place, _state(live, name))


def _desired(user: ScramUser) -> str:
    if user.absent:
        return "absent"
    version = "the password that is there" if user.version == AS_FOUND else f"version {user.version}"
    return f"{', '.join(user.mechanisms)}, {version}"


def _state(live: LiveUsers | None, name: str) -> str:
    if live is None or not isinstance(live.credentials, Mapping):
        return ""
    credentials = live.credentials.get(name)
    record = live.recorded.get(name) if isinstance(live.recorded, Mapping) else None
    said = "" if record is None else f", {record}"
    return f"live {credentials_text(credentials)}{said}" if credentials else "missing"
