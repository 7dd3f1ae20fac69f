"""What verify is submitted with: the mirror's settings, its own over them, none of another kind of master."""

from __future__ import annotations

import itertools
from pathlib import Path

from reconciler.backends.mirror_jobs.runner.verify_job import VerifyRun, _command
from reconciler.model.environment.topology import Mirror
from reconciler.replication.deployment import Deployment, ExecutorPython

MIRROR = Mirror(
    "m",
    ("f",),
    master="spark://h:7077",
    deployment=Deployment(memory="2g", python=ExecutorPython("/p.tar.gz")),
    spark_conf={"spark.a": "1", "spark.b": "1", "spark.executor.memoryOverhead": "1g"},
    verify_conf={"spark.b": "2"},
)


def conf(mirror: Mirror, master: str | None) -> dict[str, str]:
    words = _command(VerifyRun(mirror, Path("/s"), "{}", {}, master), Path("/f"))
    return dict(word.split("=", 1) for flag, word in itertools.pairwise(words) if flag == "--conf")


def test_verify_has_the_settings_of_its_mirror_and_its_own_over_them() -> None:
    given = conf(MIRROR, None)
    assert (given["spark.a"], given["spark.b"], given["spark.executor.memory"]) == ("1", "2", "2g")
    assert given["spark.archives"] == "/p.tar.gz#environment"
    assert given["spark.cores.max"] == "2", "parallelism: both fit"


def test_a_local_master_gets_nothing_that_only_a_cluster_has() -> None:
    given = conf(MIRROR, "local[1]")
    assert (given["spark.a"], given["spark.b"]) == ("1", "2")
    assert not any(
        key.startswith(("spark.executor.", "spark.pyspark.", "spark.archives", "spark.cores")) for key in given
    )
