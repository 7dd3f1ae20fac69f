"""Offsets and positions asked of a cluster that is not there: the same words as for every other command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters.groups import Side
from reconciler.cli.main import main
from reconciler.errors import ClusterError
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol.groups.group_offsets import GroupOffsets
from reconciler.model.environment.flow_settings import OffsetsKept
from reconciler.model.environment.topology import Topology
from reconciler.model.reports.offsets import TranslateRequest
from reconciler.operations.failover.translate_offsets import translated
from reconciler.resources.flows.routes import selector_of
from tests.support.builders import cluster, flow, topology

NOBODY = "127.0.0.1:1"


def _positions(wished: Topology) -> object:
    return Side(wished.clusters["east"]).partitions()


def _translated(wished: Topology) -> object:
    name, only = next(iter(wished.flows.items()))
    return translated(wished, TranslateRequest(name, groups=("g",)), selector_of(only))


@pytest.mark.parametrize("ask", [_positions, _translated])
def test_a_silent_cluster_is_reported_with_reason_and_remedy(ask: Callable[[Topology], object]) -> None:
    wished = topology(cluster("east", bootstrap_servers=(NOBODY,)), flow("east", "west", "a"))
    with pytest.raises(ClusterError) as caught:
        ask(wished)
    error = caught.value
    assert (error.kind, error.what) == ("unreachable", f"cluster east does not answer at {NOBODY}")
    assert "Connection refused" in error.why
    assert "Errno" not in error.why
    assert "bootstrap_servers" in error.todo


def test_a_position_of_a_topic_that_the_flow_does_not_mirror_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "topology.yaml").write_text(
        f"clusters:\n  east: {{bootstrap_servers: ['{NOBODY}']}}\n  west: {{bootstrap_servers: ['127.0.0.1:2']}}\n"
        "flows:\n  copy: {source: east, target: west, topics: [orders]}\n"
    )
    asked = ["offsets", "translate", str(tmp_path), "copy", "--partition", "0", "--offset", "5", "--topic"]
    told = []
    for topic in ("order", "orders"):
        with pytest.raises(SystemExit) as ended:
            main([*asked, topic])
        assert ended.value.code == 1
        told.append("does not mirror" in capsys.readouterr().err)
    assert told == [True, False]


def test_a_failover_goes_on_where_the_mirrors_status_is_lost_with_the_origin(
    plain: Sandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first flow by name leads to the origin, which keeps status and pauses of both."""
    west = plain["west"]
    (tmp_path / "topology.yaml").write_text(
        f"clusters:\n  east: {{bootstrap_servers: ['{NOBODY}']}}\n"
        f"  west: {{bootstrap_servers: ['{west.bootstrap_servers}'], cluster_id: {west.cluster_id}}}\n"
        "flows:\n  back: {source: west, target: east, topics: [none.such]}\n"
        "  there: {source: east, target: west, topics: [none.such], groups: {include: [none.such]}}\n"
        "mirrors: {both: {flows: [back, there]}}\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["failover", str(tmp_path), "there", "--unplanned", "--dry-run"])
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err
    kept = "the status of its mirror, both, is kept on east, which does not answer"
    assert f"records of east that may be lost: unknown; {kept}" in " ".join(said.out.split())
    assert f"there cannot be paused: {kept}" in " ".join(said.out.split())
    assert "reconciler mirror pause" in said.out


def test_a_coordinator_that_fails_is_not_taken_for_a_group_without_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group "without a committed offset" would begin by auto.offset.reset."""

    async def nothing(*_: object) -> None: ...

    async def failed(_: object, groups: Iterable[str], **__: object) -> dict[str, GroupOffsets]:
        return {name: GroupOffsets({}, error=-1) for name in groups}

    monkeypatch.setattr(ClusterClient, "refresh", nothing)
    monkeypatch.setattr(GroupClient, "offsets", failed)
    with pytest.raises(ClusterError, match="offsets of group g"):
        _translated(topology(flow("east", "west", "a", offsets=OffsetsKept.SAME)))
