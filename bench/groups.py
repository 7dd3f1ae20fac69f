"""``python -m bench.groups``: how fresh the offsets of 1,000 groups x 10 partitions are on the target, and their cost.

Every group commits on every partition, again and again, while the mirror's own group sync runs in a thread, as it does
in the driver. Fresh: until the target has the exact offset of the last group. CPU: of that thread, by its own clock.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.groups.sync import GroupSync
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Claim, Condition, LaneProgress, LaneSpec, PartitionSpec, lane_spec
from reconciler_sandbox.brokers.up_down import running
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.handover import TRANSLATED, Endpoint, FlowSettings, GroupSettings, Naming, Start
from reconciler.replication.mirrormaker_records import checkpoints_topic
from reconciler.replication.names import OFFSETS_PARTITIONS, OFFSETS_TOPIC
from reconciler.replication.status import GroupSyncStatus

GROUPS, PARTITIONS, RECORDS, ROUNDS = 1_000, 10, 2_000, 6
TOPIC, INTERVAL_MS = "orders", 3_000


@dataclass
class UntilCopied:
    """Ends the lane once all is copied."""

    specs: tuple[PartitionSpec, ...]
    ended: threading.Event = field(default_factory=threading.Event)

    def stopping(self) -> bool:
        return self.ended.is_set()

    def claim(self) -> Claim:
        return Claim(1, "bench")

    def prepared(self) -> None:
        return

    def lease_over(self) -> bool:
        return False

    def paused(self) -> frozenset[tuple[str, int]]:
        return frozenset()

    def rate(self) -> float:
        return 0.0

    def partitions(self) -> tuple[PartitionSpec, ...]:
        return self.specs

    def watch(self, wake: Callable[[], None]) -> None:
        """Looked at again after a second."""

    def report(self, progress: LaneProgress) -> None:
        if progress.partitions and all((p.position or 0) >= RECORDS for p in progress.partitions):
            self.ended.set()


def endpoint(handle: ClusterHandle) -> Endpoint:
    client = handle.client()
    return Endpoint(handle.name, tuple(client.pop("bootstrap.servers").split(",")), client)


def prepared(sandbox: Sandbox, offsets: str = TRANSLATED) -> tuple[FlowSettings, tuple[PartitionSpec, ...]]:
    """Topics, records, and all of them copied; ``offsets`` of the flow."""
    east, west = sandbox["east"], sandbox["west"]
    compact = {"cleanup.policy": "compact"}
    made = {
        east.name: [NewTopic(TOPIC, PARTITIONS, 1)],
        west.name: [
            NewTopic(f"east.{TOPIC}", PARTITIONS, 1),
            NewTopic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, 1, config=compact),
            NewTopic(checkpoints_topic("east"), 1, 1, config=compact),
        ],
    }
    for handle in (east, west):
        admin = AdminClient(handle.client())
        for future in admin.create_topics(made[handle.name], operation_timeout=20).values():
            future.result(30)
    producer = Producer(east.client())
    for number in range(RECORDS * PARTITIONS):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(30)
    admin = AdminClient(east.client())
    topic_id = str(admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(20).topic_id)
    topic_id = topic_id.replace("+", "-").replace("/", "_")
    specs = tuple(PartitionSpec(TOPIC, p, f"east.{TOPIC}", topic_id) for p in range(PARTITIONS))
    groups = GroupSettings((".*",), (), INTERVAL_MS, follow_rewinds=False)
    flow = FlowSettings(
        name="bench", fingerprint="0" * 16, source=endpoint(east), target=endpoint(west), topics=(TOPIC,),
        exclude_topics=(), naming=Naming(), delivery="exactly_once",
        isolation="read_committed", start=Start(), lanes=1, groups=groups, offsets=offsets,
    )  # fmt: skip
    copy(flow, specs)
    return flow, specs


def copy(flow: FlowSettings, specs: tuple[PartitionSpec, ...]) -> None:
    lane: LaneSpec = replace(lane_spec(flow, 0), partitions=specs, claim=Claim(1, "bench"))
    report = batch_path(lane, UntilCopied(specs))
    if report.error:
        sys.exit(f"the records were not copied: {report.error}")


def fresh(flow: FlowSettings, specs: tuple[PartitionSpec, ...]) -> tuple[list[float], GroupSyncStatus, int, float]:
    """Seconds until the target had every offset, for each round; what group sync tells at the end, its rounds, and wall
    seconds."""
    last: list[GroupSyncStatus] = [GroupSyncStatus()]

    def tell(view: GroupSyncStatus, conditions: tuple[Condition, ...]) -> None:
        last[0] = view
        for one in conditions:
            sys.stderr.write(f"{one.text}\n")

    assert flow.groups is not None
    sync = GroupSync(flow, flow.groups, lambda: specs, tell)
    began = time.monotonic()
    sync.start()
    seconds = [asyncio.run(_round(flow, number)) for number in range(1, ROUNDS + 1)]
    wall = time.monotonic() - began
    sync.stop()
    return seconds, last[0], sync.rounds, wall


async def _round(flow: FlowSettings, number: int) -> float:
    source, target = cluster_of(flow.source), cluster_of(flow.target)
    try:
        offset = number * RECORDS // (ROUNDS + 1)
        offsets = {(TOPIC, p): CommittedOffset(offset + p) for p in range(PARTITIONS)}
        names = [f"group-{n:04}" for n in range(GROUPS)]
        await GroupClient(source).commit(dict.fromkeys(names, offsets))
        began = time.monotonic()
        wanted = {(f"east.{TOPIC}", p): offset + p for p in range(PARTITIONS)}
        while True:
            found = await GroupClient(target).offsets(names)
            if all({k: v.offset for k, v in found[name].offsets.items()} == wanted for name in names):
                return time.monotonic() - began
            await asyncio.sleep(0.1)
    finally:
        source.close()
        target.close()


def main() -> None:
    with running("plain") as sandbox:
        flow, specs = prepared(sandbox)
        seconds, view, rounds, wall = fresh(flow, specs)
    share = view.cpu_seconds / wall
    sys.stdout.write(
        f"{GROUPS} groups x {PARTITIONS} partitions, every offset new each time, interval {INTERVAL_MS / 1000:g} s\n"
        f"fresh after: median {statistics.median(seconds):.1f} s, worst {max(seconds):.1f} s of {len(seconds)}\n"
        f"CPU of group sync: {view.cpu_seconds:.2f} s in {wall:.0f} s = {100 * share:.1f} % of a core, "
        f"{1000 * view.cpu_seconds / max(1, rounds):.0f} ms a round; {view.written_total} offsets written\n"
    )


if __name__ == "__main__":
    main()
