"""``python -m bench.planning``: what validate, plan and apply cost with ten thousand topics on real clusters.

Three one-broker clusters hold the topics; they are made anew, since a broker with ten thousand topics starts slower
than it makes them. Each command is a process of its own; CPU and peak memory are the kernel's figures for that process
and its children. The brokers' CPU meanwhile is told apart: on a small machine they and the command share the cores.

The brokers share the cores with the command, which is harder for three of them than for one. So the same is also timed
as though brokers had machines of their own: ``bench.processes.remembered`` gives their answers after the same time.

What is compared runs in turn, and each round gives a ratio of its own, since the speed of a machine changes from one
minute to the next.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.brokers import processes
from reconciler_sandbox.brokers.up_down import Launch, bring_up, take_down
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.paths import ROOT, home_of
from reconciler_sandbox.profiles import PROFILES
from rich.console import Console
from rich.table import Table as RichTable

from bench.copy.ours import python_of
from bench.processes.clusters import SERVER_JVM
from bench.processes.cpu import cpu_seconds
from bench.processes.remembered import standing_before
from bench.report import machine, spread

PORT = 26_300
FILES = 500
BATCH = 1_000
FRESH = 1_000
WARM = 24
"""Plans of one and of all clusters, in turn, before the first that counts: brokers that were just started still
compile, and of what they answered the quickest is remembered."""
APART = 5
"""Ports between a broker's own and the one on which its remembered answers are given."""
HEAP = "2g"
"""Ten thousand topics fill more than 35 % of the 1 GiB that Kafka's own script gives a broker. G1 would then mark it
again and again, which costs more than the answers do."""
SAVED = ROOT / "bench" / "results" / "planning"
console = Console(soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Run:
    """One command, once. ``code`` is its exit code."""

    case: str
    seconds: float
    cpu_s: float
    brokers_cpu_s: float
    peak_mib: float
    code: int


@dataclass(frozen=True, slots=True)
class Case:
    """``aim``: what it should stay within, in words; empty where nothing is said. ``checkout``: whose program runs."""

    name: str
    words: tuple[str, ...]
    code: int
    aim: str = ""
    checkout: Path = ROOT


@dataclass(frozen=True, slots=True)
class Pair:
    """Two commands that run one straight after the other in each round; ``case`` is told as so many times ``base``."""

    case: Case
    base: Case
    aim: str


def topic_name(number: int) -> str:
    return f"team{number % 40:02}.service{number % 7}.events-{number:05}"


@contextmanager
def three(port: int) -> Iterator[Sandbox]:
    home = home_of("bench-planning")
    take_down(home, clear=True)
    try:
        profile = replace(PROFILES["trio"], jvm=(*SERVER_JVM, f"-Xms{HEAP}"))
        yield bring_up(Launch(profile, home, port, HEAP), console.print)
    finally:
        take_down(home, clear=True)


def brokers_cpu(sandbox: Sandbox) -> float:
    return sum(cpu_seconds(found.pid) for found in processes.find(sandbox.home))


def fill(cluster: ClusterHandle, count: int) -> None:
    """Makes what is missing of ``count`` topics with one override each."""
    admin = AdminClient({**cluster.super_client(), "log_level": "0"})
    present = set(admin.list_topics(timeout=60).topics)
    missing = [name for name in map(topic_name, range(count)) if name not in present]
    for start in range(0, len(missing), BATCH):
        new = [NewTopic(n, 1, 1, config={"retention.ms": "86400000"}) for n in missing[start : start + BATCH]]
        for future in admin.create_topics(new, operation_timeout=120, request_timeout=180).values():
            future.result(200)
    while not set(missing) <= set(admin.list_topics(timeout=60).topics):
        time.sleep(0.5)  # the broker is behind its controller
    if missing:
        console.print(f"{cluster.name}: {len(missing)} topics made")


def environment(folder: Path, clusters: Sequence[ClusterHandle], count: int, changed: int, fresh: int = 0) -> Path:
    """``count`` topics in files of equal size: the first ``changed`` wish another retention, ``fresh`` more are new."""
    folder.mkdir(parents=True)
    lines = [
        f"  {one.name}: {{bootstrap_servers: ['{one.bootstrap_servers}'], cluster_id: {one.cluster_id}}}"
        for one in clusters
    ]
    (folder / "clusters.yaml").write_text("clusters:\n" + "\n".join(lines) + "\n")
    where = ", ".join(one.name for one in clusters)
    topics = [
        f"  {topic_name(n)}: {{clusters: [{where}], partitions: 1, configs: {{retention.ms: {days}d}}}}"
        for n, days in enumerate([2] * changed + [1] * (count + fresh - changed))
    ]
    size = -(-len(topics) // FILES)
    for index in range(0, len(topics), size):
        (folder / f"topics-{index:05}.yaml").write_text("topics:\n" + "\n".join(topics[index : index + size]) + "\n")
    return folder


def timed(case: Case, state: Path, brokers: Callable[[], float] = float) -> Run:
    """One process to its end. ``brokers`` tells their CPU seconds so far.

    Raises RuntimeError when it ends otherwise than the case says.
    """
    command = [python_of(case.checkout), "-m", "reconciler", *case.words]
    before, brokers_before = resource.getrusage(resource.RUSAGE_CHILDREN), brokers()
    began = time.monotonic()
    with tempfile.TemporaryFile() as out:
        variables = {**os.environ, "RECONCILER_STATE": str(state / case.checkout.name)}
        process = subprocess.Popen(command, cwd=case.checkout, stdout=out, stderr=out, env=variables)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        if process.returncode != case.code:
            raise RuntimeError(f"{case.name} ended with {process.returncode}: {out.read()[-2000:].decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(case.name, seconds, cpu, brokers() - brokers_before, usage.ru_maxrss / 1024, process.returncode)


def cases(folder: Path, sandbox: Sandbox, count: int) -> tuple[list[Case], list[Pair]]:
    """In an order in which both of a pair are neighbours, also when it is turned round."""
    east, every = [sandbox["east"]], list(sandbox.clusters.values())
    far = [apart(cluster) for cluster in every]
    same = str(environment(folder / "same", east, count, 0))
    edited = str(environment(folder / "edited", east, count, count // 100))
    threefold = str(environment(folder / "threefold", every, count, 0))
    validate = Case(f"validate, {count:,} topics in {FILES} files", ("validate", same), 0, "6 s")
    one = Case("plan, one cluster, nothing to change", ("plan", same), 0, "4 s, 250 MiB")
    changed = Case("plan, one cluster, 1 % changed", ("plan", edited), 2, "as unchanged + 10 %")
    three = Case("plan, three clusters, nothing to change", ("plan", threefold), 0, "1.5 x one cluster")
    one_apart = Case(
        "plan, one cluster, broker apart", ("plan", str(environment(folder / "apart", far[:1], count, 0))), 0
    )
    three_apart = Case(
        "plan, three clusters, brokers apart", ("plan", str(environment(folder / "all", far, count, 0))), 0
    )
    pairs = [Pair(changed, one, "1.1"), Pair(three, one, "1.5"), Pair(three_apart, one_apart, "1.5")]
    return [validate, changed, one, three, three_apart, one_apart], pairs


def with_other(known: Sequence[Case], checkout: Path) -> tuple[list[Case], list[Pair]]:
    """Each case also by another checkout's program, its neighbour, and both as pairs."""
    pairs = [Pair(case, replace(case, name=f"{case.name} ({checkout})", checkout=checkout), "") for case in known]
    return [case for pair in pairs for case in (pair.case, pair.base)], pairs


def apart(cluster: ClusterHandle) -> ClusterHandle:
    """As it is met through ``bench.processes.remembered``."""
    return replace(cluster, brokers=tuple(replace(one, port=one.port + APART) for one in cluster.brokers))


def ratios(runs: Mapping[Case, Sequence[Run]], pairs: Sequence[Pair]) -> list[tuple[str, ...]]:
    """Each round is divided by itself."""
    rows: list[tuple[str, ...]] = []
    for pair in pairs:
        both = list(zip(runs[pair.case], runs[pair.base], strict=True))
        seconds = spread([one.seconds / base.seconds for one, base in both]).text("{:.2f}".format)
        cpu = spread([one.cpu_s / base.cpu_s for one, base in both]).text("{:.2f}".format)
        rows.append((pair.case.name, pair.base.name, seconds, cpu, pair.aim))
    return rows


def table(runs: Mapping[Case, Sequence[Run]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for case, found in runs.items():
        seconds = spread([run.seconds for run in found]).text("{:.2f}".format)
        cpu = spread([run.cpu_s for run in found]).text("{:.2f}".format)
        brokers = spread([run.brokers_cpu_s for run in found]).text("{:.2f}".format)
        peak = max(run.peak_mib for run in found)
        rows.append((case.name, seconds, cpu, brokers, f"{peak:.0f}", case.aim))
    return rows


HEAD = ("command", "seconds", "CPU s", "brokers' CPU s", "peak MiB", "aim")
RATIO_HEAD = ("command", "beside", "times the seconds", "times the CPU s", "aim")
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Head and rows."""


def write(runs: Mapping[Case, Sequence[Run]], tables: Sequence[Table]) -> None:
    when, facts = time.strftime("%Y-%m-%dT%H%M%S"), machine()
    SAVED.mkdir(parents=True, exist_ok=True)
    told = {"when": when, "machine": facts, "runs": [asdict(run) for found in runs.values() for run in found]}
    (SAVED / f"{when}.json").write_text(json.dumps(told, indent=2) + "\n")
    drawn = [["| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows)] for head, rows in tables]
    (SAVED / f"{when}.md").write_text("\n\n".join(map("\n".join, drawn)) + "\n")
    console.print(f"Saved: {SAVED / f'{when}.json'} and .md")


def shown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> RichTable:
    table = RichTable()
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def main(
    topics: Annotated[int, typer.Option(min=100, help="How many topics each cluster holds.")] = 10_000,
    repeat: Annotated[int, typer.Option(min=1, help="Rounds; the tables show median, least and most.")] = 15,
    port: Annotated[int, typer.Option(help="First of a block of 100 ports.")] = PORT,
    warm: Annotated[int, typer.Option(min=2, help="Plans of one and of all clusters beforehand.")] = WARM,
    beside: Annotated[
        Path | None,
        typer.Option(file_okay=False, exists=True, help="Another installed checkout, run in turn with ours."),
    ] = None,
    save: Annotated[bool, typer.Option(help="Also write bench/results/planning/.")] = False,
) -> None:
    """Validate, plan and apply beside ten thousand topics."""
    with three(port) as sandbox, tempfile.TemporaryDirectory() as parent:
        folder = Path(parent)
        for cluster in sandbox.clusters.values():
            fill(cluster, topics)
        known, pairs = cases(folder, sandbox, topics)
        if beside:
            known, pairs = with_other(known, beside.resolve())
        brokers = partial(brokers_cpu, sandbox)
        ports = [one.port for cluster in sandbox.clusters.values() for one in cluster.brokers]
        with standing_before((port + APART, port) for port in ports) as learned:
            ends = 4 if beside else 2
            for number in range(warm):
                timed(known[-1 - number % ends], folder / "state", brokers)
            console.print(f"{learned()} answers of the brokers remembered")
            runs: dict[Case, list[Run]] = {case: [] for case in known}
            for number in range(repeat):
                for case in known if number % 2 == 0 else reversed(known):
                    runs[case].append(timed(case, folder / "state", brokers))
        grown = environment(folder / "grown", [sandbox["east"]], topics, 0, FRESH)
        fresh = Case(f"apply, {FRESH:,} new topics beside them", ("apply", str(grown), "--yes"), 0)
        runs[fresh] = [timed(fresh, folder / "state", brokers)]
    tables: list[Table] = [(HEAD, table(runs)), (RATIO_HEAD, ratios(runs, pairs))]
    for head, rows in tables:
        Console(width=180).print(shown(head, rows))
    if save:
        write(runs, tables)


if __name__ == "__main__":
    typer.run(main)
