"""Durations and sizes as people write them (``7d``, ``1GiB``), to milliseconds and bytes."""

from __future__ import annotations

import math
import re

MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

_QUANTITY = re.compile(r"([0-9]+)\s*([A-Za-z]+)")
_FRACTION = re.compile(r"[0-9]+[.,][0-9]+\s*[A-Za-z]+")
LARGEST = (1 << 63) - 1


def duration_ms(text: str) -> int:
    """``500ms``, ``5s``, ``10m``, ``2h``, ``7d``, ``1w`` in milliseconds. Raises ValueError with what to write."""
    return _read(text, MILLISECONDS, "a duration such as 500ms, 5s, 10m, 2h, 7d or 1w")


def size_bytes(text: str) -> int:
    """``512B``, ``64KiB``, ``1MiB``, ``1GiB``, ``2TiB`` in bytes. Raises ValueError with what to write."""
    return _read(text, BYTES, "a size such as 512B, 64KiB, 1MiB, 1GiB or 2TiB")


def _read(text: str, units: dict[str, int], wanted: str) -> int:
    if _FRACTION.fullmatch(text):
        raise ValueError(f"write {wanted}: whole numbers only, so a smaller unit instead of a fraction")
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"write {wanted}")
    number, unit = match.groups()
    if unit not in units:
        near = {known.lower().replace("i", ""): known for known in units}.get(unit.lower().replace("i", ""))
        raise ValueError(f"write {wanted}; {unit} is not a unit" + (f", {near} is" if near else ""))
    if len(number) > 19 or int(number) * units[unit] > LARGEST:
        raise ValueError(f"write {wanted}; this one is beyond what Kafka can hold")
    return int(number) * units[unit]


def looks_like_duration(text: str) -> bool:
    match = _QUANTITY.fullmatch(text)
    return match is not None and match.group(2) in MILLISECONDS


def looks_like_size(text: str) -> bool:
    match = _QUANTITY.fullmatch(text)
    return match is not None and match.group(2) in BYTES


def size_words(count: int) -> str:
    """``3.2 GiB``, for people; rounded."""
    for unit, size in reversed(BYTES.items()):
        if count >= size and size > 1:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def time_words(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3.5 h``; rounded up."""
    whole = math.ceil(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{math.ceil(whole / 60)} min" if whole < 7200 else f"{whole / 3600:.1f} h"
