"""``audit verify``: reads the audit record of an environment, here and in its topic, and checks its chains."""

from __future__ import annotations

from pathlib import Path

from reconciler.backends.state.audit.file import NAME, recorded
from reconciler.backends.state.audit.topic import read_copy
from reconciler.errors import Unknown, or_unknown
from reconciler.model.environment.topology import Principal, TopicRef
from reconciler.model.reports.audit import AuditVerification, pinned_somewhere
from reconciler.model.state.audit_chain import ChainReport, check
from reconciler.operations.session.session import Session, open_session


def verify_audit(folder: Path, pinned: str) -> AuditVerification:
    """``pinned``: the head that an earlier run printed, or empty; it has to be in one of the places."""
    with open_session(folder, Principal.PLAN) as session:
        return verified(session, pinned)


def verified(session: Session, pinned: str = "") -> AuditVerification:
    """As ``verify_audit``."""
    places: dict[str, ChainReport | Unknown] = {}
    if (session.state / NAME).exists() or session.topology.audit_place() is None:
        places["this machine"] = or_unknown(str(session.state / NAME), lambda: check(recorded(session.state), pinned))
    if place := session.topology.audit_place():
        places[f"{place.cluster}/{place.name}"] = or_unknown(
            f"topic {place.cluster}/{place.name}", lambda: _of_topic(session, place, pinned)
        )
    return AuditVerification(session.topology.environment, pinned_somewhere(places))


def _of_topic(session: Session, place: TopicRef, pinned: str) -> ChainReport:
    cluster = session.topology.clusters[place.cluster]
    return check(read_copy(cluster, Principal.PLAN, place.name, session.topology.environment, whole=True), pinned)
