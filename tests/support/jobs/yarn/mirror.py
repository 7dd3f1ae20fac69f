"""A mirror whose executors are containers of a test's YARN."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyspark

from reconciler.backends.mirror_jobs.runner.python_archive import pack
from reconciler.model.environment.topology import Mirror
from reconciler.replication.handover import CLUSTER, Deployment, ExecutorPython

QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
NODE_MB = 1800
"""Two containers: an executor of 480m and Spark's 384m beside its heap; the application's master as well."""


def mirror_on_yarn(name: str, folder: Path) -> Mirror:
    """As docs/mirror/spark/clusters.md has it, with what tests on one machine need."""
    return Mirror(
        name,
        (name,),
        master="yarn",
        deployment=Deployment(
            executors=2, cores=1, memory="480m", python=ExecutorPython(str(pack(folder / "python.tar.gz").path))
        ),
        spark_conf={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
            "spark.yarn.stagingDir": f"file://{folder}/staging",
            "spark.executor.extraJavaOptions": QUICK,
        },
    )


def in_cluster_mode(name: str, folder: Path) -> Mirror:
    """As docs/mirror/spark/clusters.md has it, with what tests on one machine need."""
    mirror = mirror_on_yarn(name, folder)
    conf = {key: value for key, value in mirror.spark_conf.items() if not key.startswith("spark.driver.")}
    conf |= {"spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1"}
    return replace(mirror, deployment=replace(mirror.deployment, deploy_mode=CLUSTER), spark_conf=conf)
