"""What is at stake, in lines: bytes and records, what expires at once, who reads it, which flows carry it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from reconciler.counts import counted
from reconciler.stakes import Reader, Stakes

SHOWN = 5


def stakes_lines(told: Sequence[Stakes | None]) -> tuple[str, ...]:
    """Of one change, or of equal changes on several topics added up. Empty when nobody asked."""
    known = [one for one in told if one is not None]
    return tuple(_lines(known)) if known else ()


def size(count: float) -> str:
    """Rounded, for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def _lines(told: Sequence[Stakes]) -> Iterator[str]:
    held = []
    records = _sum([one.records for one in told])
    taken = _sum([one.bytes for one in told])
    if records is not None:
        # Offsets are counted: those of transaction markers and of compacted records hold none.
        held.append(f"at most {counted(records, 'record')}" if records else "no record")
    if taken is not None:
        held.append(f"{size(taken)} on disk, all replicas")
    if held:
        yield f"holds {', '.join(held)}"
    expiring = _sum([one.expiring for one in told])
    if expiring == 0 and records:
        yield "none of them is older than that by now"
    elif expiring and records:
        share = f", about {size(taken * expiring / records)}" if taken is not None else ""
        yield f"of these at most {expiring:,} are older than that and go at once{share}"
    readers = _by_group(reader for one in told for reader in one.readers or ())
    if readers:
        words = [_reader(one) for one in sorted(readers, key=lambda one: (-one.members, one.group))]
        shown = ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")
        yield f"read by {shown}"
    elif all(one.readers is not None for one in told):
        yield "no consumer group reads it" if len(told) == 1 else "no consumer group reads them"
    if flows := list(dict.fromkeys(flow for one in told for flow in one.flows)):
        yield f"carried by flow{'s' if len(flows) > 1 else ''} {', '.join(flows)}"
    for why in dict.fromkeys(why for one in told for why in one.unknown):
        yield f"not known: {why}"


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [one for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None


def _by_group(readers: Iterable[Reader]) -> list[Reader]:
    """Each group once, with its lag on all topics that it is known on."""
    found: dict[str, Reader] = {}
    for one in readers:
        before = found.get(one.group, replace(one, lag=None))
        lags = [lag for lag in (before.lag, one.lag) if lag is not None]
        found[one.group] = replace(before, lag=sum(lags) if lags else None)
    return list(found.values())


def _reader(one: Reader) -> str:
    members = counted(one.members, "member") if one.members else "no members"
    lag = f", {one.lag:,} behind" if one.lag is not None else ""
    return f"{one.group} ({members}{lag})"
