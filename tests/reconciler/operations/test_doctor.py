"""A cluster that says nothing costs doctor no more than its deadline, and what was not looked at is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler import diagnosis
from reconciler.checkups import Ask, ClusterFacts, Finding, Rights, Verdict
from reconciler.diagnosis import checkup
from reconciler.errors import Unknown
from reconciler.live import LiveCluster
from reconciler.topology import Cluster, Principal

ENVIRONMENT = """clusters:
  dead: {bootstrap_servers: ['a:9092', 'b:9092']}
  well: {bootstrap_servers: ['c:9092']}
topics: {orders: {clusters: [dead, well], partitions: 1}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An environment whose cluster ``dead`` answers nothing for as long as the test goes on."""
    over = threading.Event()

    def facts(wish: Cluster, _: Principal) -> ClusterFacts:
        if wish.name == "dead":
            over.wait()
        return ClusterFacts(wish.name, (), "id-of-it")

    def read(wish: Cluster) -> LiveCluster | Unknown:
        if wish.name == "dead":
            over.wait()
        return LiveCluster(wish.name, "id-of-it", (), {})

    def rights(wish: Cluster, principal: Principal, _: Ask) -> Rights:
        if wish.name == "dead":
            over.wait()
        return Rights(principal, f"User:{principal}", "c:9092")

    monkeypatch.setattr(diagnosis, "cluster_facts", facts)
    monkeypatch.setattr(diagnosis, "_read", read)
    monkeypatch.setattr(diagnosis, "rights", rights)
    (tmp_path / "topology.yaml").write_text(ENVIRONMENT)
    yield tmp_path
    over.set()


def test_a_silent_cluster_ends_with_the_deadline_and_the_other_is_looked_at(folder: Path) -> None:
    seen = checkup(folder, 4.0)
    assert seen.exit_code == 1
    dead = {one.check: one for one in seen.findings if one.subject == "cluster dead"}
    assert {check: one.verdict for check, one in dead.items()} == {
        "cluster id": Verdict.UNKNOWN,
        "login of plan": Verdict.PROBLEM,
        "login of apply": Verdict.PROBLEM,
    }
    assert "no full answer within 4 s" in dead["cluster id"].text
    assert "clock" in dead["cluster id"].why, "what was not looked at"
    assert "the permissions of plan were not looked at" in dead["login of plan"].text
    assert all("--within" in one.todo[0] for one in dead.values())
    well: list[Finding] = [one for one in seen.findings if one.subject == "cluster well"]
    assert {one.check for one in well} >= {"cluster id", "clock", "login of plan", "login of apply"}
    assert all("within" not in one.text for one in well)
