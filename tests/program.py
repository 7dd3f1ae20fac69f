"""The commands of the program as its parser knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def commands_of(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """(words, command) of each command in the group, those of its groups too."""
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{name}{word} ")
        else:
            yield f"{name}{word}", command
