"""A pause outlives a change of the cluster where its mirror keeps its status, and a resume is not undone by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.environment.topology import Cluster
from reconciler.operations.session import moved_pauses as moving
from reconciler.operations.session.moved_pauses import moved_pauses
from reconciler.replication.records.pauses import Pause, Scope, dumps, pauses_in
from tests.support.builders import flow, topology

ENV = ("new", "old")
DECLARED = replace(
    topology(replace(flow("east", "west", "orders"), name="a"), replace(flow("east", "south", "orders"), name="b")),
    environment=ENV[0],
    moved_from=ENV[1:],
)
MIRROR = replace(next(iter(DECLARED.mirrors.values())), flows=("a", "b"))
HELD = Pause(Scope("b", "orders"), 5, "ana@host", "failover")


class Topics:
    """The status topics of all clusters; a cluster that is not in it does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **keys: dict[str, bytes | None]) -> None:
        self.keys = keys
        monkeypatch.setattr(moving, "write_records", self._write)
        records = {name: SimpleNamespace(pauses=lambda name=name: self.pauses(name)) for name in DECLARED.clusters}
        self.records = cast("Mapping[str, StatusRecords]", records)
        self.said: list[str] = []

    def pauses(self, cluster: str) -> Mapping[Scope, Pause]:
        if cluster not in self.keys:
            raise ClusterError(cluster, "unreachable", f"{cluster} does not answer")
        said = pauses_in(ENV, self.keys[cluster])
        return {scope: pause for scope, pause in said.items() if pause is not None}

    def _write(self, cluster: Cluster, _: Any, values: Mapping[str, bytes | None]) -> None:
        self.keys[cluster.name] |= values

    def moved(self, before: str, flows: tuple[str, ...] = ("a", "b")) -> moving.MovedPauses:
        """``before`` and ``flows``: where its job had its status last, and what it carried."""
        handover = {"status": {"cluster": {"name": before}}, "flows": [{"name": name} for name in flows]}
        return moved_pauses(DECLARED, self.records, MIRROR, handover if before else {}, self.said.append)


@pytest.mark.parametrize("before", ["south", ""])
def test_it_is_carried_over_and_gone_where_it_was_once_the_mirror_copies(
    before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Pause(Scope("of-another-mirror"), 1, "x")
    kept: dict[str, bytes | None] = {"control/old/b/orders": dumps(HELD), "control/new/c": dumps(other)}
    topics = Topics(monkeypatch, east={}, west={}, south=kept)
    moved = topics.moved(before)
    assert list(moved.lines()) == [
        "1 pause on south will be carried over to west, now the status cluster of its mirror: topic orders of flow b"
    ]
    moved.carry(topics.said.append)
    assert topics.pauses("west") == {HELD.scope: HELD}
    assert topics.pauses("south").keys() == {HELD.scope, Scope("c")}, "until the mirror copies"
    moved.forget()
    assert topics.pauses("south").keys() == {Scope("c")}
    assert topics.said == ["topic orders of flow b stays paused: its pause is carried over from south to west"]
    topics.keys["west"]["control/new/b/orders"] = None  # resumed
    assert topics.moved("").there == {}


def test_what_is_paused_there_already_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    west: dict[str, bytes | None] = {"control/new/b/orders": dumps(replace(HELD, by="cy"))}
    topics = Topics(monkeypatch, east={}, west=west, south={"control/new/b/orders": dumps(HELD)})
    assert topics.moved("south").there == {}


def test_the_pause_of_a_flow_that_another_mirror_had_comes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """That mirror kept it on the target of its own first flow, and this one would have copied what was paused."""
    topics = Topics(monkeypatch, east={}, west={}, south={"control/new/b/orders": dumps(HELD)})
    assert topics.moved("west", flows=("a",)).there == {"south": {HELD.scope: HELD}}


def test_where_the_status_cluster_is_the_same_no_other_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Topics(monkeypatch).moved("west").there == {}


def test_an_answer_that_fails_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(monkeypatch, east={}, west={})
    with pytest.raises(RunnerError, match="whether south keeps pauses of flows of mirror"):
        topics.moved("south")
    topics.moved("")
    assert ["south" in line for line in topics.said] == [True]
    topics.moved("north")
    assert "kept its pauses on north, which the files no longer name" in topics.said[-1]
    with pytest.raises(ClusterError):
        Topics(monkeypatch, east={}, south={}).moved("south")
