"""``make demo``: the whole demo on two real clusters, with the commands a person would type.

Safe to repeat and to interrupt: every step begins from what is there. Leaves the clusters and the mirror running.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from reconciler.errors import ReconcilerError
from reconciler_sandbox import commands
from reconciler_sandbox.demo import copy_environment as demo_copy
from reconciler_sandbox.demo import flights
from reconciler_sandbox.demo import watch as demo_watch
from reconciler_sandbox.demo.proof import Proof, prove, table
from reconciler_sandbox.demo.shell import Shell, shown
from reconciler_sandbox.errors import SandboxError

FLOW = demo_watch.FLOW
MIRRORED = (flights.FLIGHTS, "flights.delays")
INTERRUPTED = 130


def pairs(*topics: str) -> list[tuple[str, str]]:
    return [(topic, f"east.{topic}") for topic in topics]


@dataclass(slots=True)
class Demo:
    """``git`` is the environment as committed (with other ports: a copy of it); ``copy`` is where edits are made."""

    shell: Shell
    clients: Mapping[str, dict[str, str]]
    git: Path
    copy: Path
    applications: list[str] = field(default_factory=list)
    proved: int = 0

    def apply(self, environment: Path) -> None:
        self.shell.run("apply", shown(environment), "--yes")

    def caught_up(self, environment: Path, *topics: str) -> demo_watch.CaughtUpFlow:
        seen = demo_watch.wait_caught_up(self.shell, environment, len(topics))
        if self.applications[-1:] != [seen.application_id]:
            self.applications.append(seen.application_id)
        return seen

    def proof(self, *topics: str) -> Proof:
        proof = prove(self.clients["east"], self.clients["west"], pairs(*topics))
        self.shell.console.print()
        self.shell.console.print(table(proof))
        if not proof.equal:
            todo = "The mirror must never do this: keep .sandbox/ and environments/.reconciler/ and report it."
            raise SandboxError("source and target are not equal", "\n".join(proof.differences()), todo)
        self.proved = proof.records
        self.shell.say(
            f"equal: {proof.records:,} records in {len(proof.partitions)} partitions, read on both sides "
            f"in {proof.seconds:.1f} s (key, value, headers, timestamp)",
            "green",
        )
        return proof

    def applied(self, restarts: int, environment: Path) -> None:
        """Applies and holds the job's own reports against the number of restarts that the edit may cost."""
        before = self.applications[-1]
        mark = demo_watch.status_mark(self.clients["west"])
        self.apply(environment)
        names = demo_watch.wait_for_report(self.clients["west"], mark)
        seen = list(dict.fromkeys([before, *names]))
        if len(seen) != restarts + 1:
            problem = f"the mirror was restarted {len(seen) - 1} times, expected {restarts}: {' -> '.join(seen)}"
            why = "Only a changed flow may restart the mirror, and only once."
            raise SandboxError(problem, why, "Keep environments/.reconciler/ and report it.")
        self.applications += seen[1:]
        times = "not restarted" if restarts == 0 else "restarted exactly once"
        self.shell.say(f"mirror {times}: application {before} before, {seen[-1]} after", "green")


def begin(shell: Shell) -> Demo:
    shell.chapter("Two Kafka clusters on this machine")
    began = time.monotonic()
    up = commands.up(progress=shell.say)
    if (other := commands.other_ids(up.sandbox)) is not None:
        raise other
    shell.say(commands.render_up(up) + f"  ({time.monotonic() - began:.1f} s)")
    clients = {name: handle.client() for name, handle in up.sandbox.clusters.items()}
    copy = demo_copy.reset({name: handle.bootstrap_servers for name, handle in up.sandbox.clusters.items()})
    default_ports = commands.chosen_port(None) is None
    git = demo_copy.COMMITTED if default_ports else copy
    if not default_ports:
        shell.say(f"environments/sandbox with these ports: {shown(copy)}")
    return Demo(shell, clients, git, copy)


def load(demo: Demo) -> None:
    demo.shell.chapter(f"Real data on east: {flights.FLIGHT_COUNT:,} flights, keyed by carrier")
    with demo.shell.progress("loaded") as update:
        loaded = flights.load_flights(demo.clients["east"], update)
    if loaded.records:
        demo.shell.say(f"topic flights: {loaded.records:,} records in {loaded.seconds:.1f} s, in one transaction")
    else:
        demo.shell.say("topic flights: the data is there from an earlier run, nothing was loaded")


def journey(demo: Demo) -> demo_watch.CaughtUpFlow:
    demo.shell.chapter("From YAML to mirrored records")
    demo.shell.run("validate", shown(demo.git))
    demo.shell.run("plan", shown(demo.git), expect=(0, 2))
    demo.apply(demo.git)
    seen = demo.caught_up(demo.git, *MIRRORED)
    demo.shell.run("status", shown(demo.git))
    demo.shell.chapter("Proof: east and west hold the same records")
    demo.proof(*MIRRORED)
    return seen


def topic_edit(demo: Demo) -> None:
    demo.shell.chapter("1. A topic-only edit is applied without a restart")
    demo.shell.say(f"flights are to be kept for two weeks, here and on west (edited in {shown(demo.copy)}):")
    demo.shell.diff(demo_copy.set_topic_config(flights.FLIGHTS, "retention.ms", "14d"))
    demo.applied(0, demo.copy)


def flow_edit(demo: Demo) -> None:
    demo.shell.chapter("2. A flow edit is applied with exactly one restart")
    published = flights.publish_airports(demo.clients["east"])
    demo.shell.say(f"east has {published.records:,} new records in {flights.AIRPORTS}; no flow takes them along yet:")
    demo.shell.diff(demo_copy.add_pattern(FLOW, flights.AIRPORTS))
    demo.applied(1, demo.copy)
    demo.caught_up(demo.copy, *MIRRORED, flights.AIRPORTS)
    demo.shell.say("the new topic arrived; the others continued where they were, nothing is lost or copied twice:")
    demo.proof(*MIRRORED, flights.AIRPORTS)


def hand_change(demo: Demo) -> None:
    demo.shell.chapter("3. Drift: a config changed by hand is detected and fixed")
    remote, key, value = f"east.{flights.FLIGHTS}", "max.message.bytes", "65536"
    demo.shell.say(f"someone sets {key}={value} on west/{remote} with another tool: larger events would not fit")
    demo_watch.alter_by_hand(demo.clients["west"], remote, key, value)
    demo.shell.run("drift", shown(demo.copy), expect=(2,))
    demo.applied(0, demo.copy)
    demo.shell.run("drift", shown(demo.copy))


def back_to_git(demo: Demo) -> None:
    demo.shell.chapter("Back to what is committed")
    demo.shell.say(
        "the two edits are dropped: the flow changes again, which is one restart more, and the plan names the"
    )
    demo.shell.say("risk of a retention that becomes shorter")
    if demo.git == demo.copy:
        demo_copy.reset({name: client["bootstrap.servers"] for name, client in demo.clients.items()})
    demo.applied(1, demo.git)
    demo.caught_up(demo.git, *MIRRORED)


def summary(demo: Demo, first: demo_watch.CaughtUpFlow, seconds: float) -> None:
    demo.shell.chapter("Summary")
    rows = {
        "mirrored": (
            f"{first.records:,} records in {first.seconds:.0f} s after the job's start, {first.rate:,.0f} records/s"
            if first.records and first.seconds < seconds
            else "nothing was left to copy: an earlier run had mirrored it"
        ),
        "proved equal": f"{demo.proved:,} records on both sides",
        "applications": " -> ".join(demo.applications),
        "demo": f"{seconds:.0f} s; clusters and mirror continue running",
    }
    for name, text in rows.items():
        demo.shell.say(f"{name:13} {text}")
    demo.shell.say(
        f"\nGo on, with the commands in .venv/bin:\n"
        f"  reconciler status {shown(demo.git)}\n"
        f"  reconciler plan {shown(demo.git)}       after an edit of its YAML\n"
        f"  make down                                stops the mirror and the clusters; data stays in .sandbox"
    )


def tell(shell: Shell) -> None:
    began = time.monotonic()
    demo = begin(shell)
    load(demo)
    first = journey(demo)
    for step in (topic_edit, flow_edit, hand_change, back_to_git):
        step(demo)
    summary(demo, first, time.monotonic() - began)


def main() -> int:
    shell = Shell()
    try:
        tell(shell)
    except KeyboardInterrupt:
        shell.say("\ninterrupted; clusters and mirror may be running. `make demo` continues, `make down` stops them.")
        return INTERRUPTED
    except (KafkaException, OSError) as error:
        document = error.args[0].str() if isinstance(error, KafkaException) else error
        shell.say(f"\nthe demo cannot continue: {document}", "red")
        shell.say("`make demo` tries again from what is there; `make down` stops everything.")
        return 1
    except ReconcilerError as error:
        shell.say(f"\n{error}", "red")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
