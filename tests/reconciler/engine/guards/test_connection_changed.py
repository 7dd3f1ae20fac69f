"""Credentials go only where the base, or a person outside of the edit, sends them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.backends.connections.credentials import client_settings
from reconciler.engine.guards.first_contact import held_to_base
from reconciler.errors import ClusterError, SecretError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.replication.allowed import Allowed, allowed
from tests.support.builders import topology

LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "${env:EAST_USER}",
    "sasl.password": "${env:EAST_PASSWORD}",
    "ssl.ca.location": "/etc/kafka/ca.pem",
}
EAST = Cluster("east", ("east.example.net:9093", "b.east.example.net:9093"), client=LOGIN)
LISTED = allowed({"RECONCILER_ALLOW": "host:*.example.net env:EAST_* file:/run/secrets"})
NOBODY = Allowed()


def held(now: Cluster, before: Cluster | None, listed: Allowed = NOBODY) -> str:
    base = {} if before is None else {"east": before}
    return held_to_base(topology(now), base, listed).clusters["east"].not_contacted


def edited(**client: str) -> Cluster:
    return replace(EAST, client={**LOGIN, **{key.replace("_", "."): value for key, value in client.items()}})


def test_what_is_as_the_base_has_it_is_contacted() -> None:
    assert held(EAST, EAST) == ""
    assert held(replace(EAST, bootstrap_servers=EAST.bootstrap_servers[:1]), EAST) == ""
    assert held(edited(client_id="other", linger_ms="5"), EAST) == "", (
        "who is asked, and with which secret, is the same"
    )


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (replace(EAST, bootstrap_servers=("evil.net:9093", *EAST.bootstrap_servers)), "has evil.net:9093, had east.ex"),
        (edited(security_protocol="SASL_PLAINTEXT"), "security.protocol is SASL_PLAINTEXT, was SASL_SSL"),
        (edited(sasl_mechanism="PLAIN"), "sasl.mechanism is PLAIN, was SCRAM-SHA-512"),
        (edited(sasl_password="${env:OTHER}"), "sasl.password refers to ${env:OTHER}, was ${env:EAST_PASSWORD}"),
        (edited(ssl_ca_location="environments/mine.pem"), "ssl.ca.location is environments/mine.pem, was /etc/kafka/"),
        (edited(enable_ssl_certificate_verification="false"), "verification is false, was not set"),
        (edited(ssl_endpoint_identification_algorithm="none"), "algorithm is none, was not set"),
        (edited(sasl_oauthbearer_token_endpoint_url="https://evil.net/t"), "url is https://evil.net/t, was not set"),
        (replace(EAST, client={}, principals={Principal.PLAN: LOGIN | {"sasl.username": "x"}}), "username is x, was $"),
        (
            replace(EAST, client={k: v for k, v in LOGIN.items() if k != "ssl.ca.location"}),
            "ssl.ca.location is not set",
        ),
    ],
)
def test_what_decides_where_secrets_go_is_reported_with_both_values(now: Cluster, words: str) -> None:
    assert words in held(now, EAST)


def test_a_new_cluster_and_a_new_environment_are_not_logged_in_to() -> None:
    assert "bootstrap_servers has east.example.net:9093, had no such cluster" in held(EAST, None)


def test_without_credentials_there_is_nothing_to_keep() -> None:
    assert held(Cluster("east", ("other:9092",), client={"client.id": "me"}), None) == ""
    assert held(Cluster("east", ("other:9092",)), EAST) == ""
    assert "other:9092" in held(Cluster("east", ("other:9092",), client={"sasl.password": "${env:A}"}), None)


def test_who_runs_the_program_can_list_addresses_and_references() -> None:
    assert held(EAST, None, LISTED) == ""
    moved = replace(EAST, bootstrap_servers=("c.example.net:9093",))
    assert held(moved, EAST, LISTED) == ""
    assert "evil.net" in held(replace(EAST, bootstrap_servers=("evil.net:9093",)), EAST, LISTED)
    assert "OTHER" in held(edited(sasl_password="${env:OTHER}"), EAST, LISTED)
    assert held(edited(sasl_password="${file:/run/secrets/east}"), EAST, LISTED) == ""
    assert "passwd" in held(edited(sasl_password="${file:/run/secrets/../../etc/passwd}"), EAST, LISTED)


@pytest.mark.parametrize("before", [None, EAST])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.password", "${env:EAST_PASSWORD}${env:OTHER}"),
        ("sasl.password", "${env:EAST_PASSWORD}${file:/run/secrets/../../etc/shadow}"),
        ("sasl.oauthbearer.config", "${env:EAST_CONFIG} scope=${env:OTHER}"),
        ("sasl.oauthbearer.token.endpoint.url", "https://evil.net/${env:EAST_USER}"),
        ("ssl.ca.location", "${env:EAST_CA}/../mine.pem"),
        ("client.id", "${env:EAST_USER}${env:OTHER}"),
    ],
)
def test_every_reference_of_a_value_has_to_be_listed_without_text_beside_it(
    name: str, value: str, before: Cluster | None
) -> None:
    assert value in held(replace(EAST, client=LOGIN | {name: value}), before, LISTED)
    assert held(edited(sasl_password="${env:EAST_A}${env:EAST_B}"), before, LISTED) == ""


@pytest.mark.parametrize("before", [None, EAST])
def test_a_list_of_addresses_lets_no_one_take_the_verification_off(before: Cluster | None) -> None:
    for weaker in (
        edited(security_protocol="SASL_PLAINTEXT"),
        edited(enable_ssl_certificate_verification="false"),
        edited(ssl_endpoint_identification_algorithm="none"),
    ):
        assert held(weaker, before, LISTED) != ""


@pytest.mark.parametrize(
    ("url", "listed"),
    [
        ("https://east.example.net/t", True),
        ("https://east.example.net:443/t", True),
        ("https://me@east.example.net/t", False),
        ("http://east.example.net/t", False),
        ("https://east.example.net:x@evil.net/t", False),
        ("https://evil.net/east.example.net", False),
        ("https://evil.net#@east.example.net/", False),
        ("https://east.example.net.evil.net/", False),
        ("no url", False),
    ],
)
def test_a_token_endpoint_is_listed_by_its_host(url: str, listed: bool) -> None:
    allow = allowed(
        {"RECONCILER_ALLOW": "host:east.example.net host:east.*.net:443 host:b.east.example.net env:EAST_*"}
    )
    assert (held(edited(sasl_oauthbearer_token_endpoint_url=url), EAST, allow) == "") is listed


def test_no_secret_is_read_for_such_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.backends.connections.credentials.resolve", pytest.fail)
    marked = replace(EAST, not_contacted="bootstrap_servers has evil:1, had east:1")
    with pytest.raises(ClusterError) as caught:
        client_settings(marked, Principal.PLAN)
    assert caught.value.kind == "withheld"
    assert caught.value.what == (
        "cluster east is not planned, connection changed: bootstrap_servers has evil:1, had east:1"
    )
    assert "--allow-new-address" in caught.value.todo


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (edited(sasl_password="${env:OTHER}"), "env:OTHER"),
        (edited(sasl_password="${env:A}${file:/run/secrets/east}"), "env:A file:/run/secrets"),
        (replace(EAST, bootstrap_servers=("new.net:9093", "[FD00::1]:9093")), "host:new.net:9093 host:[FD00::1]:9093"),
        (edited(sasl_oauthbearer_token_endpoint_url="https://new.net/t"), "host:new.net:443"),
        (
            replace(edited(sasl_password="${env:OTHER}"), bootstrap_servers=("new.net:9093",)),
            "host:new.net:9093 env:OTHER",
        ),
    ],
)
def test_what_can_be_listed_is_said_as_it_is_written(now: Cluster, words: str) -> None:
    with pytest.raises(ClusterError) as caught:
        client_settings(held_to_base(topology(now), {"east": EAST}, NOBODY).clusters["east"], Principal.PLAN)
    assert caught.value.todo.endswith(f"with --allow-new-address, or add {words} to RECONCILER_ALLOW there")
    assert held(now, EAST, allowed({"RECONCILER_ALLOW": words})) == ""


@pytest.mark.parametrize(
    "now",
    [
        edited(sasl_password="${env:OTHER}", sasl_mechanism="PLAIN"),
        replace(edited(security_protocol="SASL_PLAINTEXT"), bootstrap_servers=("new.net:9093",)),
        edited(sasl_password="x${env:OTHER}"),
        edited(sasl_password="${env:*}"),
        edited(sasl_password="${env:A env:*}"),
        edited(sasl_password="${file:environments/prod/key}"),
        edited(sasl_password="${file:/run/secrets/../key}"),
        edited(sasl_password="${file:/run/* env:*/key}"),
        edited(ssl_ca_location="/etc/other.pem"),
        replace(EAST, bootstrap_servers=("a:1,b:2",)),
    ],
)
def test_where_a_list_would_not_allow_all_of_it_none_is_proposed(now: Cluster) -> None:
    with pytest.raises(ClusterError) as caught:
        client_settings(held_to_base(topology(now), {"east": EAST}, NOBODY).clusters["east"], Principal.PLAN)
    assert caught.value.todo.endswith("with --allow-new-address")


@pytest.mark.parametrize(
    ("client", "todo"),
    [
        ({"sasl.username": "${env:OTHER}"}, "or add env:OTHER to RECONCILER_ALLOW where this program runs"),
        ({"ssl.key.password": "${file:/etc/keys/p}"}, "or add file:/etc/keys to RECONCILER_ALLOW where this program"),
        ({"sasl.username": "${env:EAST_GONE}"}, "Set the variable or the file for this process"),
    ],
)
def test_a_reference_that_is_not_had_is_said_with_what_to_do(
    client: dict[str, str], todo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER", "x")
    monkeypatch.setenv("RECONCILER_ALLOW", "env:EAST_* file:/run/secrets")
    with pytest.raises(SecretError) as caught:
        client_settings(replace(EAST, client=client), Principal.PLAN)
    assert todo in caught.value.todo
    assert ("Set the variable" in caught.value.todo) is ("GONE" in str(caught.value))


@pytest.mark.parametrize(
    ("allow", "told"),
    [
        ("host:*.example.org", "east.example.net:9093"),
        ("host:east.example.net", "b.east.example.net:9093"),
        ("file:/run/secrets", "ssl.ca.location /etc/kafka/ca.pem"),
        ("env:WEST_*", "EAST_USER"),
    ],
)
def test_what_a_list_leaves_out_is_never_used(allow: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by apply, doctor, and all others who would connect."""
    monkeypatch.setenv("EAST_USER", "ada")
    monkeypatch.setenv("EAST_PASSWORD", "s3cret")
    monkeypatch.setenv("RECONCILER_ALLOW", allow)
    with pytest.raises(Exception, match=told) as caught:
        client_settings(EAST, Principal.APPLY)
    assert "RECONCILER_ALLOW" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("path", ["/etc/shadow${env:EAST_NOTHING}", "${env:EAST_NOTHING}/etc/shadow"])
def test_a_reference_within_a_path_brings_no_other_folder(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAST_NOTHING", "")
    monkeypatch.setenv("RECONCILER_ALLOW", "env:EAST_* file:/etc/kafka")
    with pytest.raises(ClusterError, match=r"does not list ssl\.key\.location"):
        client_settings(replace(EAST, client={"ssl.key.location": path}), Principal.PLAN)


def test_what_is_listed_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAST_USER", "ada")
    monkeypatch.setenv("EAST_PASSWORD", "s3cret")
    monkeypatch.setenv("RECONCILER_ALLOW", "host:*.example.net:9093 env:EAST_* file:/etc/kafka")
    assert client_settings(EAST, Principal.PLAN)["sasl.password"] == "s3cret"


@pytest.mark.parametrize("setting", ["plugin.library.paths", "ssl.engine.location", "sasl.kerberos.kinit.cmd"])
def test_no_client_is_given_what_runs_code(setting: str) -> None:
    """Also where nobody validated: reads of clusters begin before the topology is checked."""
    with pytest.raises(ClusterError, match=setting):
        client_settings(replace(EAST, client={setting: "x"}), Principal.PLAN)


@pytest.mark.parametrize("word", ["hots:x", "x", "env:", ":x", "host=x"])
def test_a_word_that_is_none_limits_nothing_and_is_an_error(word: str) -> None:
    with pytest.raises(ValueError, match="RECONCILER_ALLOW holds"):
        allowed({"RECONCILER_ALLOW": f"env:A {word}"})
