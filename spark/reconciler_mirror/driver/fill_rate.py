"""How fast new copies are brought to where their sources begin, from what lanes say is left."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_S = 10.0


@dataclass(frozen=True, slots=True)
class FillSamples:
    """``steps``: when a new number of offsets was left (monotonic seconds), and how many; the newest last. Lanes fill
    by transactions, which on a busy machine take longer than the window: the last two steps are always kept."""

    steps: tuple[tuple[float, int], ...] = ()

    def seen(self, now: float, left: int) -> FillSamples:
        """With what is left ``now``. More than before comes of a lane that has just begun to tell, or of a new
        partition: that is no progress, and it is counted from there. Nothing left is nothing to count from."""
        if not left:
            return FillSamples()
        if not self.steps or left > self.steps[-1][1]:
            return FillSamples(((now, left),))
        steps = self.steps if left == self.steps[-1][1] else (*self.steps, (now, left))
        while len(steps) > 2 and now - steps[1][0] > WINDOW_S:
            steps = steps[1:]
        return FillSamples(steps)

    def per_second(self, now: float) -> float:
        """Offsets; 0 before the first step, when it is not known."""
        if len(self.steps) < 2:
            return 0.0
        (began, first), (_, left) = self.steps[0], self.steps[-1]
        return round((first - left) / max(now - began, 0.05), 1)
