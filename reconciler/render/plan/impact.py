"""The impact of a plan in words: what each change puts at stake, and how much the whole copies, loses and moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from reconciler.engine.plan.amounts import Amount, AmountKind
from reconciler.model.reports.impact import ReadingGroup, Stakes
from reconciler.render.escape import page as safe
from reconciler.render.page import mono, table
from reconciler.text import counted, first_of, time_words, total

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


_UNKNOWN = "unknown"
_PLACES = {AmountKind.COPY: "flow", AmountKind.AGAIN: "flow", AmountKind.LOSE: "cluster", AmountKind.MOVE: "cluster"}


def amounts_sentence(amounts: Sequence[Amount]) -> str:
    """``to copy: at most 1.2 GiB of 12 topics over 2 flows; to lose: unknown, of 1 topic on 1 cluster``."""
    return "; ".join(_sum(kind, [each for each in amounts if each.kind is kind]) for kind in _kinds(amounts))


def _kinds(amounts: Sequence[Amount]) -> Iterator[AmountKind]:
    """What is copied for the first time is left out while that is nothing, and something is copied again."""
    kinds = {each.kind for each in amounts}
    if AmountKind.AGAIN in kinds and all(each.nothing for each in amounts if each.kind is AmountKind.COPY):
        kinds.discard(AmountKind.COPY)
    return (kind for kind in AmountKind if kind in kinds)


def _sum(kind: AmountKind, some: Sequence[Amount]) -> str:
    topics = counted(sum(each.topics for each in some), "topic")
    if kind is AmountKind.AGAIN:
        records = total(0 if each.nothing else each.records for each in some)
        many = _UNKNOWN if records is None else f"at most {counted(records, 'record')}" if records else "nothing"
        return f"to copy: {many}, again, of {topics} over {counted(len(some), 'flow')}"
    words = _bounded(total(0 if each.nothing else each.bytes for each in some)), f"of {topics}"
    over = "over" if kind is AmountKind.COPY else "on"
    return f"{kind.value}: {', '.join(words)} {over} {counted(len(some), _PLACES[kind])}"


def _bounded(count: int | None) -> str:
    return _UNKNOWN if count is None else f"at most {size(count)}" if count else "nothing"


def amounts_lines(amounts: Sequence[Amount]) -> tuple[str, ...]:
    """For text and comments, a line for each flow and cluster: ``flow a to copy: 2 topics, at most 20,000 records, at
    most 19.2 MiB, about 4 s``."""
    return tuple(f"{about} {kind}: {', '.join(rest)}" for kind, about, *rest in map(_words, amounts))


def _words(amount: Amount) -> tuple[str, ...]:
    records, bytes_, seconds = _figures(amount)
    of_records = "all of their records" if amount.kind is AmountKind.MOVE else f"{records} records"
    if amount.nothing:
        return amount.kind.value, _place(amount), counted(amount.topics, "topic"), "no record"
    time = f"time {seconds}" if seconds == _UNKNOWN else seconds
    of_bytes = f"bytes {bytes_}" if bytes_ == _UNKNOWN else bytes_
    of_records = of_records.replace(f"{_UNKNOWN} records", f"records {_UNKNOWN}")
    return amount.kind.value, _place(amount), counted(amount.topics, "topic"), of_records, of_bytes, time


def _place(amount: Amount) -> str:
    return f"{_PLACES[amount.kind]} {amount.about}"


def amounts_section(amounts: Sequence[Amount]) -> Iterator[str]:
    if not amounts:
        return
    yield f'<section id="amounts"><h2>How much <small>{safe(amounts_sentence(amounts))}</small></h2>'
    yield table(("what", "flow or cluster", "topics", "records", "bytes", "time"), map(_row, amounts))
    yield "</section>"


def _row(amount: Amount) -> tuple[str, ...]:
    about = f"{_PLACES[amount.kind]} {mono(amount.about)}"
    return amount.kind.value, about, f"{amount.topics:,}", *_figures(amount)


def _figures(amount: Amount) -> tuple[str, str, str]:
    """Records, bytes, time."""
    if amount.nothing:
        return "none", "nothing", "none"
    records = _UNKNOWN if amount.records is None else f"at most {amount.records:,}"
    if amount.kind is AmountKind.MOVE:
        records = "all of them"
    seconds = _UNKNOWN if amount.seconds is None else f"about {time_words(amount.seconds)}"
    if amount.kind is AmountKind.LOSE:
        seconds = "at once"
    return records, _bounded(amount.bytes), seconds
