"""What a drill measures, from what was seen. Pure functions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Objectives
from reconciler.model.reports.drill import CanaryRecords, ObjectiveSeen, RecoveryPoint
from reconciler.model.reports.failover import Key, PartitionState


@dataclass
class PointWatch:
    """The worst recovery point while the canary is written. ``accepted``: when each batch was, and where the partitions
    ended behind it."""

    accepted: list[tuple[float, Mapping[Key, int]]] = field(default_factory=list)
    worst: RecoveryPoint = field(default_factory=RecoveryPoint)

    def wrote(self, at: float, states: Mapping[Key, PartitionState]) -> None:
        self.accepted.append((at, {key: state.end or 0 for key, state in states.items()}))

    def look(self, at: float, states: Mapping[Key, PartitionState]) -> int:
        """How many records are not copied. Raises ReconcilerError where that is not known."""
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
    """Offsets. Raises ReconcilerError."""
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
    """RTO and RPO in seconds: what is declared, None without, beside what was measured, None where the drill ended
    earlier."""
    wanted = declared or Objectives()
    return (
        ObjectiveSeen("rto", _seconds(wanted.rto_ms), recovery_s),
        ObjectiveSeen("rpo", _seconds(wanted.rpo_ms), None if point is None else point.age_s),
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def next_numbers(written: Sequence[int], count: int) -> range:
    return range(len(written), len(written) + count)
