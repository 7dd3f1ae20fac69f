"""What mirrors need, as a table for people and as JSON."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from reconciler.engine.sizing import CORE_BYTES, LANE_BYTES, RECORD_WORK, MirrorSize, disk_by_cluster
from reconciler.errors import ExitCode, Unknown
from reconciler.render.markup import report_json, table_lines
from reconciler.text import counted, size_words

UNKNOWN = "unknown"
T = TypeVar("T")


def sizing_text(mirrors: Sequence[MirrorSize], headroom: float, width: int | None = None) -> str:
    lines: list[str] = []
    for mirror in mirrors:
        rows = [("flow", "now", "sized for", "lanes", "lanes now", "cores", "disk")]
        for size in mirror.flows:
            rates = [_words(rate, lambda rate: f"{size_words(round(rate))}/s") for rate in (size.rate, size.peak)]
            lanes, cores = (_words(size.lanes, _whole), str(size.lanes_now)), _words(size.cores, "{:.2f}".format)
            rows.append((size.flow, rates[0], rates[1], *lanes, cores, _words(size.disk_bytes, size_words)))
        lines += [f"mirror {mirror.mirror}", *table_lines(rows, width, range(1, 7), "  ")]
        lines += [f"  {size.flow}: {problem}" for size in mirror.flows for problem in size.problems]
        needs = [
            f"{UNKNOWN} {name}s" if isinstance(value, Unknown) else counted(math.ceil(value), name)
            for value, name in ((mirror.cores, "core"), (mirror.executors, "executor"))
        ]
        lines.append(
            f"  parallelism {_words(mirror.cores, _whole)} (now {mirror.parallelism_now}): {needs[0]} on "
            f"{needs[1]} of {mirror.executor_cores}, and one for the driver"
        )
        for (source, target), bits in mirror.line_bits.items():
            lines.append(f"  line {source} to {target}: {_words(bits, lambda bits: f'{bits / 1e6:,.1f} Mbit/s')}")
        lines.append("")
    for cluster, amount in disk_by_cluster(mirrors).items():
        lines.append(f"disk at {cluster}: {_words(amount, size_words)}")
    lines += [f"unknown: {text}" for text in sorted(_unknowns(mirrors))]
    lines += [
        "",
        f"Sized for {headroom:g} times the measured rate. A core copies {CORE_BYTES / 1e6:.0f} MB/s of whole batches, "
        f"one {RECORD_WORK}th of that with record work; a lane carries {LANE_BYTES / 1e6:.0f} MB/s at 100 ms each way, "
        "as measured on one machine, not yours. "
        "Disk: what the source keeps now, times the factor at the target.",
    ]
    return "\n".join(lines)


def _words(value: T | Unknown, words: Callable[[T], str]) -> str:
    return UNKNOWN if isinstance(value, Unknown) else words(value)


def _whole(value: float) -> str:
    return str(math.ceil(value))


def sizing_json(environment: str, mirrors: Sequence[MirrorSize], headroom: float) -> str:
    """As schemas/reports/sizing.schema.json."""
    documents = [
        {
            "mirror": mirror.mirror,
            "parallelism": _known(mirror.cores),
            "parallelism_now": mirror.parallelism_now,
            "executors": _known(mirror.executors),
            "executor_cores": mirror.executor_cores,
            "lines": [
                {"source": source, "target": target, "bits_per_second": _known(bits)}
                for (source, target), bits in mirror.line_bits.items()
            ],
            "flows": [
                {
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
                for size in mirror.flows
            ],
        }
        for mirror in mirrors
    ]
    return report_json(
        "sizing",
        environment,
        exit_code=int(sizing_code(mirrors)),
        headroom=headroom,
        mirrors=documents,
        disk_bytes={cluster: _known(amount) for cluster, amount in disk_by_cluster(mirrors).items()},
        unknown=sorted(_unknowns(mirrors)),
    )


def _known(value: T | Unknown) -> T | None:
    return None if isinstance(value, Unknown) else value


def sizing_code(mirrors: Sequence[MirrorSize]) -> ExitCode:
    return ExitCode.ERROR if _unknowns(mirrors) else ExitCode.DONE


def _unknowns(mirrors: Sequence[MirrorSize]) -> set[str]:
    sizes = [size for mirror in mirrors for size in mirror.flows]
    parts = [part for size in sizes for part in (size.rate, size.disk_bytes)]
    return {part.with_todo.rstrip(". ") for part in parts if isinstance(part, Unknown)}
