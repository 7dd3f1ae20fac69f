"""The zip that executors are given imports alone: they have no other copy of ours."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.backends.mirror_jobs.runner.command_line import (
    bundle,
    job_environment,
    job_script,
    require_spark,
    spark_secret,
    submit_command,
)
from reconciler.errors import RunnerError
from reconciler.model.environment.topology import SPARK_SECRET, Mirror
from reconciler.replication.handover import Deployment, ExecutorPython


def modules_in(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as opened:
        names = [name.removesuffix(".py").removesuffix("/__init__") for name in opened.namelist()]
    return [name.replace("/", ".") for name in names]


def test_every_module_of_the_bundle_imports_from_the_bundle_alone(tmp_path: Path) -> None:
    bundle(tmp_path / "bundle.zip")
    modules = modules_in(tmp_path / "bundle.zip")
    assert {name.partition(".")[0] for name in modules} == {"reconciler", "reconciler_mirror"}
    assert {"reconciler.kafka.records.batches", "reconciler_mirror.lane.run"} <= set(modules)
    program = f"""
import importlib, sys
sys.path.insert(0, {str(tmp_path / "bundle.zip")!r})
for name in {modules!r}:
    found = importlib.import_module(name).__spec__.origin
    assert "bundle.zip" in found, (name, found)
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_scripts_that_spark_submit_is_given_exist() -> None:
    assert job_script("mirror_job.py").is_file()
    assert job_script("verify_job.py").is_file()


HANDOVER = '{"client": {"sasl.password": "${env:EAST_MIRROR}", "sasl.username": "${env:WHO}", "a": "${file:/x}"}}'


def test_a_job_is_given_the_secrets_of_its_hand_over_and_no_others() -> None:
    """Whoever takes over the job would else have what apply may do."""
    here = {
        "PATH": "/bin", "JAVA_HOME": "/j", "SPARK_HOME": "/s", "PYTHONPATH": "/p", "HTTPS_PROXY": "p", "LC_ALL": "C",
        "RECONCILER_ALLOW": "env:*", "EAST_MIRROR": "m", "WHO": "w", "EAST_APPLY": "s3cret", "GITHUB_TOKEN": "t",
        "RECONCILER_SECRETS": "s", "AWS_SECRET_ACCESS_KEY": "k",
    }  # fmt: skip
    given = job_environment("yarn", HANDOVER, here)
    assert given.keys() - {"PYSPARK_PYTHON"} == here.keys() - {
        "EAST_APPLY", "GITHUB_TOKEN", "RECONCILER_SECRETS", "AWS_SECRET_ACCESS_KEY",
    }  # fmt: skip
    assert "AWS_SECRET_ACCESS_KEY" in job_environment("yarn", HANDOVER, {**here, "RECONCILER_JOB_VARIABLES": "X AWS_*"})


def test_a_job_is_given_the_variables_of_the_cloud_that_it_logs_in_by() -> None:
    here = {"AWS_SECRET_ACCESS_KEY": "a", "AZURE_CLIENT_SECRET": "b", "IDENTITY_HEADER": "c", "GCE_METADATA_HOST": "d"}
    for method, given in (("aws_msk_iam", "a"), ("azure", "bc"), ("GCP", "d"), ("oidc", "")):
        handover = f'{{"client": {{"sasl.oauthbearer.method": "{method}"}}}}'
        assert set(here.values()) & set(job_environment("yarn", handover, here).values()) == set(given)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local-cluster[2,1,512]"])
def test_a_mirror_of_this_machine_alone_listens_on_loopback(master: str, tmp_path: Path) -> None:
    words = submit_command(Mirror("m", ("f",), master=master), tmp_path)
    for setting in ("driver.host=127.0.0.1", "driver.bindAddress=127.0.0.1", "ui.killEnabled=false"):
        assert f"spark.{setting}" in words
    assert job_environment(master, "{}", {})["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_a_standalone_cluster_is_asked_for_what_the_leases_need(tmp_path: Path) -> None:
    """Else it gives one application all its cores, and verify waits for ever."""
    mirror = Mirror("m", ("f",), master="spark://h:7077", parallelism=3)
    assert "spark.cores.max=3" in submit_command(mirror, tmp_path)
    own = replace(mirror, spark_conf={"spark.cores.max": "9"})
    assert "spark.cores.max=9" in submit_command(own, tmp_path)
    assert not any("cores.max" in word for word in submit_command(replace(mirror, master="yarn"), tmp_path))


@pytest.mark.parametrize("by_key", [True, False])
def test_the_driver_keeps_this_python_where_executors_have_another(by_key: bool, tmp_path: Path) -> None:
    mirror = Mirror("m", ("f",), master="yarn", spark_conf={} if by_key else {"spark.pyspark.python": "./e/python"})
    given = replace(mirror, deployment=Deployment(python=ExecutorPython("/p.tar.gz"))) if by_key else mirror
    assert f"spark.pyspark.driver.python={sys.executable}" in submit_command(given, tmp_path)


@pytest.mark.parametrize(
    ("master", "authenticates"),
    [
        ("local[2]", True),
        ("yarn", True),
        ("k8s://h", True),
        ("spark://h:7077", False),
        ("local-cluster[2,1,512]", False),
    ],
)
def test_spark_authenticates_where_it_makes_the_secret_itself(master: str, authenticates: bool, tmp_path: Path) -> None:
    words = submit_command(Mirror("m", ("f",), master=master), tmp_path)
    assert ("spark.authenticate=true" in words) is authenticates
    assert "spark.ui.killEnabled=false" in words
    own = submit_command(Mirror("m", ("f",), master=master, spark_conf={"spark.ui.killEnabled": "true"}), tmp_path)
    assert "spark.ui.killEnabled=true" in own, "what is declared holds"


SECRET = "${env:SPARK_CLUSTER_SECRET}"


def test_a_standalone_cluster_gets_the_secret_by_a_variable_and_by_nothing_else(tmp_path: Path) -> None:
    """A command line is seen by every user of the machine, settings by whoever sees Spark's page or event log."""
    mirror = Mirror("m", ("f",), master="spark://h:7077", spark_conf={SPARK_SECRET: SECRET})
    words = submit_command(mirror, tmp_path)
    assert "spark.authenticate.secret=is-in-the-environment" in words, "Spark demands one"
    assert not any("SPARK_CLUSTER_SECRET" in word or "c4nary" in word for word in words)
    for setting in ("authenticate", "network.crypto.enabled", "io.encryption.enabled"):
        assert f"spark.{setting}=true" in words
    given = spark_secret(mirror, mirror.master, {"SPARK_CLUSTER_SECRET": "c4nary"})
    assert given == {"_SPARK_AUTH_SECRET": "c4nary"}
    assert spark_secret(mirror, "local[2]", {}) == {}, "verify --master: a secret that is not asked for is not read"
    with pytest.raises(RunnerError, match=r"spark\.authenticate\.secret cannot be had: .*SPARK_CLUSTER_SECRET"):
        spark_secret(mirror, mirror.master, {})
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for a writer for ever
    mirror = replace(mirror, spark_conf={SPARK_SECRET: f"${{file:{tmp_path / 'pipe'}}}"})
    with pytest.raises(RunnerError, match=r"spark\.authenticate\.secret cannot be had: .*pipe"):
        spark_secret(mirror, mirror.master, {})


@pytest.mark.parametrize(
    ("master", "off"), [("spark://h:7077", True), ("k8s://h", True), ("yarn", False), ("local[2]", False)]
)
def test_the_page_is_off_where_neither_loopback_nor_a_proxy_guards_it(master: str, off: bool, tmp_path: Path) -> None:
    words = submit_command(Mirror("m", ("f",), master=master), tmp_path)
    assert ("spark.ui.enabled=false" in words) is off
    own = submit_command(Mirror("m", ("f",), master=master, spark_conf={"spark.ui.enabled": "true"}), tmp_path)
    assert "spark.ui.enabled=true" in own


@pytest.mark.parametrize("master", ["yarn", "k8s://h"])
def test_where_spark_makes_the_secret_what_it_sends_and_spills_is_encrypted(master: str, tmp_path: Path) -> None:
    words = submit_command(Mirror("m", ("f",), master=master), tmp_path)
    assert {"spark.network.crypto.enabled=true", "spark.io.encryption.enabled=true"} <= set(words)


def in_cluster_mode(master: str, **conf: str) -> Mirror:
    python = ExecutorPython("/srv/python.tar.gz")
    return Mirror("west", ("f",), master=master, deployment=Deployment("cluster", python=python), spark_conf=conf)


def submitted(mirror: Mirror, folder: Path) -> tuple[list[str], list[str]]:
    """The words before and after ``--``."""
    words = submit_command(mirror, folder)
    return words[: words.index("--")], words[words.index("--") + 1 :]


def test_in_deploy_mode_cluster_a_follower_submits(tmp_path: Path) -> None:
    follower, words = submitted(in_cluster_mode("yarn"), tmp_path)
    assert follower == [sys.executable, "-m", "reconciler_mirror.jobs.follow_driver", "--run-dir", str(tmp_path)]
    assert f" {tmp_path} " in f" {' '.join(follower)} ", "it is found by its folder"
    assert words[0].endswith("spark-submit")
    assert words[words.index("--deploy-mode") + 1] == "cluster"
    assert words[-1].endswith("mirror_job.py")
    settings = dict(word.split("=", 1) for word in words if word.startswith("spark."))
    assert settings["spark.pyspark.python"] == "./environment/bin/python"
    assert {"spark.pyspark.driver.python", "spark.local.dir", "spark.driver.host"} & settings.keys() == set()
    assert settings["spark.yarn.maxAppAttempts"] == "1"
    assert settings["spark.yarn.submit.waitAppCompletion"] == "true"
    assert not any(str(tmp_path) in value for value in settings.values()), "no machine of the cluster has that folder"


def test_on_kubernetes_the_image_has_the_program_unless_files_can_be_uploaded(tmp_path: Path) -> None:
    master = "k8s://https://h:6443"
    words = submitted(in_cluster_mode(master), tmp_path)[1]
    assert words[-1] == "local:///opt/reconciler/mirror_job.py"
    assert "--py-files" not in words
    words = submitted(in_cluster_mode(master, **{"spark.kubernetes.file.upload.path": "s3a://x/y"}), tmp_path)[1]
    assert words[-1] == str(job_script("mirror_job.py"))
    assert words[words.index("--py-files") + 1] == str(tmp_path / "bundle.zip")


def test_a_driver_elsewhere_is_not_given_the_python_of_this_machine() -> None:
    here = {"PATH": "/bin", "HADOOP_CONF_DIR": "/etc/hadoop"}
    assert "PYSPARK_PYTHON" in job_environment("yarn", "{}", here)
    assert job_environment("yarn", "{}", here, "cluster") == here
    assert job_environment("yarn", "{}", {**here, "PYSPARK_PYTHON": "python3.11"}, "cluster")["PYSPARK_PYTHON"]


@pytest.mark.parametrize("folder", ["nothing", "x" * 300], ids=["missing", "not even looked at"])
def test_java_and_spark_are_missed_in_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str) -> None:
    """The system refuses a long name as it refuses the look into a folder of another user: by an error."""
    tmp_path /= folder
    for name in ("SPARK_HOME", "JAVA_HOME", "PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(RunnerError) as missing:
        require_spark()
    assert "Java was not found" in missing.value.what
    assert f"spark-submit was not found under SPARK_HOME={tmp_path}" in missing.value.what
    assert "openjdk" in missing.value.todo
    assert "pip install" in missing.value.todo
