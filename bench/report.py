"""Figures as a table for people and as JSON for machines: median of the repeats, with least and most beside it."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from reconciler_sandbox.install import prerequisites
from reconciler_sandbox.paths import KAFKA_VERSION, ROOT
from reconciler_sandbox.releases import MIRRORMAKER

from bench.copy.figures import Copied, Failed, Latency, Result

BASE = "MM2 tuned"
BASE_EXACTLY_ONCE = "MM2 tuned + exactly once"


@dataclass(frozen=True, slots=True)
class Spread:
    """Of all repeats of one system in one case."""

    median: float
    least: float
    most: float

    def text(self, form: Callable[[float], str]) -> str:
        if self.least == self.most:
            return form(self.median)
        return f"{form(self.median)} ({form(self.least)} to {form(self.most)})"


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def machine() -> dict[str, str]:
    """What the figures depend on and no option says."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    java = subprocess.run([prerequisites.java(), "-version"], capture_output=True, text=True, check=False).stderr
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": java.splitlines()[0] if java else "",
        "kafka": KAFKA_VERSION,
        "MM2": MIRRORMAKER.version,
        "spark": version("pyspark"),
        "confluent-kafka": version("confluent-kafka"),
        "socket copy, bytes per CPU-second": _socket_copy(),
    }


def _socket_copy() -> str:
    done = subprocess.run([sys.executable, "-m", "bench.limit"], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.strip()


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _count(value: float) -> str:
    return f"{value / 1000:,.1f} k" if value < 1e6 else f"{value / 1000:,.0f} k"


def _seconds(value: float) -> str:
    return f"{value:.1f}"


def _ratio(name: str, base: str, rates: Mapping[str, Spread]) -> str:
    return f"{rates[name].median / rates[base].median:.2f}" if base in rates else ""


COPY_HEAD = (
    "system",
    "records/s",
    "per CPU-second",
    "x MM2 tuned",
    "wall",
    "x MM2 exactly once",
    "wall",
    "CPU s",
    "brokers' CPU s",
    "start s",
    "MiB in all",
    "task MiB",
    "idle cores",
    "connections",
    "use of each line",
    "proxy's CPU s",
    "equal",
)
LATENCY_HEAD = (
    "system",
    "p50 ms",
    "p99 ms",
    "max ms",
    "CPU cores",
    "cores of others",
    "records",
    "records/s",
    "lost",
    "late at the end",
)


def _task_mib(result: Copied) -> float:
    """The largest process that copies: a Python worker of Spark, or MirrorMaker 2's JVM."""
    programs = result.peak_rss_mib_by_program
    return programs.get("python pyspark.daemon", programs.get("java", 0.0))


def _median(values: Sequence[float | None], form: str) -> str:
    present = [value for value in values if value is not None]
    return form.format(statistics.median(present)) if present else ""


def copy_rows(results: Sequence[Copied]) -> list[tuple[str, ...]]:
    """One row a system, in the order they first ran. All of one case."""
    systems = {result.system: [other for other in results if other.system == result.system] for result in results}
    per_cpu = {name: spread([result.records_per_cpu_s for result in found]) for name, found in systems.items()}
    per_s = {name: spread([result.records_per_s for result in found]) for name, found in systems.items()}
    return [
        (
            name,
            per_s[name].text(_count),
            per_cpu[name].text(_count),
            *(_ratio(name, base, rates) for base in (BASE, BASE_EXACTLY_ONCE) for rates in (per_cpu, per_s)),
            spread([result.cpu_s for result in found]).text(_seconds),
            spread([sum(result.broker_cpu_s.values()) for result in found]).text(_seconds),
            spread([result.start_s for result in found]).text(_seconds),
            f"{max(result.peak_pss_mib for result in found):.0f}",
            f"{max(_task_mib(result) for result in found):.0f}",
            _median([result.idle_cores for result in found], "{:.3f}"),
            _median([len(result.line.connections) if result.line else None for result in found], "{:.0f}"),
            _median([result.line.share if result.line else None for result in found], "{:.0%}"),
            _median([result.line.proxy_cpu_s if result.line else None for result in found], "{:.1f}"),
            "yes" if all(result.verified for result in found) else "NO",
        )
        for name, found in systems.items()
    ]


def _others(cores: Sequence[Mapping[str, float]]) -> str:
    medians = {name: statistics.median(each.get(name, 0.0) for each in cores) for name in cores[0]}
    return ", ".join(f"{name} {value:.2f}" for name, value in medians.items())


def latency_rows(results: Sequence[Latency]) -> list[tuple[str, ...]]:
    systems = {result.system: [other for other in results if other.system == result.system] for result in results}
    return [
        (
            name,
            *(
                spread([getattr(result, field) for result in found]).text(_seconds)
                for field in ("p50_ms", "p99_ms", "max_ms")
            ),
            f"{statistics.median(result.cpu_cores for result in found):.2f}",
            _others([result.other_cores for result in found]),
            str(sum(result.records for result in found)),
            _median([result.records / result.seconds if result.seconds else None for result in found], "{:.0f}"),
            str(sum(result.lost for result in found)),
            str(sum(result.late for result in found)),
        )
        for name, found in systems.items()
    ]


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def filled(table: Table) -> Table:
    """Without the columns in which no row says anything."""
    kept = [number for number in range(len(table.head)) if any(row[number] for row in table.rows)]
    rows = [tuple(row[number] for number in kept) for row in table.rows]
    return Table(table.title, tuple(table.head[number] for number in kept), rows)


def tables(results: Sequence[Result]) -> list[Table]:
    """One table a case, in the order they ran."""
    found = []
    for case in dict.fromkeys(result.case for result in results):
        copied = [result for result in results if isinstance(result, Copied) and result.case == case]
        delayed = [result for result in results if isinstance(result, Latency) and result.case == case]
        if copied:
            found.append(Table(f"{case}: {max(r.records for r in copied):,} records", COPY_HEAD, copy_rows(copied)))
        if delayed:
            found.append(Table(f"{case}: a trickle, read committed at the target", LATENCY_HEAD, latency_rows(delayed)))
    return [filled(table) for table in found]


def markdown(results: Sequence[Result], facts: Mapping[str, str]) -> str:
    parts = [f"`{command()}` on: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "."]
    for table in tables(results):
        lines = [f"### {table.title}", ""]
        lines += ["| " + " | ".join(row) + " |" for row in (table.head, ("---",) * len(table.head), *table.rows)]
        parts.append("\n".join(lines))
    failed = [f"- {f.case}, {f.system}, repeat {f.repeat}: {f.reason}" for f in results if isinstance(f, Failed)]
    return "\n\n".join([*parts, *(["### Failed\n", *failed] if failed else [])]) + "\n"


def command() -> str:
    return " ".join(["python -m bench", *sys.argv[1:]])


def as_json(results: Sequence[Result], when: str, facts: Mapping[str, str]) -> str:
    """Every single result with its derived rates, and the machine and the command it was made with."""
    items = []
    for result in results:
        item: dict[str, object] = {"kind": type(result).__name__.lower(), **asdict(result)}
        if isinstance(result, Copied):
            item |= {
                "records_per_s": result.records_per_s,
                "records_per_cpu_s": result.records_per_cpu_s,
                "log_bytes_per_cpu_s": result.log_bytes / max(result.cpu_s, 1e-2),
            }
        items.append(item)
    return json.dumps({"when": when, "command": command(), "machine": dict(facts), "results": items}, indent=1) + "\n"
