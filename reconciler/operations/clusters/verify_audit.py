"""``audit verify``: reads an environment's audit record from this machine and its topic, and checks both chains."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote

from reconciler.backends.state.audit import NAME, illegible, read_copy, read_lines
from reconciler.backends.state.environment_records import read_applied
from reconciler.errors import ReconcilerError, Unknown, or_unknown
from reconciler.model.environment.topology import Principal
from reconciler.model.state import audit_chain
from reconciler.model.state.last_apply import Applied
from reconciler.operations.session.session import Session, open_session
from reconciler.replication.kept_files import read_json, reason
from reconciler.text import moment

_HERE = "this machine"


def verify_audit(folder: Path, pinned: str | None, report: Path | None = None) -> audit_chain.AuditVerification:
    """``pinned``: a head that an earlier run printed; one of the places must contain it. ``report``: a command's
    report; the record must contain its digest."""
    if pinned is not None and not re.fullmatch("sha256:[0-9a-f]{64}", pinned):
        why = "A head is sha256: and 64 hexadecimal digits; without one, records taken off the end are not noticed."
        todo = f"Give --head the line head of an earlier run: reconciler audit verify {quote(str(folder))}."
        raise ReconcilerError(f"--head is {pinned or 'empty'}", why, todo)
    seal = "" if report is None else _seal_of(report)
    with open_session(folder, Principal.PLAN) as session:
        return verified(session, pinned or "", seal)


def _seal_of(report: Path) -> str:
    """The digest by which the audit record names a report. Raises ReconcilerError for a file that holds no report."""
    todo = "Name the drill.json that drill --out has written."
    try:
        document = read_json(report)
    except (OSError, ValueError) as error:
        why = "Its digest is looked for in the audit record."
        raise ReconcilerError(f"{report} cannot be read as JSON: {reason(error)}", why, todo) from None
    if not isinstance(document, dict):
        raise ReconcilerError(f"{report} is no report", "It holds no JSON object.", todo)
    return audit_chain.digest(document)


def verified(session: Session, pinned: str = "", seal: str = "") -> audit_chain.AuditVerification:
    """``verify_audit`` in an open session."""
    records: dict[str, Sequence[audit_chain.Record] | Unknown] = {}
    if (session.state / NAME).exists() or session.topology.audit_place() is None:
        records[_HERE] = or_unknown(str(session.state / NAME), lambda: read_lines(session.state))
    if place := session.topology.audit_place():
        cluster, environment = session.topology.clusters[place.cluster], session.topology.environment
        ask = partial(read_copy, cluster, Principal.PLAN, place.name, environment, whole=True)
        records[f"{place.cluster}/{place.name}"] = or_unknown(f"topic {place.cluster}/{place.name}", ask)
    known = {name: lines for name, lines in records.items() if not isinstance(lines, Unknown)}
    reports = audit_chain.compared({name: audit_chain.check(lines, pinned) for name, lines in known.items()}, known)
    if _HERE in reports and (doubt := illegible(session.state)):
        reports[_HERE] = replace(reports[_HERE], doubts=(*reports[_HERE].doubts, doubt))

    # An empty chain is valid by itself; only the record of the last apply shows that it must have had records.
    if len(known) == len(records) and not any(known.values()):
        topology = session.topology
        applied = or_unknown(
            "the last apply", lambda: read_applied(session.find_home(), topology.environment, Principal.PLAN)
        )
        if isinstance(applied, Applied):
            at = moment(applied.at_ms, "%Y-%m-%dT%H:%M:%S+00:00")
            doubt = f"it holds no record, and {applied.who} applied at {at}: on another machine, or the record was "
            reports = {name: replace(report, doubts=(f"{doubt}taken off",)) for name, report in reports.items()}
    unknown = {name: lines for name, lines in records.items() if isinstance(lines, Unknown)}
    places = {name: unknown.get(name) or reports[name] for name in records}
    recorded_report = audit_chain.report_in(seal, known) if seal else None
    return audit_chain.AuditVerification(
        session.topology.environment, audit_chain.pinned_somewhere(places), recorded_report
    )
