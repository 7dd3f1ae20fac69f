"""Keys of a mirror's deployment that have no effect, and Spark settings that the job or another key decides."""

from __future__ import annotations

import pytest

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.environment.topology import Mirror
from reconciler.replication.deployment import Deployment, ExecutorPython

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


def problems(*lines: str) -> list[tuple[int, str]]:
    """With the number of the mirror's line that each names."""
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
    assert problems(key) == [(1, "no-effect")]
    assert problems("master: yarn", key) == []


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
    assert problems(*lines) == found
