"""The environments that come with the project load, and are what their comments say."""

from __future__ import annotations

import pytest
from reconciler_sandbox.profiles import PROFILES, cluster_id_of

from reconciler.backends.files import read_environment
from reconciler.environment.declarations.values import is_secret
from reconciler.environment.load import load
from reconciler.model.environment.flow_settings import Carry, Delivery
from reconciler.model.environment.topology import OURS, Principal, Topology
from tests.support.paths import ENVIRONMENTS

NAMES = sorted(path.name for path in ENVIRONMENTS.iterdir() if path.is_dir() and not path.name.startswith("."))


def _load(name: str) -> Topology:
    return load(read_environment(ENVIRONMENTS / name), name)


def test_all_are_here() -> None:
    assert {"sandbox", "active-passive", "active-active", "active-active-same-name", "fan-in"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_and_every_declared_topic_has_an_owner(name: str) -> None:
    topology = _load(name)
    assert topology.environment == name
    assert topology.flows
    assert all("owner" in topic.labels for topic in topology.topics.values())


@pytest.mark.parametrize("name", NAMES)
def test_secrets_are_references(name: str) -> None:
    settings = [
        setting
        for cluster in _load(name).clusters.values()
        for principal in Principal
        for setting in cluster.client_for(principal).items()
    ]
    assert settings
    assert [key for key, value in settings if is_secret(key) and not value.startswith("${")] == []


def test_sandbox_is_what_the_demo_starts() -> None:
    topology = _load("sandbox")
    assert {name: cluster.bootstrap_servers for name, cluster in topology.clusters.items()} == {
        "east": ("127.0.0.1:19092",),
        "west": ("127.0.0.1:29092",),
    }
    flights = topology.topics["flights"]
    assert (flights.clusters, flights.partitions, flights.configs["retention.ms"]) == (("east",), 8, "604800000")
    flow = topology.flows["east-to-west"]
    assert (flow.delivery, flow.replication_factor) == (Delivery.EXACTLY_ONCE, 1)
    mirror = topology.mirrors["west"]
    assert (mirror.flows, mirror.master, mirror.parallelism) == (("east-to-west",), "local[2]", 2)


@pytest.mark.parametrize("name", ["sandbox", "active-active-same-name"])
def test_what_runs_on_the_sandbox_declares_the_ids_of_its_clusters(name: str) -> None:
    """Nothing else lets `apply` change them while they hold topics that it has not made."""
    declared = {cluster.name: cluster.cluster_id for cluster in _load(name).clusters.values()}
    assert declared == {cluster: cluster_id_of("plain", cluster) for cluster in PROFILES["plain"].clusters}


def test_active_passive_has_three_replicas_and_three_principals() -> None:
    topology = _load("active-passive")
    for cluster in topology.clusters.values():
        assert cluster.defaults.replication_factor == 3
        assert cluster.client_for(Principal.PLAN)["sasl.username"] == "reconciler-plan"
        assert set(cluster.principals) == set(OURS)
    assert [(flow.source, flow.target) for flow in topology.flows.values()] == [("fra", "dub")]


def test_active_active_goes_both_ways() -> None:
    topology = _load("active-active")
    assert {(flow.source, flow.target) for flow in topology.flows.values()} == {("us", "eu"), ("eu", "us")}
    assert set(topology.mirrors) == {"us", "eu"}


def test_active_active_same_name_keeps_names_and_has_provenance_both_ways() -> None:
    topology = _load("active-active-same-name")
    assert {(flow.source, flow.target) for flow in topology.flows.values()} == {("east", "west"), ("west", "east")}
    for flow in topology.flows.values():
        assert (flow.naming.policy, flow.provenance) == ("identity", Carry.LOCAL)
    assert all(set(topic.clusters) == {"east", "west"} for topic in topology.topics.values())
