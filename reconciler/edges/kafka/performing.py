"""Changes of one kind, carried out a request at a time: what became of each, as soon as it is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from reconciler.plans import Outcome, Planned, Result


def perform_in_batches(
    changes: Sequence[Planned],
    size: int,
    failures: Callable[[Sequence[Planned]], Sequence[str]],
    progress: Callable[[Outcome], None],
) -> tuple[Outcome, ...]:
    """``failures``: carries some out and says of each, in order, why it is not done, or empty. It never raises."""
    outcomes: list[Outcome] = []
    for start in range(0, len(changes), size):
        batch = changes[start : start + size]
        began = time.monotonic()
        errors = failures(batch)
        seconds = (time.monotonic() - began) / len(batch)
        for planned, error in zip(batch, errors, strict=True):
            outcome = Outcome(planned.id, Result.FAILED if error else Result.DONE, error, seconds)
            outcomes.append(outcome)
            progress(outcome)
    return tuple(outcomes)
