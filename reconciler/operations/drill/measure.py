"""Computes the results of a drill from its readings. Pure functions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.errors import ReconcilerError
from reconciler.model.environment.flow_settings import Objectives
from reconciler.model.reports.drill import CanaryRecords, ObjectiveSeen, RecoveryPoint
from reconciler.model.reports.failover import Key, PartitionState


@dataclass
class PointWatch:
    """The worst recovery point while the canary is written. ``accepted``: for each acknowledged batch its time, and the
    ends of the partitions after it."""

    accepted: list[tuple[float, Mapping[Key, int]]] = field(default_factory=list)
    worst: RecoveryPoint = field(default_factory=RecoveryPoint)

    def wrote(self, at: float, states: Mapping[Key, PartitionState]) -> None:
        self.accepted.append((at, {key: state.end or 0 for key, state in states.items()}))

    def look(self, at: float, states: Mapping[Key, PartitionState]) -> int:
        """The number of records not copied yet. Raises ReconcilerError if it is unknown."""
        left = uncopied(states)
        waiting = [
            when
            for when, ends in self.accepted
            if any((states[key].position or 0) < end for key, end in ends.items() if key in states)
        ]
        age = max(0.0, at - waiting[0]) if waiting else 0.0
        self.worst = RecoveryPoint(max(left, self.worst.records), max(age, self.worst.age_s))
        return left


def uncopied(states: Mapping[Key, PartitionState]) -> int:
    """Offsets not copied yet. Raises ReconcilerError if an end is unknown."""
    unknown = [f"{key[0]}-{key[1]}" for key, state in states.items() if state.left is None]
    if unknown:
        raise ReconcilerError(
            f"how far {unknown[0]} is copied is not known: its leader does not answer",
            "Without it neither a recovery point nor the end of copying is known.",
            "Check with reconciler status ENV, and run the drill again.",
        )
    return sum(state.left or 0 for state in states.values())


def tally(written: Iterable[int], read: Iterable[int], strange: int, compared: tuple[int, int]) -> CanaryRecords:
    wrote, times = set(written), Counter(read)
    once = sum(times[number] == 1 for number in wrote)
    doubled = sum(times[number] > 1 for number in wrote)
    missing = len(wrote) - once - doubled
    return CanaryRecords(len(wrote), once, doubled, missing, strange, *compared)


def objectives_seen(
    declared: Objectives | None, recovery_s: float | None, point: RecoveryPoint | None
) -> tuple[ObjectiveSeen, ...]:
    """RTO and RPO in seconds: declared (None if not) and measured (None if the drill ended before)."""
    wanted = declared or Objectives()
    return (
        ObjectiveSeen("rto", _seconds(wanted.rto_ms), recovery_s),
        ObjectiveSeen("rpo", _seconds(wanted.rpo_ms), None if point is None else point.age_s),
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def next_numbers(written: Sequence[int], count: int) -> range:
    return range(len(written), len(written) + count)
