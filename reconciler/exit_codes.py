"""How a command ends, for whoever called it. Documented once, never changed."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    ERROR = 1
    CHANGES = 2
    BLOCKED = 3
    STALE = 4
    PARTIAL = 5
    LOCKED = 6
