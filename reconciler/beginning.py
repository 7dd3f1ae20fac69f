"""The first steps of a command that will want whole clusters: reads of them begin as soon as their settings are known.

Border: imports little, so that clusters answer while the rest of the program is still being imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.edges.files import read_environment
from reconciler.edges.kafka.read_ahead import ReadAhead
from reconciler.errors import ReconcilerError
from reconciler.heading import Head, read_head
from reconciler.topology import Principal

_FLAGS = frozenset({"--prune"})
_OPTIONS = frozenset({"--artifact", "--format", "--out", "--write"})
"""Of ``plan``, those that leave it a plan of one folder against live clusters."""


@dataclass(frozen=True, slots=True)
class Begun:
    """``texts``: of the folder's files. ``ahead``: of the clusters in ``head``; None: nothing could begin. Who takes it
    closes it."""

    folder: Path
    texts: Mapping[str, str]
    head: Head
    ahead: ReadAhead | None

    def close(self) -> None:
        if self.ahead is not None:
            self.ahead.close()


def begin(folder: Path, principal: Principal) -> Begun:
    """Raises TopologyError for files that cannot be read; what is wrong in them is for ``loading.load`` to tell."""
    texts = read_environment(folder)
    head = read_head(texts)
    return Begun(folder, texts, head, ReadAhead(head.clusters, principal) if head.clusters else None)


def begin_plan(words: Sequence[str]) -> Begun | None:
    """``words``: what stands behind ``plan``. They are looked through before that which reads arguments is imported,
    which takes as long as to connect. None where they may mean anything else, and where something is wrong."""
    folder = live_folder(words)
    if folder is None:
        return None
    try:
        return begin(folder, Principal.PLAN)
    except ReconcilerError:
        return None  # the command itself comes to it, and tells


def live_folder(words: Sequence[str]) -> Path | None:
    """The folder of a plan that is surely made against live clusters."""
    folders: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            folders.append(word)
        elif word in _OPTIONS:
            next(rest, None)
        elif word not in _FLAGS and word.partition("=")[0] not in _OPTIONS:
            return None
    return Path(folders[0]) if len(folders) == 1 else None
