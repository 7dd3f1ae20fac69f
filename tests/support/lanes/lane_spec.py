"""A lane of a flow, as a lease carries it, and the control of one that a test runs itself."""

from __future__ import annotations

from collections.abc import Callable

from reconciler_mirror.model.lane import Claim, LaneProgress, LaneSpec, PartitionSpec

from reconciler.replication.handover import Endpoint

HERE = Endpoint("east", ("nowhere:1",))


def lane(number: int, *partitions: PartitionSpec) -> LaneSpec:
    return LaneSpec(
        "f", number, f"mirror.f.{number}", "mirror.f", HERE, HERE, "exactly_once", "read_committed", "earliest", None,
        partitions,
    )  # fmt: skip


class ClaimedControl:
    """Taken over, without pauses, rate limit or a lease that ends. What derives from it says how long the lane runs,
    and takes its reports."""

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
