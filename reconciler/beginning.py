"""The first steps of a command that will want whole clusters: reads of them begin as soon as their settings are known.

Border: imports little, so that clusters answer while the rest of the program is still being imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.edges.files import read_environment
from reconciler.edges.kafka.read_ahead import ReadAhead
from reconciler.heading import Head, read_head
from reconciler.topology import Principal


@dataclass(frozen=True, slots=True)
class Begun:
    """``texts``: of the folder's files. ``ahead``: of the clusters in ``head``; None: nothing could begin. Who takes it
    closes it."""

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
    return Begun(texts, head, ReadAhead(head.clusters, principal) if head.clusters else None)
