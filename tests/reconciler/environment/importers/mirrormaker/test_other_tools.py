"""Files of other tools, as people name them to ``import``: each is called what it is, with a command that exists; and
what only looks foreign is imported."""

from __future__ import annotations

import re
import shlex
import time

import pytest
from typer.main import get_command

from reconciler.cli.main import app
from reconciler.environment.importers.mirrormaker.environment import environment
from reconciler.environment.load import load
from reconciler.environment.yaml.read import other_tool

ADOPT, INIT, OTHERWISE = "reconciler adopt ", "reconciler init ", ""
MM2 = "clusters = a, b\na.bootstrap.servers = a:9092\nb.bootstrap.servers = b:9092\na->b.enabled = true\n"
STRIMZI = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: m}
spec:
  connectCluster: b
  clusters:
  - {alias: a, bootstrapServers: "a:9092"}
  - {alias: b, bootstrapServers: !unsafe "b:9092"}
  mirrors:
  - sourceCluster: a
    targetCluster: b
    topicsPattern: !unsafe "(x|y).*"
    sourceConnector: {}
"""
OTHERS = [
    ("consumer.properties", "bootstrap.servers=a:1\ngroup.id=g\nauto.offset.reset=earliest\n", "MirrorMaker 1", INIT),
    ("consumer.config", "zookeeper.connect=z:2181\ngroup.id = g\n", "a consumer's properties", INIT),
    ("producer.properties", "bootstrap.servers=b:1\nacks=all\n", "a producer's properties", INIT),
    (
        "start.sh",
        "kafka-mirror-maker.sh --consumer.config c --producer.config p --whitelist 'a.*'\n",
        "MirrorMaker 1",
        INIT,
    ),
    (
        "mm.yaml",
        "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaMirrorMaker\nspec: {include: a}\n",
        "a KafkaMirrorMaker of Strimzi",
        INIT,
    ),
    (
        "srm-service.json",
        '{"items": [{"name": "streams.replication.manager.config", "value": "a.bootstrap.servers=a:1|..."}]}',
        "a configuration of Cloudera Manager",
        OTHERWISE,
    ),
    (
        "template.json",
        '{"services": [{"refName": "srm", "serviceType": "STREAMS_REPLICATION_MANAGER"}]}',
        "a configuration of Cloudera Manager",
        OTHERWISE,
    ),
    (
        "srm.conf",
        "clusters=a,b\nstreams.replication.manager.config=a.bootstrap.servers=a:1|b.bootstrap.servers=b:1\n",
        "a configuration of Cloudera Manager",
        OTHERWISE,
    ),
    ("run.sh", "exec bin/connect-mirror-maker.sh mm2.properties\n", "a command line of MirrorMaker 2", OTHERWISE),
    (
        "compose.yaml",
        "services:\n  m:\n    image: kafka\n    command: bin/connect-mirror-maker.sh m\n",
        "a command line of MirrorMaker 2",
        OTHERWISE,
    ),
    (
        "t.yaml",
        "apiVersion: kafka.jikkou.io/v1beta2\nkind: KafkaTopicList\nitems: []\n",
        "a KafkaTopicList of Jikkou",
        ADOPT,
    ),
    ("t.json", '{"apiVersion": "kafka.jikkou.io/v1", "kind": "KafkaTopic"}', "a KafkaTopic of Jikkou", ADOPT),
    (
        "t.yaml",
        "meta: {name: t, cluster: c}\nspec: {partitions: 3, replicationFactor: 2}\n",
        "a topic of topicctl",
        ADOPT,
    ),
    ("c.yaml", "meta: {name: c}\nspec: {bootstrapAddrs: ['a:1']}\n", "a cluster of topicctl", ADOPT),
    ("d.yaml", "---\ncontext: c\nprojects: [{name: p}]\n", "a topology of JulieOps", ADOPT),
    ("d.json", '{"context": "c", "projects": []}', "a topology of JulieOps", ADOPT),
    ("main.tf", 'resource "kafka_topic" "t" {\n  name = "t"\n}\n', "a configuration of Terraform", ADOPT),
    ("main.tf", "terraform {\n  required_providers {}\n}\n", "a configuration of Terraform", ADOPT),
    ("c.tf", 'resource "confluent_kafka_acl" "x" {\n}\n', "a configuration of Terraform", ADOPT),
    ("c.tf", 'resource "confluent_cluster_link" "x" {\n}\n', "a cluster link in Terraform", INIT),
    ("main.tf.json", '{"resource": {"kafka_topic": {}}}', "a file of Terraform", ADOPT),
    (
        "terraform.tfstate",
        '{"version": 4, "terraform_version": "1.9.0", "resources": []}',
        "a file of Terraform",
        ADOPT,
    ),
    ("p.yml", "- hosts: mm2\n  tasks: []\n", "a playbook of Ansible", OTHERWISE),
    ("v.yml", "mm2:\n  topics: !unsafe '{{ a }}'\n", "a file of Ansible", OTHERWISE),
    ("v.yml", "password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n", "a file of Ansible", OTHERWISE),
    ("r.properties", "src.kafka.bootstrap.servers=a:1\ntopic.whitelist=x\n", "Confluent's Replicator", INIT),
    (
        "r.json",
        '{"config": {"connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector"}}',
        "ReplicatorSourceConnector",
        INIT,
    ),
    ("r.json", '{"ReplicatorName": "r", "ReplicationInfoList": []}', "a replicator of Amazon MSK", INIT),
    ("l.yaml", "apiVersion: platform.confluent.io/v1beta1\nkind: ClusterLink\n", "a ClusterLink of Confluent", INIT),
    ("u.yaml", "apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\n", "a KafkaUser of Strimzi", ADOPT),
    ("server.properties", "broker.id=1\nlog.dirs=/d\n", "a configuration of a broker", ADOPT),
    (
        "g.yaml",
        "topics:\n  t: {partitions: 1, replication: 3}\nservices: {}\n",
        "a desired state of kafka-gitops",
        ADOPT,
    ),
]


@pytest.mark.parametrize(("file", "text", "thing", "command"), OTHERS, ids=[f"{each[0]}-{each[2]}" for each in OTHERS])
def test_a_file_of_another_tool_is_called_what_it_is(file: str, text: str, thing: str, command: str) -> None:
    [mistake] = environment({file: text}).notes.mistakes
    assert thing in mistake.words
    assert command in mistake.words
    assert mistake.words.endswith(".")
    if command:
        name = command.split()[1]
        options = {opt for param in get_command(app).commands[name].params for opt in param.opts}  # type: ignore[attr-defined]
        said = re.search(rf"{command}.*? writes ", mistake.words)
        assert said is not None
        assert {word for word in shlex.split(said.group()) if word.startswith("--")} <= options


def test_what_ansible_leaves_as_it_is_is_read_as_it_is() -> None:
    task = "- kubernetes.core.k8s:\n    definition:" + STRIMZI.replace("\n", "\n      ").rstrip() + "\n"
    for text in (STRIMZI, task):
        made = environment({"m.yaml": text})
        assert made.notes.mistakes == []
        flow = load(made.texts(), "e").flows["a-to-b"]
        assert flow.topics == ("(x|y).*", r"(.*\.)?heartbeats")


@pytest.mark.parametrize("value", ["<your-topics>", "%TOPICS%", "@topics@", "{{ topics }}", "${env:T}"])
def test_a_value_that_is_still_to_be_written_is_named(value: str) -> None:
    [mistake] = environment({"m.properties": f"{MM2}a->b.topics = {value}\n"}).notes.mistakes
    assert f"it holds {value}" in mistake.words
    assert mistake.where.line == 5


@pytest.mark.parametrize("value", ["(?<!x)orders", r"(?P<n>a)", "a%b", "x@y"])
def test_an_expression_is_no_placeholder(value: str) -> None:
    words = "".join(
        mistake.words for mistake in environment({"m.properties": f"{MM2}a->b.topics = {value}\n"}).notes.mistakes
    )
    assert "it holds" not in words


LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="%s";'


def logins(**users: str) -> str:
    return MM2 + "".join(
        f"a.{kind}.security.protocol = SASL_SSL\na.{kind}.sasl.mechanism = PLAIN\n"
        f"a.{kind}.sasl.jaas.config = {LOGIN % user}\n"
        for kind, user in users.items()
    )


def test_one_login_that_is_written_for_each_kind_of_client_is_the_clusters() -> None:
    made = environment({"m.properties": logins(consumer="x", admin="x")})
    assert made.notes.mistakes == []
    assert dict(load(made.texts(), "e").clusters["a"].client) == {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u",
        "sasl.password": "${env:A_SASL_PASSWORD}",
    }  # fmt: skip
    assert "a.admin.sasl.jaas.config at m.properties:10:1" in made.notes.secrets["A_SASL_PASSWORD"]


@pytest.mark.parametrize(
    "users", [{"consumer": "x"}, {"consumer": "x", "producer": "x"}, {"consumer": "x", "admin": "y"}]
)
def test_logins_that_differ_or_leave_a_client_without_one_are_refused(users: dict[str, str]) -> None:
    mistakes = environment({"m.properties": logins(**users)}).notes.mistakes
    assert all("a cluster has one connection here. Write what holds as a." in mistake.words for mistake in mistakes)
    assert mistakes
    assert not any("password" in mistake.words for mistake in mistakes)


@pytest.mark.parametrize("text", ["\n" * 200_000, " " * 200_000, "a " * 100_000, '"" ' * 60_000, "\n \t" * 60_000])
def test_no_text_keeps_it_waiting(text: str) -> None:
    began = time.process_time()
    other_tool("x.tf", text)
    assert time.process_time() - began < 5
