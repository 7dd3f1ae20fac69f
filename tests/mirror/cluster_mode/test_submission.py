"""spark-submit in deploy mode cluster: what its words and its output say, and what kills what it started."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from reconciler_mirror.cluster_mode.follow import Submission, kill, kill_command, pod_of, with_run

YARN = ["/spark/bin/spark-submit", "--deploy-mode", "cluster", "--master", "yarn", "--name", "mirror-west", "j.py"]
KUBERNETES = [
    "/spark/bin/spark-submit", "--master", "k8s://https://h:6443", "--name", "mirror-We_st.1", "--conf",
    "spark.kubernetes.namespace=mirror", "--conf", "spark.kubernetes.authenticate.oauthTokenFile=/t", "local:///j.py",
]  # fmt: skip


def test_each_run_has_a_name_on_the_cluster() -> None:
    assert with_run(YARN, "r1")[1:3] == ["--conf", "spark.yarn.tags=mirror-run-r1"]
    assert with_run(KUBERNETES, "r1")[1:3] == ["--conf", "spark.kubernetes.driver.pod.name=mirror-we-st-1-r1-driver"]
    own = [*YARN[:3], "--conf", "spark.yarn.tags=mine", *YARN[3:]]
    assert with_run(own, "r1") == own


def test_the_name_of_a_pod_fits_however_long_the_mirrors_is() -> None:
    words = ["s", "--name", "mirror-" + "x" * 100, "j.py"]
    name = pod_of(words, "123456789abc")
    assert len(name) <= 63
    assert name.endswith("-123456789abc-driver")


def test_what_kills_it() -> None:
    client = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
    assert kill_command(YARN, "r1", "application_1_2") == [
        "/spark/bin/spark-class", client, "application", "-kill", "application_1_2",
    ]  # fmt: skip
    assert kill_command(YARN, "r1", "") == []
    words = kill_command(KUBERNETES, "r1", "")
    assert words[:3] == ["/spark/bin/spark-submit", "--master", "k8s://https://h:6443"]
    assert words[-2:] == ["--kill", "mirror:mirror-we-st-1-r1-driver"]
    assert "spark.kubernetes.authenticate.oauthTokenFile=/t" in words, "it has to be let in, too"


def test_what_cannot_be_killed_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    kill(YARN, "r1", "", said.append)
    kill([str(tmp_path / "spark-submit"), *YARN[1:]], "r1", "application_1_2", said.append)
    assert said[0].startswith("the application has no id yet")
    assert "could not be killed" in said[1]


def submit(tmp_path: Path, output: str, code: int) -> tuple[Submission, list[str]]:
    """A spark-submit that says ``output`` and ends."""
    script = tmp_path / "submit"
    said: list[str] = []
    script.write_text(f"#!{sys.executable}\nimport sys\nprint({output!r})\nprint(sys.argv[1:])\nsys.exit({code})\n")
    script.chmod(0o755)
    submission = Submission([str(script), *YARN[1:]], "r1", "ADDRESS", said.append)
    end = time.monotonic() + 20
    while submission.ended() is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    return submission, said


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", ["ended before its driver said why"]),
        (
            "Application report for application_17_0002 (state: FAILED)",
            ["logs -applicationId application_17_0002"],
        ),
        ("SparkUserAppException: User application exited with 1", ["exit code 1", "lack a package", "mirrors.NAME"]),
        ("User application exited with status 20", ["could not read its definition", "not within reach"]),
        ("exited with exitCode: 137", ["exit code 137"]),
        ('Exception in thread "main" a.b.C$D: pods is forbidden', ["could not submit it: pods is forbidden"]),
    ],
)
def test_the_output_of_a_driver_that_reported_nothing_is_shown(tmp_path: Path, output: str, words: list[str]) -> None:
    submission, said = submit(tmp_path, output, 1)
    assert submission.ended() == 1
    assert all(word in submission.why() for word in words), submission.why()
    assert said[0] == output, "it is handed on"
    assert said[1].endswith("'--run', 'ADDRESS']")
