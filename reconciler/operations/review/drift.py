"""``drift --accept`` and ``drift --parity``: reads an environment and its clusters, and reports or accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from reconciler.backends.files import read_environment, write_texts
from reconciler.backends.state.audit import read_copy, read_lines, together
from reconciler.engine.drift.causes import history
from reconciler.engine.drift.parity import Parity, parity
from reconciler.environment.adopt.accept_drift import accept
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Principal
from reconciler.model.reports.drift import History, Line
from reconciler.operations.session.session import Session, open_session
from reconciler.resources.flows.routes import find_routes


def past(session: Session, say: Callable[[str], None]) -> History:
    """What earlier runs did, as far as it is recorded."""
    return history(past_lines(session, say))


def past_lines(session: Session, say: Callable[[str], None]) -> Sequence[Line]:
    """By the record of this machine, and by its copy in a topic, with those of others, oldest first."""
    here, place = read_lines(session.state), session.topology.audit_place()
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
    """Writes live values into the files; the words to end with. Raises ReconcilerError, then no file was changed."""
    with open_session(folder, Principal.PLAN) as session:
        live = session.observe()
        acceptance = accept(read_environment(folder), session.topology, live, subjects)
    write_texts({Path(file): text for file, text in acceptance.texts.items()})
    topics = session.topology.topics
    lines = [f"  {accepted} ({_place(folder, topics[accepted.topic].where.file)})" for accepted in acceptance.accepted]
    return "\n".join(["Accepted into the files; review and commit them:", *lines])


def _place(folder: Path, file: str) -> str:
    real = Path(file).resolve()
    if real.is_relative_to(folder.resolve()):
        return file
    return f"{file}, a link to {real}: every environment that links to it changes"


def parity_report(folder: Path) -> Parity:
    with open_session(folder, Principal.PLAN) as session:
        live = session.observe()
        return parity(session.topology, live, find_routes(session.topology, live).routes)
