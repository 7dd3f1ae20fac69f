"""Report of ``offsets translate``: positions of one flow on one side, and their counterparts."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import ExitCode
from reconciler.replication.offsets.map import Translation

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TranslateRequest:
    """The arguments of ``offsets translate``."""

    flow: str
    groups: tuple[str, ...] = ()
    """Translate their committed offsets."""
    given: Mapping[Key, tuple[int, ...]] | None = None
    """Positions by topic and partition of the side that they are from."""
    reverse: bool = False
    """From the target back to the source."""


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """One translated position."""

    group: str
    """Empty for a given position."""
    topic: str
    partition: int
    offset: int
    """Of ``topic``, on the side to translate from."""
    other: str
    """The topic's name on the other side; ``found``: the offset there."""
    found: Translation


@dataclass(frozen=True, slots=True)
class Translations:
    """``left_out``: requested objects that do not travel with the flow, each with its reason."""

    environment: str
    flow: str
    origin: str
    destination: str
    rows: tuple[TranslatedOffset, ...]
    left_out: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """False without rows: a script with a misspelt group must not go on with an empty file."""
        return bool(self.rows) and all(row.found.exact for row in self.rows)

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.DONE if self.exact else ExitCode.CHANGES
