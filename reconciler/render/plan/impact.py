"""The impact of a plan in words: the stakes of each change, and how much the whole plan copies, loses and moves."""

from collections.abc import Iterator, Sequence

from reconciler.engine.plan.amounts import Amount, AmountKind
from reconciler.model.plan import Stakes
from reconciler.render.markup import page as safe
from reconciler.render.page import mono, table
from reconciler.text import counted, first_of, time_words, total

_UNKNOWN = "unknown"
_PLACES = {AmountKind.COPY: "flow", AmountKind.AGAIN: "flow", AmountKind.LOSE: "cluster", AmountKind.MOVE: "cluster"}


def stakes_lines(impacts: Sequence[Stakes | None]) -> tuple[str, ...]:
    """The stakes of one change, or of equal changes on several topics added up: bytes and records, what expires at
    once, its readers and flows. Empty if the clusters were not asked."""
    known = [impact for impact in impacts if impact is not None]
    if not known:
        return ()
    # A sum is unknown as soon as one of its parts is: "holds 3 records" must not hide a topic that was not measured.
    lines: list[str] = []
    records = total(impact.records for impact in known)
    taken = total(impact.bytes for impact in known)
    if parts := list(_held(records, taken)):
        lines.append(f"holds {', '.join(parts)}")
    expiring = total(impact.expiring for impact in known)
    if expiring == 0 and records:
        lines.append("none of them is past the new limit yet")
    elif expiring and records:  # bytes are not counted by age: their share is that of the records
        share = f", about {size(taken * expiring / records)}" if taken is not None else ""
        lines.append(f"at most {expiring:,} of these are past the new limit and are deleted at once{share}")

    # A group that reads several of the topics is named once, with its lag on those whose lag is known.
    members: dict[str, int] = {}
    lags: dict[str, int] = {}
    for reader in (reader for impact in known for reader in impact.readers or ()):
        members.setdefault(reader.group, reader.members)
        if reader.lag is not None:
            lags[reader.group] = lags.get(reader.group, 0) + reader.lag
    readers = []
    for group in sorted(members, key=lambda group: (-members[group], group)):
        count = counted(members[group], "member") if members[group] else "no members"
        readers.append(f"{group} ({count}{f', {lags[group]:,} behind' if group in lags else ''})")
    if readers:
        lines.append(f"read by {first_of(readers)}")
    elif all(impact.readers is not None for impact in known):
        lines.append("no consumer group reads it" if len(known) == 1 else "no consumer group reads them")

    if flows := list(dict.fromkeys(flow for impact in known for flow in impact.flows)):
        lines.append(f"carried by flow{'s' if len(flows) > 1 else ''} {', '.join(flows)}")
    reasons = dict.fromkeys(reason for impact in known for reason in impact.unknown)
    return (*lines, *(f"not known: {reason}" for reason in reasons))


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


# how much


def amounts_sentence(amounts: Sequence[Amount]) -> str:
    """``to copy: at most 1.2 GiB of 12 topics over 2 flows; to lose: unknown, of 1 topic on 1 cluster``."""
    kinds = {each.kind for each in amounts}
    # Nothing to copy for the first time needs no clause beside something to copy again.
    if AmountKind.AGAIN in kinds and all(each.nothing for each in amounts if each.kind is AmountKind.COPY):
        kinds.discard(AmountKind.COPY)
    clauses = []
    for kind in (kind for kind in AmountKind if kind in kinds):
        some = [each for each in amounts if each.kind is kind]
        topics, places = counted(sum(each.topics for each in some), "topic"), counted(len(some), _PLACES[kind])
        if kind is AmountKind.AGAIN:
            records = total(0 if each.nothing else each.records for each in some)
            many = _UNKNOWN if records is None else f"at most {counted(records, 'record')}" if records else "nothing"
            clauses.append(f"to copy: {many}, again, of {topics} over {places}")
        else:
            many = _bounded(total(0 if each.nothing else each.bytes for each in some))
            clauses.append(f"{kind.value}: {many}, of {topics} {'over' if kind is AmountKind.COPY else 'on'} {places}")
    return "; ".join(clauses)


def amounts_lines(amounts: Sequence[Amount]) -> tuple[str, ...]:
    """For text and comments, a line for each flow and cluster: ``flow a to copy: 2 topics, at most 20,000 records, at
    most 19.2 MiB, about 4 s``."""
    lines = []
    for amount in amounts:
        parts = ["no record"]
        if not amount.nothing:
            records, bytes_, seconds = _figures(amount)
            of_records = f"records {_UNKNOWN}" if records == _UNKNOWN else f"{records} records"
            parts = ["all of their records" if amount.kind is AmountKind.MOVE else of_records]
            parts.append(f"bytes {bytes_}" if bytes_ == _UNKNOWN else bytes_)
            parts.append(f"time {seconds}" if seconds == _UNKNOWN else seconds)
        topics = counted(amount.topics, "topic")
        lines.append(f"{_PLACES[amount.kind]} {amount.about} {amount.kind.value}: {', '.join((topics, *parts))}")
    return tuple(lines)


def amounts_section(amounts: Sequence[Amount]) -> Iterator[str]:
    if not amounts:
        return
    yield f'<section id="amounts"><h2>How much <small>{safe(amounts_sentence(amounts))}</small></h2>'
    rows = [
        (each.kind.value, f"{_PLACES[each.kind]} {mono(each.about)}", f"{each.topics:,}", *_figures(each))
        for each in amounts
    ]
    yield table(("what", "flow or cluster", "topics", "records", "bytes", "time"), rows)
    yield "</section>"


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


def _bounded(count: int | None) -> str:
    return _UNKNOWN if count is None else f"at most {size(count)}" if count else "nothing"
