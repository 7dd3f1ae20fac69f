"""The verdict of what a session has seen, with the remedies that a comparison with git shows."""

from __future__ import annotations

from reconciler.engine.diff import diff
from reconciler.engine.drift.remedies import has_remedy, with_remedies
from reconciler.engine.observe.verdict import verdict_of
from reconciler.model.reports.health import Verdict
from reconciler.operations.session.session import Session


def verdict_now(session: Session, folder: str) -> Verdict:
    """After ``observe``. ``folder``: of the environment, as a command names it. Git is compared with what was seen only
    where drift may be the cause of a condition."""
    live = session.last.live
    assert live is not None
    verdict = verdict_of(session.topology, live, folder)
    if not has_remedy(verdict):
        return verdict
    findings, _ = diff(session.topology, live)
    return with_remedies(verdict, session.topology, live, findings.changes, folder)
