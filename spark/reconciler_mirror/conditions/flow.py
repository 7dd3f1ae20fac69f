"""Conditions of a flow or of some of its partitions together, as the driver finds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from reconciler.kafka.client.errors import SettingError
from reconciler_mirror.model.lane import Condition

STALLED_S = 30.0
"""Longer than any commit, and than the pauses of most retries."""


def partitions_stalled(topic: str, stalled: Sequence[tuple[int, int | None]], *, others_move: bool) -> Condition:
    """Nothing else says why they do not move. ``stalled``: partitions and their lag in records, None where it is not
    known. ``others_move``: others of their lanes are copied, which may only be their turn."""
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


def setting_refused(flow: str, error: SettingError) -> Condition:
    """The flow is not copied before somebody edits the settings of a cluster."""
    return Condition(
        "setting_not_supported",
        f"{flow} is not copied: {error}",
        "Edit the client settings of that cluster, run reconciler validate, then apply.",
        stops=True,
    )


def executor_unfit(problems: Iterable[str]) -> Condition:
    """Of an executor that has some lanes of the flow. Stops nothing by itself: a lane that cannot go on says so too."""
    return Condition(
        "executor_unfit",
        "; ".join(problems),
        "Mend it on that machine, or keep the mirror off it (docs/mirror/spark-clusters.md). It is looked at again "
        "every 30 s.",
    )


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 7``, of sorted numbers."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
