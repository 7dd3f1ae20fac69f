"""What a drill sees and does, as a port: ``live`` implements it on clusters, tests in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from reconciler.model.reports.drill import DrillPlaces
from reconciler.model.reports.failover import Key, PartitionState
from reconciler.operations.cutover.world import CutoverWorld


class DrillWorld(CutoverWorld, Protocol):
    """A cut-over that moves the canary alone, and the canary's client. ``at_switch``: what the client does when it gets
    the destination's address, in place of the hook *switch*; no hook of the environment runs. ``strange``: records met
    in the canary's topics that are not of this drill."""

    places: DrillPlaces
    at_switch: Callable[[], str]
    strange: int

    def copied(self) -> Mapping[Key, PartitionState]:
        """The canary on the origin, and how far it is copied."""
        ...

    def copied_back(self) -> Mapping[Key, PartitionState]:
        """What was written on the destination, and how far it is copied. Empty: nothing carries it."""
        ...

    def to_ends(self) -> None:
        """The group begins behind everything that is there, on both sides."""
        ...

    def write(self, numbers: Sequence[int], *, there: bool) -> None:
        """Returns once they are accepted. ``there``: on the destination."""
        ...

    def read(self, share: float, *, there: bool) -> Sequence[int]:
        """The group reads on from its positions, up to this share of what there is, and commits."""
        ...

    def compare(self) -> tuple[int, int]:
        """Records of this drill that were compared on both sides, and how many of them differ."""
        ...
