"""What a host refuses to run, whoever wrote it; and its configuration file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.backends.mirror_jobs.host.accept import AllowList, is_mirror_name, read_accepted
from reconciler.errors import ReconcilerError
from reconciler.model.state.mirror_control import DesiredMirror, DesiredState
from tests.support.fakes.control import ENVIRONMENT, SUBMISSION, desired, document

HOST = AllowList((ENVIRONMENT,), archives=("hdfs://ours/*",))


def told(wanted: DesiredMirror, accepted: AllowList = HOST, done: int = 0) -> str:
    refusal = accepted.refusal(wanted, done)
    return "" if refusal is None else refusal.what


def conf(**settings: str) -> DesiredMirror:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return desired(1, submission={**SUBMISSION, "spark_conf": named})


def test_what_is_intact_and_on_the_list_is_run() -> None:
    assert told(desired(3), done=3) == ""
    assert told(conf(spark_archives="hdfs://ours/env.tgz")) == ""


@pytest.mark.parametrize(
    ("wanted", "what"),
    [
        (replace(desired(1), fingerprint="0123456789abcdef"), "that of what it holds"),
        (replace(desired(1), submission={"master": "local[4]", "spark_conf": {}}), "that of what it holds"),
        (replace(desired(1), environment="prod"), "environment 'prod' is not accepted"),
        (replace(desired(1), mirror="other"), "another environment or mirror"),
        (desired(1, submission={"master": "k8s://evil", "spark_conf": {}}), "master 'k8s://evil' is not accepted"),
        (conf(spark_driver_extraClassPath="/tmp/x.jar"), "spark_conf 'spark.driver.extraClassPath'"),
        (conf(spark_jars="https://evil/x.jar"), "brings files that are not accepted"),
        (conf(spark_archives="hdfs://ours/a,hdfs://evil/b"), "brings files that are not accepted"),
        (conf(spark_pyspark_python="/tmp/python"), "brings files that are not accepted"),
        (desired(1, submission={**SUBMISSION, "deploy": "cluster"}), "asks for 'deploy'"),
        (desired(1, handover=document(naming={"policy": "os:System", "separator": "."})), "naming policy 'os:System'"),
        (desired(1, handover=document(lanes="many")), "of its hand-over"),
        (desired(1, handover={**document(), "extra": 1}), "of its hand-over"),
        (desired(0), "of the record"),
    ],
)
def test_everything_else_is_refused_by_name(wanted: DesiredMirror, what: str) -> None:
    assert what in told(wanted)


@pytest.mark.parametrize(
    "key",
    [
        "spark.driver.extraJavaOptions",
        "spark.executor.extraClassPath",
        "spark.executor.resource.gpu.discoveryScript",
        "spark.executorEnv.LD_PRELOAD",
        "spark.plugins",
        "spark.hadoop.net.topology.script.file.name",
        "spark.python.daemon.module",
        "spark.ui.filters",
        "spark.sql.extensions",
        "spark.master",
        "spark.remote",
        "spark.kubernetes.driver.volumes.hostPath.a.options.path",
    ],
)
def test_what_runs_code_is_accepted_by_its_whole_name_only(key: str) -> None:
    wanted = desired(1, submission={**SUBMISSION, "spark_conf": {key: "/tmp/evil"}})
    assert f"spark_conf {key!r} can run code" in told(wanted, replace(HOST, spark_conf=("spark.*", "*")))
    assert told(wanted, replace(HOST, spark_conf=(key,))) == ""


@pytest.mark.parametrize(
    "key", ["spark.kubernetes.container.image", "spark.kubernetes.executor.podTemplateFile", "spark.jars.packages"]
)
def test_what_brings_files_along_has_to_be_on_their_list(key: str) -> None:
    wanted = desired(1, submission={**SUBMISSION, "spark_conf": {key: "evil/x:1"}})
    assert "brings files that are not accepted" in told(wanted, replace(HOST, spark_conf=("spark.*",)))
    assert told(wanted, replace(HOST, archives=("evil/*",))) == ""


@pytest.mark.parametrize("key", ["spark.yarn.jars", "spark.yarn.archive", "spark.sql.hive.metastore.jars.path"])
def test_other_jars_of_spark_have_to_be_on_that_list_too(key: str) -> None:
    test_what_brings_files_along_has_to_be_on_their_list(key)


@pytest.mark.parametrize(
    "key",
    [
        "spark.driver.extraJavaOptions=-javaagent:/tmp/evil.jar -Da",
        "spark.driver.extraJavaOptions ",
        "spark.driver.extraJavaOptions\n",
        "spark.x\0",
        "spark.",
        "\u202espark.x",
    ],
)
def test_a_name_in_which_spark_reads_another_setting_is_refused(key: str) -> None:
    """Spark splits at the first ``=``, wherever it was meant to be."""
    wanted = desired(1, submission={**SUBMISSION, "spark_conf": {key: "x"}})
    assert "is no name of a Spark setting" in told(wanted, replace(HOST, spark_conf=("spark.*", "*", key)))


@pytest.mark.parametrize("name", ["", ".", "..", "../../x", "/tmp/x", "a/b", "a\nb", "a\x1b[2J", "\u202ea", "a" * 101])
def test_names_that_lead_out_of_the_state_folder_are_none(name: str) -> None:
    assert not is_mirror_name(name)


def test_client_settings_that_run_code_and_addresses_that_are_not_listed_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    east = {"name": "east", "bootstrap_servers": ["east:9092"], "client": {"plugin.library.paths": "/tmp/evil.so"}}
    assert "plugin.library.paths" in told(desired(1, handover=document(source=east)))
    monkeypatch.setenv("RECONCILER_ALLOW", "host:west:*")
    assert "does not list east:9092" in told(desired(1))


def test_a_stop_is_taken_whatever_it_holds() -> None:
    nothing: dict[str, Any] = {}
    stop = replace(desired(2, DesiredState.STOPPED), handover=nothing, submission=nothing, fingerprint="")
    assert told(stop, done=1) == ""
    assert "older than generation 3" in told(stop, done=3)


def test_the_configuration_is_read_and_nothing_in_it_is_guessed(tmp_path: Path) -> None:
    path = tmp_path / "host.yaml"
    path.write_text("environments: [prod]\nmasters: ['spark://spark:7077']\n")
    found = read_accepted(path)
    assert (found.environments, found.masters, found.spark_conf) == (("prod",), ("spark://spark:7077",), ())
    for text, what in (
        ("masters: [yarn]", "names no environments"),
        ("environments: prod", "is no list of texts"),
        ("environments: [prod]\nmaster: [yarn]", "unknown keys: master"),
        ("- prod", "is no mapping"),
        ("a: [", "cannot be read"),
    ):
        path.write_text(text)
        with pytest.raises(ReconcilerError, match=what):
            read_accepted(path)
    with pytest.raises(ReconcilerError, match="cannot be read"):
        read_accepted(tmp_path / "none.yaml")
