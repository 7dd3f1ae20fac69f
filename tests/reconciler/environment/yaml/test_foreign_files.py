"""A file of another tool is one problem: what it is, and which command takes over what it declares."""

from __future__ import annotations

import pytest

from reconciler.environment.load import load
from reconciler.environment.yaml.read import read
from reconciler.errors import TopologyError

OURS = "clusters:\n  east: {bootstrap_servers: [e:9092]}\ntopics:\n  orders: {clusters: [east]}\n"
STRIMZI = """apiVersion: kafka.strimzi.io/v1beta2
kind: {kind}
metadata: {{name: orders, labels: {{strimzi.io/cluster: main}}}}
spec: {{partitions: 3, replicas: 3}}
"""
TOPICCTL = "meta: {name: orders, cluster: c, environment: e, region: r}\nspec: {partitions: 9, replicationFactor: 2}\n"
GITOPS = (
    "topics:\n  orders: {partitions: 6, replication: 3}\nservices:\n  app: {type: application, produces: [orders]}\n"
)
JULIE = "context: acme\nprojects:\n  - {name: foo, topics: [{name: foo, config: {num.partitions: '1'}}]}\n"


@pytest.mark.parametrize(
    ("text", "what", "command"),
    [
        (STRIMZI.format(kind="KafkaTopic"), "a KafkaTopic of Strimzi", "reconciler adopt"),
        (STRIMZI.format(kind="KafkaUser"), "a KafkaUser of Strimzi", "reconciler adopt"),
        (STRIMZI.format(kind="KafkaMirrorMaker2"), "a KafkaMirrorMaker2 of Strimzi", "reconciler import FILE"),
        (STRIMZI.format(kind="KafkaTopic") * 2, "a KafkaTopic of Strimzi", "reconciler adopt"),
        (f"{STRIMZI.format(kind='KafkaTopic')}---\n{STRIMZI.format(kind='KafkaTopic')}", "Strimzi", "reconciler adopt"),
        (
            "apiVersion: kafka.jikkou.io/v1beta2\nkind: KafkaTopicList\nitems: []\n",
            "a KafkaTopicList of Jikkou",
            "adopt",
        ),
        (TOPICCTL, "a topic of topicctl", "reconciler adopt"),
        (GITOPS, "a desired state of kafka-gitops", "reconciler adopt"),
        (GITOPS.partition("services")[0], "a desired state of kafka-gitops", "reconciler adopt"),
        (JULIE, "a topology of JulieOps", "reconciler adopt"),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n", "a Deployment of Kubernetes", "Move it out"),
        ("services:\n  kafka: {image: x}\n", "a file of Docker Compose", "Move it out"),
    ],
)
def test_it_is_one_sentence_and_a_command(text: str, what: str, command: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load({"ours.yaml": OURS, "theirs.yaml": text}, "env")
    [problem] = caught.value.problems
    assert (problem.code, problem.where.file) == ("foreign-file", "theirs.yaml")
    assert what in problem.what
    assert command in problem.todo


@pytest.mark.parametrize(
    "text",
    [
        OURS.replace("orders: {clusters: [east]}", "orders: {clusters: [east], replication: 3}"),  # a slip in ours
        OURS + "service: x\n",
        "topics: {}\n",
    ],
)
def test_a_slip_in_a_file_of_ours_is_not_taken_for_another_tools(text: str) -> None:
    assert not [problem for problem in read("t.yaml", text).problems if problem.code == "foreign-file"]
