"""Whether a principal may write transaction markers, as brokers answer; nothing is written to find out."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters.permissions import read_marker_right
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Principal
from tests.support.access.granted import granted_on_cluster
from tests.support.builders import cluster
from tests.support.clusters import EAST, real_cluster, scram


@scram
@pytest.mark.kafka
def test_cluster_action_or_alter_gives_it_and_nothing_else(secure: Sandbox) -> None:
    declared = real_cluster(secure["west"], "mirror")
    right = read_marker_right(declared, Principal.MIRROR)
    assert right.held is False
    assert right.command.endswith("--allow-principal 'User:mirror' --operation ClusterAction --cluster")
    alter = (AclOperation.ALTER,) if EAST.number >= (3,) else ()
    for operation in (AclOperation.CLUSTER_ACTION, *alter):
        with granted_on_cluster(secure["west"], "mirror", operation):
            assert read_marker_right(declared, Principal.MIRROR).held is True
    with granted_on_cluster(secure["west"], "mirror", AclOperation.DESCRIBE):
        assert read_marker_right(declared, Principal.MIRROR).held is False


@pytest.mark.kafka
def test_where_no_one_asks_for_rights_it_is_held(plain: Sandbox) -> None:
    assert read_marker_right(real_cluster(plain["west"]), Principal.MIRROR).held is True


def test_a_cluster_that_does_not_answer_leaves_it_unknown() -> None:
    right = read_marker_right(cluster("west", bootstrap_servers=("127.0.0.1:1",)), Principal.MIRROR)
    assert isinstance(right.held, Unknown)
    assert "whether mirror may write transaction markers could not be asked for" in right.held.error
