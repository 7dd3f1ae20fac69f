"""Whether the words of a command surely mean a look at the live clusters of one folder.

Border: looked at before anything that reads arguments is imported, so it imports nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_FLAGS = {"plan": frozenset({"--prune"}), "drift": frozenset[str]()}
_OPTIONS = {
    "plan": frozenset({"--artifact", "--format", "--out", "--write"}),
    "drift": frozenset({"--format", "--out"}),
}
"""Those that leave it a plan of one folder against live clusters."""


def live_folder(words: Sequence[str], command: str = "plan") -> Path | None:
    """The folder of a plan that is surely made against live clusters."""
    flags, options = _FLAGS.get(command), _OPTIONS.get(command)
    if flags is None or options is None:
        return None
    folders: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            folders.append(word)
        elif word in options:
            next(rest, None)
        elif word not in flags and word.partition("=")[0] not in options:
            return None
    return Path(folders[0]) if len(folders) == 1 else None
