"""``import``: MirrorMaker 2's configuration becomes an environment that validate takes, with every setting accounted
for, no secret carried over, and nothing written when something is wrong."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from reconciler.backends.files import read_environment
from reconciler.cli.main import main
from reconciler.environment.importers.mirrormaker import flows, not_imported
from reconciler.environment.importers.mirrormaker.environment import SAME_CONNECTION, environment
from reconciler.environment.importers.positions.write_yaml import write_starts
from reconciler.environment.load import load
from reconciler.model.environment.topology import Flow, Topology
from reconciler.replication.handover import Naming
from reconciler.replication.policy import policy_word
from tests.support.paths import ROOT

GOLDEN = ROOT / "tests" / "golden" / "mirrormaker"
PAGE = "".join(
    (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("begin/mirrormaker-settings", "consumers/offsets")
)
BEARER = "B.sasl.jaas.config=org.apache.OAuthBearerLoginModule required"
BASE = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n"


def imported(capfd: pytest.CaptureFixture[str], out: Path, *files: Path) -> tuple[int, str]:
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["import", *map(str, files), "--out", str(out)])
    told = "".join(capfd.readouterr())
    assert "Traceback" not in told
    return int(ended.value.code or 0), told


def topology(text: str) -> Topology:
    made = environment({"mm2.properties": text})
    assert made.notes.mistakes == []
    return load(made.texts(), "e")


def flow(text: str) -> Flow:
    return topology(BASE + text).flows["A-to-B"]


def refused(text: str) -> str:
    return "\n".join(map(str, environment({"mm2.properties": text}).notes.mistakes))


@pytest.mark.parametrize(
    "file",
    [
        "distribution.properties",
        "active-active.properties",
        "fan-in.properties",
        "connect.json",
        "strimzi-v1beta2.yaml",
        "strimzi-v1.yaml",
    ],
)
def test_a_file_becomes_these_texts_and_words(
    file: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, told = imported(capfd, Path("env"), GOLDEN / file)
    assert code == 0, told
    texts = [(tmp_path / "env" / name).read_text("utf-8") for name in ("clusters.yaml", "flows.yaml")]
    golden = (GOLDEN / file).with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text("\n".join([told, *texts]), "utf-8")
    assert "\n".join([told, *texts]) == golden.read_text("utf-8")
    load(read_environment(Path("env")), "env")


def test_mirrormakers_defaults_hold_where_nothing_is_written() -> None:
    made = flow("")
    assert (made.topics, made.replication_factor, made.groups.sync_offsets) == ((".*",), 2, False)
    assert made.mirrormaker_topics.heartbeats == 1000
    assert made.configs.enabled


def test_a_flows_setting_wins_over_that_of_all_and_a_cluster_has_none() -> None:
    made = topology(
        BASE + "B->A.enabled=true\ntopics=all\nA->B.topics=own\nA.topics=cluster\nreplication.factor=5\n"
        "B->A.replication.factor=-1\n"
    )
    assert {name: one.topics for name, one in made.flows.items()} == {"A-to-B": ("own",), "B-to-A": ("all",)}
    assert {name: one.replication_factor for name, one in made.flows.items()} == {"A-to-B": 5, "B-to-A": None}


def test_old_names_and_new_ones_mean_the_same() -> None:
    old = flow("topics.blacklist=x\ngroups.blacklist=y\nconfig.properties.blacklist=z\n")
    assert (old.exclude_topics[-1], old.groups.exclude, old.configs.exclude) == ("x", ("y",), ("z",))


@pytest.mark.parametrize(("one", "other"), [("A->B.topics", "topics"), ("topics", "A->B.topics")])
def test_of_an_old_name_and_its_new_one_the_new_one_counts_wherever_it_is(one: str, other: str) -> None:
    """MirrorMaker 2 gives the connector both, and there the new one counts."""
    text = f"{one}.blacklist=old\n{other}.exclude=new\n"
    assert flow(text).exclude_topics == ("new",)
    alone = environment({"mm2.properties": BASE + f"{one}.blacklist=old\n"})
    assert any(words.startswith("topics.blacklist counts here as") for words in alone.notes.different)


def test_an_alias_with_a_dot_is_the_longest_that_fits() -> None:
    made = topology(
        "clusters=a,a.b\na.bootstrap.servers=one:1\na.b.bootstrap.servers=two:1\na.b->a.enabled=true\na.b->a.topics=t\n"
    )
    assert made.clusters["a.b"].bootstrap_servers == ("two:1",)
    assert made.flows["a.b-to-a"].topics == ("t",)


@pytest.mark.parametrize(
    ("setting", "written"),
    [
        ('A.sasl.jaas.config=x.PlainLoginModule required username="u" password="hunter2";', "${env:A_SASL_PASSWORD}"),
        ("A.sasl.jaas.config=x.ScramLoginModule required username=u password=hunter2;", "${env:A_SASL_PASSWORD}"),
        ("A.sasl.jaas.config=x.PlainLoginModule required username='u' password='${env:PW}';", "${env:PW}"),
        ("A.sasl.jaas.config=x.PlainLoginModule required username=u password=${directory:/s:pw};", "${file:/s/pw}"),
        ("A.sasl.jaas.config=${file:/s:jaas}", "${env:A_SASL_PASSWORD}"),
    ],
)
def test_a_password_is_a_reference_and_is_never_shown(
    setting: str, written: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mm2.properties"
    # the second line is what is left when a backslash at the end of the first is forgotten
    file.write_text(f'{BASE}A.security.protocol=SASL_SSL\nA.sasl.mechanism=PLAIN\n{setting}\n"hunter2";\n')
    code, told = imported(capfd, tmp_path / "env", file)
    assert code == 0, told
    texts = "".join(read_environment(tmp_path / "env").values())
    assert f'sasl.password: "{written}"' in texts
    assert "hunter2" not in told + texts


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 0, "clusters names none"),
        ("clusters=A,B\nA.bootstrap.servers=a:1\nA->B.enabled=true", 1, "B.bootstrap.servers is missing"),
        (BASE.replace("true", "false"), 0, "no flow is enabled"),
        (BASE.replace("true", "yes"), 4, 'it is "yes"'),
        (BASE.replace("true", "true # now"), 4, "# begins a comment only as the first character of a line"),
        (BASE + "topics = orders.* # and returns", 5, "# begins a comment only as the first character of a line"),
        ("key.converter=x\nbootstrap.servers=a:1", 0, "It looks like a file of Connect's workers"),
        (BASE + "topics=", 5, "it is empty"),
        (BASE + "replication.factor=two", 5, "not a whole number"),
        (BASE + "topic.filter.class=com.x.Y", 5, "as expressions: topics and exclude_topics of the flow"),
        (BASE + "group.filter.class=com.x.Y", 5, "as expressions: groups: {include, exclude} of the flow"),
        (BASE + "config.property.filter.class=com.x.Y", 5, "as expressions: sync_topic_configs.exclude of the flow"),
        (BASE + "replication.policy.class=com.x.Y", 5, "Where it keeps the names of topics, write replication.policy"),
        (BASE + "replication.policy.separator=", 5, "calls the copy of topic Atopic"),
        (BASE + "source.cluster.alias=", 5, "calls the copy of topic .topic, and here it would be A.topic"),
        (BASE + "source.cluster.alias=dc1", 5, "Call the cluster dc1 in clusters and in front of its settings"),
        (BASE + "topics=payments{1,2}", 5, 'splits "payments{1,2}" at its commas'),
        (BASE + "A->B.transforms=x\nA->B.transforms.x.type=k.RegexRouter", 6, "`naming.policy` of the flow"),
        (BASE + "A->B.transforms=x\nA->B.transforms.x.type=k.Filter", 6, "`where` of the flow"),
        (BASE + "A->B.transforms=x\nA->B.transforms.x.type=k.InsertHeader", 6, "`headers: add` of the flow"),
        (BASE + "A->B.transforms=x\nA->B.transforms.x.type=k.MaskField$Value", 6, 'transform x is "MaskField"'),
        (BASE + "A->B.transforms=x", 5, "transform x has no class"),
        (BASE + "transforms=x", 5, "transform x has no class"),
        (BASE + 'topics.exclude="a,b"', 5, 'it is "a,b", and quotes are part of the value'),
        (BASE + "A->B.topics='a','b'", 5, "it is 'a','b', and quotes are part of the value"),
        (BASE + 'A.security.protocol="SSL"', 5, 'it is "SSL", and quotes are part of the value'),
        (BASE.replace("A,", '"A",').replace("A, ", '"A", '), 1, "and quotes are part of the value"),
        (
            BASE + "A.security.protocol=SASL_SSL\nA.sasl.jaas.config=x.OwnLoginModule required;",
            6,
            "the login module is none of",
        ),
        (
            BASE + "A.security.protocol=SASL_SSL\nA.sasl.jaas.config=x.Krb5LoginModule required useKeyTab=true;",
            6,
            "useKeyTab is true, and no keyTab is named",
        ),
        (BASE + "A.consumer.auto.offset.reset=none", 5, "earliest or latest"),
    ],
)
def test_what_cannot_be_imported_is_reported_with_its_line(text: str, line: int, words: str) -> None:
    place = f"mm2.properties:{line}:" if line else "mm2.properties: "
    assert any(place in one and words in one for one in refused(text).splitlines()), refused(text)


_KRB5 = "A.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required "
_KEYTAB = {"sasl.kerberos.keytab": "/etc/mm.keytab", "sasl.kerberos.principal": "mm@REALM"}


@pytest.mark.parametrize(
    ("lines", "login"),
    [
        (
            f'{_KRB5}useKeyTab=true storeKey=true keyTab="/etc/mm.keytab" principal="mm@REALM" serviceName="kfk";',
            {**_KEYTAB, "sasl.kerberos.service.name": "kfk"},
        ),
        (
            f"A.sasl.mechanism=GSSAPI\nA.sasl.kerberos.service.name=kafka\n{_KRB5}\\\n  keyTab=/etc/mm.keytab \\\n"
            "  principal=mm@REALM;",
            {**_KEYTAB, "sasl.kerberos.service.name": "kafka"},
        ),
        (
            "A.sasl.jaas.config=com.ibm.security.auth.module.Krb5LoginModule required credsType=both "
            'useKeytab="file:///etc/mm.keytab" principal="mm@REALM";',
            _KEYTAB,
        ),
        (f"{_KRB5}useTicketCache=true;", {}),
        ("", {name: f"${{env:A_{name.upper().replace('.', '_')}}}" for name in _KEYTAB}),
    ],
    ids=["keytab", "several lines", "IBM", "ticket cache", "a JAAS file"],
)
def test_a_login_by_kerberos_is_taken_over(lines: str, login: dict[str, str]) -> None:
    """GSSAPI is what Java takes where no mechanism is named."""
    client = topology(f"{BASE}A.security.protocol=SASL_PLAINTEXT\n{lines}\n").clusters["A"].client
    assert client == {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", **login}


@pytest.mark.parametrize(
    "lines",
    [
        "replication.policy.separator=\nsource.cluster.alias=\ntarget.cluster.alias=",
        "A->B.replication.policy.separator=\nA->B.source.cluster.alias=",
        *(f"replication.policy.class={name}" for name in sorted(flows.KEEPS_NAMES)),
        "replication.policy.class=IdentityReplicationPolicy\nreplication.policy.separator=\nsource.cluster.alias=dc1",
    ],
)
def test_names_that_mirrormaker_keeps_are_kept(lines: str) -> None:
    assert flow(f"{lines}\nA->B.topics=.*").naming == Naming("identity", ".")


def test_a_blank_alias_is_that_of_the_positions_and_counts_for_a_cluster_called_source() -> None:
    text = BASE.replace("A", "source") + "replication.policy.separator=\nsource.cluster.alias=\n"
    made = environment({"f": text})
    assert (made.notes.mistakes, made.aliases) == ([], {"source-to-B": ""})
    assert load(made.texts(), "e").flows["source-to-B"].naming.policy == "identity"
    of_connect = {**connector("Source", replication__policy__separator=""), "source.cluster.alias": ""}
    made = environment({"c.json": json.dumps(of_connect)})
    assert (made.notes.mistakes, made.flows, made.aliases) == ([], ("source-to-B",), {"source-to-B": ""})


CONNECTIONS = [
    ("A->B.producer.override.", "B"), ("A->B.target.producer.", "B"), ("A->B.target.cluster.", "B"),
    ("A->B.admin.override.", "B"), ("A->B.target.admin.", "B"), ("A->B.consumer.override.", "A"),
    ("A->B.source.consumer.", "A"), ("A->B.source.cluster.", "A"), ("A->B.source.admin.", "A"),
    ("B.producer.", "B"), ("A.consumer.", "A"), ("A.admin.", "A"),
]  # fmt: skip


@pytest.mark.parametrize(("prefix", "cluster"), CONNECTIONS)
def test_a_connection_of_one_client_is_its_clusters_or_is_refused(prefix: str, cluster: str) -> None:
    """It would decide where data goes."""
    other, secret = "B" if cluster == "A" else "A", 'x.PlainLoginModule required username="u" password="hunter2";'
    same = {
        "bootstrap.servers": f"PLAINTEXT://other:9, {cluster.lower()}:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f"  {secret.replace(' ', '  ')}",
    }
    known = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": secret}
    text = BASE + "".join(f"{name}={value}\n" for name, value in known.items())
    made = environment({"f": text + "".join(f"{prefix}{name}={value}\n" for name, value in same.items())})
    assert made.notes.mistakes == []
    assert {f"{prefix}{name}" for name in same} <= {*made.notes.unneeded[SAME_CONNECTION]}
    told = refused(f"{text}{prefix}bootstrap.servers={other.lower()}:1\n")
    assert f'{prefix}bootstrap.servers: it is "{other.lower()}:1", and that of cluster {cluster} is' in told
    for name, value in known.items():
        told = refused(f"{BASE}{prefix}{name}={value}\n")
        assert f"{prefix}{name}: " in told
        assert "hunter2" not in told


def test_a_callback_handler_of_ones_own_is_refused_and_kafkas_own_is_oidc() -> None:
    text = f"{BASE}security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
    text += "sasl.jaas.config=x.OAuthBearerLoginModule required;\nsasl.login.callback.handler.class="
    told = refused(f"{text}com.x.Handler\n")
    assert 'sasl.login.callback.handler.class: it is "com.x.Handler"' in told
    assert "a class in Java that gets the tokens, which cannot run here" in told
    assert "clientId" not in told
    own = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    assert "the login module has no clientId" in refused(f"{text}{own}\n")
    credentials = (
        "sasl.oauthbearer.client.credentials.client.id=c\nsasl.oauthbearer.client.credentials.client.secret=s\n"
    )
    made = topology(f"{text}{own}\n{credentials}sasl.oauthbearer.token.endpoint.url=https://x/token\n")
    assert made.clusters["A"].client["sasl.oauthbearer.client.id"] == "c"


def test_what_is_no_setting_is_named_where_it_must_be_one() -> None:
    document = json.dumps(connector("Source", topics="x") | {"surprise": "1"})
    assert "\n" not in document
    made = environment({"c.json": document})
    assert any(words.startswith("c.json:1:1: A->B.surprise is no setting") for words in made.notes.different)


def test_all_problems_are_reported_at_once_and_nothing_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(BASE + "topics=\nreplication.factor=two\nx=\\u1\n")
    code, told = imported(capfd, tmp_path / "env", file)
    assert code == 1
    assert [line.split(":")[1] for line in told.splitlines() if line.startswith("mm2.properties:")] == ["5", "6", "7"]
    assert not (tmp_path / "env").exists()


def test_what_validate_refuses_is_reported_at_the_line_it_comes_from(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(BASE + 'A->B.topics=ok, [\nsecurity.protocol=SASL-SSL\nA.bootstrap.servers=a"\\ b:1\n')
    code, told = imported(capfd, tmp_path / "env", file)
    assert code == 1
    assert "mm2.properties:5:1: A->B.topics: " in told
    assert "mm2.properties:6:1: security.protocol: " in told
    assert "mm2.properties:7:1: A.bootstrap.servers: " in told
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize("servers", [":SERVERS:", "[b:1", "b:", "]:1", "-:1:"])
def test_what_is_no_address_is_refused_as_one_and_not_as_broken_yaml(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], servers: str
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(BASE.replace("b:1", servers))
    code, told = imported(capfd, tmp_path / "env", file)
    assert code == 1
    assert "mm2.properties:3:1: B.bootstrap.servers: " in told
    assert "must be host:port" in told
    assert "broken YAML" not in told


STANDALONE = """name = orders
connector.class = org.apache.kafka.connect.mirror.MirrorSourceConnector
source.cluster.alias = A
target.cluster.alias = B
source.cluster.bootstrap.servers = a:1
target.cluster.bootstrap.servers = b:1
topics = orders.*
topics = orders
"""
KAFKA_CONNECTOR = """apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnector
metadata: {name: orders, labels: {strimzi.io/cluster: connect}}
spec:
  class: org.apache.kafka.connect.mirror.MirrorSourceConnector
  tasksMax: 2
  config:
    source.cluster.alias: A
    target.cluster.alias: B
    source.cluster.bootstrap.servers: a:1
    target.cluster.bootstrap.servers: b:1
    topics: orders
"""


@pytest.mark.parametrize(("file", "text"), [("c.properties", STANDALONE), ("c.yaml", KAFKA_CONNECTOR)])
def test_a_connector_alone_is_a_flow_however_it_is_written(file: str, text: str) -> None:
    found = environment({file: text})
    assert found.notes.mistakes == []
    assert found.flows == ("A-to-B",)
    assert found.connectors == {"A-to-B": ("orders", "connect-offsets")}
    written = found.texts()["flows.yaml"]
    assert r'topics: [orders, "(.*\\.)?heartbeats"]' in written
    assert "bootstrap_servers: [a:1]" in found.texts()["clusters.yaml"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("c.properties", STANDALONE.replace("org.apache.kafka.connect.mirror.MirrorSource", "io.x.Replicator")),
        ("c.json", '{"name": "r", "config": {"connector.class": "io.x.ReplicatorConnector"}}'),
    ],
)
def test_another_connector_is_called_what_it_is(file: str, text: str) -> None:
    [mistake] = environment({file: text}).notes.mistakes
    assert "io.x.ReplicatorConnector" in mistake.words
    assert "A MirrorSourceConnector copies" in mistake.words


def test_what_mirrormaker_does_not_read_is_left_out_and_said() -> None:
    found = environment({"mm2.properties": f"{BASE}A->C.enabled=true\nC->B.topics=x\n"})
    assert (found.notes.mistakes, found.flows) == ([], ("A-to-B",))
    said = "\n".join(found.notes.different)
    assert said.count('cluster "C" is not in clusters, so MirrorMaker 2 does not read it either') == 2


def test_a_keytab_of_a_mounted_secret_is_its_path() -> None:
    lines = f'{_KRB5}useKeyTab=true keyTab="${{directory:/opt/keytabs:mm.keytab}}" principal="mm@REALM";\n'
    client = topology(f"{BASE}A.security.protocol=SASL_PLAINTEXT\n{lines}").clusters["A"].client
    assert client["sasl.kerberos.keytab"] == "/opt/keytabs/mm.keytab"


@pytest.mark.parametrize(("tokenauth", "mistakes"), [("true", 1), ("false", 0)])
def test_a_delegation_token_is_no_password(tokenauth: str, mistakes: int) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    login = f'A.sasl.jaas.config={module} username="id" password="hmac" tokenauth="{tokenauth}";\n'
    found = environment(
        {"mm2.properties": f"{BASE}A.security.protocol=SASL_SSL\nA.sasl.mechanism=SCRAM-SHA-256\n{login}"}
    )
    assert len(["delegation token" in mistake.words for mistake in found.notes.mistakes]) == mistakes
    assert not [words for words in found.notes.different if "tokenauth" in words]


def test_a_login_by_the_ticket_cache_alone_is_one_remark() -> None:
    lines = f"A.security.protocol=SASL_PLAINTEXT\nA.sasl.mechanism=GSSAPI\n{_KRB5}useTicketCache=true;\n"
    said = [
        words for words in environment({"mm2.properties": BASE + lines}).notes.different if "mm2.properties" in words
    ]
    assert len(said) == 1
    assert said[0].endswith("tickets come from the ticket cache of the process: KRB5CCNAME")


def test_a_mirror_of_strimzi_without_a_source_connector_is_left_out_and_said() -> None:
    other = "  - source: {alias: C, bootstrapServers: 'c:1'}\n    checkpointConnector: {}\n"
    found = environment({"mm2.yaml": STRIMZI + other})
    assert (found.notes.mistakes, found.flows) == ([], ("A-to-B",))
    assert "mm2.yaml:8:5: the mirror C->B has no sourceConnector, so it copies nothing" in "\n".join(
        found.notes.different
    )
    [mistake] = environment({"mm2.yaml": STRIMZI.replace("    sourceConnector: {}\n", "")}).notes.mistakes
    assert "Add a sourceConnector to a mirror" in mistake.words


def test_a_loop_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    policy = "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    file.write_text(f"{BASE}B->A.enabled=true\n{policy}\n")
    code, told = imported(capfd, tmp_path / "env", file)
    assert code == 1
    assert "loop" in told


def test_files_that_are_there_stay(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(BASE)
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "mine.yaml").write_text("topics: {}\n")
    code, told = imported(capfd, tmp_path / "env", file)
    assert (code, [one.name for one in (tmp_path / "env").iterdir()]) == (1, ["mine.yaml"])
    assert "already exists" in told


def test_several_files_are_one_environment_and_must_agree() -> None:
    other = "clusters=B,C\nB.bootstrap.servers=b:1\nC.bootstrap.servers=c:1\nB->C.enabled=true\n"
    made = environment({"one.properties": BASE, "two.properties": other})
    assert set(load(made.texts(), "e").flows) == {"A-to-B", "B-to-C"}
    made = environment({"one.properties": BASE, "two.properties": other.replace("b:1", "b:2")})
    assert "B is another one than in one.properties" in str(made.notes.mistakes[0])


def test_positions_can_be_taken_over_into_what_was_imported() -> None:
    texts = environment({"f": (GOLDEN / "active-active.properties").read_text("utf-8")}).texts()
    made = load(texts, "e")
    wished = {name: {"orders": {0: 1200}} for name in made.flows}
    after = load({**texts, **write_starts(texts, made, wished)}, "e")
    assert [one.start.offsets for one in after.flows.values()] == [{"orders": {0: 1200}}] * 2


def test_a_store_of_keys_and_certificates_becomes_two_files() -> None:
    made = topology(
        f"{BASE}security.protocol=SSL\nssl.truststore.location=/etc/all.jks\nssl.keystore.location=/etc/all.jks\n"
        "ssl.keystore.password=hunter2\n"
    )
    client = made.clusters["A"].client
    assert (client["ssl.ca.location"], client["ssl.key.location"]) == ("/etc/all-ca.pem", "/etc/all.pem")
    assert client["ssl.key.password"] == "${env:A_SSL_KEY_PASSWORD}"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("A->B.source.cluster.ssl.key.password=x", "a connection of one flow"),
        (
            "A.sasl.jaas.config=x.PlainLoginModule required username=u password=p;\nA.admin.sasl.jaas.config=x",
            "of one kind",
        ),
        ("B.producer.override.bootstrap.servers=c:1", "has no effect: override is of a connector's settings"),
        ("A->B.topics=a\\tb, c", "has 'a\\tb', with a control character"),
        ("A->B.topics=a(b, c)", "MirrorMaker 2 reads a(b|c)"),
        ('"replication.policy.separator": ""', "replication.policy.separator is in quotes"),
        ("replication.policy.separator=\nsource.cluster.alias=", "heartbeats are still copied to A.heartbeats"),
        ("replication.policy.separator=_ ", 'MirrorMaker 2 creates no topic with it; here it is "_"'),
        ("A.ssl.enabled.protocols=TLSv1.3", "of Java's clients only"),
        ("A.topics=x", "MirrorMaker 2 ignores on a cluster"),
        ("consumer.isolation.level=read_committed", "MirrorMaker 2 drops it"),
        ("A.transforms=x", "no code of yours"),
        ("A->B.tasks.max=100", "at most 64"),
        ("topics=a\ntopics=b", "line 5 does not count"),
        ("refresh.topics.interval.second=1", "no setting of MirrorMaker 2 that is known"),
    ],
)
def test_what_is_not_taken_over_is_reported(line: str, told: str) -> None:
    assert any(told in words for words in environment({"mm2.properties": f"{BASE}{line}\n"}).notes.different)


def _settings_of_the_page() -> set[str]:
    """Whole names in the first columns; those with a star or in short form after another are left out."""
    rows = re.findall(r"^\| ([^|]+) \|", PAGE, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([a-z][a-z.-]+\.[a-z.-]+)`", row)}


def test_no_setting_of_the_page_is_unknown_to_the_import() -> None:
    for name in sorted(_settings_of_the_page()):
        lines = (f"{prefix}{name}=1\n" for prefix in ("", "A.", "A->B."))
        told = [str(environment({"f": BASE + line}).notes.different) for line in lines]
        assert not all(not_imported.UNKNOWN in words for words in told), name


SETTINGS = [
    line.partition(" ")[::2] for line in (GOLDEN / "settings.txt").read_text("utf-8").splitlines() if line[:1] != "#"
]
PREFIXES = (
    "", "A.", "B.", "A->B.", "B->A.", "consumer.", "producer.", "A.consumer.", "A.producer.", "A.admin.", "B.consumer.",
    "B.producer.", "B.admin.", "A->B.source.consumer.", "A->B.consumer.", "A->B.source.admin.", "A->B.target.producer.",
    "A->B.producer.override.",
)  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_setting_goes_without_a_word(prefix: str) -> None:
    """Each one alone: it is on a line that is written, or named among what is told, or in the reason of a refusal."""
    untold = []
    for name, value in SETTINGS:
        made = environment({"f": f"{BASE}{prefix}{name}={value}\n"})
        origins = {line.origin for lines in made.lines.values() for line in lines if not isinstance(line.origin, str)}
        words = [f"{one.where}: {one.name}" for one in origins] + [*map(str, made.notes.mistakes)]
        words += [*made.notes.different, *(one for names in made.notes.unneeded.values() for one in names)]
        if not any(f"{prefix}{name}" in one or one.startswith("f:5:") for one in words) and not made.disabled:
            untold.append(f"{prefix}{name}")
        assert "hunter2" not in str((words, made.texts()))
    assert untold == []


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("B.consumer.isolation.level=read_committed", "of reading from a cluster that no flow reads from"),
        ("B.consumer.auto.offset.reset=latest", "of reading from a cluster that no flow reads from"),
        ("A.consumer.isolation.level=x\nA->B.source.consumer.isolation.level=read_uncommitted", "f:5:1: A.consumer"),
        ("topics=a\nA->B.topics=b", "f:5:1: topics is not taken over"),
        ("topics.exclude=a\ntopics.blacklist=b", "f:6:1: topics.blacklist is not taken over"),
        ("sasl.mechanism=PLAIN\nA.sasl.mechanism=PLAIN\nB.sasl.mechanism=PLAIN", "f:5:1: sasl.mechanism is"),
        ("A->B.emit.heartbeats.enabled=false\nemit.heartbeats.interval.seconds=5", "f:6:1: emit.heartbeats"),
        ("A.ssl.keystore.location=/k.pem\nA.ssl.keystore.password=a\nA.ssl.key.password=b", "f:6:1: A.ssl"),
        (
            "A.security.protocol=SASL_SSL\nA.sasl.mechanism=PLAIN\n"
            "A.sasl.jaas.config=x.PlainLoginModule required username=u password=p serviceName=s;",
            "serviceName of the",
        ),
        (
            "A.sasl.jaas.config=x.PlainLoginModule required username=u password=p;",
            "A.sasl.jaas.config has no effect: security.protocol is PLAINTEXT, which has no login",
        ),
    ],
)
def test_settings_without_effect_are_reported(lines: str, told: str) -> None:
    different = environment({"f": f"{BASE}{lines}\n"}).notes.different
    assert any(told in words for words in different), different


def test_defaults_of_ours_are_reported_once() -> None:
    notes = environment({"f": f"{BASE}replication.factor=-1\nemit.offset-syncs.enabled=false\n"}).notes
    assert notes.unneeded[not_imported.SAME] == ["replication.factor", "emit.offset-syncs.enabled"]


def test_the_reasons_are_those_of_the_page() -> None:
    plain = re.sub(r" \(\[[^\]]*\]\([^)]*\)\)", "", PAGE).replace("*", "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    for _, words in (*not_imported.DIFFERENT, *not_imported.EQUAL):
        assert words in plain, words


def connector(kind: str, pair: tuple[str, str] = ("A", "B"), **settings: object) -> dict[str, object]:
    source, target = pair
    ends = {
        "source.cluster.alias": source,
        "target.cluster.alias": target,
        "source.cluster.bootstrap.servers": f"{source.lower()}:1",
        "target.cluster.bootstrap.servers": f"{target.lower()}:1",
    }
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return {"connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector", **ends, **named}


def test_lines_of_json_are_those_of_the_key_also_where_one_comes_twice_or_the_class_last() -> None:
    first = [
        '"source.cluster.alias": "A"',
        '"topics": "a"',
        '"topics": "b"',
        '"connector.class": "MirrorSourceConnector"',
    ]
    second = ['"target.cluster.alias": "C"', '"topics": ["c"]', '"connector.class": "MirrorSourceConnector"']
    notes = environment({"c.json": "[{\n" + ",\n".join(first) + "\n}, {\n" + ",\n".join(second) + "\n}]"}).notes
    assert "c.json:4:1: topics is written again; line 3 does not count" in notes.different
    assert [str(mistake).partition(" it ")[0] for mistake in notes.mistakes] == ["c.json:8:1: topics:"]
    other = '{"connector.class": "org.example.Other",\n"topics": "x"}'
    notes = environment(
        {"c.json": f'[{other},\n{{\n"connector.class": "MirrorSourceConnector",\n"topics": null}}]'}
    ).notes
    assert (
        "c.json:1:1: this connector is org.example.Other, none of MirrorMaker 2's three, and is left out"
        in notes.different
    )
    assert "c.json:5:1: topics is null, which says nothing" in notes.different


def of_connect(*connectors: dict[str, object]) -> Flow:
    made = environment({f"{n}.json": json.dumps(one, indent=1) for n, one in enumerate(connectors)})
    assert made.notes.mistakes == []
    (flow,) = load(made.texts(), "e").flows.values()
    return flow


def test_the_connectors_of_a_pair_are_one_flow_and_a_missing_one_does_nothing() -> None:
    source = connector("Source", topics="x", groups="not mine", emit__heartbeats__interval__seconds="9")
    alone = of_connect(source)
    assert (alone.groups.sync_offsets, alone.mirrormaker_topics.heartbeats) == (False, None)
    checkpoint = connector("Checkpoint", topics="y", groups="g", sync__group__offsets__enabled="true")
    beats = connector("Heartbeat", emit__heartbeats__interval__seconds="5")
    whole = of_connect(checkpoint, {"name": "beats", "config": beats}, source)
    assert (whole.topics, whole.groups.include, whole.groups.sync_offsets) == (("x",), ("g",), True)
    assert whole.mirrormaker_topics.heartbeats == 5000


IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@pytest.mark.parametrize(
    "setting",
    [
        {"replication.policy.class": IDENTITY},
        {"replication.policy.separator": "_"},
        {"replication.policy.internal.topic.separator.enabled": "false"},
        {"topics": "payments"},
        {"topics.exclude": "x"},
        {"consumer.auto.offset.reset": "latest"},
        {"source.consumer.isolation.level": "read_uncommitted"},
        {"consumer.override.auto.offset.reset": "latest"},
        {"tasks.max": "40"},
        {"replication.factor": "1"},
        {"sync.topic.configs.enabled": "false"},
        {"sync.topic.acls.enabled": "true"},
        {"use.defaults.from": "source"},
        {"offset-syncs.topic.location": "target"},
        {"exactly.once.support": "required"},
        {"transforms": "t", "transforms.t.type": "k.RegexRouter"},
        {"topic.filter.class": "com.x.Y"},
    ],
)
@pytest.mark.parametrize("kind", ["Checkpoint", "Heartbeat"])
def test_what_only_a_connector_that_copies_nothing_sets_changes_no_copy(kind: str, setting: dict[str, str]) -> None:
    source, plain = connector("Source", topics="x"), connector(kind)
    made = environment({"c.json": json.dumps([source, plain | setting])})
    assert made.notes.mistakes == []
    assert (
        load(made.texts(), "e").flows == load(environment({"c.json": json.dumps([source, plain])}).texts(), "e").flows
    )
    for name in setting:
        assert any(f"{name} of Mirror{kind}Connector is left out" in told for told in made.notes.different) or (
            name == "topics" and any("topics of" in told and "which counts" in told for told in made.notes.different)
        )


def test_a_policy_that_only_the_source_connector_has_is_the_flows_and_the_difference_is_reported() -> None:
    source = connector("Source", topics="x") | {"replication.policy.class": IDENTITY}
    made = environment({"c.json": json.dumps([source, connector("Checkpoint", groups="g")])})
    assert load(made.texts(), "e").flows["A-to-B"].naming.policy == "identity"
    assert any(
        "replication.policy.class is not set in MirrorCheckpointConnector" in told for told in made.notes.different
    )


def test_what_tunes_the_checkpoint_connector_is_named_and_changes_nothing() -> None:
    source, checkpoint = connector("Source", topics="x"), connector("Checkpoint") | {"key.converter": "x.Y"}
    made = environment({"c.json": json.dumps([source, checkpoint])})
    assert made.notes.unneeded["of a MirrorCheckpointConnector, which copies no record"] == ["key.converter"]


BEATLESS = BASE.replace("A->B.enabled=true", "enabled=true") + "emit.heartbeats.enabled=false\n"


def test_enabled_for_all_starts_nothing_without_heartbeats() -> None:
    """MirrorMakerConfig.clusterPairs has a pair for ``enabled`` of its own, or for its heartbeats."""
    assert "MirrorMaker 2 starts one by enabled of its own, or by its heartbeats" in refused(BEATLESS)
    assert "So it does not run A->B, B->A. Write A->B.enabled = true" in refused(BEATLESS)
    both = BASE.replace("A->B.enabled=true", "enabled=true")
    assert set(topology(both).flows) == {"A-to-B", "B-to-A"}
    assert set(topology(BEATLESS + "A->B.emit.heartbeats.enabled=true\n").flows) == {"A-to-B"}
    assert set(topology(both + "B->A.emit.heartbeats.enabled=false\n").flows) == {"A-to-B"}
    made = environment({"mm2.properties": BEATLESS + "B->A.enabled=true\nA->B.topics=x\n"})
    assert made.flows == ("B-to-A",)
    assert any("So it does not run A->B, which are not written" in told for told in made.notes.different)


def test_every_placeholder_is_reported_in_one_round(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters=A,B\nA.bootstrap.servers=${env:SRC}\nB.bootstrap.servers={{ target }}\nA->B.enabled=true\n"
        "A->B.topics=${file:/opt/x.properties:topics}\ntasks.max=<%= tasks %>\nA->B.groups=${GROUPS}\n"
        "use.defaults.from=nowhere\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        'B.sasl.jaas.config=x.PlainLoginModule required username="u" password="${env:PW}";\n'
    )
    code, told = imported(capfd, tmp_path / "env", file)
    assert code != 0
    lines = [line for line in told.splitlines() if line.startswith("mm2.properties:")]
    assert [line.split(": ")[0] for line in lines] == [f"mm2.properties:{number}:1" for number in (2, 3, 5, 6, 7, 8)]
    assert "it holds ${env:SRC}, which MirrorMaker 2's config provider env fills in (SRC)" in told
    assert "config provider file fills in (key topics of /opt/x.properties)" in told
    assert "it holds {{ target }}, which is filled in before MirrorMaker 2 reads the file" in told
    assert "use_defaults_from must be" in told


def test_placeholders_are_reported_of_connectors_too() -> None:
    source = connector("Source", topics="${env:TOPICS}") | {"source.cluster.bootstrap.servers": "${env:SRC}"}
    told = [str(one) for one in environment({"c.json": json.dumps(source, indent=1)}).notes.mistakes]
    assert len(told) == 2
    assert all("config provider env" in one for one in told)


def test_connectors_and_a_properties_file_are_one_environment() -> None:
    files = {"mm2.properties": BASE, "c.json": json.dumps(connector("Source", ("B", "C"), topics="x"))}
    made = environment(files)
    assert made.notes.mistakes == []
    assert (made.flows, made.connectors) == (
        ("A-to-B", "B-to-C"),
        {"B-to-C": ("MirrorSourceConnector", "connect-offsets")},
    )


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (['{"name": x}'], "c0.json:1:10: it begins like JSON and is none"),
        (["[" * 100_000], "c0.json:1:1: it begins like JSON and cannot be read"),
        (['{"name": ' + "1" * 5000 + "}"], "c0.json:1:1: it begins like JSON and cannot be read"),
        (["{}"], "c0.json: no connector of MirrorMaker 2 is in it"),
        (['{\n"name": "m",\n"config": {\n"topics": "x"\n}}'], "c0.json:4:1: connector m has no connector.class"),
        (
            [json.dumps([connector("Source"), {"name": "z", "config": {}}], indent=0)],
            "connector z has no connector.class",
        ),
        ([json.dumps({"connector.class": "io.example.Sink"})], "c0.json: no connector of MirrorMaker 2 is in it"),
        ([json.dumps(connector("Checkpoint"))], "there is no MirrorSourceConnector of A->B, so nothing is copied"),
        ([json.dumps([connector("Source"), connector("Source")])], "is a second MirrorSourceConnector of A->B"),
        (
            [
                json.dumps(connector("Source")),
                json.dumps(connector("Source", ("B", "C")) | {"source.cluster.bootstrap.servers": "elsewhere:1"}),
            ],
            "source.cluster.bootstrap.servers of B is another one than at c0.json:1:1",
        ),
    ],
)
def test_connectors_that_make_no_flow_are_reported_once(texts: list[str], words: str) -> None:
    (told,) = environment({f"c{n}.json": text for n, text in enumerate(texts)}).notes.mistakes
    assert words in str(told)


STRIMZI = """kind: KafkaMirrorMaker2
apiVersion: kafka.strimzi.io/v1
spec:
  target: {alias: B, bootstrapServers: "b:1"}
  mirrors:
  - source: {alias: A, bootstrapServers: "a:1"}
    sourceConnector: {}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("  mirrors:", "  mirror:", 4, "mirrors is no list of mirrors"),
        ("    sourceConnector: {}\n", "    sourceConnector: x\n", 7, "it is no mapping"),
        ("alias: A, ", "", 6, "alias is missing"),
        ('bootstrapServers: "b:1"', "x: y", 4, "bootstrapServers is missing"),
        ('"a:1"}', '"a:1", authentication: {type: kerberos}}', 6, 'authentication.type is "kerberos"'),
        (
            '"a:1"}',
            '"a:1", authentication: {type: oauth, clientId: c, accessToken: hunter2}}',
            6,
            "accessToken: no such",
        ),
        ('"a:1"}', '"a:1", authentication: {type: oauth, clientId: c}}', 6, "no oauth.client.secret"),
        ('"a:1"}', '"a:1", authentication: {type: plain, username: u}}', 6, "secretName is missing"),
        ("source: {alias: A", "sourceCluster: C #", 6, "no cluster of clusters has the alias"),
        ("  target: {", "  target: [", 4, "broken YAML"),
        ("sourceConnector: {}", "sourceConnector: {config: {topics: [a, b]}}", 7, "it is no text"),
    ],
)
def test_a_resource_of_strimzi_that_makes_no_flow_is_reported_with_its_line(
    old: str, new: str, line: int, words: str
) -> None:
    assert old in STRIMZI
    mistakes = [str(one) for one in environment({"mm2.yaml": STRIMZI.replace(old, new)}).notes.mistakes]
    assert any(one.startswith(f"mm2.yaml:{line}:") and words in one for one in mistakes), mistakes
    assert "hunter2" not in str(mistakes)


def test_resources_of_strimzi_are_read_as_kubectl_gives_them() -> None:
    one = {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaMirrorMaker2",
        "spec": {
            "connectCluster": "B",
            "clusters": [{"alias": alias, "bootstrapServers": f"{alias.lower()}:1"} for alias in "AB"],
            "mirrors": [{"sourceCluster": "A", "sourceConnector": {"config": {"replication.factor": -1}}}],
        },
    }
    for whole in (one, {"kind": "List", "items": [{"kind": "Pod"}, one]}):
        made = environment({"all.json": json.dumps(whole, indent=4)})
        assert made.notes.mistakes == []
        assert load(made.texts(), "e").flows["A-to-B"].replication_factor is None
        assert made.connectors == {"A-to-B": ("A->B.MirrorSourceConnector", "mirrormaker2-cluster-offsets")}


TWO_TARGETS = """
kind: KafkaMirrorMaker2
spec:
  connectCluster: B
  clusters:
  - {alias: A, bootstrapServers: "a:1"}
  - {alias: B, bootstrapServers: "b:1"}
  - {alias: C, bootstrapServers: "c:1"}
  mirrors:
  - {sourceCluster: A, targetCluster: B, sourceConnector: {}}
  - {sourceCluster: A, targetCluster: C, sourceConnector: {}}
"""


def test_a_mirror_to_another_cluster_than_connects_is_refused_since_strimzi_runs_none() -> None:
    [mistake] = map(str, environment({"mm2.yaml": TWO_TARGETS}).notes.mistakes)
    assert mistake.startswith("mm2.yaml:11:")
    assert "connectCluster is B, and a mirror's target is C" in mistake
    same = TWO_TARGETS.replace('"c:1"', '"b:1"')  # two logins of one cluster
    assert environment({"mm2.yaml": same}).notes.mistakes == []


def test_a_field_of_strimzi_that_is_null_is_one_left_out() -> None:
    plain = TWO_TARGETS[: TWO_TARGETS.rindex("  - {")].replace("spec:", "spec:\n  version:\n  replicas:")
    nulls = "sourceConnector: {tasksMax: , pause: , config: }, topicsPattern: , groupsBlacklistPattern: "
    made, without = (environment({"mm2.yaml": text}) for text in (plain.replace("sourceConnector: {}", nulls), plain))
    assert made.notes.mistakes == []
    assert made.texts() == without.texts()


def test_nothing_of_a_resource_of_strimzi_goes_without_a_word() -> None:
    """Each field that its two versions document, and one that they do not."""
    for file in ("strimzi-v1beta2", "strimzi-v1"):
        text = (GOLDEN / f"{file}.yaml").read_text("utf-8")
        told = (GOLDEN / f"{file}.txt").read_text("utf-8")
        spec = text[text.index("KafkaMirrorMaker2") :]
        for name in re.findall(r"^ *([a-z-]+(?:\.[a-z-]+)+): ", spec, re.MULTILINE):
            line = text[: text.index(f" {name}: ")].count("\n") + 1
            assert re.search(rf"{re.escape(name)}\b|\.yaml:{line}\b", told), name
    made = environment({"f": STRIMZI.replace("sourceConnector: {}", "sourceConnector: {}\n    surprise: 1")})
    assert any("mirrors.surprise is no field" in words for words in made.notes.different)


THERE = """
clusters:
  A: {bootstrap_servers: ["a:1"], cluster_id: kept}
topics: {orders: {clusters: [A], partitions: 1}}
"""


def added(capfd: pytest.CaptureFixture[str], folder: Path, text: str) -> tuple[int, str]:
    file = folder.parent / "mm2.properties"
    file.write_text(text, "utf-8")
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["import", str(file), "--into", str(folder)])
    told = "".join(capfd.readouterr())
    assert "Traceback" not in told
    return int(ended.value.code or 0), told


def test_an_environment_gets_what_it_lacks_and_keeps_what_it_has(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "env"
    folder.mkdir()
    (folder / "east.yaml").write_text(THERE, "utf-8")
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="secret";'
    login = "{0}.security.protocol=SASL_SSL\n{0}.sasl.mechanism=SCRAM-SHA-512\n{0}.sasl.jaas.config={1}\n"
    passwords = "".join(login.format(name, jaas) for name in "AB")
    code, told = added(capfd, folder, BASE + passwords + "A->B.topics=orders\n")
    assert code == 0, told
    assert "B_SASL_PASSWORD" in told
    assert "A_SASL_PASSWORD" not in told, "of a cluster that is declared already"
    assert (folder / "east.yaml").read_text("utf-8") == THERE
    made = load(read_environment(folder), "env")
    assert (made.clusters["A"].cluster_id, made.clusters["B"].bootstrap_servers) == ("kept", ("b:1",))
    assert made.flows["A-to-B"].topics == ("orders",)
    assert "A:" not in (folder / "imported.yaml").read_text("utf-8").replace("A-to-B:", "")
    assert "left alone, because already declared (1):\n  cluster A: declared at " in told
    assert f"reconciler mirror import-positions {folder} A-to-B" in told

    before = sorted(path.name for path in folder.iterdir())
    code, told = added(capfd, folder, BASE + "A->B.topics=payments\n")
    assert code == 0
    assert "nothing is missing" in told
    assert "flow A-to-B: declared at " in told
    assert "where topics differ" in told
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("has_schema", [True, False])
def test_an_added_file_names_the_schema_that_the_environment_has(
    has_schema: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "env"
    folder.mkdir()
    (folder / "east.yaml").write_text(THERE, "utf-8")
    if has_schema:
        (folder / "environment.schema.json").write_text("{}", "utf-8")
    code, told = added(capfd, folder, BASE)
    assert code == 0, told
    lines = (folder / "imported.yaml").read_text("utf-8").splitlines()
    assert (lines[0] == "# yaml-language-server: $schema=./environment.schema.json") is has_schema
    assert (folder / "environment.schema.json").exists() is has_schema


@pytest.mark.parametrize(
    ("there", "text", "words"),
    [
        (THERE.replace("a:1", "other:1"), BASE, "cluster A has other:1 in "),
        (THERE.replace("  A:", "  X:").replace("[A]", "[X]"), BASE, "both have the bootstrap server a:1"),
        ("clusters: [", BASE, "broken YAML"),
        (THERE, BASE + "topics=(", "not a regular expression"),
    ],
)
def test_nothing_is_added_where_it_would_contradict(
    there: str, text: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "env"
    folder.mkdir()
    (folder / "east.yaml").write_text(there, "utf-8")
    code, told = added(capfd, folder, text)
    assert code == 1
    assert words in told
    assert [path.name for path in folder.iterdir()] == ["east.yaml"]


def test_an_existing_folder_is_pointed_to_into_and_one_of_both_is_given(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, folder = tmp_path / "mm2.properties", tmp_path / "env"
    file.write_text(BASE)
    folder.mkdir()
    (folder / "x.yaml").write_text(THERE)
    code, told = imported(capfd, folder, file)
    assert code == 1
    assert f"reconciler import FILE... --into {folder}" in told
    with pytest.raises(SystemExit):
        main(["import", str(file)])
    assert "either --out or --into" in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("mechanism", "lines"),
    [
        ("OAUTHBEARER", f"{BEARER}\nB.sasl.login.callback.handler.class=com.acme.Own\n"),
        ("OAUTHBEARER", f"{BEARER}\nB.sasl.oauthbearer.token.endpoint.url=file:/t\n"),
        ("OAUTHBEARER", f"{BEARER} clientId=x;\nB.sasl.oauthbearer.token.endpoint.url=https://x/y\n"),
        ("SCRAM-SHA-512", "B.sasl.jaas.config=com.acme.Own required;\n"),
        ("SCRAM-SHA-512", "B.sasl.jaas.config=org.apache.ScramLoginModule required username=a;\n"),
    ],
)
def test_of_a_login_with_a_mistake_that_is_all_that_is_said(
    mechanism: str, lines: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without its login the cluster would be said to have no way to log in, on another line."""
    file, other = tmp_path / "mm2.properties", "A.security.protocol=SASL_SSL\nA.sasl.mechanism=CRAM-MD5\n"
    file.write_text(f"{BASE}B.security.protocol=SASL_SSL\nB.sasl.mechanism={mechanism}\n{lines}{other}")
    code, told = imported(capfd, tmp_path / "env", file)
    assert (code, "2 problems; nothing was written" in told) == (1, True), told
    assert "A.sasl.mechanism" in told, "another cluster's is said"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clusters: {east: {bootstrap_servers: ['e:1']}}", "a part of an environment of this program"),
        ("apiVersion: kafka.strimzi.io/v1\nkind: Kafka\n", "a Kafka of Strimzi, which import does not read"),
        ("kind: List\nitems: [{kind: KafkaMirrorMaker2}]\n", "holds no KafkaMirrorMaker2"),
    ],
)
def test_yaml_that_is_no_mirrormaker_s_is_called_what_it_is(text: str, words: str) -> None:
    [mistake] = environment({"x.yaml": text}).notes.mistakes
    assert words in mistake.words
    assert mistake.where.line == 1


OF_RELEASE = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
spec:
  {version}
  target: {{alias: b, bootstrapServers: 'b:9092'}}
  mirrors:
  - source: {{alias: a, bootstrapServers: 'a:9092'}}
    sourceConnector: {{}}
    topicsExcludePattern: secret.*
"""


@pytest.mark.parametrize(
    ("version", "policy", "said"),
    [
        ("version: 3.9.0", "default-before-4.0", False),
        ("version: 4.1.0", "default", False),
        ("replicas: 1", "default", True),
    ],
)
def test_topics_that_an_older_release_keeps_back_do_not_travel(version: str, policy: str, said: bool) -> None:
    """Before 4.0 none that ends in .internal does, whatever ``topics.exclude`` says."""
    made = environment({"mm2.yaml": OF_RELEASE.format(version=version)})
    assert made.notes.mistakes == []
    [only] = load(made.texts(), "e").flows.values()
    assert policy_word(only.naming.policy) == policy
    assert any("before 4.0" in words for words in made.notes.different) is said
    assert not any("spec.version" in words for words in made.notes.different), "it is a setting that is known"


def test_many_documents_and_blank_lines_are_read_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    resource = "kind: KafkaMirrorMaker2\nspec:\n  mirrors: []\n  clusters: []\n---\n"
    for number, text in enumerate((resource * 1_000, "\n" * 300_000 + resource)):
        (tmp_path / f"{number}.yaml").write_text(text)
        began = time.process_time()
        code, said = imported(capfd, tmp_path / "env", tmp_path / f"{number}.yaml")
        assert time.process_time() - began < 10
        assert (code, "no flow is enabled" in said) == (1, True)


@pytest.mark.parametrize("file", ["mm2.properties", "mm2.json"])
def test_no_name_of_a_file_begins_a_line_or_steers_a_terminal(
    file: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    connector = {
        "connector.class": "MirrorSourceConnector", "source.cluster.alias": "A", "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a:1", "target.cluster.bootstrap.servers": "b:1", "topics": "x",
    }  # fmt: skip
    text = json.dumps({"name": "m\n::error::\x1b[31m", "config": connector})
    if file == "mm2.properties":
        text = BASE.replace("A", "A\\n::error::")
    (tmp_path / file).write_text(text)
    code, said = imported(capfd, tmp_path / "env", tmp_path / file)
    assert code == (0 if file == "mm2.json" else 1)
    assert "\n::error" not in said
    assert "\x1b" not in said


def test_thousands_of_mistakes_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    aliases = [f"c{number}" for number in range(500)]
    (tmp_path / "mm2.properties").write_text(f"clusters = {','.join(aliases)}\n")
    code, said = imported(capfd, tmp_path / "env", tmp_path / "mm2.properties")
    assert code == 1
    assert "and 400 more\n500 problems; nothing was written." in said


@pytest.mark.parametrize(
    "lines",
    [
        "streams.replication.manager.driver.target.cluster = B\n",
        "workers.scheduled.rebalance.max.delay.ms = 1\n",
        "replication.policy.class = com.cloudera.dim.mirror.MigratingReplicationPolicy\n",
    ],
)
def test_a_file_of_streams_replication_manager_copies_no_topic_that_it_does_not_name(lines: str) -> None:
    """Its driver copies what a list in Kafka names; MirrorMaker 2 without topics copies all."""
    assert "A->B.topics is missing" in refused(BASE + lines)
    assert "srm-control topics --source A --target B --list" in refused(BASE + lines)
    assert flow(f"{BASE}{lines}A->B.topics = orders\n").topics == ("orders",)
    [said] = [
        words
        for words in environment({"srm.conf": f"{BASE}{lines}A->B.topics = o\n"}).notes.different
        if "srm-control" in words
    ]
    assert "which is not read: compare topics" in said


def test_the_name_of_cloudera_managers_file_is_enough() -> None:
    [mistake] = environment({"srm.properties": BASE}).notes.mistakes
    assert str(mistake).startswith("srm.properties:4:1: A->B.topics is missing.")
