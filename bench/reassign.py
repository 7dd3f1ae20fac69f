"""Replication factor 1 -> 3 of 200 partitions under load, with the real CLI, killed once on the way.

    python -m bench.reassign --save

What must hold: producers with acks=all see no error; the throttle is held within 10 %; after kill -9 the next apply
goes on, and leaves no throttle key, no reassignment and no journal. Bytes are those of the brokers' log directories.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.brokers.up_down import running
from reconciler_sandbox.handles import ClusterHandle

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.replicas import ReplicaRequests
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.replicas import THROTTLED_REPLICAS

TOPIC = "load"
PARTITIONS = 200
AT_A_TIME = 100
WINDOW_SECONDS = 22.0
RESULTS = Path(__file__).parent / "results" / "reassign"


@dataclass
class Figures:
    """Rates in bytes/s. ``broker_rates``: into each broker, in windows of ``WINDOW_SECONDS`` with enough left to copy.

    Kafka itself holds a rate over 11 s, so a shorter or interrupted window may show more.
    """

    throttle: int
    partitions: int
    bytes_to_copy: int
    produced: int = 0
    produce_errors: int = 0
    slowest_ack_ms: float = 0.0
    killed_after_s: float = 0.0
    on_the_way_at_kill: int = 0
    copied_at_kill: int = 0
    resumed_s: float = 0.0
    broker_rates: dict[str, list[int]] = field(default_factory=dict)
    highest_of_throttle: float = 0.0
    mean_of_throttle: float = 0.0
    left_behind: list[str] = field(default_factory=list)
    factor_after: int | None = None


class Load:
    """Producers with acks=all at a steady rate, from before the change until after it."""

    def __init__(self, cluster: ClusterHandle, rate: int, figures: Figures) -> None:
        self.producer = Producer({**cluster.client(), "acks": "all", "linger.ms": 20, "log_level": 0})
        self.rate = rate
        self.figures = figures
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        block, number, began = os.urandom(1_000), 0, time.monotonic()
        while not self.over.is_set():
            due = int((time.monotonic() - began) * self.rate / len(block))
            while number < due:
                self._send(block, number)
                number += 1
            self.producer.poll(0.01)
        self.figures.produce_errors += self.producer.flush(60)

    def _send(self, block: bytes, number: int) -> None:
        sent = time.monotonic()

        def told(error: object, _message: object) -> None:
            took = (time.monotonic() - sent) * 1000
            self.figures.slowest_ack_ms = max(self.figures.slowest_ack_ms, round(took, 1))
            self.figures.produce_errors += error is not None
            self.figures.produced += error is None

        self.producer.produce(TOPIC, block, partition=number % PARTITIONS, on_delivery=told)


class Meter:
    """Bytes of the replicas that are added, on each broker, twice a second."""

    def __init__(self, cluster: ClusterHandle, leaders: dict[int, int]) -> None:
        self.cluster = noun(cluster)
        self.leaders = leaders
        self.samples: dict[int, list[tuple[float, int]]] = {broker.node_id: [] for broker in cluster.brokers}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with ReplicaRequests(self.cluster, Principal.PLAN) as requests:
            while not self.over.wait(0.5):
                for broker, samples in self.samples.items():
                    asked = time.monotonic()
                    sizes = requests.sizes_on([broker], {TOPIC: range(PARTITIONS)})
                    size = sum(size for (_, part, _), size in sizes.items() if self.leaders[part] != broker)
                    samples.append(((asked + time.monotonic()) / 2, size))

    def copied(self) -> int:
        return sum(samples[-1][1] for samples in self.samples.values() if samples)

    def windows(self, broker: int, end: int) -> list[int]:
        """Rates of successive windows from the first byte on, without the part in which little is left to copy."""
        rates: list[int] = []
        start = next((sample for sample in self.samples[broker] if sample[1]), None)
        while start is not None:
            begun = start[0] + WINDOW_SECONDS
            later = next((sample for sample in self.samples[broker] if sample[0] >= begun), None)
            if later is None or later[1] > end:
                break
            rates.append(int((later[1] - start[1]) / (later[0] - start[0])))
            start = later
        return rates


def noun(cluster: ClusterHandle) -> Cluster:
    return Cluster(cluster.name, tuple(cluster.bootstrap_servers.split(",")))


def fill(cluster: ClusterHandle, total: int) -> None:
    producer = Producer({**cluster.client(), "linger.ms": 50, "batch.size": 500_000, "log_level": 0})
    block = os.urandom(50_000)
    for number in range(total // len(block)):
        while True:
            try:
                producer.produce(TOPIC, block, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(120):
        raise SystemExit("the brokers did not take the data")


def environment(cluster: ClusterHandle, folder: Path, throttle: int) -> Path:
    env = folder / "reassign"
    env.mkdir()
    (env / "topology.yaml").write_text(
        f"clusters:\n  east:\n    bootstrap_servers: {json.dumps(cluster.bootstrap_servers.split(','))}\n"
        f"    cluster_id: {cluster.cluster_id}\n"
        f"    reassignment: {{throttle_bytes_per_second: {throttle}B, partitions_in_flight: {AT_A_TIME}}}\n"
        f"topics:\n  {TOPIC}: {{clusters: [east], replication_factor: 3}}\n",
        "utf-8",
    )
    return env


def apply(env: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "reconciler", "apply", str(env), "--yes"], stdout=sys.stderr)


def measure(cluster: ClusterHandle, total: int, throttle: int, load: int, kill_at: float) -> Figures:
    made = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1", "min.insync.replicas": "1"})
    creator = AdminClient({**cluster.client(), "log_level": 0})
    creator.create_topics([made])[TOPIC].result(60)
    fill(cluster, total)
    figures = Figures(throttle, PARTITIONS, 2 * total)
    with KafkaCluster(noun(cluster)) as admin:
        leaders = {part.index: part.leader for part in admin.read([TOPIC]).topics[TOPIC].partitions}
    producers, meter = Load(cluster, load, figures), Meter(cluster, leaders)
    with tempfile.TemporaryDirectory() as folder:
        env = environment(cluster, Path(folder), throttle)
        for thread in (producers.thread, meter.thread):
            thread.start()
        try:
            first = apply(env)
            began = time.monotonic()
            while meter.copied() < kill_at * figures.bytes_to_copy:
                time.sleep(0.2)
                if first.poll() is not None:
                    raise SystemExit("the first apply ended before it was killed")
            first.send_signal(signal.SIGKILL)
            first.wait()
            figures.killed_after_s = round(time.monotonic() - began, 1)
            figures.copied_at_kill = meter.copied()
            with KafkaCluster(noun(cluster)) as admin:
                figures.on_the_way_at_kill = len(admin.replica_facts("reassign").moves)
            began = time.monotonic()
            code = apply(env).wait()
            figures.resumed_s = round(time.monotonic() - began, 1)
            if code:
                raise SystemExit(f"the second apply ended with {code}")
        finally:
            producers.over.set()
            meter.over.set()
            producers.thread.join()
            meter.thread.join()
    for broker in sorted({*leaders.values()}):
        mine = sum(1 for leader in leaders.values() if leader != broker)
        figures.broker_rates[str(broker)] = meter.windows(broker, int(0.85 * total * mine / PARTITIONS))
    rates = [rate for some in figures.broker_rates.values() for rate in some]
    figures.highest_of_throttle = round(max(rates, default=0) / throttle, 3)
    figures.mean_of_throttle = round(sum(rates) / max(1, len(rates)) / throttle, 3)
    look_behind(cluster, figures)
    return figures


def look_behind(cluster: ClusterHandle, figures: Figures) -> None:
    with KafkaCluster(noun(cluster)) as admin:
        facts, topic = admin.replica_facts("reassign"), admin.read([TOPIC]).topics[TOPIC]
    figures.factor_after = topic.replication_factor
    figures.left_behind += [f"rate on broker {broker}" for broker, rates in facts.rates.items() if rates]
    figures.left_behind += [key for key in THROTTLED_REPLICAS if key in topic.overrides]
    figures.left_behind += ["a reassignment"] * len(facts.moves) + ["the journal"] * (facts.journal is not None)


def table(figures: Figures) -> str:
    rows = {
        "partitions, bytes copied": f"{figures.partitions}, {figures.bytes_to_copy / 1e6:.0f} MB",
        "throttle into each broker": f"{figures.throttle / 1e6:.1f} MB/s",
        "mean rate, of the throttle": f"{figures.mean_of_throttle:.3f}",
        f"highest {WINDOW_SECONDS:.0f} s of a broker, of the throttle": f"{figures.highest_of_throttle:.3f}",
        "records produced with acks=all meanwhile": f"{figures.produced:,}",
        "produce errors": str(figures.produce_errors),
        "slowest acknowledgement": f"{figures.slowest_ack_ms:.0f} ms",
        "killed with -9 after": f"{figures.killed_after_s:.0f} s, {figures.on_the_way_at_kill} partitions on the way",
        "the next apply ended after": f"{figures.resumed_s:.0f} s",
        "replication factor at the end": str(figures.factor_after),
        "left behind": ", ".join(figures.left_behind) or "nothing",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300, help="of the topic, before the change")
    parser.add_argument("--throttle", type=int, default=5_000_000, help="bytes/s into and out of each broker")
    parser.add_argument("--load", type=int, default=200_000, help="bytes/s that producers write meanwhile")
    parser.add_argument("--save", action="store_true", help="keep the figures in bench/results/reassign")
    chosen = parser.parse_args()
    with running("ha") as sandbox:
        east = sandbox.clusters["east"]
        figures = measure(east, chosen.megabytes * 1_000_000, chosen.throttle, chosen.load, kill_at=0.4)
    print(table(figures))
    if chosen.save:
        name = time.strftime("%Y-%m-%dT%H%M%S", time.gmtime())
        (RESULTS / f"{name}.json").write_text(json.dumps(asdict(figures), indent=2) + "\n", "utf-8")
        (RESULTS / f"{name}.md").write_text(table(figures) + "\n", "utf-8")
    held = figures.highest_of_throttle <= 1.1
    sys.exit(0 if held and not figures.produce_errors and not figures.left_behind else 1)


if __name__ == "__main__":
    main()
