"""Progress of a reassignment: bytes, rate and time left, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.model.replicas import Partition, Placement, largest
from reconciler.text import counted, size_words, time_words

WINDOW_SECONDS = 30.0
"""The rate is that of the last half minute."""

Sizes = Mapping[tuple[str, int, int], int]


@dataclass(slots=True)
class ReassignmentProgress:
    """``total`` of partitions; ``done`` of them; bytes are those of the replicas that are added."""

    total: int
    done: int = 0
    samples: list[tuple[float, int]] = field(default_factory=list)
    moved_at: float = 0.0
    _finished: dict[Partition, int] = field(default_factory=dict)

    def look(self, now: float, goals: Mapping[Partition, Placement], flying: set[Partition], sizes: Sizes) -> str:
        """Takes note, and tells. ``sizes`` of the topics on the way."""
        wanted = largest(sizes)
        here = bytes_left = 0
        for key in flying:
            placement = goals[key]
            for broker in placement.added:
                size = min(wanted.get(key, 0), sizes.get((*key, broker), 0))
                here += size
                bytes_left += wanted.get(key, 0) - size
            self._finished[key] = wanted.get(key, 0) * len(placement.added)
        copied = here + sum(size for key, size in self._finished.items() if key not in flying)
        before = self.samples[-1][1] if self.samples else -1
        if copied != before or not self.samples:
            self.moved_at = now
        self.samples = [sample for sample in self.samples if now - sample[0] <= WINDOW_SECONDS] + [(now, copied)]
        on_the_way = len(flying)
        parts = [f"{self.done} of {counted(self.total, 'partition')} done, {on_the_way} on the way"]
        if self.samples[-1][1] or bytes_left:
            parts.append(f"{size_words(self.samples[-1][1])} copied, {size_words(bytes_left)} of those on the way left")
        if rate := self.rate():
            parts.append(f"{size_words(int(rate))}/s")
            parts.append(f"these in about {time_words(bytes_left / rate)}")
        return ", ".join(parts)

    def stirred(self, now: float) -> None:
        """Something else than bytes went on."""
        self.moved_at = now

    def rate(self) -> float:
        """Bytes a second."""
        if len(self.samples) < 2:
            return 0.0
        (began, first), (now, last) = self.samples[0], self.samples[-1]
        return max(0.0, (last - first) / (now - began)) if now > began else 0.0
