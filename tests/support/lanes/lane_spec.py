"""A lane of a flow, as a lease carries it."""

from __future__ import annotations

from reconciler_mirror.model import LaneSpec, PartitionSpec

from reconciler.replication.handover import Endpoint

HERE = Endpoint("east", ("nowhere:1",))


def lane(number: int, *partitions: PartitionSpec) -> LaneSpec:
    return LaneSpec(
        "f", number, f"mirror.f.{number}", "mirror.f", HERE, HERE, "exactly_once", "read_committed", "earliest", None,
        partitions,
    )  # fmt: skip
