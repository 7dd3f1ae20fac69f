"""``python -m bench.soak.kills``: SIGKILL by chance, of processes of the mirror and of brokers in turn, while a flow
with ``offsets: same`` copies transactions, aborts and a compacted topic; then both logs are compared offset by offset.

Three brokers at the target: one that dies moves leaders and coordinators.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from signal import SIGKILL
from typing import Annotated

import typer
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.brokers.up_down import Launch, bring_up, take_down
from reconciler_sandbox.handles import Sandbox
from reconciler_sandbox.paths import ROOT, home_of
from reconciler_sandbox.profiles import BLOCK, PROFILES

from bench.processes.cpu import adopt_orphans
from bench.processes.tether import tethered
from bench.report import machine
from bench.soak.odd_load import COMPACTED, PARTITIONS, TOPIC, OddLoad
from bench.soak.same_place import difference, ends, read_log
from bench.soak.world import SoakError, World

PORT, TARGET_BROKERS = 26_700, 3
SAVED = ROOT / "bench" / "results" / "kills"
CONFIGS: Mapping[str, Mapping[str, str]] = {
    TOPIC: {"max.message.bytes": "2000000"},
    COMPACTED: {
        "max.message.bytes": "2000000",
        "cleanup.policy": "compact",
        "segment.ms": "2000",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "3000",
    },
}
MOMENT_S, AWAY_S, RECOVERY_S = 8.0, 6.0, 300.0
"""Longest pause before a kill; longest absence of a broker; when a round has failed."""


@dataclass(frozen=True, slots=True)
class Round:
    """``recovery_s``: from the kill, or from a broker's new start, until the copy has what the source had just after
    it. ``load``: of the machine, the mean of a minute."""

    number: int
    killed: str
    recovery_s: float
    load: float


def _process(kind: str) -> Callable[[World], str]:
    def kill(world: World) -> str:
        world.signal(SIGKILL, kind, everyone=kind != "worker")
        return {"driver": "Python driver", "worker": "Python worker", "jvm": "driver's JVM"}[kind]

    return kill


def _broker(side: str) -> Callable[[World], str]:
    def kill(world: World) -> str:
        cluster = world.cluster(side)
        node = world.chance.randint(1, TARGET_BROKERS) if side == "target" else 1
        cluster.kill(node)
        time.sleep(world.chance.uniform(0.5, AWAY_S))
        cluster.start(node)
        return f"broker of the {side}"

    return kill


KILLS = (_process("driver"), _process("worker"), _process("jvm"), _broker("target"), _broker("source"))


class Logs:
    """Both sides of each topic."""

    def __init__(self, world: World) -> None:
        self._world = world

    def ends(self, side: str) -> dict[str, list[int]]:
        """Waits for an answer: brokers come back."""
        found: dict[str, list[int]] = {}
        while missing := [topic for topic in PARTITIONS if topic not in found]:
            for topic in missing:
                name = topic if side == "source" else f"east.{topic}"
                if (told := ends(self._world.cluster(side), name, PARTITIONS[topic])) is not None:
                    found[topic] = told
        return found

    def until(self, goal: Mapping[str, list[int]], patience_s: float = RECOVERY_S) -> float:
        """Seconds until the copy ends there or behind. Raises SoakError, with what status says."""
        began = time.monotonic()
        while True:
            now = self.ends("target")
            if all(at >= want for topic in goal for at, want in zip(now[topic], goal[topic], strict=True)):
                return time.monotonic() - began
            if time.monotonic() - began > patience_s:
                said = json.dumps(self._world.status())[:3000]
                raise SoakError(f"after {patience_s:.0f} s the copy ends at {now}, to reach {dict(goal)}: {said}")
            time.sleep(0.2)

    def differences(self) -> tuple[list[str], int]:
        """What is not equal, and how many records of the source were compared."""
        wrong, records = [], 0
        for topic, count in PARTITIONS.items():
            source = read_log(self._world.cluster("source"), topic, count)
            copy = read_log(self._world.cluster("target"), f"east.{topic}", count)
            for number in range(count):
                records += len(source[number].records)
                if said := difference(source[number], copy[number], compacted=topic == COMPACTED):
                    wrong.append(f"{topic}-{number}: {said}")
        return wrong, records


@contextlib.contextmanager
def world(home: Path, port: int, environ: Mapping[str, str], folder: Path, chance: random.Random) -> Iterator[World]:
    """A source of one broker, a target of three, and a mirror that keeps offsets."""
    with contextlib.ExitStack() as stack:
        beside = home.with_name(f"{home.name}-target")
        stack.callback(take_down, home, clear=True)
        stack.callback(take_down, beside, clear=True)
        take_down(beside, clear=True)
        east = bring_up(Launch(replace(PROFILES["plain"], clusters=("east",)), home, port, "384m"), print)["east"]
        west = bring_up(Launch(replace(PROFILES["ha"], clusters=("west",)), beside, port + BLOCK), print)["west"]
        sandbox = Sandbox("kills", home, {"east": east, "west": west})
        state, env = folder / "state", folder / "kills"
        for made in (state, env):
            made.mkdir()
        flow = {"source": "east", "target": "west", "topics": list(PARTITIONS), "offsets": "same", "lanes": 2}
        clusters = {
            name: {"bootstrap_servers": there.bootstrap_servers.split(","), "cluster_id": there.cluster_id}
            for name, there in sandbox.clusters.items()
        }
        topology = {
            "clusters": clusters,
            "flows": {"kills": {**flow, "replication_factor": TARGET_BROKERS}},
            "mirrors": {"west": {"flows": ["kills"]}},
        }
        (env / "topology.yaml").write_text(json.dumps(topology))
        admin = AdminClient({**east.super_client(), "log_level": 0})
        topics = [NewTopic(name, count, 1, config=dict(CONFIGS[name])) for name, count in PARTITIONS.items()]
        for created in admin.create_topics(topics, operation_timeout=30).values():
            created.result(60)
        log, with_state = folder / "commands.log", {**environ, "RECONCILER_STATE": str(state)}
        run = World(sandbox, {}, env, with_state, log, chance, {}, None, state, east)
        run.apply()
        yield run
        run.cli("mirror", "stop", str(env), check=False)


def rounds(run: World, logs: Logs, count: int, chance: random.Random) -> Iterator[Round]:
    for number in range(count):
        time.sleep(chance.uniform(0.2, MOMENT_S))
        killed = KILLS[number % len(KILLS)](run)
        recovery = logs.until(logs.ends("source"))
        yield Round(number + 1, killed, round(recovery, 1), round(os.getloadavg()[0], 1))


def table(done: list[Round]) -> str:
    lines = ["| killed | rounds | recovery, s: median, most |", "|---|---|---|"]
    for killed in dict.fromkeys(each.killed for each in done):
        times = sorted(each.recovery_s for each in done if each.killed == killed)
        lines.append(f"| {killed} | {len(times)} | {times[len(times) // 2]:.1f}, {times[-1]:.1f} |")
    return "\n".join(lines)


def main(
    count: Annotated[int, typer.Option("--rounds", min=1)] = 50,
    per_second: Annotated[int, typer.Option(min=30, help="Records written a second.")] = 300,
    seed: Annotated[int, typer.Option(help="Of moments, brokers and records.")] = 1,
    port: Annotated[int, typer.Option(help="First of two blocks of 100 ports.")] = PORT,
) -> None:
    """Kills in turn, under load, and compares both logs offset by offset."""
    adopt_orphans()
    home, chance, done = home_of(f"kills-{port}"), random.Random(seed), list[Round]()
    take_down(home, clear=True)
    failure, wrong, records, transactions = "", list[str](), 0, "no transactions"
    with tethered(f"kills-{os.getpid()}") as environ, tempfile.TemporaryDirectory() as folder:
        try:
            with world(home, port, environ, Path(folder), random.Random(seed)) as run:
                logs = Logs(run)
                with OddLoad(run.cluster("source"), per_second, random.Random(seed)) as load:
                    logs.until({topic: [1] * parts for topic, parts in PARTITIONS.items()})
                    for each in rounds(run, logs, count, chance):
                        done.append(each)
                        typer.echo(json.dumps(asdict(each)))
                transactions = f"{load.committed:,} transactions committed and {load.aborted:,} aborted"
                logs.until(logs.ends("source"))
                wrong, records = logs.differences()
        except SoakError as error:
            failure = str(error)
    said = "; ".join(wrong) or failure or "equal offset by offset, ends equal"
    command = f"python -m bench.soak.kills --rounds {count} --per-second {per_second} --seed {seed}"
    typer.echo(
        f"`{command}`: {len(done)} rounds, {transactions}, {records:,} committed records compared: {said}"
        f"\n\n{table(done)}"
    )
    SAVED.mkdir(parents=True, exist_ok=True)
    content = {
        "command": command,
        "machine": machine(),
        "rounds": [asdict(each) for each in done],
        "records": records,
        "said": said,
    }
    (SAVED / f"{time.strftime('%Y-%m-%dT%H%M%S')}.json").write_text(json.dumps(content, indent=2) + "\n")
    raise typer.Exit(1 if wrong or failure else 0)


if __name__ == "__main__":
    typer.run(main)
