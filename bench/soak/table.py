"""The rows of a soak, and the page that is written from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.soak.truth import Counts

PAGE = """# Reliability: what was tried, and what came of it

`make soak` (`SOAK_MINUTES=60`) copies a topic under transactional load between two real brokers behind proxies, while
faults come and go in an order by chance. Another reader follows both logs all the while and compares records by key,
value, headers, timestamp and order. `status --format json` is asked every few seconds; a sample is *wrong* when it
says that all is well (running, no lag, no condition) while a partition has 100 records that wait and none of them was
copied for 30 s. Recovery counts from the end of a fault until all that the source had then is at the target. Faults are
values in `bench/soak/faults.py`; `python -m bench.soak --faults WORDS --rounds 1` tries some of them.

Disks are small file systems in memory, which needs root. The clock is moved for the supervisor, Spark and Python by a
preloaded library, which needs a C compiler; brokers and `status` keep theirs. Leaders are elected uncleanly on a third
cluster of three brokers, for a topic of its own: the fault fails unless status names `source_truncated`. Behind a
frozen application the new one is started with an empty folder of runs, as another machine would; the fault fails
unless the old one leaves by itself when it continues. A position that another client commits while the mirror is
stopped has to be named (`position_foreign`), and so has a stranger's record in a copy at the same offsets
(`offsets_diverged`) while its
source writes nothing, and what a broker of the target lost after it had acknowledged it (`target_truncated`).
A remote topic that is deleted and recreated while the mirror runs must have every record of its source again, once.

{facts} {total.records:,} records: {total.missing} lost, {total.doubled} doubled, {total.reordered} out of order,
{total.foreign} of nobody; {wrong}.

{table}
{failures}"""


LATE = "no answer yet"
"""On a machine so busy that ``status`` itself took longer."""


@dataclass(frozen=True, slots=True)
class Row:
    """One fault that was tried. ``recovery_s``: from its end until all that was at the source then is at the target;
    None: not within the limit. ``said``: status within 30 s of its beginning. ``wrong``: samples of status that called
    all well while records stood. ``failure``: why the fault could not be made or ended, or empty."""

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
    words = f"status called all well {wrong} times while records stood" if wrong else "status was never wrong"
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
