"""Every error of the client becomes one a person can act on, and no secret is in it."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import client_settings, secrets_in, speaker_of
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ClusterError, SecretError
from reconciler.kafka.client.errors import name_of
from reconciler.model.environment.services import SERVICES
from reconciler.model.environment.topology import Cluster, Principal

SPEAKER = errors.Speaker("east", ("east.example:9092",), "apply", "User:apply")
CREATE = errors.create_topic("orders")
CODES = {name_of(code).partition(" (")[0]: code for code in range(-1, 130)}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("UNKNOWN_SERVER_ERROR", "ask Confluent support"),
        ("UNSUPPORTED_VERSION", "Confluent upgrades its brokers"),
        ("SECURITY_DISABLED", "Leave access out"),
    ],
)
def test_users_of_a_service_are_not_sent_to_its_brokers(name: str, hint: str) -> None:
    hosted = replace(SPEAKER, offer=SERVICES["confluent-cloud"])
    assert hint in errors.translate(hosted, CODES[name], CREATE, "what the broker said").todo
    assert hint not in errors.translate(SPEAKER, CODES[name], CREATE, "what the broker said").todo
    missing = errors.too_old(hosted, CREATE, "no CreateAcls")
    assert "Confluent Cloud may not offer it" in missing.todo
    denied = errors.denied(replace(SPEAKER, offer=SERVICES["event-hubs"]), CREATE).todo
    assert denied == "Allow it: in Azure, by the role Azure Event Hubs Data Owner (Create on topic orders)"
    assert "upgrade them" in errors.too_old(SPEAKER, CREATE, "no CreateAcls").todo


@pytest.mark.parametrize(
    ("name", "kind", "hint"),
    [
        ("REQUEST_TIMED_OUT", "unreachable", "east.example:9092"),
        ("NETWORK_EXCEPTION", "unreachable", "bootstrap_servers"),
        ("ILLEGAL_SASL_STATE", "authentication", "principals.apply"),
        ("SASL_AUTHENTICATION_FAILED", "authentication", "sasl."),
        ("TOPIC_AUTHORIZATION_FAILED", "denied", "--operation Create --topic orders"),
        ("CLUSTER_AUTHORIZATION_FAILED", "denied", "--allow-principal 'User:apply'"),
        ("THROTTLING_QUOTA_EXCEEDED", "quota", "controller_mutation_rate"),
        ("TOPIC_ALREADY_EXISTS", "exists", "orders"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "missing", "plan again"),
        ("POLICY_VIOLATION", "invalid", "policy"),
        ("INVALID_CONFIG", "invalid", "configs"),
        ("INVALID_PARTITIONS", "invalid", "only grow"),
        ("INVALID_REPLICATION_FACTOR", "invalid", "number of brokers"),
        ("INVALID_TOPIC_EXCEPTION", "invalid", "249"),
        ("UNSUPPORTED_VERSION", "other", "Kafka 2.3"),
        ("LEADER_NOT_AVAILABLE", "other", "--describe --unavailable-partitions"),
        ("COORDINATOR_LOAD_IN_PROGRESS", "other", "is still loading"),
        ("UNKNOWN_SERVER_ERROR", "other", "broker's log"),
    ],
)
def test_each_code_has_a_kind_and_says_what_to_do(name: str, kind: str, hint: str) -> None:
    error = errors.translate(SPEAKER, CODES[name], CREATE, "what the broker said")
    assert error.kind == kind
    assert error.cluster == "east"
    assert "east" in error.what
    assert hint in str(error)
    assert error.todo


@given(st.integers(min_value=-200, max_value=140))
def test_no_code_is_without_kind_and_advice(code: int) -> None:
    error = errors.translate(SPEAKER, code, CREATE, "words")
    assert error.kind in ClusterError.KINDS
    assert error.todo


@pytest.mark.parametrize("code", [CODES["POLICY_VIOLATION"], CODES["INVALID_CONFIG"]])
def test_the_brokers_own_words_are_kept(code: int) -> None:
    error = errors.translate(SPEAKER, code, CREATE, "retention.ms above 7 days needs a ticket")
    assert "retention.ms above 7 days needs a ticket" in error.what


def test_the_reason_is_a_sentence_whatever_words_it() -> None:
    assert (
        errors.unreachable(SPEAKER, ("no connection to a:9092: refused", "")).why == "No connection to a:9092: refused"
    )
    assert errors.unreachable(SPEAKER, ()).why == "No broker answered in time"
    assert errors.authentication(SPEAKER, "certificate expired").why == "Certificate expired"
    assert errors.authentication(SPEAKER, "host.a:9092: expired").why == "host.a:9092: expired", "a name stays"


def test_the_acl_names_the_user_unless_that_is_a_secret() -> None:
    plain = Cluster("east", ("h:1",), principals={Principal.PLAN: {"sasl.username": "ci"}})
    hidden = Cluster("east", ("h:1",), client={"sasl.username": "${env:KAFKA_USER}"})
    assert speaker_of(plain, Principal.PLAN).kafka_principal == "User:ci"
    assert speaker_of(hidden, Principal.PLAN).kafka_principal == "User:<principal plan>"


def test_who_says_no_name_is_anonymous_and_a_certificates_name_is_not_known() -> None:
    assert speaker_of(Cluster("east", ("h:1",)), Principal.PLAN).kafka_principal == "User:ANONYMOUS"
    by_iam = Cluster("east", ("h:1",), client={"sasl.oauthbearer.method": "aws_msk_iam"}, service="msk")
    assert speaker_of(by_iam, Principal.PLAN).allow("Write", "--topic a").startswith("Allow it: in IAM, by actions of")
    certified = Cluster("east", ("h:1",), client={"security.protocol": "SSL"})
    assert speaker_of(certified, Principal.PLAN).kafka_principal == "User:<principal plan>"


def test_settings_of_the_principal_lie_over_those_of_the_cluster() -> None:
    cluster = Cluster(
        "east", ("a:1", "b:2"), client={"client.id": "mine"}, principals={Principal.APPLY: {"client.id": "x"}}
    )
    assert client_settings(cluster, Principal.PLAN)["client.id"] == "mine"
    assert client_settings(cluster, Principal.APPLY)["client.id"] == "x"
    assert client_settings(cluster, Principal.PLAN)["bootstrap.servers"] == "a:1,b:2"


@pytest.mark.parametrize("reference", ["${env:NO_SUCH_VARIABLE}", "${file:no/such/file}"])
def test_a_missing_secret_names_cluster_setting_and_reference(reference: str) -> None:
    cluster = Cluster("east", ("h:1",), client={"sasl.password": f"prefix-{reference}"})
    with pytest.raises(SecretError) as caught:
        KafkaCluster(cluster).read()
    assert all(word in str(caught.value) for word in ("east", "sasl.password", reference))
    assert "prefix-" not in str(caught.value)


def test_secrets_are_cut_out_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PROTOCOL", "hunter2")
    cluster = Cluster("east", ("h:1",), client={"security.protocol": "${env:TEST_PROTOCOL}"})
    with pytest.raises(ClusterError) as caught:
        KafkaCluster(cluster).read()
    assert caught.value.kind == "invalid"
    assert "hunter2" not in str(caught.value)
    assert "security.protocol" in str(caught.value)


def test_a_value_is_secret_by_its_origin_or_by_its_key() -> None:
    raw = {"sasl.username": "${env:U}", "sasl.password": "typed", "ssl.key.pem": "KEY", "client.id": "open"}
    resolved = {**raw, "sasl.username": "someone"}
    assert set(secrets_in(raw, resolved)) == {"someone", "typed", "KEY"}


def test_an_unknown_setting_is_reported_before_connecting() -> None:
    with pytest.raises(ClusterError, match=r"no\.such\.setting") as caught:
        KafkaCluster(Cluster("east", ("h:1",), client={"no.such.setting": "1"})).read()
    assert caught.value.kind == "invalid"


def test_a_python_callback_cannot_be_set_from_yaml() -> None:
    with pytest.raises(ClusterError) as caught:
        KafkaCluster(Cluster("east", ("h:1",), client={"oauth_cb": "os.system"})).read()
    assert caught.value.kind == "invalid"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A taken port, so that no other process listens on it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_nothing_listening_is_reported_soon_and_without_noise(
    silent_port: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{silent_port}"
    began = time.monotonic()
    with caplog.at_level(logging.INFO), pytest.raises(ClusterError) as caught:
        KafkaCluster(Cluster("east", (address,))).read()
    assert time.monotonic() - began < 45
    assert caught.value.kind == "unreachable"
    assert address in caught.value.what
    assert "refused" in caught.value.why
    assert capfd.readouterr().err == ""
    assert caplog.records == []


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(ClusterError) as caught:
        KafkaCluster(Cluster("east", ("no-such-host.invalid:9092",))).read()
    assert caught.value.kind == "unreachable"
    assert "no-such-host.invalid:9092" in str(caught.value)


def test_every_message_of_a_connection_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PASSWORD", "hunter2")
    requests = Requests(Cluster("east", ("h:1",), client={"sasl.password": "${env:TEST_PASSWORD}"}), Principal.PLAN)
    for code in range(-1, 130):
        assert "hunter2" not in str(requests.refused(code, CREATE, "said hunter2 aloud"))


@pytest.mark.parametrize("setting", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"])
@pytest.mark.parametrize("written", ["", "${env:TLS_FILE}"])
def test_a_file_of_the_tls_settings_that_is_missing_is_named_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: str, written: str
) -> None:
    """OpenSSL says neither the path nor, sometimes, the setting; what came from a reference is not shown."""
    missing = str(tmp_path / "missing.pem")
    monkeypatch.setenv("TLS_FILE", missing)
    named = written or missing
    cluster = Cluster("east", ("127.0.0.1:1",), client={"security.protocol": "SSL", setting: named})
    with pytest.raises(ClusterError) as caught, Requests(cluster, Principal.PLAN):
        pass
    told = str(caught.value)
    assert f"{setting} names {named}, which cannot be read: No such file or directory" in told
    assert "Correct the path" in told
    assert not written or missing not in told


def test_a_principal_that_logs_in_as_plan_is_given_a_login_and_not_plan_more_rights() -> None:
    """Plan's login is that of each pull request: what apply lacks is a login of its own."""
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "plan"}
    shared = Cluster("east", ("e:1",), client=login)
    todo = errors.denied(speaker_of(shared, Principal.APPLY), errors.create_topic("orders")).todo
    assert "Declare principals: apply under cluster east" in todo
    assert "--allow-principal User:APPLY" in todo or "--allow-principal 'User:APPLY'" in todo
    own = replace(shared, principals={Principal.APPLY: {"sasl.username": "apply"}})
    for cluster, principal, name in ((own, Principal.APPLY, "apply"), (shared, Principal.PLAN, "plan")):
        todo = errors.denied(speaker_of(cluster, principal), errors.create_topic("orders")).todo
        assert todo.startswith("Allow it: kafka-acls.sh")
        assert f"'User:{name}'" in todo
