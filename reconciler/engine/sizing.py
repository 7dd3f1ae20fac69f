"""From measured rates to the needs of a mirror: lanes, cores, executors, line, and disk at its target. No I/O.

Our own figures are from docs/performance.md and docs/mirror/long-lines.md; unknown ones stay unknown.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.errors import Unknown
from reconciler.model.environment.topology import Flow, Mirror

CORE_BYTES = 670_000_000
"""Bytes of whole batches that a core copies in a second: the lower end of 0.67 to 0.83 GB per CPU-second, including
Spark."""
RECORD_WORK = 9
"""Factor on the CPU time of whole batches if single records are read: the upper end of 3 to 9."""
LANE_BYTES = 200_000_000
"""Throughput of a lane at 100 ms each way: 96 MiB that are fetched and not yet acknowledged. A shorter line has
more."""
MOST_LANES = 64
EXECUTOR_CORES = 4
"""Used if the mirror does not declare the cores of an executor."""


@dataclass(frozen=True, slots=True)
class FlowLoad:
    """``bytes_per_second`` as measured; ``partitions`` of all its topics."""

    flow: Flow
    bytes_per_second: float | Unknown
    partitions: int | Unknown
    kept_bytes: int | Unknown
    """Of one copy of its topics at the source."""
    target_factor: int | Unknown
    """Replication factor at the target."""


@dataclass(frozen=True, slots=True)
class FlowSize:
    """The size that a flow needs, beside the one that it has (``*_now``)."""

    flow: str
    target: str
    rate: float | Unknown
    peak: float | Unknown
    """Bytes per second that it is sized for."""
    lanes: int | Unknown
    lanes_now: int
    cores: float | Unknown
    disk_bytes: int | Unknown
    """At the target, all copies, where it keeps records as long as the source does."""
    problems: tuple[str, ...] = ()
    """More lanes than partitions, or than a flow may have."""


@dataclass(frozen=True, slots=True)
class MirrorSize:
    """The size that a mirror's application needs for all its flows, beside the one that it has."""

    mirror: str
    flows: tuple[FlowSize, ...]
    cores: int | Unknown
    """Of all executors, one a lease."""
    executors: int | Unknown
    executor_cores: int
    parallelism_now: int
    line_bits: Mapping[tuple[str, str], float | Unknown]
    """Per second, by pair of clusters."""


def flow_size(load: FlowLoad, headroom: float) -> FlowSize:
    """``headroom``: how many times the measured rate it must carry, such as 2 to catch up as fast as records come."""
    flow = load.flow
    kept, factor = load.kept_bytes, load.target_factor
    disk = kept if isinstance(kept, Unknown) else factor if isinstance(factor, Unknown) else kept * factor
    if isinstance(load.bytes_per_second, Unknown):
        unknown = load.bytes_per_second
        return FlowSize(flow.name, flow.target, unknown, unknown, unknown, flow.lanes, unknown, disk)
    peak = load.bytes_per_second * headroom
    lanes = max(1, math.ceil(peak / LANE_BYTES))
    cores = peak / CORE_BYTES * (RECORD_WORK if flow.record_work else 1)
    lanes = max(lanes, math.ceil(cores))  # a lane is one thread of one task

    # A partition is copied by one lane, so that its order is kept.
    problems, parts = list[str](), load.partitions
    if lanes > MOST_LANES:
        problems.append(
            f"needs {lanes} lanes, and a flow has {MOST_LANES} at most: split its topics into several flows"
        )
    if not isinstance(parts, Unknown) and 0 < parts < lanes:
        problems.append(f"has {parts} partitions for {lanes} lanes; one lane copies a partition, so some would be idle")
    most = min(lanes, MOST_LANES)
    return FlowSize(flow.name, flow.target, load.bytes_per_second, peak, most, flow.lanes, cores, disk, tuple(problems))


def mirror_size(mirror: Mirror, sizes: Sequence[FlowSize], sources: Mapping[str, str]) -> MirrorSize:
    """``sources``: flow -> its source cluster."""
    known = [size.cores for size in sizes if not isinstance(size.cores, Unknown)]
    missing = next((size.cores for size in sizes if isinstance(size.cores, Unknown)), None)
    each = mirror.deployment.cores or EXECUTOR_CORES
    cores: int | Unknown = missing if missing is not None else max(1, math.ceil(sum(known)))
    executors: int | Unknown = cores if isinstance(cores, Unknown) else math.ceil(cores / each)
    lines: dict[tuple[str, str], float | Unknown] = {}
    for size in sizes:
        pair = (sources[size.flow], size.target)
        before, more = lines.get(pair, 0.0), size.peak
        if isinstance(before, Unknown):
            continue
        lines[pair] = more if isinstance(more, Unknown) else before + more * 8
    return MirrorSize(mirror.name, tuple(sizes), cores, executors, each, mirror.parallelism, lines)


def disk_by_cluster(mirrors: Iterable[MirrorSize]) -> dict[str, int | Unknown]:
    """Bytes of all copies at each target; unknown if those of one flow are."""
    disks: dict[str, int | Unknown] = {}
    for size in (size for mirror in mirrors for size in mirror.flows):
        before = disks.get(size.target, 0)
        if isinstance(before, Unknown):
            continue
        disks[size.target] = size.disk_bytes if isinstance(size.disk_bytes, Unknown) else before + size.disk_bytes
    return disks


def growth(before: int | None, after: int | None, seconds: float, subject: str) -> float | Unknown:
    """Bytes per second of a log, from its size at two times. Unknown if it shrank: how much was deleted meanwhile, and
    so how much came, is not known."""
    if before is None or after is None:
        error = f"the bytes of {subject} could not be read"
        return Unknown(subject, error, "reconciler doctor ENV names missing rights")
    if after < before:
        words = f"{subject} shrank while it was measured: records expired, and how many came is not known"
        return Unknown(subject, words, "Measure again, or for longer: --seconds 300")
    return (after - before) / seconds
