"""What a host refuses to run, whoever wrote it; and its configuration file."""

from __future__ import annotations

import json
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
        "spark.repl.class.uri",
        "spark.kryo.classesToRegister",
        "spark.serializer",
        "spark.extraListeners",
        "spark.sql.streaming.streamingQueryListeners",
        "spark.shuffle.manager",
        "spark.io.compression.codec",
        "spark.metrics.conf.driver.sink.x.class",
        "spark.eventLog.dir",
        "spark.kubernetes.namespace",
        "spark.kubernetes.driver.secrets.a",
        "spark.kubernetes.authenticate.submission.oauthToken",
        "spark.ssl.keyStore",
        "spark.authenticate.secret.file",
        "spark.driver.host",
        "spark.of.a.later.release",
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
        ("[" * 20_000, "cannot be read"),
    ):
        path.write_text(text)
        with pytest.raises(ReconcilerError, match=what):
            read_accepted(path)
    with pytest.raises(ReconcilerError, match="cannot be read"):
        read_accepted(tmp_path / "none.yaml")


# files, by their place

OURS = ("/srv/spark/*.tar.gz#environment", "hdfs://ours/*.tgz", "https://*.example.net/jars/*",
        "registry.example.net/*", "./environment/bin/python", "/odd/../place")  # fmt: skip


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("/srv/spark/env.tar.gz#environment", True),
        ("hdfs://ours/a/b.tgz", True),
        ("https://files.example.net/jars/a.jar", True),
        ("./environment/bin/python", True),
        ("/odd/../place", True),
        ("registry.example.net/mirror:1", True),
        ("/srv/spark/../../tmp/evil.tar.gz#environment", False),
        ("/srv/spark//../evil.tar.gz#environment", False),
        ("/srv/spark/%2e%2e/evil.tar.gz#environment", False),
        ("/srv/spark/./evil.tar.gz#environment", False),
        ("/srv/spark/\\..\\evil.tar.gz#environment", False),
        ("file:/srv/spark/env.tar.gz#environment", False),
        ("hdfs://ours/../evil/b.tgz", False),
        ("hdfs://ours/%2e%2e/b.tgz", False),
        ("hdfs://ours@evil/b.tgz", False),
        ("hdfs://evil/hdfs://ours/b.tgz", False),
        ("https://evil/.example.net/jars/a.jar", False),
        ("https://evil?.example.net/jars/a.jar", False),
        ("https://evil#.example.net/jars/a.jar", False),
        ("https://evil:1@files.example.net/jars/a.jar", False),
        ("http://files.example.net/jars/a.jar", False),
        ("evil/registry.example.net/mirror:1", False),
        ("registry.example.net/../evil", False),
        ("./environment/../bin/python", False),
        ("hdfs://ours/a.tgz#../x", False),
        ("hdfs://ours/a\nb.tgz", False),
        ("hdfs://ours/\u2024\u2024/b.tgz", False),
    ],
)
def test_a_file_is_where_its_pattern_says(value: str, fits: bool) -> None:
    wanted = desired(1, submission={**SUBMISSION, "spark_conf": {"spark.archives": value}})
    refusal = replace(HOST, archives=OURS).refusal(wanted, 0)
    assert (refusal is None) == fits
    if refusal is not None and "," not in value:
        assert f"add under archives in the host's configuration : - {json.dumps(value)}" in refusal.todo


def test_a_link_leads_out_of_no_folder(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "mine").symlink_to("spark")
    for name, target in (("new.tgz", "env.tgz"), ("evil.tgz", "../evil.tgz"), ("up", "..")):
        (tmp_path / "spark" / name).symlink_to(target)
    for path, fits in (("new.tgz", True), ("env.tgz", True), ("evil.tgz", False), ("up/evil.tgz", False)):
        for folder in ("spark", "mine"):
            wanted = conf(spark_archives=f"{tmp_path}/{folder}/{path}")
            assert (told(wanted, replace(HOST, archives=(f"{tmp_path}/{folder}/*",))) == "") == fits


@pytest.mark.parametrize("value", ["${env:SECRET}", "1g -javaagent:x", "1g\n", "$(id)", ""])
def test_an_amount_is_one(value: str) -> None:
    assert "spark.driver.memory" in told(conf(spark_driver_memory=value), replace(HOST, spark_conf=("spark.*",)))


@pytest.mark.parametrize(
    ("master", "patterns", "fits"),
    [
        ("local", None, True),
        ("local[*]", None, True),
        ("local[4,2]", None, True),
        ("local-cluster[1,1,512]", None, False),
        ("local-cluster[1,1,512]", ("local*", "*"), False),
        ("local-cluster[1,1,512]", ("local-cluster[[]*",), True),
        ("local[4]", ("local*",), True),
        ("local[*]", ("local[*]",), True),
        ("local[1]x]", None, False),
        ("yarn", ("yarn",), True),
        ("yarn", None, False),
        ("spark://a.example.net:7077,b.example.net:7077", ("spark://*.example.net:7077",), True),
        ("spark://evil:1,b.example.net:7077", ("spark://*.example.net:7077",), False),
        ("spark://evil:1/.example.net:7077", ("spark://*.example.net:7077",), False),
        ("k8s://https://kubernetes.default.svc", ("k8s://https://kubernetes.default.svc",), True),
        ("k8s://kubernetes.default.svc", ("k8s://https://*.default.svc",), True),
        ("k8s://http://kubernetes.default.svc", ("k8s://https://*.default.svc",), False),
        ("k8s://https://evil#.default.svc", ("k8s://https://*.default.svc",), False),
        ("k8s://https://evil/.default.svc", ("k8s://https://*.default.svc",), False),
        ("spark://a:1", ("k8s://*",), False),
    ],
)
def test_a_master_is_a_whole_address(master: str, patterns: tuple[str, ...] | None, fits: bool) -> None:
    host = HOST if patterns is None else replace(HOST, masters=patterns)
    refused = told(desired(1, submission={"master": master, "spark_conf": {}}), host)
    assert refused == ("" if fits else f"generation 1 is refused: master {master!r} is not accepted")


@pytest.mark.parametrize(
    "server", ["127.0.0.1:39900,127.0.0.1:39050", "SASL_PLAINTEXT://a:1", "evil:1/.west:1", "a:1\n"]
)
def test_an_address_that_is_two_is_refused_before_a_secret_is_read(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_ALLOW", "host:*")
    there = {"name": "east", "bootstrap_servers": [server], "client": {}}
    assert "generation 1 is refused" in told(desired(1, handover=document(source=there)))


def test_an_odd_token_endpoint_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_ALLOW", "host:east:* host:west:* host:*.example.net")
    url = "https://evil.test\uff0f.example.net"
    there = {"name": "east", "bootstrap_servers": ["east:9092"], "client": {"sasl.oauthbearer.token.endpoint.url": url}}
    assert r"evil.test\uff0f.example.net:443' has no host" in told(desired(1, handover=document(source=there)))
