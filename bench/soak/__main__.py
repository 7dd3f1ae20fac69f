"""``make soak``: faults by chance, under load, for so many minutes; both logs are compared, and a table is written."""

from __future__ import annotations

import itertools
import json
import os
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from reconciler_sandbox.brokers.up_down import take_down
from reconciler_sandbox.paths import ROOT, home_of
from rich.console import Console

from bench.processes.tether import tethered
from bench.report import machine
from bench.soak.faults import FAULTS, Fault
from bench.soak.load import Load
from bench.soak.table import Row, page
from bench.soak.truth import Counts, Truth
from bench.soak.watch import Watch, told
from bench.soak.world import SoakError, World, world

PORT = 26_500
SAVED = ROOT / "bench" / "results" / "soak"
RECOVERY_S, REST_S, SAID_S = 420.0, 8.0, 30.0
console = Console(soft_wrap=True)


def turns(faults: Sequence[Fault], chance: random.Random, minutes: float, rounds: int = 0) -> Iterator[Fault]:
    """Each in its turn, in an order by chance, ``rounds`` times (0: again and again); none begins after ``minutes``."""
    until = time.monotonic() + 60 * minutes
    for _ in range(rounds) if rounds else itertools.count():
        for fault in chance.sample(faults, len(faults)):
            if time.monotonic() > until:
                return
            yield fault


def recovered(truth: Truth, reads: list[int]) -> bool:
    until = time.monotonic() + RECOVERY_S
    while not truth.copied(reads):
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def tried(fault: Fault, made: World, truth: Truth, watch: Watch) -> Row:
    """Begins and ends the fault, and waits until the copy has what the source has."""
    before, began, failure = truth.counts(), time.monotonic(), ""
    try:
        fault.begin(made)
        time.sleep(fault.lasts_s)
    except Exception as error:  # noqa: BLE001 - what was begun must be ended, and the others tried
        failure = f"{type(error).__name__}: {str(error)[:500]}"
    try:
        fault.end(made)
    except Exception as error:  # noqa: BLE001
        failure = failure or f"{type(error).__name__}: {str(error)[:500]}"
    ended = time.monotonic()
    is_copied = recovered(truth, truth.read())
    seconds = time.monotonic() - ended if is_copied else None
    watch.until(began + SAID_S)
    samples = watch.between(began, time.monotonic())
    said = "; ".join(told([sample for sample in samples if sample.at <= began + SAID_S], began))
    wrong = sum(sample.wrong for sample in samples)
    return Row(fault.name, truth.counts().since(before), seconds, said, wrong, failure)


def soak(made: World, faults: Iterable[Fault], per_second: int) -> tuple[list[Row], Counts, int]:
    rows: list[Row] = []
    with Truth(made.cluster("source"), made.cluster("target")) as truth:
        with Load(made.cluster("source"), per_second, made.chance), Watch(made.env, made.environ, truth) as watch:
            if not recovered(truth, [1] * len(truth.read())):
                raise SoakError("nothing is copied before the first fault")
            for fault in faults:
                rows.append(tried(fault, made, truth, watch))
                console.print(json.dumps(asdict(rows[-1])))
                time.sleep(REST_S)
        if not recovered(truth, truth.read()):
            console.print("not all was copied in the end")
        time.sleep(REST_S)
        return rows, truth.counts(), sum(sample.wrong for sample in watch.samples)


def chosen(names: str) -> list[Fault]:
    """Those that hold one of the words, all without any. Raises SoakError."""
    words = [word.strip() for word in names.split(",") if word.strip()]
    faults = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    if not faults:
        raise SoakError(f"no fault holds {names!r}; there are: {', '.join(fault.name for fault in FAULTS)}")
    return faults


def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="No fault begins later.")] = 60,
    faults: Annotated[str, typer.Option(help="Words of the faults to try, with commas between; all without.")] = "",
    rounds: Annotated[int, typer.Option(min=0, help="How often each fault is tried; 0: until the time is over.")] = 0,
    per_second: Annotated[int, typer.Option(min=40, help="Records written a second.")] = 400,
    seed: Annotated[int, typer.Option(help="Of the order and of what is written.")] = 1,
    port: Annotated[int, typer.Option(help="First of a block of 100 ports.")] = PORT,
    write: Annotated[bool, typer.Option(help="Also write bench/results/soak/.")] = False,
) -> None:
    """Breaks everything in turn, under load, and counts what was lost or doubled, and when status was wrong."""
    home = home_of(f"soak-{port}")
    take_down(home, clear=True)
    try:
        named = chosen(faults)
        with (
            tethered(f"soak-{os.getpid()}") as environ,
            tempfile.TemporaryDirectory() as folder,
            world(home, port, environ, Path(folder), random.Random(seed)) as made,
        ):
            possible = [fault for fault in named if made.has(fault.needs)]
            rows, total, wrong = soak(made, turns(possible, random.Random(seed), minutes, rounds), per_second)
    except SoakError as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from None
    finally:
        take_down(home, clear=True)
    command = f"python -m bench.soak --minutes {minutes:g}{f' --faults {faults!r}' if faults else ''} --seed {seed}"
    text = page(rows, total, wrong, f"Measured {time.strftime('%Y-%m-%d')} by `{command}`, {per_second} records/s.")
    console.print(text, markup=False)
    if write:
        SAVED.mkdir(parents=True, exist_ok=True)
        content = {
            "command": command,
            "machine": machine(),
            "rows": [asdict(row) for row in rows],
            "total": asdict(total),
        }
        (SAVED / f"{time.strftime('%Y-%m-%dT%H%M%S')}.json").write_text(json.dumps(content, indent=2) + "\n")
    clean = not (total.missing or total.doubled or total.reordered or total.foreign or wrong)
    raise typer.Exit(0 if clean and all(row.recovery_s is not None and not row.failure for row in rows) else 1)


if __name__ == "__main__":
    typer.run(main)
