"""``make soak``: the mirror under load while its driver, a Python worker, Spark's JVM or a broker is killed (SIGKILL),
again and again. At the end every record must be on the target once, in order.

Reading is done by librdkafka's consumer, which shares no code with the copy path.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from bench.processes.cpu import MARK_VARIABLE, marked
from bench.processes.tether import tethered
from bench.records.aborting import aborted_records
from bench.records.soak_load import PARTITIONS, TOPIC, Load, Round, SoakError, Verdict, await_all, await_progress, judge
from bench.report import machine
from reconciler.sandbox.brokers.up_down import Launch, bring_up, take_down
from reconciler.sandbox.handles import Sandbox
from reconciler.sandbox.paths import ROOT, home_of
from reconciler.sandbox.profiles import PROFILES

PORT = 26_500
VICTIMS = ("driver", "worker", "jvm", "source broker", "target broker")
SAVED = ROOT / "bench" / "results" / "soak"
console = Console(soft_wrap=True)


def reconciler(words: list[str], environ: dict[str, str], log: Path) -> None:
    """Raises SoakError when the command does not end with 0."""
    with log.open("ab") as out:
        done = subprocess.run(
            [sys.executable, "-m", "reconciler", *words], cwd=ROOT, env=environ, stdout=out, stderr=out
        )
    if done.returncode:
        raise SoakError(f"reconciler {words[0]} ended with {done.returncode}:\n{log.read_text()[-2000:]}")


def pids(mark: str, victim: str) -> list[int]:
    """Processes of the mirror that fit the word."""
    found = []
    for pid in marked(mark):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            daemon = b"pyspark.daemon" in words
            forked = daemon and b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes()
            fits = {
                "jvm": b"org.apache.spark.deploy.SparkSubmit" in words,
                "worker": forked,
                "driver": any(word.endswith(b"mirror_job.py") for word in words) and b"java" not in words[0],
            }
            if fits[victim]:
                found.append(pid)
    return found


def strike(sandbox: Sandbox, mark: str, victim: str, chance: random.Random) -> bool:
    """Kills one. False when there was nobody to kill at this moment."""
    if victim.endswith("broker"):
        cluster = sandbox["east" if victim.startswith("source") else "west"]
        cluster.kill()
        time.sleep(chance.uniform(0.2, 2.0))
        cluster.start()
        return True
    found = pids(mark, victim)
    if found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(found), signal.SIGKILL)
    return bool(found)


@dataclass(frozen=True, slots=True)
class Wish:
    rounds: int
    per_second: int
    seed: int


def soak(sandbox: Sandbox, environ: dict[str, str], folder: Path, wish: Wish) -> Verdict:
    chance, verdict = random.Random(wish.seed), Verdict()
    source, target, mark = sandbox["east"], sandbox["west"], environ[MARK_VARIABLE]
    admin = AdminClient({**source.super_client(), "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], operation_timeout=30)[TOPIC].result(60)
    env = folder / "soak"
    env.mkdir()
    (env / "topology.yaml").write_text(json.dumps(topology(sandbox)))
    reconciler(["apply", str(env), "--yes"], environ, folder / "apply.log")
    with Load(source, wish.per_second) as load:
        await_progress(target)
        for number in range(wish.rounds):
            victim = VICTIMS[number % len(VICTIMS)]
            time.sleep(chance.uniform(0.2, 3.0))
            while not strike(sandbox, mark, victim, chance):
                time.sleep(0.2)
            seconds = await_progress(target)
            verdict.rounds.append(Round(victim, seconds))
            console.print(f"round {number + 1}/{wish.rounds}: {victim}, copying again after {seconds:.1f} s")
    await_all(target, load.written)
    reconciler(["mirror", "stop", str(env)], environ, folder / "stop.log")
    judge(target, load.written, verdict)
    verdict.aborted = aborted_records(source, TOPIC, PARTITIONS)
    return verdict


def topology(sandbox: Sandbox) -> dict[str, object]:
    clusters = {
        name: {"bootstrap_servers": handle.bootstrap_servers.split(","), "cluster_id": handle.cluster_id}
        for name, handle in sandbox.clusters.items()
    }
    flow = {"source": "east", "target": "west", "topics": [TOPIC], "replication_factor": 1, "lanes": 2}
    return {"clusters": clusters, "flows": {"soak": flow}, "mirrors": {"west": {"flows": ["soak"]}}}


def write(verdict: Verdict, wish: Wish) -> None:
    when = time.strftime("%Y-%m-%dT%H%M%S")
    SAVED.mkdir(parents=True, exist_ok=True)
    told = {"when": when, "machine": machine(), "wish": asdict(wish), **asdict(verdict)}
    (SAVED / f"{when}.json").write_text(json.dumps(told, indent=2) + "\n")
    console.print(f"Saved: {SAVED / f'{when}.json'}")


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Kills, in turn over all victims.")] = 50,
    per_second: Annotated[int, typer.Option(min=160, help="Records written a second, over 8 partitions.")] = 1600,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 1,
    port: Annotated[int, typer.Option(help="First of a block of 100 ports.")] = PORT,
    save: Annotated[bool, typer.Option(help="Also write bench/results/.")] = False,
) -> None:
    """Kills everything in turn, under load, and counts what was lost or doubled."""
    wish, home = Wish(rounds, per_second, seed), home_of("soak")
    take_down(home, clear=True)
    say: Callable[[str], None] = console.print
    try:
        with tethered(f"soak-{os.getpid()}") as environ, tempfile.TemporaryDirectory() as folder:
            verdict = soak(bring_up(Launch(PROFILES["plain"], home, port, "512m"), say), environ, Path(folder), wish)
    except SoakError as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from None
    finally:
        take_down(home, clear=True)
    found = f"{verdict.lost} lost, {verdict.doubled} doubled, {verdict.out_of_order} out of order, "
    found += f"{verdict.aborted_copied} of {verdict.aborted:,} aborted records copied"
    console.print(f"{verdict.written:,} records over {len(verdict.rounds)} kills: {found}")
    if save:
        write(verdict, wish)
    raise typer.Exit(0 if verdict.clean else 1)


if __name__ == "__main__":
    typer.run(main)
