"""Partitions that have records to copy and do not move, where nothing else says why."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from reconciler_mirror.model import Condition

STALLED_S = 30.0
"""Longer than any commit, and than the pauses of most retries."""


def partitions_stalled(topic: str, stalled: Sequence[tuple[int, int | None]], *, others_move: bool) -> Condition:
    """``stalled``: partitions and their lag in records, None where it is not known. ``others_move``: others of their
    lanes are copied, which may only be their turn."""
    numbers = sorted(number for number, _ in stalled)
    single = len(numbers) == 1
    lags = [lag for _, lag in stalled]
    known = sum(lag for lag in lags if lag is not None)
    behind = (
        f"{known:,} records behind" if None not in lags else f"how far behind is not known, at least {known:,} records"
    )
    why = "others of the same lanes are copied" if others_move else "no reason is known"
    return Condition(
        "partition_stalled",
        f"{topic}, partition{'' if single else 's'} {_ranges(numbers)}, {'has' if single else 'have'} not moved for "
        f"{STALLED_S:.0f} s, {behind}; {why}",
        "Look at the brokers that lead them at the source and at the target, and at the log of the job. If it stays: "
        "reconciler mirror stop, then apply.",
        topic,
        numbers[0] if single else None,
        stops=not others_move,
    )


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 7``, of sorted numbers."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
