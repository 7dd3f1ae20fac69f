"""The first steps of a command that will want whole clusters: reads of them begin as soon as their settings are known.

Border: imports little, so that clusters answer while the rest of the program is still being imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.edges.files import read_readable
from reconciler.edges.kafka.read_ahead import ReadAhead
from reconciler.errors import Problem, ReconcilerError
from reconciler.heading import NO_HEAD, Head, read_head
from reconciler.live_words import live_folder
from reconciler.topology import Principal


@dataclass(frozen=True, slots=True)
class Begun:
    """``texts``: of the folder's files; ``unread``: what keeps others from having one. ``ahead``: of the clusters in
    ``head``; None: nothing could begin. Who takes it closes it."""

    folder: Path
    texts: Mapping[str, str]
    unread: Sequence[Problem]
    head: Head
    ahead: ReadAhead | None

    def close(self) -> None:
        if self.ahead is not None:
            self.ahead.close()


def begin(folder: Path, principal: Principal) -> Begun:
    """Whatever is wrong with the files is for ``loading.load`` to tell."""
    texts, unread = read_readable(folder)
    head = NO_HEAD if unread else read_head(texts)
    return Begun(folder, texts, unread, head, ReadAhead(head.clusters, principal) if head.clusters else None)


def begin_early(words: Sequence[str], command: str = "plan") -> Begun | None:
    """``words``: what stands behind ``command``. They are looked through before that which reads arguments is imported,
    which takes as long as to connect. None where they may mean anything else, and where something is wrong."""
    folder = live_folder(words, command)
    if folder is None:
        return None
    try:
        begun = begin(folder, Principal.PLAN)
    except ReconcilerError:
        return None  # the command itself comes to it, and tells
    return None if begun.unread else begun


def taken(early: Begun | None, folder: Path) -> Begun:
    """What ``start`` has begun of the folder, or begun now."""
    return early if early is not None and early.folder == folder else begin(folder, Principal.PLAN)
