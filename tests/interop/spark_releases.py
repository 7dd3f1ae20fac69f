"""Each release line of Spark that the extra [mirror] allows: apply, the real job, doctor and verify, on a local master
and on a standalone cluster of that release. `make test-spark`; each is fetched once, by pip, held to its digest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.paths import STATE

from tests.support.clusters import CreateTopic
from tests.support.commands import two_clusters
from tests.support.jobs.records import digest, total, write_awkward
from tests.support.jobs.standalone.cluster import Standalone, mirror_on
from tests.support.jobs.verify_runs import reconciler, until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

LOCK = Path(__file__).with_suffix(".lock")
RELEASES = {line.split()[0].removeprefix("pyspark=="): line for line in LOCK.read_text().splitlines()}
CHOSEN = os.environ.get("RELEASES", "").split() or list(RELEASES)
RECORDS = 1500


def home_of(release: str) -> Path:
    """What SPARK_HOME names: the folder of its pyspark package, which is fetched where it is not there yet."""
    folder = STATE / "spark" / release
    if not folder.exists():
        draft = folder.with_name(f".{release}.{os.getpid()}")
        draft.mkdir(parents=True)
        (draft / "lock").write_text(RELEASES[release])
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
        command += ["--require-hashes", "-r", str(draft / "lock"), "--target", str(draft)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        draft.replace(folder)
    return folder / "pyspark"


@contextmanager
def keys(kind: str, spark: Path, folder: Path) -> Iterator[str]:
    """Of the mirror, in YAML's flow style, which JSON is."""
    if kind == "local":
        yield json.dumps({"master": "local[2]", "parallelism": 2})
        return
    cluster = Standalone(folder / "spark", spark=spark)
    try:
        cluster.start().worker("worker", cores=4)
        made = mirror_on(cluster, "west", folder)
        assert made.deployment.python is not None
        conf = {**made.spark_conf, "spark.master.ui.port": str(cluster.page)}
        resources = {
            "executors": 2,
            "cores": 1,
            "memory": "480m",
            "python": {"archive": made.deployment.python.archive},
        }
        yield json.dumps({"master": cluster.master, "parallelism": 2, **resources, "spark_conf": conf})
    finally:
        cluster.stop()


@pytest.mark.parametrize("kind", ["local", "standalone"])
@pytest.mark.parametrize("release", CHOSEN)
def test_records_are_copied_and_verified(
    release: str, kind: str, plain: Sandbox, unique: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    east, west = plain["east"], plain["west"]
    create_topic(east, unique, partitions=4, retention_ms="-1")  # awkward records are as old as 1970
    write_awkward(east, unique, 4, RECORDS)
    spark, env = home_of(release), tmp_path / unique
    env.mkdir()
    given = {"SPARK_HOME": str(spark), "PYSPARK_PYTHON": sys.executable if kind == "local" else ""}
    environment = {name: value for name, value in given.items() if value}
    with keys(kind, spark, tmp_path) as mirror:
        text = f"flows:\n  {unique}: {{source: east, target: west, topics: ['{unique}'], replication_factor: 1}}\n"
        (env / "topology.yaml").write_text(f"{two_clusters(plain)}{text}mirrors:\n  west: {mirror}\n")
        try:
            applied = reconciler("apply", env, "--yes", **environment)
            assert applied.code == 0, applied
            until("all records", copied(west, f"east.{unique}"), 300)
            assert digest(west, f"east.{unique}") == digest(east, unique)
            verified = reconciler("verify", env, **environment)
            assert verified.code == 0, verified
            assert f"Spark {release} of SPARK_HOME" in reconciler("doctor", env, **environment).out
        finally:
            reconciler("mirror", "stop", env, **environment)


def copied(cluster: ClusterHandle, topic: str) -> Callable[[], bool]:
    return lambda: total(digest(cluster, topic)) == RECORDS
