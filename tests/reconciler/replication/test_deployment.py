"""The Spark settings that follow from a deployment, for each kind of master."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.replication.handover import Deployment, ExecutorPython, MasterKind, master_kind

ARCHIVE = {"spark.archives": "/p.tar.gz#environment", "spark.pyspark.python": "./environment/bin/python"}


@pytest.mark.parametrize(
    ("deployment", "standalone", "yarn"),
    [
        (Deployment(), {}, {}),
        (
            Deployment(executors=2, cores=3),
            {"spark.cores.max": "6", "spark.executor.cores": "3"},
            {"spark.executor.instances": "2", "spark.executor.cores": "3"},
        ),
        (Deployment(memory="2g"), {"spark.executor.memory": "2g"}, {"spark.executor.memory": "2g"}),
        (Deployment(python=ExecutorPython("/p.tar.gz")), ARCHIVE, ARCHIVE),
        (
            Deployment(python=ExecutorPython(executable="/opt/python")),
            {"spark.pyspark.python": "/opt/python"},
            {"spark.pyspark.python": "/opt/python"},
        ),
    ],
)
def test_settings_for_each_kind_of_master(deployment: Deployment, standalone: Any, yarn: Any) -> None:
    assert deployment.spark_conf("spark://h:7077") == standalone
    assert deployment.spark_conf("yarn") == deployment.spark_conf("k8s://h") == yarn


@pytest.mark.parametrize(
    ("master", "kind"),
    [
        ("local[2]", MasterKind.LOCAL),
        ("local-cluster[2,1,512]", MasterKind.LOCAL),
        ("spark://a:7077,b:7077", MasterKind.STANDALONE),
        ("yarn", MasterKind.YARN),
        ("k8s://https://h:6443", MasterKind.KUBERNETES),
    ],
)
def test_the_kind_of_a_master(master: str, kind: MasterKind) -> None:
    assert master_kind(master) is kind
