"""``python -m bench.copy.same_offsets start|compacted``: a copy at the source's offsets where the source has holes.

``start``: the source's first record is at a high offset, up to which empty records are written first; the job is killed
once on the way. ``compacted``: every second offset of the source is gone. By the commands that a user runs.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaException, Producer
from reconciler_sandbox.brokers import processes
from reconciler_sandbox.brokers.up_down import running
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from bench.copy.figures import Run
from bench.copy.ours import Reconciler, Shape
from bench.processes.cpu import adopt_orphans, cpu_seconds, marked
from bench.processes.tether import tethered
from bench.records.equality import digests
from bench.records.topics import admin_client, create_topic, ends
from tests.support.lanes.high_offsets import go_on_at

TOPIC, PARTITIONS, RECORDS = "orders", 8, 1_000
POLL_S, TELL_S, LIMIT_S = 0.2, 30.0, 3_600.0
app = typer.Typer(no_args_is_help=True)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Copy:
    """A flow that keeps offsets, while it runs. Load averages go with every figure: others may use the machine."""

    def __init__(self, sandbox: Sandbox, run: Run, shape: Shape) -> None:
        self._run, self._system = run, Reconciler(shape)
        self._target = admin_client(run.target)
        (self._pid,) = [p.pid for p in processes.find(sandbox["west"].folder.parent) if p.node.startswith("west")]

    def start(self) -> None:
        self._system.start(self._run)

    def command(self, *words: str) -> str:
        line = [sys.executable, "-m", "reconciler", *words, str(self._run.folder / self._run.alias)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def kill(self) -> None:
        """Every process of the job, at once."""
        for pid in marked(self._run.mark):
            os.kill(pid, signal.SIGKILL)

    def again(self) -> None:
        say(self.command("mirror", "start").strip())

    def until_told(self) -> None:
        """Until status tells how long the rest of a start takes, and how long that took after the command."""
        began = time.monotonic()
        while " at " not in (line := self._filling()) and self.reached() and time.monotonic() - began < LIMIT_S:
            time.sleep(POLL_S)
        say(f"{time.monotonic() - began:.1f} s after the command status says: {line}")

    def _filling(self) -> str:
        lines = [line.strip() for line in self.command("status").splitlines() if "empty offsets left" in line]
        return lines[0] if lines else ""

    def reached(self) -> int:
        try:
            return sum(ends(self._target, self._run.remote_topic))
        except KafkaException:  # made a moment ago
            return 0

    def until(self, offsets: int) -> tuple[float, int]:
        """Waits for so many at the target. Seconds since the first was there, and how many there were then."""
        first = told = 0.0
        at_first, give_up = 0, time.monotonic() + LIMIT_S
        while (now := self.reached()) < offsets:
            if now and not first:
                first, at_first = time.monotonic(), now
            if time.monotonic() - told > TELL_S and first:
                told = time.monotonic()
                say(self.command("status").strip())
            if time.monotonic() > give_up:
                sys.exit(f"only {now:,} of {offsets:,} offsets in {LIMIT_S:.0f} s")
            time.sleep(POLL_S)
        return time.monotonic() - (first or time.monotonic()), at_first

    def broker_cpu(self) -> float:
        return cpu_seconds(self._pid)

    def stop(self) -> None:
        self._system.stop(self._run)


def _load() -> str:
    return "load average " + ", ".join(f"{each:.1f}" for each in os.getloadavg())


def _write(handle: ClusterHandle, count: int, alike: int = 0) -> None:
    """To every partition; of every ``alike`` records one has the same key as others."""
    producer = Producer({**handle.client(), "linger.ms": 20})
    for number in range(count):
        for partition in range(PARTITIONS):
            key = b"again" if alike and number % alike == 0 else b"key-%d" % number
            producer.produce(TOPIC, b"%0100d" % number, key, partition)
        producer.poll(0)
    producer.flush(60)


def _run_of(sandbox: Sandbox, folder: Path) -> Run:
    mark = f"bench{secrets.token_hex(3)}"
    east, west = sandbox["east"].bootstrap_servers, sandbox["west"].bootstrap_servers
    return Run(mark, mark, f"to-{mark}", TOPIC, None, east, west, folder)


def _compacted(bootstrap: str, most: float) -> int:
    """Waits until no more records than ``most`` are left."""
    give_up = time.monotonic() + 300
    while (left := sum(part.records for part in digests(bootstrap, TOPIC))) > most:
        if time.monotonic() > give_up:
            sys.exit(f"the source is not compacted: {left:,} records")
        time.sleep(2)
    return left


@app.command()
def start(
    offsets: Annotated[int, typer.Option(help="Where each partition of the source begins.")] = 1_000_000_000,
    kill: Annotated[bool, typer.Option(help="Kill the job when a third is filled.")] = True,
) -> None:
    """Eight partitions whose first record is far behind 0."""
    adopt_orphans()
    with running("plain") as sandbox, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        source = admin_client(sandbox["east"].bootstrap_servers)
        create_topic(source, TOPIC, PARTITIONS, {})
        go_on_at(sandbox["east"], {(TOPIC, number): offsets for number in range(PARTITIONS)})
        _write(sandbox["east"], RECORDS)
        run = _run_of(sandbox, Path(folder))
        with tethered(run.mark):
            copy = Copy(sandbox, run, Shape(offsets="same"))
            before, began = copy.broker_cpu(), time.monotonic()
            copy.start()
            if kill:
                copy.until(offsets * PARTITIONS // 3)
                copy.kill()
                killed_at = copy.reached()
                say(f"killed at {killed_at:,} offsets, {time.monotonic() - began:.1f} s after the command")
                copy.again()
                copy.until_told()
            copy.until((offsets + RECORDS) * PARTITIONS)
            seconds, cpu = time.monotonic() - began, copy.broker_cpu() - before
            say(
                f"{PARTITIONS} partitions from offset {offsets:,}: {seconds:.1f} s from command to last record, "
                f"{offsets * PARTITIONS / seconds:,.0f} offsets/s; the target's broker {cpu:.1f} CPU-s; {_load()}"
            )
            copy.stop()


@app.command()
def compacted(
    offsets: Annotated[int, typer.Option(help="Of each partition; every second one is removed.")] = 10_000,
    lanes: Annotated[int, typer.Option(help="Of the flow.")] = 2,
) -> None:
    """A compacted source: every second offset is a hole of its own, which is the most that there can be."""
    adopt_orphans()
    eager = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
    with running("plain") as sandbox, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        source = admin_client(sandbox["east"].bootstrap_servers)
        create_topic(source, TOPIC, PARTITIONS, {**eager, "max.compaction.lag.ms": "1000"})
        _write(sandbox["east"], offsets, alike=2)
        time.sleep(2)
        _write(sandbox["east"], 1)  # a new segment, so that the one before it is compacted
        records = _compacted(sandbox["east"].bootstrap_servers, offsets * PARTITIONS * 0.55)
        say(f"{records:,} records at {sum(ends(source, TOPIC)):,} offsets")
        run = _run_of(sandbox, Path(folder))
        with tethered(run.mark):
            copy = Copy(sandbox, run, Shape(offsets="same", lanes=lanes, parallelism=lanes))
            copy.start()
            goal = sum(ends(source, TOPIC))
            before = copy.broker_cpu()
            seconds, at_first = copy.until(goal)
            cpu = copy.broker_cpu() - before
            say(copy.command("status").strip())
            say(
                f"{goal - at_first:,} offsets in {seconds:.1f} s: {(goal - at_first) / seconds:,.0f} offsets/s; "
                f"the target's broker {cpu:.1f} CPU-s; {_load()}"
            )
            copy.stop()


if __name__ == "__main__":
    app()
