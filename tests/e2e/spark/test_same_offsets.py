"""A flow that keeps offsets, by the commands a user runs, on real clusters: from the plan to a failover and what a way
back says."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import Sandbox

from tests.support.jobs.environments import exactly, on_sandbox
from tests.support.lanes.synced import set_start, start_of
from tests.support.lanes.truth import placed

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.long]

FLOW = "fra-to-dub"


def test_positions_mean_the_same_record_on_both_sides(plain: Sandbox, tmp_path: Path, unique: str) -> None:
    """Sources with aborted transactions, and a partition whose first record is not at 0."""
    running = on_sandbox(
        "active-passive", tmp_path, {"fra": plain["east"], "dub": plain["west"]}, {}, {FLOW: {"offsets": "same"}}
    )
    topic, group, folder = f"payments.{unique}", f"{unique}-ledger", str(running.folder)
    running.make("fra", topic, 3)
    running.write("fra", topic, 200)
    admin, place = AdminClient(plain["east"].client()), TopicPartition(topic, 0, 20)
    admin.delete_records([place])[place].result(20)
    begun = [placed(plain["east"], topic, number) for number in range(3)]
    try:
        planned = running.reconciler("plan", folder, code=2)
        assert "flow fra-to-dub keeps offsets" in planned
        assert "20 empty offsets" in planned
        running.apply()
        first = running.write("fra", topic, 600)
        old = [value for there in begun for value in there]
        read = [running.read("fra", group, topic, 123)]
        queue = f"{unique}-queue"
        assert set_start(plain["east"], queue, topic, 30) == 0

        report = running.command(f"reconciler failover environments/active-passive {FLOW} --yes")
        assert "same-offsets" in {check["code"] for check in report["checks"]}
        for number in range(3):
            assert placed(plain["east"], topic, number) == placed(plain["west"], topic, number)
        (moved,) = (one for one in report["groups"] if one["group"] == group)
        assert moved["exact"]
        assert all(one["committed"] == one["after"] for one in moved["offsets"])
        assert start_of(plain["west"], queue) == {(topic, 0): 30}
        (share,) = (one for one in report["groups"] if one["group"] == queue)
        behind = sum(offset >= 30 for offset in placed(plain["west"], topic).values())
        assert (share["exact"], share["missed"]) == (False, 0)
        assert share["read_again"] >= behind > 0, "nobody tells what it has acknowledged behind its start offset"
        assert "same offsets on both sides" in running.reconciler("status", folder)
        assert running.reconciler("diverged", "list", folder, FLOW).startswith("The same: ")
        assert "Equal" in running.reconciler("verify", folder, FLOW)

        second = running.write("dub", topic, 100)
        read.append(running.read("dub", group, topic, 10_000))
        assert exactly(read, [*old, *first, *second])
        looked = running.command(f"reconciler failback environments/active-passive {FLOW} --dry-run", code=3)
        assert [check["code"] for check in looked["checks"] if check["level"] == "stops"] == ["not-filled"]

        running.write("fra", topic, 20)
        listed = running.reconciler("diverged", "list", folder, FLOW, code=2)
        assert "diverged" in listed.splitlines()[0]
        file = tmp_path / "alone.jsonl"
        running.reconciler("diverged", "export", folder, FLOW, "--to-file", str(file))
        assert len(file.read_text(encoding="utf-8").splitlines()) == 20
        running.make("dub", f"{unique}-left", 1)
        running.reconciler("diverged", "export", folder, FLOW, "--to-topic", f"dub:{unique}-left")
        assert len(placed(plain["west"], f"{unique}-left")) == 20
    finally:
        running.stop()
