"""What mirrors need, as a table for people and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from reconciler.engine.sizing import CORE_BYTES, LANE_BYTES, RECORD_WORK, FlowSize, MirrorSize, disk_by_cluster
from reconciler.errors import ExitCode, Unknown
from reconciler.render.report_json import report_json
from reconciler.render.wrap import table_lines
from reconciler.text import counted, size_words

UNKNOWN = "unknown"
T = TypeVar("T")


def sizing_text(mirrors: Sequence[MirrorSize], headroom: float, width: int | None = None) -> str:
    lines: list[str] = []
    for mirror in mirrors:
        lines += [f"mirror {mirror.mirror}", *_table(mirror.flows, width)]
        lines += [f"  {size.flow}: {problem}" for size in mirror.flows for problem in size.problems]
        cores = _number(mirror.cores)
        lines.append(
            f"  parallelism {cores} (now {mirror.parallelism_now}): {_counted(mirror.cores, 'core')} on "
            f"{_counted(mirror.executors, 'executor')} of {mirror.executor_cores}, and one for the driver"
        )
        lines += [f"  line {source} to {target}: {_bits(bits)}" for (source, target), bits in mirror.line_bits.items()]
        lines.append("")
    lines += [f"disk at {cluster}: {_bytes(amount)}" for cluster, amount in disk_by_cluster(mirrors).items()]
    lines += [f"unknown: {text}" for text in sorted(_unknowns(mirrors))]
    lines += [
        "",
        f"Sized for {headroom:g} times the measured rate. A core copies {CORE_BYTES / 1e6:.0f} MB/s of whole batches, "
        f"one {RECORD_WORK}th of that with record work; a lane carries {LANE_BYTES / 1e6:.0f} MB/s at 100 ms each way "
        "(docs/performance.md, docs/mirror/long-lines.md: one machine, not yours). "
        "Disk: what the source keeps now, times the factor at the target.",
    ]
    return "\n".join(lines)


def sizing_json(environment: str, mirrors: Sequence[MirrorSize], headroom: float) -> str:
    """As schemas/reports/sizing.schema.json."""
    return report_json(
        "sizing",
        environment,
        exit_code=int(sizing_code(mirrors)),
        headroom=headroom,
        mirrors=[_mirror(mirror) for mirror in mirrors],
        disk_bytes={cluster: _known(amount) for cluster, amount in disk_by_cluster(mirrors).items()},
        unknown=sorted(_unknowns(mirrors)),
    )


def _mirror(mirror: MirrorSize) -> dict[str, Any]:
    lines = mirror.line_bits.items()
    return {
        "mirror": mirror.mirror,
        "parallelism": _known(mirror.cores),
        "parallelism_now": mirror.parallelism_now,
        "executors": _known(mirror.executors),
        "executor_cores": mirror.executor_cores,
        "lines": [
            {"source": source, "target": target, "bits_per_second": _known(bits)} for (source, target), bits in lines
        ],
        "flows": [_flow(size) for size in mirror.flows],
    }


def _flow(size: FlowSize) -> dict[str, Any]:
    return {
        "flow": size.flow,
        "target": size.target,
        "bytes_per_second": _known(size.rate),
        "sized_for_bytes_per_second": _known(size.peak),
        "lanes": _known(size.lanes),
        "lanes_now": size.lanes_now,
        "cores": _known(size.cores),
        "disk_bytes": _known(size.disk_bytes),
        "problems": size.problems,
    }


def _known(value: T | Unknown) -> T | None:
    return None if isinstance(value, Unknown) else value


def sizing_code(mirrors: Sequence[MirrorSize]) -> ExitCode:
    return ExitCode.ERROR if _unknowns(mirrors) else ExitCode.DONE


def _table(flows: Sequence[FlowSize], width: int | None) -> list[str]:
    rows = [("flow", "now", "sized for", "lanes", "lanes now", "cores", "disk")]
    rows += [
        (
            size.flow,
            _rate(size.rate),
            _rate(size.peak),
            _number(size.lanes),
            str(size.lanes_now),
            UNKNOWN if isinstance(size.cores, Unknown) else f"{size.cores:.2f}",
            _bytes(size.disk_bytes),
        )
        for size in flows
    ]
    return table_lines(rows, width, range(1, 7), "  ")


def _unknowns(mirrors: Sequence[MirrorSize]) -> set[str]:
    sizes = [size for mirror in mirrors for size in mirror.flows]
    parts = [part for size in sizes for part in (size.rate, size.disk_bytes)]
    return {f"{part.error}. {part.todo}".rstrip(". ") for part in parts if isinstance(part, Unknown)}


def _number(value: float | Unknown) -> str:
    return UNKNOWN if isinstance(value, Unknown) else str(math.ceil(value))


def _counted(value: float | Unknown, name: str) -> str:
    return f"{UNKNOWN} {name}s" if isinstance(value, Unknown) else counted(math.ceil(value), name)


def _bytes(value: int | Unknown) -> str:
    return UNKNOWN if isinstance(value, Unknown) else size_words(value)


def _rate(value: float | Unknown) -> str:
    return UNKNOWN if isinstance(value, Unknown) else f"{size_words(round(value))}/s"


def _bits(value: float | Unknown) -> str:
    return UNKNOWN if isinstance(value, Unknown) else f"{value / 1e6:,.1f} Mbit/s"
