"""A silent cluster costs doctor no more than its deadline, and missing checks are reported."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.errors import Unknown
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import LiveCluster, LivePartition, LiveTopic
from reconciler.model.reports.doctor import Ask, ClusterFacts, DoctorVerdict, Finding, Rights
from reconciler.operations.clusters import doctor as diagnosis
from reconciler.operations.clusters.doctor import checkup
from reconciler.replication.mirrormaker_records import HEARTBEATS

ENVIRONMENT = """clusters:
  dead: {bootstrap_servers: ['a:9092', 'b:9092']}
  well: {bootstrap_servers: ['c:9092']}
topics: {orders: {clusters: [dead, well], partitions: 1}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An environment whose cluster ``dead`` answers nothing for as long as the test goes on."""
    over = threading.Event()

    def facts(request: Cluster, _: Principal) -> ClusterFacts:
        if request.name == "dead":
            over.wait()
        return ClusterFacts(request.name, (), "id-of-it")

    def read(request: Cluster) -> LiveCluster | Unknown:
        if request.name == "dead":
            over.wait()
        return LiveCluster(request.name, "id-of-it", (), {})

    def rights(request: Cluster, principal: Principal, _: Ask) -> Rights:
        if request.name == "dead":
            over.wait()
        return Rights(principal, f"User:{principal}", "c:9092")

    monkeypatch.setattr(diagnosis, "cluster_facts", facts)
    monkeypatch.setattr(diagnosis, "live_cluster", read)
    monkeypatch.setattr(diagnosis, "rights", rights)
    (tmp_path / "topology.yaml").write_text(ENVIRONMENT)
    yield tmp_path
    over.set()


@pytest.mark.slow
def test_a_silent_cluster_ends_with_the_deadline_and_the_other_is_checked(folder: Path) -> None:
    seen = checkup(folder, 4.0)
    assert seen.exit_code == 1
    dead = {one.check: one for one in seen.findings if one.subject == "cluster dead"}
    assert {check: one.verdict for check, one in dead.items()} == {
        "cluster id": DoctorVerdict.UNKNOWN,
        "login of plan": DoctorVerdict.PROBLEM,
        "login of apply": DoctorVerdict.PROBLEM,
    }
    assert "no full answer within 4 s" in dead["cluster id"].text
    assert "clock" in dead["cluster id"].why, "what was not looked at"
    assert "the permissions of plan were not looked at" in dead["login of plan"].text
    assert all("--within" in one.todo[0] for one in dead.values())
    well: list[Finding] = [one for one in seen.findings if one.subject == "cluster well"]
    assert {one.check for one in well} >= {"cluster id", "clock", "login of plan", "login of apply"}
    assert all("within" not in one.text for one in well)


@pytest.mark.slow
def test_heartbeats_that_were_not_read_in_time_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer it is not known whether an application uses the topic: that is no reason to say nothing."""
    (tmp_path / "topology.yaml").write_text(
        "clusters: {east: {bootstrap_servers: ['a:9092']}, west: {bootstrap_servers: ['b:9092']}}\n"
        "flows:\n  out: {source: east, target: west, topics: [orders], mirrormaker_topics: {heartbeats: true}}\n"
        "mirrors: {west: {flows: [out]}}\n"
    )
    over, beats = threading.Event(), LiveTopic(HEARTBEATS, "id", (LivePartition(0, 1, (1,), (1,)),), {})
    monkeypatch.setattr(diagnosis, "cluster_facts", lambda at, _: ClusterFacts(at.name, (), f"id of {at.name}"))
    monkeypatch.setattr(
        diagnosis, "live_cluster", lambda at: LiveCluster(at.name, f"id of {at.name}", (), {HEARTBEATS: beats})
    )
    monkeypatch.setattr(diagnosis, "rights", lambda _, principal, __: Rights(principal, "User:any", "a:9092"))
    monkeypatch.setattr(diagnosis, "remote_facts", lambda *_: {})
    monkeypatch.setattr(diagnosis, "heartbeats_found", lambda *_: over.wait() and {})
    try:
        seen = checkup(tmp_path, 0.5)
    finally:
        over.set()
    found = {one.subject: one.verdict for one in seen.findings if "heartbeats" in one.subject}
    assert found == dict.fromkeys(("topic heartbeats on east", "topic heartbeats on west"), DoctorVerdict.UNKNOWN)
