"""A number and what it counts, as people write them: ``1 partition``, ``2 partitions``, ``1,024 records``."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """``many`` only where the plural is not ``one`` and an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
