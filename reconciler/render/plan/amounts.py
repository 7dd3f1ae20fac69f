"""How much a plan copies, loses and moves: one sentence, and a line for each flow and cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.engine.plan.amounts import Amount, AmountKind
from reconciler.render.elements import mono, table
from reconciler.render.escape import page as safe
from reconciler.render.plan.impact import size
from reconciler.text import counted, time_words, total

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
