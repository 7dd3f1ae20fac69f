"""The rows of a soak, and its result as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.soak.truth import Counts

PAGE = """{facts} {total.records:,} records: {total.missing} lost, {total.doubled} doubled,
{total.reordered} out of order, {total.foreign} of unknown origin; {wrong}.

{table}
{failures}"""


LATE = "no answer yet"
"""On a machine so busy that ``status`` itself took longer."""


@dataclass(frozen=True, slots=True)
class Row:
    """One fault that was tried. ``recovery_s``: from its end until all that was at the source then is at the target;
    None: not within the limit. ``said``: status within 30 s of its beginning. ``wrong``: samples of status that called
    all well while records waited. ``failure``: why the fault could not be made or ended, or empty."""

    fault: str
    counts: Counts
    recovery_s: float | None
    said: str
    wrong: int
    failure: str = ""


def table(rows: Sequence[Row]) -> Iterator[str]:
    """One line a fault; what status said is the last that it said."""
    yield "| fault | tried | lost / doubled / reordered | recovery, s | status within 30 s | status wrong |"
    yield "|---|---|---|---|---|---|"
    for name in dict.fromkeys(row.fault for row in rows):
        some = [row for row in rows if row.fault == name]
        sums = (sum(getattr(row.counts, key) for row in some) for key in ("missing", "doubled", "reordered"))
        wrong, said = sum(row.wrong for row in some), [LATE, *(row.said for row in some if row.said)][-1]
        yield f"| {name} | {len(some)} | {' / '.join(map(str, sums))} | {_recovery(some)} | {said} | {wrong} |"


def _recovery(rows: Iterable[Row]) -> str:
    times = [row.recovery_s for row in rows]
    known = [seconds for seconds in times if seconds is not None]
    words = [f"{min(known):.0f}" + (f" to {max(known):.0f}" if len(known) > 1 else "")] if known else []
    return ", ".join([*words, *(["not recovered"] if len(known) < len(times) else [])])


def page(rows: Sequence[Row], total: Counts, wrong: int, facts: str) -> str:
    """Markdown. ``facts``: with which command, when, and on what machine."""
    words = f"status called all well {wrong} times while records waited" if wrong else "status was never wrong"
    return PAGE.format(
        facts=facts, total=total, wrong=words, table="\n".join(table(rows)), failures="\n".join(failures(rows))
    )


def failures(rows: Iterable[Row]) -> Iterator[str]:
    some = [row for row in rows if row.failure]
    if some:
        yield ""
        yield "What did not go as the fault has it:"
        yield ""
        yield from (f"* {row.fault}: {row.failure}" for row in some)
    yield ""
