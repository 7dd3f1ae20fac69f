"""The mirror on Kubernetes: a real API server with the roles of docs/mirror/deploy, and pods that are processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.hooks import run_hook
from reconciler.errors import ReconcilerError
from reconciler.model.environment.hooks import CutoverHook, HookKind
from reconciler.model.environment.topology import Mirror
from reconciler.replication.handover import CLUSTER, Deployment
from tests.support.jobs.flow_of_records import assert_all_once_in_order, copying, flowing
from tests.support.jobs.kubernetes.kubelet import Kubelet, RunningPod, until_true
from tests.support.jobs.kubernetes.server import ApiServer
from tests.support.jobs.mirror_job import Job, create_topics, flow, handover, status, until
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.long]

MANIFESTS = ROOT / "docs/mirror/deploy/kubernetes"
NAMESPACE = "mirror"
PARTITIONS = 8
PATIENCE_S = 300.0
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """With the namespace, accounts and roles of the manifests, and the secret that they ask for."""
    server = ApiServer(tmp_path_factory.mktemp("kubernetes") / "server")
    try:
        server.start()
        for document in yaml.safe_load_all((MANIFESTS / "access.yaml").read_text()):
            server.create(document)
        secret = {"name": "mirror-principal", "namespace": NAMESPACE}
        content = {"MIRROR_PASSWORD": "x"}
        server.create({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": content})
        yield server
    finally:
        server.stop()


@pytest.fixture
def kubelet(server: ApiServer, tmp_path: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(server, NAMESPACE, tmp_path / "pods")
    try:
        yield kubelet.start()
    finally:
        kubelet.stop()


def mirror_on_kubernetes(name: str, server: ApiServer, folder: Path, deploy_mode: str) -> Mirror:
    """As docs/mirror/kubernetes.md has it, with what tests on one machine need."""
    (folder / "token").write_text(server.token(NAMESPACE, "mirror-host"))
    who = "spark.kubernetes.authenticate.submission" if deploy_mode == CLUSTER else "spark.kubernetes.authenticate"
    conf = {
        "spark.kubernetes.namespace": NAMESPACE,
        "spark.kubernetes.container.image": "registry.example.com/reconciler:1",
        "spark.kubernetes.executor.podTemplateFile": str(MANIFESTS / "executor.yaml"),
        f"{who}.caCertFile": str(server.authority),
        f"{who}.oauthTokenFile": str(folder / "token"),
        "spark.executor.extraJavaOptions": QUICK,
        "spark.kubernetes.executor.request.cores": "0.1",
    }
    if deploy_mode == CLUSTER:
        conf["spark.kubernetes.authenticate.driver.serviceAccountName"] = "mirror-host"
        conf["spark.kubernetes.driver.podTemplateFile"] = str(MANIFESTS / "driver-pod.yaml")
    else:
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return Mirror(
        name,
        (name,),
        master=f"k8s://{server.url}",
        deployment=Deployment(deploy_mode=deploy_mode, executors=2, cores=1, memory="480m"),
        spark_conf=conf,
    )


def running(kubelet: Kubelet, word: str) -> list[RunningPod]:
    """Pods with ``word`` in the command line of some process, that run."""
    return [pod for pod in list(kubelet.pods.values()) if pod.process.poll() is None and pod.inside(word)]


def application(job: Job) -> str:
    """Empty between two of them."""
    with contextlib.suppress(OSError):
        return job.application_id
    return ""


def test_a_hook_patches_what_clients_read_their_address_from(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a service account that may do this and nothing else, as docs/consumers/cutover.md has it."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["kafka"], "verbs": ["patch"]}
    meta = {"name": "cutover", "namespace": NAMESPACE}
    account = {"kind": "ServiceAccount", "name": "cutover", "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "cutover"}
    server.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    server.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": [rule]})
    server.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": meta, "roleRef": role, "subjects": [account],
        }
    )  # fmt: skip
    for name in ("kafka", "other"):
        of_name = {"name": name, "namespace": NAMESPACE}
        content = {"servers": "us:9092", "kept": "yes"}
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": of_name, "data": content})
    (tmp_path / "token").write_text(server.token(NAMESPACE, "cutover"))
    maps = f"{server.url}/api/v1/namespaces/{NAMESPACE}/configmaps"
    monkeypatch.setenv("RECONCILER_ALLOW", f"hook:{maps}/*")
    hook = CutoverHook(
        HookKind.HTTP, f"{maps}/kafka", (), "PATCH",
        {"Authorization": f"Bearer ${{file:{tmp_path}/token}}", "Content-Type": "application/merge-patch+json"},
        '{"data": {"servers": "eu:9092"}}', ca=str(server.authority),
    )  # fmt: skip
    for _ in range(2):  # a killed run calls it again
        assert run_hook(hook, {}).startswith(f"PATCH {maps}/kafka answered 200")
        data = server.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/kafka")["data"]
        assert data == {"servers": "eu:9092", "kept": "yes"}
    with pytest.raises(ReconcilerError, match="answered 403, expected 200"):
        run_hook(replace(hook, target=f"{maps}/other"), {})


EXECUTOR, DRIVER = "KubernetesExecutorBackend", "mirror_job.py"


@pytest.mark.parametrize("deploy_mode", ["client", "cluster"])
def test_executors_drivers_and_followers_are_lost(
    plain: Sandbox, server: ApiServer, kubelet: Kubelet, tmp_path: Path, deploy_mode: str
) -> None:
    east, west = plain.clusters["east"], plain.clusters["west"]
    name = f"k{uuid.uuid4().hex[:6]}"
    create_topics(west, "__mirror_status")
    create_topics(east, name, partitions=PARTITIONS)
    create_topics(west, f"east.{name}", partitions=PARTITIONS)
    mirror = mirror_on_kubernetes(name, server, tmp_path, deploy_mode)
    content = handover(west, name, [flow(name, east, west, [name], lanes=2)])
    job = Job(tmp_path / "run", content, mirror=mirror, supervised=True)
    try:
        job.start()
        with flowing(east, west, {name: PARTITIONS}, rate=20) as (load, arrivals):
            copies = copying(load, arrivals, name, job, PATIENCE_S)
            copies("every partition is copied")
            executors = running(kubelet, EXECUTOR)
            assert len(executors) == 2
            executors[0].kill()
            copies("after kill -9 of all in an executor's pod")
            until("Spark has made another", lambda: len(running(kubelet, EXECUTOR)) == 2, job)
            server.ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{executors[1].name}")
            until("it is gone", lambda: executors[1] not in running(kubelet, EXECUTOR), job)
            copies("after an executor's pod was deleted")

            first = job.application_id
            os.kill(job.driver_pid, signal.SIGKILL)
            if deploy_mode == CLUSTER:
                copies("after kill -9 of the follower")
                until("the driver is followed again", lambda: application(job) == first, job)
                (driver,) = running(kubelet, DRIVER)
                server.ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{driver.name}")
                until("another driver runs", lambda: application(job) not in ("", first), job, PATIENCE_S)
                copies("after the driver's pod was deleted")
                (driver,) = running(kubelet, DRIVER)
                kubelet.lost.add(driver.name)
                driver.kill()
                copies("after the loss of the node with the driver")
            else:
                copies("after kill -9 of the driver")
            assert_all_once_in_order(load, arrivals, {name: PARTITIONS}, PATIENCE_S)
        assert job.stop() == 0
        until_true("no pod runs", lambda: not running(kubelet, EXECUTOR) and not running(kubelet, DRIVER))
        assert (status(west, name) or {})["state"] == "stopped"
    finally:
        sys.stdout.write(job.log[-3000:])
        for pod in kubelet.pods.values():
            sys.stdout.write(f"\n== {pod.name} {pod.process.poll()}\n{pod.log[-1500:]}")
        job.kill_group()
    assert json.loads((job.folder / "supervisor.json").read_text())["state"] == "stopped"
