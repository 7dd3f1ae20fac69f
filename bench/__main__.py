"""``python -m bench``: measures the mirror beside MirrorMaker 2 and prints a table. ``make bench`` runs it as it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from reconciler_sandbox.paths import ROOT, STATE
from rich.console import Console
from rich.table import Table as RichTable

from bench.copy.figures import CASES, BenchError, Clusters, Copied, Failed, Latency, Result, System
from bench.copy.latency import TRICKLES, Trickle, latency
from bench.copy.measure import copy
from bench.copy.mm2 import MirrorMaker2, Tuning
from bench.copy.ours import Reconciler, Shape
from bench.processes.clusters import PORT, clusters
from bench.processes.cpu import adopt_orphans
from bench.records.load import load
from bench.report import as_json, machine, markdown, tables
from reconciler.errors import ReconcilerError

NAMES = (*CASES, *TRICKLES)
OUT = STATE / "bench"
SAVED = ROOT / "bench" / "results" / "copy"
console = Console(soft_wrap=True)


def systems(beside: Path | None = None) -> dict[str, System]:
    """By the short names of ``--systems``; ``beside`` is another checkout, whose mirror is the system ``other``."""
    other: dict[str, System] = {"other": Reconciler(checkout=beside.resolve())} if beside else {}
    return {
        **other,
        "mm2": MirrorMaker2(Tuning.DEFAULT),
        "mm2-tuned": MirrorMaker2(Tuning.TUNED),
        "mm2-tuned-one": MirrorMaker2(Tuning.TUNED, tasks=1),
        "mm2-exactly-once": MirrorMaker2(Tuning.EXACTLY_ONCE),
        "mm2-exactly-once-one": MirrorMaker2(Tuning.EXACTLY_ONCE, tasks=1),
        "ours": Reconciler(),
        "ours-one": Reconciler(Shape(lanes=1, parallelism=1)),
        "ours-at-least-once": Reconciler(Shape(delivery="at_least_once")),
        "ours-same-offsets": Reconciler(Shape(offsets="same")),
        "ours-same-offsets-one": Reconciler(Shape(offsets="same", lanes=1, parallelism=1)),
        "ours-where": Reconciler(Shape(work="where")),
        "ours-headers": Reconciler(Shape(work="headers")),
    }


def chosen(text: str, known: Sequence[str], what: str) -> list[str]:
    """``text`` is a comma-separated list or ``all``. Ends the program for an unknown name."""
    names = list(known) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise typer.BadParameter(f"unknown {what} {', '.join(unknown)}. Known: {', '.join(known)}, all.")
    return names


def turns(names: Sequence[str], repeat: int, alternate: bool, warm_up: int = 0) -> Iterator[tuple[int, str]]:
    """(repeat, system): every system once a round; every second round backwards when ``alternate``. The rounds of the
    warm-up are below 0."""
    for round_number in range(-warm_up, repeat):
        yield from ((round_number, name) for name in (names[::-1] if alternate and round_number % 2 else names))


def say(result: Result, lead: str) -> None:
    match result:
        case Copied():
            word = "" if result.verified else "  [red]the copy is NOT equal[/red]"
            console.print(
                f"{lead} {result.system}: {result.records_per_s:,.0f} records/s, {result.records_per_cpu_s:,.0f} per "
                f"CPU-second, start {result.start_s:.1f} s, copy {result.copy_s:.1f} s{word}"
            )
        case Latency():
            console.print(
                f"{lead} {result.system}: p50 {result.p50_ms:.1f} ms, p99 {result.p99_ms:.1f} ms, lost {result.lost}"
            )
        case Failed():
            console.print(f"{lead} [red]{result.system} failed[/red]: {result.reason}", markup=True)


def measure(
    found: Clusters,
    known: Mapping[str, System],
    cases: Sequence[str],
    order: Sequence[tuple[int, str]],
    records: int | None,
    trickle: Trickle,
) -> list[Result]:
    """Every case with every system, one after the other on the same clusters and the same data. Rounds below 0 are
    shown and do not count: brokers that have just started compile what they do while they do it."""
    results = list[Result]()
    for case in cases:
        known_case = CASES.get(case)
        if known_case:
            count = records or known_case.records
            loaded = load(known_case.data, count, found, OUT / "loaded.json", console.print)
        console.print(f"[bold]{case}[/bold]")
        for repeat, name in order:
            result = (
                copy(known[name], known_case, loaded, found, repeat)
                if known_case
                else latency(known[name], found, case, trickle, repeat)
            )
            say(result, "  warming up:" if repeat < 0 else " ")
            if repeat >= 0:
                results.append(result)
    return results


def show(results: Sequence[Result]) -> None:
    # Cut columns help nobody: a narrow terminal or a log file gets the whole line.
    wide = Console(width=max(console.width, 200))
    for table in tables(results):
        shown = RichTable(title=table.title, title_justify="left")
        for number, name in enumerate(table.head):
            shown.add_column(name, justify="right" if number else "left", no_wrap=True)
        for row in table.rows:
            shown.add_row(*row)
        wide.print(shown)


def write(results: Sequence[Result], save: bool) -> None:
    when = time.strftime("%Y-%m-%dT%H%M%S")
    OUT.mkdir(parents=True, exist_ok=True)
    facts = machine()
    (OUT / f"{when}.json").write_text(as_json(results, when, facts))
    console.print(f"Written: {OUT / f'{when}.json'}")
    if save:
        SAVED.mkdir(parents=True, exist_ok=True)
        (SAVED / f"{when}.json").write_text(as_json(results, when, facts))
        (SAVED / f"{when}.md").write_text(markdown(results, facts))
        console.print(f"Saved: {SAVED / f'{when}.json'} and .md")


def main(
    cases: Annotated[str, typer.Option(help=f"Comma-separated, or all: {', '.join(NAMES)}.")] = "1kb-lz4",
    systems_: Annotated[
        str, typer.Option("--systems", help=f"Comma-separated, or all: {', '.join(systems())}.")
    ] = "mm2-tuned,mm2-exactly-once,ours",
    beside: Annotated[
        Path | None, typer.Option(file_okay=False, exists=True, help="Another installed checkout: the system `other`.")
    ] = None,
    records: Annotated[
        int | None, typer.Option(min=8, help="Records of each case; by default as fits the case.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Rounds; the table shows median, least and most.")] = 1,
    warm_up: Annotated[int, typer.Option(min=0, help="Rounds before those that count, for the brokers.")] = 0,
    alternate: Annotated[bool, typer.Option(help="Every second round in the opposite order.")] = True,
    latency_seconds: Annotated[float, typer.Option(min=1, help="How long the trickle is measured.")] = 40.0,
    warm_seconds: Annotated[float, typer.Option(min=1, help="How long it runs before that.")] = 10.0,
    port: Annotated[int, typer.Option(help="First of a block of 100 ports for the two brokers.")] = PORT,
    keep: Annotated[bool, typer.Option(help="Leave the brokers up.")] = False,
    save: Annotated[bool, typer.Option(help="Also write bench/results/copy/.")] = False,
) -> None:
    """Copies the same records with MirrorMaker 2 and with the Spark mirror, and compares CPU, speed and latency.

    CPU is that of every process of a system from the first record at the target to the last; brokers are listed apart.
    """
    known = systems(beside)
    names = chosen(systems_, list(known), "system")
    wanted = chosen(cases, NAMES, "case")
    if not Path("/proc/self/stat").exists():
        console.print("bench reads CPU time from /proc, which only Linux has. Run it in a container or on Linux.")
        raise typer.Exit(1)
    adopt_orphans()
    try:
        with clusters(port, keep, console.print) as found:
            order = list(turns(names, repeat, alternate, warm_up))
            results = measure(
                found, known, wanted, order, records, Trickle(warm_s=warm_seconds, seconds=latency_seconds)
            )
    except (BenchError, ReconcilerError) as error:
        console.print(str(error), markup=False)
        raise typer.Exit(1) from None
    show(results)
    write(results, save)
    if any(isinstance(r, Failed) or (isinstance(r, Copied) and not r.verified) for r in results):
        raise typer.Exit(1)


if __name__ == "__main__":
    sys.argv[0] = "bench"
    typer.run(main)
