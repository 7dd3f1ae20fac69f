"""Drills on real clusters through the real job: good, late, killed, refused; and a report that was changed is found.

What must hold: whatever is not of the canary is as before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import admin as kafka
from confluent_kafka.admin import AdminClient
from jsonschema import Draft202012Validator
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.access.acls import rules
from tests.support.access.role_users import kafka_filter, kafka_rule
from tests.support.clusters import secured_clusters
from tests.support.jobs.environments import Running, on_sandbox
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]
CANARY = "drill.us-to-eu"
QUICK = ("--write", "3s", "--hold", "1s", "--within", "150s")
SCHEMA = json.loads((ROOT / "schemas/reports/drill.schema.json").read_text("utf-8"))


def drill(running: Running, flow: str, *more: str, code: int = 0) -> dict[str, Any]:
    words = ["drill", str(running.folder), flow, *QUICK, *more, "--format", "json"]
    report: dict[str, Any] = json.loads(running.reconciler(*words, code=code))
    Draft202012Validator(SCHEMA).validate(report)
    return report


def seen(handle: ClusterHandle, but: str) -> Mapping[str, object]:
    """All topics, and ends of those of users that do not belong to the canary."""
    admin = AdminClient(handle.super_client())
    topics = admin.list_topics(timeout=20).topics
    reader = Consumer({**handle.super_client(), "group.id": "a-look"})
    try:
        ends = {
            f"{name}-{number}": reader.get_watermark_offsets(TopicPartition(name, number), timeout=20)[1]
            for name, topic in topics.items()
            if not name.startswith("__") and ".internal" not in name and but not in name
            for number in topic.partitions
        }
    finally:
        reader.close()
    return {"ends": ends, "topics": sorted(topics)}


def killed_at(running: Running, step: str) -> None:
    words = [sys.executable, "-m", "reconciler", "drill", str(running.folder), "us-to-eu", *QUICK]
    environ = {**os.environ, **running.environ, "PYTHONUNBUFFERED": "1"}
    lines = []
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environ
    ) as it:
        assert it.stderr is not None
        for line in it.stderr:
            lines.append(line)
            if line.startswith(f"{step} "):
                it.kill()
    assert it.returncode == -9, "".join(lines)


@pytest.fixture
def running(plain: Sandbox, tmp_path: Path) -> Iterator[Running]:
    """Two ways, default names."""
    flows: dict[str, dict[str, Any]] = {
        "us-to-eu": {"topics": ["orders", r"drill\.us-to-eu"], "objectives": {"rto": "10m", "rpo": "10m"}},
        "eu-to-us": {"topics": ["orders", r"drill\.us-to-eu"]},
    }
    made = on_sandbox("active-active", tmp_path, {"us": plain["east"], "eu": plain["west"]}, {}, flows)
    yield made
    made.stop()


def test_a_canary_goes_there_and_back_and_its_report_is_evidence(running: Running, tmp_path: Path) -> None:
    # A drill moves only what the environment owns.
    refused = running.reconciler("drill", str(running.folder), "us-to-eu", code=3, told=True)
    assert f"  {CANARY}: {{clusters: [us, eu]}}" in refused
    (running.folder / "canary.yaml").write_text(f"topics: {{{CANARY}: {{clusters: [us, eu]}}}}\n")
    running.apply()
    for flow in ("us-to-eu", "eu-to-us"):  # another test may have paused them
        running.reconciler("mirror", "resume", str(running.folder), flow)
    running.write("us", "orders", 200)
    running.read("us", "billing", "orders", 100)
    running.reconciler("failover", str(running.folder), "us-to-eu", "--dry-run", code=2)
    before = {name: seen(handle, CANARY) for name, handle in running.clusters.items()}

    out, metrics = tmp_path / "out", tmp_path / "drill.prom"
    report = drill(running, "us-to-eu", "--out", str(out), "--metrics-file", str(metrics))
    assert (report["verdict"], report["exact"]) == ("met", True)
    assert report["places"]["back"] == "eu-to-us"
    records = report["records"]
    assert records["written"] == records["read_once"] > 120
    assert (records["doubled"], records["missing"], records["strange"], records["different"]) == (0, 0, 0, 0)
    assert records["compared"] == records["written"]
    assert report["recovery_s"] >= 1.0, "the fence is held"
    assert report["point"]["records"] > 0, "a record is accepted before it is copied"
    assert 'reconciler_drill_met{environment="active-active",flow="us-to-eu"} 1.0' in metrics.read_text()
    status = running.reconciler("status", str(running.folder))
    assert "drill of us-to-eu: met at" in status
    assert f"recovery time {report['recovery_s']:.1f} s (at most 600 s)" in status
    after = {name: seen(handle, CANARY) for name, handle in running.clusters.items()}
    assert after == before

    # The audit record vouches for what was written, and for nothing else.
    assert "from us to eu" in (out / "drill.html").read_text()
    asked = ["audit", "verify", str(running.folder), "--report", str(out / "drill.json")]
    assert "the report is as it was recorded" in running.reconciler(*asked)
    changed = json.loads((out / "drill.json").read_text()) | {"recovery_s": 0.1}
    (out / "drill.json").write_text(json.dumps(changed))
    assert "no record has this report" in running.reconciler(*asked, code=2)

    # Killed, it leaves its canary fenced off or paused at most, and the next one begins by taking that back.
    for step in ("pause", "switch"):
        killed_at(running, step)
        again = drill(running, "us-to-eu", "--steal-lock", "the holder was killed")
        assert again["verdict"] == "met"
        assert again["findings"][0] == "an earlier drill was cut off, and was taken back now: a pause of the canary"

    # An objective that is missed.
    for file in running.folder.glob("*.yaml"):
        file.write_text(file.read_text().replace("rto: 10m", "rto: 100ms"))
    late = drill(running, "us-to-eu", "--metrics-file", str(metrics), code=2)
    assert late["verdict"] == "missed"
    assert [each["name"] for each in late["objectives"] if each["missed"]] == ["rto"]
    told = dict(line.rsplit(" ", 1) for line in metrics.read_text().splitlines() if not line.startswith("#"))
    figures = {name.partition("{")[0]: float(value) for name, value in told.items()}
    assert figures["reconciler_drill_met"] == 0
    assert (
        0 < figures["reconciler_drill_last_met_timestamp_seconds"] < figures["reconciler_drill_last_timestamp_seconds"]
    )

    # It lifts the pause of nobody else.
    running.reconciler("mirror", "pause", str(running.folder), "us-to-eu", "--topic", CANARY)
    words = ["drill", str(running.folder), "us-to-eu", *QUICK]
    assert f"topic {CANARY} of flow us-to-eu is paused" in running.reconciler(*words, code=3, told=True)
    running.reconciler("mirror", "resume", str(running.folder), "us-to-eu", "--topic", CANARY)
    running.reconciler("mirror", "stop", str(running.folder), "us-to-eu")
    assert "the mirror of us-to-eu is stopped" in running.reconciler(*words, code=3, told=True)
    assert {name: seen(handle, CANARY) for name, handle in running.clusters.items()} == before


def test_on_secure_clusters_a_one_way_canary_is_fenced_off_read_and_taken_back(
    secure: Sandbox, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, canary = tmp_path / "env", f"drill.{unique}"
    folder.mkdir()
    lines = secured_clusters(secure, monkeypatch)
    lines = [line.replace("mirror: {sasl.username: mirror", "mirror: {sasl.username: admin") for line in lines]
    text = "\n".join(lines).replace("_MIRROR_PASSWORD", "_ADMIN_PASSWORD")
    flow = f"{{source: east, target: west, topics: ['drill\\.{unique}'], naming: {{policy: identity}}"
    flow += ", replication_factor: 1, lanes: 1, offsets: same}"
    text += f"\ntopics:\n  {canary}: {{clusters: [east], partitions: 3, replication_factor: 1}}\n"
    (folder / "topology.yaml").write_text(f"{text}flows:\n  {unique}: {flow}\nmirrors:\n  west: {{}}\n")
    running = Running(folder, secure.clusters, {"RECONCILER_STATE": str(tmp_path / "state")})

    allowed = rules(
        f"allow User:apply write topic {canary}",
        f"allow User:apply read topic {canary}",
        f"allow User:apply read group {canary}",
    )
    admins = [AdminClient(handle.super_client()) for handle in secure.clusters.values()]

    def standing() -> set[str]:
        anything = kafka.AclBindingFilter(
            kafka.ResourceType.ANY, None, kafka.ResourcePatternType.ANY, None, None,
            kafka.AclOperation.ANY, kafka.AclPermissionType.ANY,
        )  # fmt: skip
        return set(map(str, admins[0].describe_acls(anything).result(20)))

    for admin in admins:
        for made in admin.create_acls([kafka_rule(each) for each in allowed]).values():
            made.result(30)
    try:
        running.apply()
        before = standing()
        report = drill(running, unique)
        assert (report["verdict"], report["exact"]) == ("met", True), report
        assert report["places"]["written"] == ""
        assert "nothing is written on west" in report["places"]["note"]
        steps = {step["name"]: step["result"] for step in (*report["steps"], *report["back_steps"])}
        assert (steps["fence"], steps["tail"], steps["unfence"]) == ("done", "done", "done")
        assert standing() == before
    finally:
        running.stop()
        for admin in admins:
            for gone in admin.delete_acls([kafka_filter(each) for each in allowed]).values():
                gone.result(30)
