"""The impact of a plan, in lines: bytes and records, what expires at once, who reads it, which flows carry it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from reconciler.model.reports.impact import ReadingGroup, Stakes
from reconciler.text import counted, first_of, total

SHOWN = 5


def stakes_lines(impacts: Sequence[Stakes | None]) -> tuple[str, ...]:
    """Of one change, or of equal changes on several topics added up. Empty when nobody asked."""
    known = [impact for impact in impacts if impact is not None]
    return tuple(_lines(known)) if known else ()


def held(records: int | None, taken: int | None, unknown: str) -> str:
    """How much a topic holds, a clause. ``unknown``: why one of them is None."""
    parts = list(_held(records, taken))
    known = f"holds {', '.join(parts)}" if parts else ""
    if records is None or taken is None:
        missing = "how much it holds" if not parts else "its records" if records is None else "its bytes"
        known += f"{'; ' if known else ''}{missing}: unknown ({unknown})"
    return known


def _held(records: int | None, taken: int | None) -> Iterator[str]:
    if records is not None:
        # Offsets are counted: those of transaction markers and of compacted records hold none.
        yield f"at most {counted(records, 'record')}" if records else "no record"
    if taken is not None:
        yield f"{size(taken)} on disk, all replicas"


def size(count: float) -> str:
    """Rounded, for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def _lines(impacts: Sequence[Stakes]) -> Iterator[str]:
    records = total(impact.records for impact in impacts)
    taken = total(impact.bytes for impact in impacts)
    if known := list(_held(records, taken)):
        yield f"holds {', '.join(known)}"
    expiring = total(impact.expiring for impact in impacts)
    if expiring == 0 and records:
        yield "none of them is older than that by now"
    elif expiring and records:
        share = f", about {size(taken * expiring / records)}" if taken is not None else ""
        yield f"of these at most {expiring:,} are older than that and go at once{share}"
    readers = _by_group(reader for impact in impacts for reader in impact.readers or ())
    if readers:
        readers.sort(key=lambda reader: (-reader.members, reader.group))
        yield f"read by {first_of([_reader(reader) for reader in readers], SHOWN)}"
    elif all(impact.readers is not None for impact in impacts):
        yield "no consumer group reads it" if len(impacts) == 1 else "no consumer group reads them"
    if flows := list(dict.fromkeys(flow for impact in impacts for flow in impact.flows)):
        yield f"carried by flow{'s' if len(flows) > 1 else ''} {', '.join(flows)}"
    for reason in dict.fromkeys(reason for impact in impacts for reason in impact.unknown):
        yield f"not known: {reason}"


def _by_group(readers: Iterable[ReadingGroup]) -> list[ReadingGroup]:
    """Each group once, with its lag on all topics that it is known on."""
    reading_groups: dict[str, ReadingGroup] = {}
    for reader in readers:
        before = reading_groups.get(reader.group, replace(reader, lag=None))
        lags = [lag for lag in (before.lag, reader.lag) if lag is not None]
        reading_groups[reader.group] = replace(before, lag=sum(lags) if lags else None)
    return list(reading_groups.values())


def _reader(reader: ReadingGroup) -> str:
    members = counted(reader.members, "member") if reader.members else "no members"
    lag = f", {reader.lag:,} behind" if reader.lag is not None else ""
    return f"{reader.group} ({members}{lag})"
