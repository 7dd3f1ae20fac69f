"""What a mirror says to Spark: keys that have no effect, settings that the job or another key decides, the control
channel, and secrets that must not be in git."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.environment.topology import Mirror
from reconciler.replication.handover import ChannelSettings, Deployment, ExecutorPython
from reconciler.replication.handover_reader import parse
from reconciler.resources.mirrors.handover import handover_text, mirror_handover

ENVIRONMENT = """
clusters:
  east: {bootstrap_servers: [e:1]}
  west: {bootstrap_servers: [w:1]}
flows:
  one: {source: east, target: west, topics: [orders]}
mirrors:
"""


def mirror(*lines: str) -> Mirror:
    return load({"a.yaml": f"{ENVIRONMENT}  west:\n" + "".join(f"    {line}\n" for line in lines)}, "env").mirrors[
        "west"
    ]


def problem_lines(*lines: str) -> list[tuple[int, str]]:
    """The mirror's line that each problem names, and its code."""
    try:
        mirror(*lines)
    except TopologyError as error:
        first = ENVIRONMENT.count("\n") + 1
        return [(problem.where.line - first, problem.code) for problem in error.problems]
    return []


FULL = (
    "master: spark://h:7077",
    "parallelism: 4",
    "executors: 2",
    "cores: 2",
    "memory: 2g",
    "python: {archive: /srv/python.tar.gz, executable: ./environment/bin/python3}",
)


def test_all_keys_of_a_cluster() -> None:
    python = ExecutorPython("/srv/python.tar.gz", "./environment/bin/python3")
    read = mirror(*FULL, "deploy_mode: client", "verify_conf: {spark.cores.max: 1}")
    assert read.deployment == Deployment("client", 2, 2, "2g", python)
    assert read.verify_conf == {"spark.cores.max": "1"}


@pytest.mark.parametrize("key", ["executors: 2", "cores: 2", "memory: 1g", "python: {archive: /a.tgz}"])
def test_what_a_local_master_does_not_read_is_refused(key: str) -> None:
    assert problem_lines(key) == [(1, "no-effect")]
    assert problem_lines("master: yarn", key) == []


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("deploy_mode: client",), []),
        (("deploy_mode: cluster",), [(1, "deploy-mode")]),
        (("deploy_mode: cluster", "master: spark://h:7077"), [(1, "deploy-mode")]),
        (("deploy_mode: cluster", "master: yarn"), []),
        (("deploy_mode: cluster", "master: k8s://https://h:6443"), []),
        (
            ("deploy_mode: cluster", "master: yarn", "spark_conf: {spark.driver.host: h}"),
            [(3, "set-by-the-job")],
        ),
        (("master: yarn", "spark_conf: {spark.driver.host: h}"), []),
        (
            ("deploy_mode: cluster", "master: yarn", "spark_conf: {spark.yarn.submit.waitAppCompletion: false}"),
            [(3, "set-by-the-job")],
        ),
        (("deploy_mode: cluster", "master: yarn", "spark_conf: {spark.yarn.submit.waitAppCompletion: true}"), []),
        (("master: spark://h:7077", "executors: 2"), [(2, "no-effect")]),
        (("master: spark://h",), [(1, "bad-value")]),
        (("master: spark://h:99999",), [(1, "bad-value")]),
        (("master: spark://user:c4nary@h:7077",), [(1, "bad-value")]),
        (("master: spark://h:7077/x",), [(1, "bad-value")]),
        (("master: spark://h:7077,standby:7077",), []),
        (("master: k8s://h:6443",), []),
        (("master: k8s://https://rancher/k8s/clusters/c-1",), []),
        (("master: k8s://https://user:c4nary@h:6443",), [(1, "bad-value")]),
        (("master: yarn", "executors: 3", "cores: 1", "parallelism: 4"), [(2, "too-few-cores")]),
        (("master: yarn", "executors: 4", "cores: 1", "parallelism: 4"), []),
        (("spark_conf: {spark.speculation: true}",), [(1, "set-by-the-job")]),
        (("spark_conf: {spark.speculation: false, spark.scheduler.mode: fair}",), []),
        (("verify_conf: {spark.scheduler.mode: FIFO}",), [(1, "set-by-the-job")]),
        (("spark_conf: {spark.submit.deployMode: client}",), [(1, "set-twice")]),
        (("master: yarn", "memory: 1g", "spark_conf: {spark.executor.memory: 2g}"), [(3, "set-twice")]),
        (("master: yarn", "memory: 1g", "verify_conf: {spark.executor.memory: 2g}"), []),
        (("master: yarn", "spark_conf: {spark.executor.memory: 2g}"), []),
        (("master: yarn", "spark_conf: {spark.python.unix.domain.socket.enabled: true}"), [(2, "socket-path")]),
        (("spark_conf: {spark.python.unix.domain.socket.enabled: true}",), []),
        (("master: yarn", "spark_conf: {spark.python.unix.domain.socket.dir: /tmp}"), []),
        ((f"spark_conf: {{spark.python.unix.domain.socket.dir: /{'x' * 65}}}",), [(1, "socket-path")]),
        (("master: yarn", "python: {archive: relative.tar.gz}"), [(2, "bad-value")]),
        (("master: yarn", "memory: 2 GiB"), [(2, "bad-value")]),
    ],
)
def test_each_problem_has_its_line(lines: tuple[str, ...], found: list[tuple[int, str]]) -> None:
    assert problem_lines(*lines) == found


@pytest.mark.parametrize("key", ["spark.a=b", "spark.a b", "spark.\u202ea", "spark."])
def test_a_name_in_which_spark_would_read_another_setting_is_refused(key: str) -> None:
    with pytest.raises(TopologyError, match=r"spark\.something"):
        load(environment(spark_conf={key: "x"}), "e")


STANDALONE = {"master": "spark://h:7077"}


def environment(**mirror: Any) -> dict[str, str]:
    clusters = {name: {"bootstrap_servers": [f"{name}:9092"]} for name in ("east", "west")}
    flows = {"f": {"source": "east", "target": "west", "topics": ["orders"]}}
    return {"a.yaml": json.dumps({"clusters": clusters, "flows": flows, "mirrors": {"west": mirror}})}


def problems(**mirror: Any) -> list[tuple[str, str]]:
    with pytest.raises(TopologyError) as caught:
        load(environment(**mirror), "env")
    return [(problem.code, problem.what) for problem in caught.value.problems]


def test_the_channel_reaches_the_job_as_it_is_declared() -> None:
    channel = {"bind_address": "0.0.0.0", "advertised_address": "driver.example.net", "ports": "40000-40010"}
    topology = load(environment(**STANDALONE, channel=channel), "env")
    text = handover_text(mirror_handover(topology, topology.mirrors["west"]))
    assert parse(text).channel == ChannelSettings("0.0.0.0", "driver.example.net", 40000, 40010)
    without = load(environment(**STANDALONE), "env")
    assert "channel" not in mirror_handover(without, without.mirrors["west"]), "its fingerprint is as it was"


@pytest.mark.parametrize("ports", ["40000-40000", "40010-40000", "0-5", "65530-65536"])
def test_a_range_has_two_ports_that_exist(ports: str) -> None:
    assert problems(**STANDALONE, channel={"ports": ports}) == [
        ("out-of-range", f'mirror west: channel.ports is "{ports}"')
    ]


def test_what_a_master_does_not_read_is_refused() -> None:
    assert problems(channel={"ports": "40000-40010"}) == [
        ("no-effect", "mirror west: with the master local[2], channel has no effect")
    ]
    assert problems(master="yarn", spark_conf={"spark.authenticate.secret": "${env:A}"}) == [
        ("no-effect", "mirror west: with the master yarn, spark.authenticate.secret has no effect")
    ]


@pytest.mark.parametrize(
    "key",
    [
        "spark.authenticate.secret",
        "spark.ssl.keyPassword",
        "spark.x.password",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.bucket.logs.session.token",
        "spark.hadoop.fs.azure.account.key.logs.dfs.core.windows.net",
        "spark.hadoop.fs.azure.account.oauth2.client.secret.logs.dfs.core.windows.net",
    ],
)
@pytest.mark.parametrize("text", ["c4nary", "c4nary${env:A}"])
def test_no_secret_of_spark_is_in_git_or_in_the_message(key: str, text: str) -> None:
    (problem,) = problems(**STANDALONE, spark_conf={key: text})
    assert problem[0] in ("secret-in-git", "reference-not-here")
    assert "c4nary" not in problem[1]


@pytest.mark.parametrize(
    "key", ["spark.hadoop.fs.s3a.access.key", "spark.hadoop.fs.azure.sas.token.provider.type", "spark.app.name"]
)
def test_what_only_names_a_secret_may_be_in_git(key: str) -> None:
    topology = load(environment(**STANDALONE, spark_conf={key: "x"}), "env")
    assert topology.mirrors["west"].spark_conf == {key: "x"}


@pytest.mark.parametrize(
    ("master", "conf", "open_to_all"),
    [
        ("spark://h:7077", {}, True),
        ("spark://h:7077", {"spark.authenticate.secret": "${env:A}"}, False),
        ("spark://h:7077", {"spark.authenticate": "true"}, False),
        ("spark://h:7077", {"spark.authenticate": "false", "spark.authenticate.secret": "${env:A}"}, True),
        ("yarn", {}, False),
        ("local[2]", {}, False),
    ],
)
def test_a_standalone_cluster_lets_everybody_in_unless_it_is_said_otherwise(
    master: str, conf: dict[str, str], open_to_all: bool
) -> None:
    assert Mirror("west", ("f",), master=master, spark_conf=conf).unauthenticated is open_to_all
