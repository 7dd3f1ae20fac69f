"""The example environments, mirrored and failed over on real clusters by the commands of docs/consumers/failover.md.

What must hold: a group that moves reads every committed record exactly once, wherever it reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.replication.mirrormaker_records import (
    Checkpoint,
    OffsetSync,
    checkpoints_topic,
    offset_syncs_topic,
    read_checkpoint,
)
from tests.support.jobs.environments import Running, exactly, on_sandbox
from tests.support.jobs.verify_runs import until
from tests.support.lanes.mirrormaker_records import read_heartbeat, read_offset_sync
from tests.support.lanes.truth import placed, raw_records
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

COMMANDS = re.findall(
    r"^reconciler (?:failover|failback) .*$", (ROOT / "docs" / "consumers" / "failover.md").read_text("utf-8"), re.M
)


def moved_exactly(report: dict[str, object]) -> None:
    groups = report["groups"]
    assert isinstance(groups, list)
    assert groups
    for one in groups:
        assert (one["read_again"], one["missed"], one["exact"], one["note"]) == (0, 0, True, ""), one
    assert report["left_on_origin"] == 0


def told_to_mirrormaker(
    oslo: ClusterHandle, hub: ClusterHandle
) -> tuple[dict[str, set[tuple[str, str]]], list[OffsetSync], list[Checkpoint]]:
    """What MirrorMaker 2's readers find: sources and targets of the heartbeats on the hub, of its own and of those that
    travelled; offset syncs of orders; checkpoints."""
    beats = {
        topic: {(one.source, one.target) for each in raw_records(hub, topic) for one in [read_heartbeat(*each)]}
        for topic in ("heartbeats", "oslo.heartbeats")
    }
    syncs = [read_offset_sync(*one) for one in raw_records(oslo, offset_syncs_topic("hub"))]
    return (
        beats,
        [one for one in syncs if one.topic == "orders"],
        [read_checkpoint(*one) for one in raw_records(hub, checkpoints_topic("oslo"))],
    )


def in_order(cluster: ClusterHandle, topic: str) -> list[dict[int, bytes]]:
    """By partition: offset -> value of every committed record."""
    return [{offset: value for value, offset in placed(cluster, topic, p).items()} for p in range(3)]


@pytest.fixture
def active_active(plain: Sandbox, tmp_path: Path, unique: str) -> Iterator[Running]:
    running = on_sandbox("active-active", tmp_path, {"us": plain["east"], "eu": plain["west"]}, {})
    running.apply()
    yield running
    running.stop()


@pytest.mark.long
def test_active_active_there_and_back_and_when_a_cluster_is_lost(active_active: Running, plain: Sandbox) -> None:
    """The commands of the documentation, in its order."""
    there, go, look_back, back, lost = COMMANDS
    everywhere = r"(us\.|eu\.)?orders"
    first = active_active.write("us", "orders", 600)
    read = [active_active.read("us", "billing", everywhere, 250)]

    looked = active_active.command(there, code=2)
    assert looked["dry_run"]
    assert looked["groups"][0]["read_again"] == 0
    moved_exactly(active_active.command(go))
    assert [step["result"] for step in active_active.command(go)["steps"]] == ["already"] * 3

    second = active_active.write("eu", "orders", 300)
    read.append(active_active.read("eu", "billing", everywhere, 350))
    active_active.command(look_back, code=2)
    moved_exactly(active_active.command(back))

    third = active_active.write("us", "orders", 300)
    read.append(active_active.read("us", "billing", everywhere, 10_000))
    assert exactly(read, [*first, *second, *third])

    # An unplanned failover is as good as the last round of sync, and that round as the mirror's offset map, which lanes
    # write a second after they commit. Once sync has set what an exact look would set, a loss costs nothing.
    until("groups are synced while the flow runs", lambda: synced(active_active.command(there, code=2)))
    # What the mirror has not copied when the cluster is lost is in the report, as a bound: records that count, and
    # aborted ones and markers, which only a reader tells apart.
    env = f"environments/{active_active.name}"
    active_active.reconciler("mirror", "pause", str(active_active.folder), "us-to-eu", "--topic", "prices")
    left = active_active.write("us", "prices", 300)
    most = offsets_in(plain["east"], "prices")
    assert most > len(left) > 0
    until("status knows what waits", lambda: waits_in(active_active.command(f"reconciler status {env}")) == most)
    plain["east"].kill()
    try:
        stopped = active_active.command(there, code=3)
        assert [check["code"] for check in stopped["checks"] if check["level"] == "stops"] == ["origin"]
        report = active_active.command(lost)
        assert report["groups"][0]["missed"] == 0
        assert report["left_on_origin"] is None
        assert report["may_be_lost"]["records"] == most
        loss, worst = [check["text"] for check in report["checks"] if check["code"] == "loss"]
        assert f"records of us that may be lost: at most {most} records as of " in loss
        assert worst.startswith("most of them in prices-")
        assert not active_active.read("eu", "billing", everywhere, 1), "what it had read is read again"
        assert {"fence", "checkpoints"} <= {check["code"] for check in report["checks"]}
        words = back.split()[1:]
        words[words.index("environments/active-active")] = str(active_active.folder)
        waits = active_active.reconciler(*words, code=1, told=True)
        assert "Consumers are failed over to eu (" in waits
        assert "There is no hurry: wait until us is back" in waits
    finally:
        plain["east"].start()

    # Nobody has told a producer: it goes on at us, unseen at eu, until the failback.
    unfenced = active_active.write("us", "orders", 100)
    assert not active_active.read("eu", "billing", everywhere, 1)
    moved_exactly(active_active.command(back))
    assert exactly([active_active.read("us", "billing", everywhere, 10_000)], unfenced)

    # The cluster came back, so none of it was lost.
    active_active.reconciler("mirror", "resume", str(active_active.folder), "us-to-eu", "--topic", "prices")
    assert exactly([active_active.read("eu", "audit", r"us\.prices", 10_000, len(left))], left)


def offsets_in(cluster: ClusterHandle, topic: str) -> int:
    """Of its three partitions: records that count, aborted ones and markers."""
    with closing(Consumer({**cluster.client(), "group.id": "ends"})) as asker:
        return sum(asker.get_watermark_offsets(TopicPartition(topic, number), 20)[1] for number in range(3))


def waits_in(status: dict[str, Any]) -> int | None:
    """Records of us that are not copied to eu, as its mirror reports it; None: unknown."""
    lag: int | None = status["mirrors"]["eu"]["flows"]["us-to-eu"]["records_lag"]
    return lag


def synced(looked: dict[str, Any]) -> bool:
    """Whether groups stand on the copies of the origin's topics where an exact look would set them."""
    assert looked["origin_answers"]
    offsets = [one for group in looked["groups"] for one in group["offsets"] if one["destination_topic"] == "us.orders"]
    assert offsets
    return all(one["exact"] and one["before"] == one["translated"] for one in offsets)


def test_active_passive(plain: Sandbox, tmp_path: Path, unique: str) -> None:
    """Identity names: clients find the same topic after the failover."""
    topic = f"payments.{unique}"
    # Not orders, too: another test has left records of its own in it on both clusters, which blocks a plan.
    flows = {"fra-to-dub": {"topics": [topic.replace(".", r"\.")]}}
    running = on_sandbox("active-passive", tmp_path, {"fra": plain["east"], "dub": plain["west"]}, {}, flows)
    running.make("fra", topic, 3)
    try:
        running.apply()
        first = running.write("fra", topic, 600)
        read = [running.read("fra", f"{unique}-ledger", topic, 123)]
        moved_exactly(running.command("reconciler failover environments/active-passive fra-to-dub --yes"))
        second = running.write("dub", topic, 100)
        read.append(running.read("dub", f"{unique}-ledger", topic, 10_000))
        assert exactly(read, [*first, *second])
    finally:
        running.stop()


@pytest.mark.long
def test_fan_in_to_an_aggregate(trio: Sandbox, tmp_path: Path) -> None:
    """A consumer of one region goes on at the hub; another one there reads both regions."""
    aliases = {"oslo": trio["east"], "rome": trio["west"], "hub": trio["hub"]}
    asked = {"heartbeats": True, "heartbeats_interval": "500ms", "offset_syncs": True}
    running = on_sandbox("fan-in", tmp_path, aliases, {}, {"oslo-to-hub": {"mirrormaker_topics": asked}})
    try:
        running.apply()
        oslo, rome = running.write("oslo", "orders", 300), running.write("rome", "orders", 200)
        read = [running.read("oslo", "fraud", "orders", 77)]
        moved_exactly(running.command("reconciler failover environments/fan-in oslo-to-hub --yes"))
        read.append(running.read("hub", "fraud", r"oslo\.orders", 10_000))
        assert exactly(read, oslo)
        on_oslo, on_hub = in_order(aliases["oslo"], "orders"), in_order(aliases["hub"], "oslo.orders")

        def left(one: Checkpoint) -> tuple[list[bytes], list[bytes]]:
            here, there = on_oslo[one.partition].items(), on_hub[one.partition].items()
            after = [value for offset, value in here if offset >= one.upstream]
            return after, [value for offset, value in there if offset >= one.downstream]

        def newest_are_exact() -> bool:
            told = [read_checkpoint(*each) for each in raw_records(aliases["hub"], checkpoints_topic("oslo"))]
            newest = {one.partition: one for one in told}
            return bool(newest) and all(here == there for here, there in map(left, newest.values()))

        # One that was told before the copy had reached the group names where the copy stood; the job tells a better one
        # with its next round, which the failover does not wait for.
        until("exact checkpoints", newest_are_exact)
        beats, syncs, checkpoints = told_to_mirrormaker(aliases["oslo"], aliases["hub"])
        # other tests' heartbeats may be on the shared clusters, under their own names
        beats = {topic: {pair for pair in pairs if aliases.keys() >= set(pair)} for topic, pairs in beats.items()}
        assert beats == {"heartbeats": {("oslo", "hub")}, "oslo.heartbeats": {("hub", "oslo")}}
        assert syncs
        for sync in syncs:
            assert on_oslo[sync.partition][sync.upstream] == on_hub[sync.partition][sync.downstream]
        assert {one.group for one in checkpoints} == {"fraud"}
        for here, there in map(left, checkpoints):
            assert there[len(there) - len(here) :] == here, "never ahead"
        assert exactly(
            [running.read("hub", "everything", r"(oslo|rome)\.orders", 10_000, len(oslo + rome))], [*oslo, *rome]
        )
    finally:
        running.stop()
