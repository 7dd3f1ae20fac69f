"""Requests of the reconciler, with each way to log in that a secure broker has."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters import permissions
from reconciler.backends.clusters.acls_and_quotas import AclRequests, QuotaRequests
from reconciler.backends.clusters.replicas import ReplicaRequests
from reconciler.backends.clusters.users import UserRequests
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ClusterError, Unknown
from reconciler.model.environment.topology import Cluster, Principal
from tests.support.clusters import CreateTopic, kraft

PLAN = Principal.PLAN
KEY_PASSWORD = "s3cret-of-the-key"


def login(east: ClusterHandle, way: str, folder: Path) -> dict[str, str]:
    """Settings as user ``plan``."""
    scram, mtls = east.client("plan"), east.mtls_client("plan")
    match way:
        case "SCRAM, authority as text":
            del scram["ssl.ca.location"]
            return scram | {"ssl.ca.pem": east.ca.read_text(encoding="utf-8")}
        case "certificate, key under a password":
            key = serialization.load_pem_private_key(Path(mtls["ssl.key.location"]).read_bytes(), None)
            locked = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
            pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
            (folder / "locked.key").write_bytes(pem)
            return mtls | {"ssl.key.location": str(folder / "locked.key"), "ssl.key.password": KEY_PASSWORD}
        case _:
            for kind in ("certificate", "key"):
                mtls[f"ssl.{kind}.pem"] = Path(mtls.pop(f"ssl.{kind}.location")).read_text(encoding="utf-8")
            return mtls


def noun(client: dict[str, str]) -> Cluster:
    servers = client.pop("bootstrap.servers")
    return Cluster("east", tuple(servers.split(",")), client=client)


WAYS = ("SCRAM, authority as text", "certificate, key under a password", "certificate and key as text")


@kraft  # of features and the clock
@pytest.mark.kafka
@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_log_in_serves_every_request(
    secure: Sandbox, way: str, tmp_path: Path, unique: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(secure["east"], unique)
    cluster = noun(login(secure["east"], way, tmp_path))
    with UserRequests(cluster, PLAN) as users:
        found = users.described()
        assert isinstance(found, dict)
        assert "plan" in found
    with QuotaRequests(cluster, PLAN) as quotas:
        assert quotas.described(quotas.brokers()[0]) == quotas.described()
    with AclRequests(cluster, PLAN) as acls:
        assert acls.shown(acls.brokers()[0])
    with ReplicaRequests(cluster, PLAN) as replicas:
        assert replicas.moves() == ()
        assert (topic, 0, 1) in replicas.sizes_on(replicas.brokers(), None)
        assert replicas.sizes_on([99], None) == {}, "a broker that is not there is not any broker"
    told = permissions.cluster_facts(cluster, PLAN)
    assert not isinstance(told.features, Unknown)
    assert not isinstance(told.skew_ms, Unknown)
    assert not [one for one in (told.brokers, told.authorizer, told.quotas) if isinstance(one, Unknown)]
    assert "metadata.version" in told.features
    assert "DescribeUserScramCredentials" in told.apis
    assert abs(told.skew_ms) <= 5_000 + told.skew_error_ms
    for ask in (permissions.heartbeat, permissions.describe_groups, permissions.end_transaction):
        answer = permissions.tried(cluster, PLAN, "x", ask, ["nobodys"])
        assert not isinstance(answer, Unknown)
        assert answer.keys() == {"nobodys"}


@pytest.mark.kafka
def test_a_wrong_password_is_an_error_of_authentication_without_it(secure: Sandbox) -> None:
    client = secure["east"].client("plan") | {"sasl.password": "s3cret-but-wrong"}
    with pytest.raises(ClusterError) as caught, Requests(noun(client), PLAN):
        pass
    assert caught.value.kind == "authentication"
    assert "s3cret" not in str(caught.value)


@pytest.mark.kafka
def test_an_open_session_outlives_a_broker_that_is_started_again(secure: Sandbox) -> None:
    east = secure["west"]
    with ReplicaRequests(noun(east.client("admin")), PLAN) as replicas:
        assert replicas.moves() == ()
        east.restart()
        assert replicas.moves() == ()
