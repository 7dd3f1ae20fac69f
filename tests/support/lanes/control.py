"""A ``Control`` for lanes that a test runs itself: taken over, without pauses, rate limit or a lease that ends."""

from __future__ import annotations

from collections.abc import Callable

from reconciler_mirror.model import Claim, LaneProgress, PartitionSpec


class ClaimedControl:
    """Says how long the lane runs, and takes its reports, in what derives from it."""

    def stopping(self) -> bool:
        return False

    def lease_over(self) -> bool:
        return False

    def partitions(self) -> tuple[PartitionSpec, ...]:
        raise NotImplementedError

    def claim(self) -> Claim:
        raise AssertionError("the lane was begun with a claim")

    def prepared(self) -> None:
        raise AssertionError("the lane was begun with a claim")

    def paused(self) -> frozenset[tuple[str, int]]:
        return frozenset()

    def rate(self) -> float:
        return 0.0

    def watch(self, wake: Callable[[], None]) -> None:
        """Looked at again after a second."""

    def report(self, progress: LaneProgress) -> None:
        raise NotImplementedError
