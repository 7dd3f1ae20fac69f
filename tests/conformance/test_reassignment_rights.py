"""What moving replicas needs of an authorizer: the apply principal may, plan may look, an application may neither."""

from __future__ import annotations

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Principal
from reconciler.model.replicas import LEADER_RATE, Journal, ThrottleEdit
from tests.support.clusters import CreateTopic, real_cluster

RATE = "123456"


@pytest.fixture
def east(secure: Sandbox) -> ClusterHandle:
    return secure.clusters["east"]


def test_apply_sets_throttles_keeps_its_journal_and_moves(
    east: ClusterHandle, unique: str, create_topic: CreateTopic
) -> None:
    name = create_topic(east, f"{unique}-orders", 1, 1)
    (broker,) = [one.node_id for one in east.brokers]
    journal = Journal(unique, 1, {(name, 0): (broker,)}, (int(RATE),), ((broker, LEADER_RATE),))
    with KafkaCluster(real_cluster(east, "apply"), Principal.APPLY) as cluster, cluster.replicas(unique) as admin:
        admin.write_journal(journal)
        assert admin.throttle((ThrottleEdit(LEADER_RATE, "set", RATE, broker=broker),)) == ()
        found = admin.facts()
        assert found.rates[broker] == {LEADER_RATE: RATE}
        assert found.journal == journal
        assert (name, 0, broker) in found.sizes
        assert admin.reassign({(name, 0): (broker,)}, factor_changes=False) == {}
        admin.elect_preferred([(name, 0)])
        assert admin.throttle((ThrottleEdit(LEADER_RATE, "delete", broker=broker),)) == ()
        admin.write_journal(None)
    with KafkaCluster(real_cluster(east, "plan"), Principal.PLAN) as cluster:
        seen = cluster.replica_facts(unique)
        assert (seen.moves, seen.journal, seen.rates) == ((), None, {broker: {}})
        with cluster.replicas(unique) as admin, pytest.raises(ClusterError) as caught:
            admin.reassign({(name, 0): (broker,)}, factor_changes=True)
    assert caught.value.kind == "denied"
    assert "--operation Alter --cluster" in caught.value.todo


def test_who_may_not_look_learns_what_is_missing(east: ClusterHandle, unique: str) -> None:
    with KafkaCluster(real_cluster(east, "user")) as cluster, pytest.raises(ClusterError) as caught:
        cluster.replica_facts(unique)
    assert caught.value.kind == "denied"
    assert "kafka-acls.sh" in caught.value.todo
