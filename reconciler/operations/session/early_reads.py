"""Starts reads of whole clusters as soon as their settings are known.

This module imports little, so that clusters answer while the rest of the program is still being imported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.backends.clusters.topics.read import ReadAhead
from reconciler.backends.files import read_readable
from reconciler.environment.load_clusters import NO_HEAD, Head, read_head
from reconciler.errors import Problem
from reconciler.model.environment.topology import Principal


@dataclass(frozen=True, slots=True)
class Begun:
    """What is read while the rest of the program is still being imported."""

    texts: Mapping[str, str]
    """The folder's files."""
    unread: Sequence[Problem]
    """Problems of unreadable files."""
    head: Head
    ahead: ReadAhead | None
    """Early reads of the clusters in ``head``; None if none could begin. The session that takes it over closes it."""

    def close(self) -> None:
        if self.ahead is not None:
            self.ahead.close()


def begin(folder: Path, principal: Principal) -> Begun:
    """Starts early reads. Problems of files are left to ``environment.load.load``, which reports them."""
    texts, unread = read_readable(folder)
    head = NO_HEAD if unread else read_head(texts)
    return Begun(texts, unread, head, ReadAhead(head.clusters, principal) if head.clusters else None)
