"""``drift --accept`` and ``drift --parity``: reads an environment and its clusters, lets the doings decide.

Border: no arguments and no exit codes; those are ``cli``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from reconciler.accepting import accept
from reconciler.causes import History, history
from reconciler.edges.audit_copy import read_copy, together
from reconciler.edges.audit_file import read_lines
from reconciler.edges.files import read_environment, write_texts
from reconciler.errors import ReconcilerError
from reconciler.parity import Parity, parity
from reconciler.routing import find_routes
from reconciler.topology import Principal
from reconciler.wiring import Session, open_session


def past(session: Session, say: Callable[[str], None]) -> History:
    """What earlier runs did: by the record of this machine, and by its copy in a topic, with those of others."""
    here, place = read_lines(session.state), session.topology.audit_place()
    known = session.seen.known(place.cluster) if place and session.seen else None
    if place is None or known is None or place.name not in known.topics:
        return history(here)
    try:
        copied = read_copy(
            session.topology.clusters[place.cluster], Principal.PLAN, place.name, session.topology.environment
        )
    except ReconcilerError as error:
        say(f"causes are told by the audit record of this machine alone: {error.what}. {error.todo}")
        return history(here)
    return history(together(here, copied))


def accept_drift(folder: Path, subjects: Sequence[str]) -> str:
    """Writes live values into the files; the words to end with. Raises ReconcilerError, then no file was changed."""
    with open_session(folder, Principal.PLAN) as session:
        live = session.observe()
        made = accept(read_environment(folder), session.topology, live, subjects)
    write_texts({Path(file): text for file, text in made.texts.items()})
    lines = [f"  {one} ({_place(folder, session.topology.topics[one.topic].where.file)})" for one in made.accepted]
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
