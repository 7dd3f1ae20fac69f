"""What is deployed elsewhere is checked here as far as that goes without a cluster: manifests, unit, container file."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.main import get_command

from reconciler.backends.mirror_jobs.host.accept import read_accepted
from reconciler.cli.main import app
from reconciler.environment.load import load
from reconciler.resources.mirrors.handover import submission_of
from tests.support.jobs.kubernetes.manifest_model import judged
from tests.support.paths import ROOT

DEPLOY = ROOT / "docs" / "mirror" / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
NOT_RESOURCES = {"kustomization.yaml", "accepted.yaml", "clusters.yaml"}
MANIFESTS = sorted(path for path in KUBERNETES.glob("*.yaml") if path.name not in NOT_RESOURCES)


@pytest.mark.long
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
    assert (
        parsed_by_the_program(shlex.split(container["readinessProbe"]["exec"]["command"][-1].partition("||")[0]))
        == "status"
    )
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


def test_the_container_file_copies_what_its_context_has_and_runs_as_no_one_special() -> None:
    """What its steps do is run by `make test-image`."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in steps} <= known
    [recipe] = re.findall(r"^image-context:.*?\n\n", (ROOT / "Makefile").read_text(), re.DOTALL | re.MULTILINE)
    for word, rest in steps:
        if word == "COPY":
            *sources, _ = [each for each in rest.split() if not each.startswith("--")]
            assert all(source in recipe or source == "*.whl" for source in sources), rest
        if word == "FROM":
            assert re.search(r":[^@]+@sha256:[0-9a-f]{64}$", rest)
    assert [rest for word, rest in steps if word == "USER"] == ["10001"]
    installs = [part for _, rest in steps for part in rest.split("&&") if "pip install" in part]
    assert len(installs) == 3
    assert all("--require-hashes" in part for part in installs)
    checked = subprocess.run(["sh", "-n", str(KUBERNETES / "entrypoint.sh")], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_what_needs_to_write_has_volumes_and_the_rest_is_read_only() -> None:
    host = next(yaml.safe_load_all((KUBERNETES / "host.yaml").read_text()))["spec"]["template"]["spec"]
    pods = [yaml.safe_load((KUBERNETES / name).read_text())["spec"] for name in ("executor.yaml", "driver-pod.yaml")]
    for pod in (host, *pods):
        [container] = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert pod["securityContext"]["runAsUser"] == 10001
        assert {"/tmp", "/var/lib/reconciler"} <= {mount["mountPath"] for mount in container["volumeMounts"]}


def test_the_values_of_the_chart_fit_their_schema_and_its_version_is_ours() -> None:
    """What it renders is held to the manifests by `make test-kubernetes`."""
    chart = DEPLOY / "chart"
    schema = json.loads((chart / "values.schema.json").read_text())
    values = yaml.safe_load((chart / "values.yaml").read_text())
    jsonschema.Draft202012Validator(schema).validate(values)
    assert values.keys() == schema["properties"].keys() - {"global"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert {described["version"], described["appVersion"]} == {project["version"]}
    assert (chart / "base").resolve() == KUBERNETES
