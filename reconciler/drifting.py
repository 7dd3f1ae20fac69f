"""``drift --accept`` and ``drift --parity``: reads an environment and its clusters, lets the doings decide.

Border: no arguments and no exit codes; those are ``cli``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reconciler.accepting import accept
from reconciler.edges.files import read_environment, write_text
from reconciler.parity import Parity, parity
from reconciler.routing import find_routes
from reconciler.topology import Principal
from reconciler.wiring import open_session


def accept_drift(folder: Path, subjects: Sequence[str]) -> str:
    """Writes live values into the files; the words to end with. Raises ReconcilerError, then no file was changed."""
    with open_session(folder, Principal.PLAN) as session:
        live = session.observe()
        made = accept(read_environment(folder), session.topology, live, subjects)
    for file, text in made.texts.items():
        write_text(Path(file), text)
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
