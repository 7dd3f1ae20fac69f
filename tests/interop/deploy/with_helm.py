"""The Helm chart, by helm itself: what it renders is what kustomize gives, and a real API server takes it.

Run by `make test-kubernetes`: helm, kustomize and the server are built by Go.
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.backends.mirror_jobs.host.accept import read_accepted
from tests.support.jobs.kubernetes.build import VERSION, binary
from tests.support.jobs.kubernetes.manifest_model import judged
from tests.support.jobs.kubernetes.server import ApiServer, RefusedError
from tests.support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

DEPLOY = ROOT / "docs" / "mirror" / "deploy"
CHART = DEPLOY / "chart"
NAMESPACE = "mirror"
EVERYTHING: dict[str, Any] = {
    "image": {"repository": "registry.example.net/ours", "digest": f"sha256:{'a' * 64}", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "replicas": 3,
    "secret": "kafka",
    "environment": "staging",
    "accepted": {"masters": ["k8s://https://other:443"]},
    "clusters": {"hub": {"bootstrap_servers": ["hub:9092"]}},
    "resources": {"requests": {"cpu": "2"}},
    "nodeSelector": {"pool": "steady"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "podAnnotations": {"a": "b"},
    "executors": {"nodeSelector": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]},
    "drivers": {"nodeSelector": {"pool": "steady"}, "tolerations": []},
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"},
    "networkPolicy": {"enabled": True},
    "serviceMonitor": {"enabled": True, "port": 9405, "interval": "15s", "labels": {"release": "prometheus"}},
    "externalSecret": {"enabled": True, "secretStoreRef": {"name": "aws", "kind": "SecretStore"}, "remoteKey": "a/b"},
}
OF_OPERATORS = {"ServiceMonitor", "ExternalSecret"}
Objects = dict[tuple[str, str], dict[str, Any]]


def helm(*words: str | Path, code: int = 0) -> str:
    done = subprocess.run([binary("helm"), *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def rendered(folder: Path, values: dict[str, Any], code: int = 0) -> str:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    return helm("template", "west", CHART, "-n", NAMESPACE, "--kube-version", VERSION, "-f", path, code=code)


def objects(text: str) -> Objects:
    found = [document for document in yaml.safe_load_all(text) if document]
    named = {(document["kind"], document["metadata"]["name"]): document for document in found}
    assert len(named) == len(found)
    return named


def test_it_is_lint_clean_and_packs_its_base(tmp_path: Path) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)
    helm("package", CHART, "-d", tmp_path)
    [archive] = tmp_path.glob("*.tgz")
    text = helm("template", "west", archive, "-n", NAMESPACE, "--kube-version", VERSION)
    assert objects(text) == objects(rendered(tmp_path, {})), "the link to the base is a copy there"


def test_by_default_it_is_what_kustomize_gives(tmp_path: Path) -> None:
    built = subprocess.run(
        [binary("kustomize"), "build", str(DEPLOY / "kubernetes")], capture_output=True, text=True, check=True
    )
    theirs, ours = objects(built.stdout), objects(rendered(tmp_path, {}))
    del theirs["Namespace", NAMESPACE]  # helm --create-namespace
    [hashed] = [name for kind, name in theirs if kind == "ConfigMap"]
    theirs["ConfigMap", "mirror-host"] = theirs.pop(("ConfigMap", hashed))
    assert theirs.keys() == ours.keys()
    for key, document in ours.items():
        labels = document["metadata"].pop("labels")
        assert labels["app.kubernetes.io/instance"] == "west"
        other = json.loads(json.dumps(theirs[key]).replace(hashed, "mirror-host"))
        if key[0] == "ConfigMap":
            assert document["data"].keys() == other["data"].keys()
            for part in (document, other):
                part["data"] = {name: yaml.safe_load(text) for name, text in part["data"].items()}
        if key[0] == "StatefulSet":
            annotations = document["spec"]["template"]["metadata"].pop("annotations")
            assert annotations.keys() == {"checksum/configuration"}, "another configuration restarts hosts, one by one"
            container = document["spec"]["template"]["spec"]["containers"][0]
            assert container.pop("imagePullPolicy") == "IfNotPresent"
        assert document == other, key


def test_every_value_changes_what_it_says(tmp_path: Path) -> None:
    given = objects(rendered(tmp_path, EVERYTHING))
    host = given["StatefulSet", "mirror-host"]["spec"]
    pod = host["template"]["spec"]
    [container] = pod["containers"]
    assert host["replicas"] == 3
    assert container["image"] == f"registry.example.net/ours@sha256:{'a' * 64}"
    assert container["imagePullPolicy"] == "Always"
    assert container["envFrom"] == [{"secretRef": {"name": "kafka"}}]
    assert container["args"][3] == "/etc/reconciler/environments/staging"
    assert "/etc/reconciler/environments/staging" in container["readinessProbe"]["exec"]["command"][-1]
    assert container["resources"] == {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"memory": "3Gi"}}
    assert {"name": "metrics", "containerPort": 9405} in container["ports"]
    assert (pod["nodeSelector"], pod["tolerations"]) == (EVERYTHING["nodeSelector"], EVERYTHING["tolerations"])
    assert host["template"]["metadata"]["annotations"]["a"] == "b"
    paths = [item["path"] for item in pod["volumes"][0]["configMap"]["items"]]
    assert "environments/staging/clusters.yaml" in paths
    data = given["ConfigMap", "mirror-host"]["data"]
    (tmp_path / "host.yaml").write_text(data["host.yaml"])
    accepted = read_accepted(tmp_path / "host.yaml")
    assert (accepted.environments, accepted.masters) == (("staging",), ("k8s://https://other:443",))
    assert f"registry.example.net/ours@sha256:{'a' * 64}" in accepted.archives
    assert yaml.safe_load(data["clusters.yaml"]) == {"clusters": EVERYTHING["clusters"]}
    executor, driver = (yaml.safe_load(data[name])["spec"] for name in ("executor.yaml", "driver-pod.yaml"))
    assert (executor["nodeSelector"], executor["tolerations"]) == tuple(EVERYTHING["executors"].values())
    assert driver["nodeSelector"] == {"pool": "steady"}
    for each in (executor, driver):
        assert each["containers"][0]["envFrom"] == [{"secretRef": {"name": "kafka"}}]
    assert given["PodDisruptionBudget", "mirror-host"]["spec"]["maxUnavailable"] == "50%"
    [_, scrape] = given["NetworkPolicy", "mirror-driver"]["spec"]["ingress"]
    assert scrape == {"from": [{"namespaceSelector": {}}], "ports": [{"port": 9405}]}
    monitor, service = given["ServiceMonitor", "mirror-host"], given["Service", "mirror-driver"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    secret = given["ExternalSecret", "kafka"]["spec"]
    assert (secret["target"], secret["dataFrom"]) == ({"name": "kafka"}, [{"extract": {"key": "a/b"}}])


def test_parts_can_be_left_out(tmp_path: Path) -> None:
    off = {"podDisruptionBudget": {"enabled": False}, "networkPolicy": {"enabled": False}}
    kinds = {kind for kind, _ in objects(rendered(tmp_path, off))}
    assert kinds == {"ServiceAccount", "Role", "RoleBinding", "Service", "StatefulSet", "ConfigMap"}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"replica": 2}, "replica"),
        ({"image": {"tag": 1.1}}, "tag"),
        ({"image": {"digest": "sha256:short"}}, "digest"),
        ({"clusters": {"east": {"servers": []}}}, "bootstrap_servers"),
        ({"replicas": 0}, "replicas"),
    ],
    ids=str,
)
def test_a_slip_in_the_values_is_refused(tmp_path: Path, wrong: dict[str, Any], named: str) -> None:
    said = rendered(tmp_path, wrong, code=1)
    assert "don't meet the specifications of the schema" in said
    assert named in said


def test_every_field_is_one_that_kubernetes_knows(tmp_path: Path) -> None:
    for number, values in enumerate(({}, EVERYTHING)):
        (tmp_path / str(number)).mkdir()
        path = tmp_path / f"{number}.yaml"
        found = objects(rendered(tmp_path / str(number), values))
        path.write_text("---\n".join(yaml.safe_dump(each) for key, each in found.items() if key[0] not in OF_OPERATORS))
        assert [line for line in judged(path) if not line.startswith("read ")] == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    server = ApiServer(tmp_path_factory.mktemp("kubernetes") / "server")
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
def test_an_api_server_takes_all_of_it(server: ApiServer, tmp_path: Path, values: dict[str, Any]) -> None:
    namespace = f"chart-{len(values)}"
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    text = rendered(tmp_path, values).replace(f"namespace: {NAMESPACE}\n", f"namespace: {namespace}\n")
    for (kind, name), document in objects(text).items():
        if kind not in OF_OPERATORS:
            made = server.create(document)
            assert (made["kind"], made["metadata"]["name"]) == (kind, name)
    wrong = copy.deepcopy(objects(text)["StatefulSet", "mirror-host"])
    wrong["metadata"]["name"] = "wrong"
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(RefusedError, match="readinesProbe"):
        server.create(wrong)
