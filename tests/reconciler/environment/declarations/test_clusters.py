"""Settings that the mirror's connections cannot honour: reported with their line, of mirrored clusters only, and in the
job as a condition of the flow."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.board.board import Board
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.driver.driver import Driver
from reconciler_mirror.driver.takeover import WireTakeover
from reconciler_mirror.report.status import Application

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.kafka.client.auth.supported_settings import FILES, forbidden
from reconciler.kafka.client.errors import SettingError
from reconciler.replication.handover import Endpoint
from reconciler.replication.handover_reader import parse
from tests.support.lanes.handover import handover

CLUSTERS = """clusters:
  east:
    bootstrap_servers: [east:9092]
    client:
      security.protocol: SASL_SSL
      sasl.mechanism: {mechanism}
      sasl.username: reconciler
      sasl.password: ${{env:EAST}}
    principals:
      mirror:
        {mirror}
  west: {{bootstrap_servers: [west:9092]}}
"""
FLOW = "flows:\n  east-to-west: {source: east, target: west, topics: [orders]}\n"


def problems(mechanism: str, mirror: str, flow: str = FLOW) -> list[tuple[int, str]]:
    try:
        load({"a.yaml": CLUSTERS.format(mechanism=mechanism, mirror=mirror) + flow}, "env")
    except TopologyError as error:
        return [(one.where.line, one.what) for one in error.problems]
    return []


def test_each_is_reported_at_its_own_line_and_all_at_once() -> None:
    found = problems("EXTERNAL", "ssl.sigalgs.list: RSA+SHA512")
    assert [line for line, _ in found] == [6, 11]
    assert all(what.startswith("cluster east: ") for _, what in found)


@pytest.mark.parametrize(
    ("before", "slip", "code"),
    [
        ("${{env:EAST}}", "hunter2", "secret-in-git"),
        ("[east:9092]", "[east]", "bad-value"),
        ("reconciler\n", "reconciler\n      group.id: mine\n", "reserved-setting"),
        ("[west:9092]", "[]", "empty-value"),
    ],
)
def test_another_problem_of_a_cluster_hides_none_of_its_logins(before: str, slip: str, code: str) -> None:
    """Otherwise a file needs two rounds."""
    text = CLUSTERS.format(mechanism="NOPE", mirror="bogus.setting: 1") + FLOW
    with pytest.raises(TopologyError) as alone:
        load({"e.yaml": text}, "e")
    usual = sorted(problem.code for problem in alone.value.problems)
    assert usual == ["setting-not-allowed", "setting-not-mirrored"]
    with pytest.raises(TopologyError) as raised:
        load({"e.yaml": text.replace(before.format(), slip)}, "e")
    codes = [problem.code for problem in raised.value.problems]
    assert sorted(codes) == sorted([*usual, code])
    assert "hunter2" not in str(raised.value)


def test_what_the_mirror_says_of_itself_counts() -> None:
    assert problems("PLAIN", "sasl.mechanism: SCRAM-SHA-512") == []
    assert problems("EXTERNAL", "sasl.mechanism: SCRAM-SHA-512") == []  # who has no settings of their own is not judged


def test_a_cluster_that_is_not_mirrored_is_logged_in_to_by_our_own_connections_as_well() -> None:
    """The lock is read there. What only its mirror principal has is used by nobody."""
    topic = "topics:\n  orders: {clusters: [east], partitions: 1, replication_factor: 1}\n"
    assert problems("PLAIN", "ssl.sigalgs.list: RSA+SHA512", topic) == []
    [(_, what)] = problems("PLAIN\n      ssl.sigalgs.list: RSA+SHA512", "sasl.username: m", topic)
    assert what == "cluster east: the setting ssl.sigalgs.list is not supported"


SASL = {"security.protocol": "SASL_SSL"}
USER = {"sasl.username": "u", "sasl.password": "${env:P}"}
OIDC = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}
CLIENT = {"sasl.oauthbearer.client.id": "c", "sasl.oauthbearer.client.secret": "${env:P}"}
OF_METHOD, ROLE = "sasl.oauthbearer.method", "sasl.oauthbearer.aws.role_arn"
SCOPE, REGION = "sasl.oauthbearer.scope", "sasl.oauthbearer.aws.region"
EXTENSIONS = "sasl.oauthbearer.extensions"
AZURE = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", OF_METHOD: "azure"}
NS, OTHER = "ns.servicebus.windows.net", "https://other.servicebus.windows.net/.default"
KERBEROS = {"sasl.mechanism": "GSSAPI"}
IAM = {"sasl.mechanism": "OAUTHBEARER", OF_METHOD: "aws_msk_iam"}
PLAIN = SASL | USER | {"sasl.mechanism": "PLAIN"}
MSK, SERVERLESS = (
    "b-1.x.c2.kafka.us-east-1.amazonaws.com:9098",
    "boot-x.c2.kafka-serverless.eu-west-1.amazonaws.com:9098",
)
CONFLUENT, HUBS = "pkc-1.us-east-1.aws.confluent.cloud:9092", "ns.servicebus.windows.net:9093"
TOKENS = {"sasl.oauthbearer.token.endpoint.url": "https://tokens.example/"}


@pytest.mark.parametrize("flow", [FLOW, ""])
@pytest.mark.parametrize(
    ("client", "what"),
    [
        (SASL, "security.protocol is sasl_ssl and sasl.mechanism is missing"),
        (SASL | USER, "security.protocol is sasl_ssl and sasl.mechanism is missing"),
        (SASL | USER | {"sasl.mechanism": "SCRAM-SHA-999"}, 'sasl.mechanism is "SCRAM-SHA-999"'),
        (SASL | USER | {"sasl.mechanism": "EXTERNAL"}, 'sasl.mechanism is "EXTERNAL"'),
        (SASL | {"sasl.mechanism": "AWS_MSK_IAM"}, 'sasl.mechanism is "AWS_MSK_IAM"'),
        (SASL | {"sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.mechanism is PLAIN without sasl.password"),
        (SASL | {"sasl.mechanism": "scram-sha-512"}, "sasl.mechanism is SCRAM-SHA-512 without sasl.username and"),
        (SASL | OIDC | CLIENT, "sasl.mechanism is OAUTHBEARER without sasl.oauthbearer.token.endpoint.url"),
        (SASL | OIDC | {OF_METHOD: "aws_sts"}, "sasl.mechanism is OAUTHBEARER without sasl.oauthbearer.audience"),
        (SASL | OIDC | {OF_METHOD: "aws_msk_iam", ROLE: "mirror"}, f'{ROLE} is "mirror"'),
        (SASL | OIDC | {OF_METHOD: "azure", SCOPE: "https://ns.example"}, f'{SCOPE} is "https://ns.example"'),
        (SASL | KERBEROS | {"sasl.kerberos.service.name": "kafka/b1@A.B"}, 'service.name is "kafka/b1@A.B"'),
        (SASL | KERBEROS | {"sasl.kerberos.principal": "m/_HOST@A.B"}, 'sasl.kerberos.principal is "m/_HOST@A.B"'),
        (SASL | KERBEROS | {"sasl.kerberos.principal": "m@A@B"}, 'sasl.kerberos.principal is "m@A@B"'),
        (SASL | OIDC | CLIENT | TOKENS | {EXTENSIONS: "logicalCluster"}, f'{EXTENSIONS} is "logicalCluster"'),
        (SASL | OIDC | CLIENT | TOKENS | {EXTENSIONS: "a=b, auth=x"}, f'{EXTENSIONS} is "a=b, auth=x"'),
        (SASL | KERBEROS | {"sasl.kerberos.keytab": "m.keytab"}, 'sasl.kerberos.keytab is "m.keytab"'),
        (USER, "sasl.username is set, and security.protocol is plaintext"),
        (USER | {"security.protocol": "SSL"}, "sasl.username is set, and security.protocol is SSL"),
        ({"security.protocol": "SASL-SSL"}, 'security.protocol is "SASL-SSL"'),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}, 'algorithm is ""'),
    ],
)
def test_what_no_one_can_log_in_with_is_known_before_anybody_connects(
    client: dict[str, str], what: str, flow: str
) -> None:
    [(_, said)] = _refusals(client, flow)
    assert what in said


@pytest.mark.parametrize(
    ("server", "client", "what"),
    [
        (MSK, SASL | IAM | {REGION: "eu-west-1"}, f"{REGION} is eu-west-1, and the brokers are in us-east-1"),
        (SERVERLESS, SASL | USER | {"sasl.mechanism": "SCRAM-SHA-512"}, "sasl.mechanism is SCRAM-SHA-512"),
        (CONFLUENT, {}, "security.protocol is PLAINTEXT"),
        (CONFLUENT, PLAIN | {"security.protocol": "SASL_PLAINTEXT"}, "security.protocol is SASL_PLAINTEXT"),
        (HUBS, PLAIN, "sasl.username is u"),
        (HUBS, AZURE | {SCOPE: OTHER}, f"{SCOPE} is {OTHER}, and the brokers are {NS}"),
    ],
)
def test_a_login_that_a_service_refuses_is_known_by_its_addresses(
    server: str, client: dict[str, str], what: str
) -> None:
    [(_, said)] = _refusals(client, server=server)
    assert said == f"cluster east: {what}"


@pytest.mark.parametrize(
    ("server", "client"),
    [
        (MSK, SASL | IAM | {REGION: "us-east-1"}),
        (SERVERLESS, SASL | IAM),
        (CONFLUENT, PLAIN),
        (HUBS, PLAIN | {"sasl.username": "$ConnectionString"}),
        (HUBS, AZURE | {SCOPE: f"https://{NS}/.default"}),
        (HUBS, AZURE | {SCOPE: "https://eventhubs.azure.net/.default"}),
        ("a-proxy-that-logs-in:9092", AZURE | {SCOPE: OTHER}),
        ("a-proxy-that-logs-in:9092", {}),
        (CONFLUENT, SASL | OIDC | CLIENT | TOKENS | {EXTENSIONS: "logicalCluster=lkc-1, identityPoolId=pool-x=1"}),
        ("b1.example:9092", SASL | KERBEROS | {"sasl.kerberos.principal": "kafka/m.example@A.B"}),
        ("b1.example:9092", SASL | KERBEROS | {"sasl.kerberos.principal": r"m\@x@A.B"}),
    ],
)
def test_a_login_that_a_service_may_take_is_no_problem(server: str, client: dict[str, str]) -> None:
    assert _refusals(client, server=server) == []


@pytest.mark.parametrize("setting", sorted({*FILES} - {"sasl.oauthbearer.assertion.jwt.template.file"}))
def test_the_path_of_a_file_is_not_what_a_file_holds(setting: str) -> None:
    said = _refusals({setting: "${file:/run/secrets/of-mine}"})
    assert ("reference-not-here", f"cluster east: {setting} refers to a file's content") in said
    assert not [words for code, words in _refusals({setting: "${env:PLACE}"}) if code == "reference-not-here"]


@pytest.mark.parametrize(
    ("setting", "todo"),
    [
        ("sasl_plain_username", "Perhaps you mean sasl.username; else remove it"),
        ("ssl_cafile", "Perhaps you mean ssl.ca.location; else remove it"),
        ("spring.kafka.properties.security.protocol", "Perhaps you mean security.protocol; else remove it"),
        ("consumer.sasl.mechanism", "Perhaps you mean sasl.mechanism; else remove it"),
        ("sasl.login.callback.handler.class", "Remove it: sasl.oauthbearer.method says who gives the token"),
    ],
)
def test_a_setting_of_another_client_is_refused_with_its_name_here(setting: str, todo: str) -> None:
    [refusal] = forbidden({setting: "x"})
    assert refusal.todo.startswith(todo)


@pytest.mark.parametrize(
    "client",
    [
        SASL | USER | {"sasl.mechanism": "SCRAM-SHA-512"},
        SASL | OIDC | CLIENT | TOKENS,
        {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"},
        {"security.protocol": "SSL", "ssl.certificate.location": "/c.pem"},  # which may hold the key, too
    ],
)
def test_a_login_that_may_be_accepted_is_no_problem(client: dict[str, str]) -> None:
    assert _refusals(client) == []


def test_each_principal_with_settings_of_its_own_is_judged_with_what_all_have() -> None:
    text = (
        "clusters:\n  east:\n    bootstrap_servers: [e:1]\n    client: {security.protocol: SASL_SSL}\n    principals:\n"
        '      plan: {sasl.mechanism: PLAIN, sasl.username: p, sasl.password: "${env:P}"}\n'
        "      apply: {sasl.mechanism: PLAIN, sasl.username: p}\n"
    )
    with pytest.raises(TopologyError) as caught:
        load({"a.yaml": text}, "env")
    [problem] = caught.value.problems
    assert (problem.code, problem.where.line) == ("login-impossible", 7)


@pytest.mark.parametrize("flow", [FLOW, ""])
@pytest.mark.parametrize("who", ["client", "plan", "apply", "mirror"])
@pytest.mark.parametrize(
    "setting",
    [
        "plugin.library.paths", "interceptors", "ssl.engine.location", "ssl.engine.id", "ssl.providers",
        "ssl_engine_cb",
        "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "offset.store.path",
        "internal.termination.signal", "log.queue", "test.mock.num.brokers", "enabled_events", "open_cb", "error_cb",
        "Plugin.Library.Paths", "unknown.thing", "default.topic.config",
    ],
)  # fmt: skip
def test_what_is_not_on_the_list_is_refused_by_name_of_every_cluster(setting: str, who: str, flow: str) -> None:
    given = f"client: {{{setting}: x}}" if who == "client" else f"principals: {{{who}: {{{setting}: x}}}}"
    text = f"clusters:\n  east: {{bootstrap_servers: [e:1], {given}}}\n  west: {{bootstrap_servers: [w:1]}}\n"
    with pytest.raises(TopologyError) as caught:
        load({"a.yaml": text + flow}, "env")
    [problem] = caught.value.problems
    assert (problem.code, problem.where.line) == ("setting-not-allowed", 2)
    assert problem.what == f"cluster east: the setting {setting} is not supported"


@pytest.mark.parametrize("setting", ["client.id", "security.protocol", "sasl.mechanism", "broker.address.family"])
@pytest.mark.parametrize("value", ["${env:A}", "u-${file:/etc/passwd}"])
def test_only_secrets_may_be_references(setting: str, value: str) -> None:
    """Whoever answers at the address is shown it."""
    assert _refusals({setting: value}) == [("reference-not-here", f"cluster east: {setting} holds a reference")]


@pytest.mark.parametrize("value", ["u-${env:A}", "${env:A}${env:B}"])
@pytest.mark.parametrize("setting", ["sasl.username", "ssl.ca.location", "sasl.oauthbearer.client.id"])
def test_a_reference_is_a_whole_value(setting: str, value: str) -> None:
    words = f"cluster east: {setting} mixes references with text or with each other"
    assert _refusals({setting: value}) == [("bad-reference", words)]


def test_names_and_files_that_differ_between_machines_may_be_references() -> None:
    names = {"sasl.username": "${env:A}", "ssl.ca.location": "${env:CA}", "ssl.key.pem": "${file:/a}"}
    assert _refusals(SASL | USER | {"sasl.mechanism": "PLAIN"} | names) == []


def _refusals(client: dict[str, str], flow: str = "", server: str = "e:1") -> list[tuple[str, str]]:
    clusters = {"east": {"bootstrap_servers": [server], "client": client}}
    clusters |= {"west": {"bootstrap_servers": ["w:1"], "client": {}}} if flow else {}
    try:
        load({"a.yaml": json.dumps({"clusters": clusters}), "b.yaml": flow or "topics: {}"}, "env")
    except TopologyError as error:
        return [(problem.code, problem.what) for problem in error.problems]
    return []


def test_the_default_word_of_the_path_that_went_is_no_problem() -> None:
    mirror = "mirrors:\n  west: {spark_conf: {spark.mirror.path: batch}}\n"
    assert problems("PLAIN", "sasl.username: mirror", FLOW + mirror) == []


def test_the_error_names_the_cluster_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "s3cret")
    client = {"ssl.keystore.location": "x.p12", "ssl.keystore.password": "${env:WORD}"}
    with pytest.raises(SettingError, match=r"^cluster east: the setting ssl\.keystore\.location") as caught:
        cluster_of(Endpoint("east", ("east:9092",), client))
    assert "s3cret" not in str(caught.value)


def test_in_the_job_the_flow_has_a_condition() -> None:
    settings = parse(json.dumps(handover()))
    [flow, *_] = settings.flows
    flow = replace(flow, target=replace(flow.target, client={"ssl.keystore.location": "x.p12"}))
    driver: Any = Driver.__new__(Driver)
    driver._board, driver._can_take = Board((flow,)), set()

    driver._pauses = SimpleNamespace(trouble=None, condition=lambda _: None, known=SimpleNamespace(wait=lambda _: True))
    driver._who = Application("app", 1, "host", 2)
    assert driver._take_over(flow, WireTakeover(flow)) is None
    [view] = driver._board.view()
    [(condition, _)] = view.conditions
    assert condition.code == "setting_not_supported"
    assert "ssl.keystore.location" in condition.text
    assert condition.stops
