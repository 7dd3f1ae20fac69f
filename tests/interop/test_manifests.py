"""What is deployed elsewhere is checked here as far as that goes without a cluster: manifests, unit, container file."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
from pathlib import Path

import pyspark
import pytest
import yaml
from reconciler_sandbox.install import prerequisites
from typer.main import get_command

from reconciler.backends.mirror_jobs.host.accept import read_accepted
from reconciler.cli.main import app
from reconciler.environment.load import load
from reconciler.resources.mirrors.handover import submission_of
from tests.support.paths import ROOT

DEPLOY = ROOT / "docs" / "mirror" / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
MODEL = Path(__file__).parent / "KubernetesModel.java"
JARS = Path(pyspark.__file__).parent / "jars"
NOT_RESOURCES = {"kustomization.yaml", "accepted.yaml", "clusters.yaml"}
MANIFESTS = sorted(path for path in KUBERNETES.glob("*.yaml") if path.name not in NOT_RESOURCES)


def judged(*files: Path) -> list[str]:
    """By the model of Kubernetes that Spark's client has, which is generated from the API's own description."""
    command = [prerequisites.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", str(MODEL)]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_every_field_of_the_manifests_is_one_that_kubernetes_knows(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIp: None, ports: [{port: 1, prot: TCP}]}\n"
        "---\napiVersion: v1\nkind: Servise\nmetadata: {name: a}\n"
    )
    lines = judged(*MANIFESTS, wrong)
    ours = [line for line in lines if "wrong.yaml" not in line]
    assert [line for line in ours if not line.startswith("read ")] == []
    assert sorted(line.split()[-1] for line in ours) == sorted(
        document["kind"] for path in MANIFESTS for document in yaml.safe_load_all(path.read_text())
    )
    assert any("unknown fields" in line and "clusterIp" in line for line in lines), "a slip is seen"
    assert any("unknown fields" in line and "prot" in line for line in lines), "at any depth"
    assert any("unknown kind" in line for line in lines)


def documents() -> list[dict[str, object]]:
    return [document for path in MANIFESTS for document in yaml.safe_load_all(path.read_text())]


def test_the_base_names_its_files_and_labels_meet() -> None:
    base = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files = {word.rpartition("=")[2] for each in base["configMapGenerator"] for word in each["files"]}
    assert {*base["resources"], *files, "kustomization.yaml"} == {path.name for path in KUBERNETES.glob("*.yaml")}
    text = {path.name: path.read_text() for path in MANIFESTS}
    host = next(yaml.safe_load_all(text["host.yaml"]))
    pod = host["spec"]["template"]
    assert pod["metadata"]["labels"] == host["spec"]["selector"]["matchLabels"]
    service, policy = yaml.safe_load_all(text["driver.yaml"])
    assert service["metadata"]["name"] == host["spec"]["serviceName"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    ports = {port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    [rule] = policy["spec"]["ingress"]
    assert all(rule["ports"][0]["port"] <= port <= rule["ports"][0]["endPort"] for port in ports)
    executor = yaml.safe_load(text["executor.yaml"])
    assert rule["from"][0]["podSelector"]["matchLabels"] == executor["metadata"]["labels"]
    page = (ROOT / "docs" / "mirror" / "kubernetes.md").read_text()
    assert all(str(port) in page for port in ports), "the page tells the settings that go with them"


def test_the_unit_keeps_jobs_alive_and_leaves_them_time() -> None:
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's keys have capitals
    unit.read(DEPLOY / "systemd" / "mirror-host.service")
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    assert (service["KillMode"], service["Restart"]) == ("process", "always")
    assert int(service["TimeoutStopSec"]) >= 190, "docs/mirror/host.md: SIGTERM may take that long"
    assert service["ExecStart"].startswith("/")
    assert "mirror host" in service["ExecStart"]


def parsed_by_the_program(words: list[str]) -> str:
    """The command that they are. Raises what click does for words that it does not know."""
    assert words[0].rpartition("/")[2] == "reconciler"
    command, name, rest = get_command(app), "reconciler", words[1:]
    while getattr(command, "commands", None) and rest and not rest[0].startswith("-"):
        name, *rest = rest
        command = command.commands[name]  # type: ignore[attr-defined]  # a group
    if rest != ["--help"]:
        command.make_context(name, rest)
    return name


def test_the_commands_of_what_is_deployed_are_commands_of_this_program() -> None:
    unit = (DEPLOY / "systemd" / "mirror-host.service").read_text()
    [start] = re.findall(r"^ExecStart=(.*)", unit, re.MULTILINE)
    host = next(yaml.safe_load_all((KUBERNETES / "host.yaml").read_text()))
    [container] = host["spec"]["template"]["spec"]["containers"]
    [default] = re.findall(r"^CMD (.*)", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    assert [parsed_by_the_program(words) for words in (shlex.split(start), container["args"])] == ["host", "host"]
    assert parsed_by_the_program(json.loads(default)) == "reconciler"
    with pytest.raises(Exception, match="--acept"):
        parsed_by_the_program([*shlex.split(start)[:-2], "--acept", "file"])


def test_the_host_of_the_manifests_accepts_the_mirror_of_the_page() -> None:
    """Read as a host reads them: its clusters alone are an environment; its list takes each setting of the page."""
    texts = {"clusters.yaml": (KUBERNETES / "clusters.yaml").read_text()}
    assert set(load(texts, "prod").clusters) == {"east", "west"}
    page = (ROOT / "docs" / "mirror" / "kubernetes.md").read_text()
    [example] = re.findall(r"```yaml\n(mirrors:.*?)```", page, re.DOTALL)
    flows = "flows: {orders: {source: east, target: west, topics: [orders], replication_factor: 1}}\n"
    texts["mirrors.yaml"] = flows + example.replace("west:\n", "west:\n    flows: [orders]\n", 1)
    [mirror] = load(texts, "prod").mirrors.values()
    accepted = read_accepted(KUBERNETES / "accepted.yaml")
    for changes, problem in ({}, ""), ({"master": "local[2]"}, "master 'local[2]' is not accepted"):
        refusals = [text for text, _ in accepted._submission({**submission_of(mirror), **changes}, "")]
        assert refusals == ([problem] if problem else [])


def test_the_container_file_copies_what_is_there_and_runs_as_nobody_special() -> None:
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in steps} <= known
    for word, rest in steps:
        if word == "COPY":
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources), rest
        if word == "FROM":
            assert ":" in rest
            assert not rest.endswith(":latest")
    assert [rest for word, rest in steps if word == "USER"] == ["10001"]
    assert all(
        "--require-hashes" in part for _, rest in steps for part in rest.split("&&") if " -r requirements/" in part
    )
    checked = subprocess.run(["sh", "-n", str(KUBERNETES / "entrypoint.sh")], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr
