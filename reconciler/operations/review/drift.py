"""``drift``: causes of drift from audit records; ``--accept`` writes live values into files, ``--parity`` compares both
sides of flows."""

from collections.abc import Callable, Sequence
from pathlib import Path

from reconciler.backends.files import read_environment, write_texts
from reconciler.backends.state.audit import read_copy, read_lines, together
from reconciler.engine.drift.causes import history
from reconciler.engine.drift.parity import parity
from reconciler.environment.adopt.accept_drift import accept
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Principal
from reconciler.model.reports.drift import History, Line, Parity
from reconciler.operations.session.session import Session, open_session
from reconciler.resources.flows.routes import find_routes


def past(session: Session, say: Callable[[str], None]) -> History:
    """Changes by earlier runs, as far as audit records go back."""
    return history(past_lines(session, say))


def past_lines(session: Session, say: Callable[[str], None]) -> Sequence[Line]:
    """Lines of this machine's audit record, and of the topic with copies from all machines, oldest first."""
    here: list[Line] = []
    try:
        here += read_lines(session.state)
    except ReconcilerError as error:
        say(f"causes come without this machine's audit record: {error.what}. {error.todo}")
    place = session.topology.audit_place()
    known = session.last.live.known(place.cluster) if place and session.last.live else None
    if place is None or known is None or place.name not in {*known.topics, *known.hidden}:
        return here
    try:
        cluster = session.topology.clusters[place.cluster]
        copied = read_copy(cluster, Principal.PLAN, place.name, session.topology.environment)
    except ReconcilerError as error:
        say(f"causes come from this machine's audit record alone: {error.what}. {error.todo}")
        return here
    return list(together(here, copied))


def accept_drift(folder: Path, subjects: Sequence[str]) -> str:
    """Writes live values into the files; returns the closing words. Raises ReconcilerError before any file is
    changed."""
    with open_session(folder, Principal.PLAN) as session:
        live = session.observe()
        acceptance = accept(read_environment(folder), session.topology, live, subjects)
    write_texts({Path(file): text for file, text in acceptance.texts.items()})
    lines = ["Accepted into the files; review and commit them:"]
    for accepted in acceptance.accepted:
        place = session.topology.topics[accepted.topic].where.file
        if not (real := Path(place).resolve()).is_relative_to(folder.resolve()):
            place = f"{place}, a link to {real}: every environment that links to it changes"
        lines.append(f"  {accepted} ({place})")
    return "\n".join(lines)


def parity_report(folder: Path) -> Parity:
    with open_session(folder, Principal.PLAN) as session:
        live = session.observe()
        return parity(session.topology, live, find_routes(session.topology, live).routes)
