"""A stand-in for the kubelet and for nodes: runs the pods of a namespace as processes of this machine.

As root. Each pod has a root file system of its own (what is written lies above that of this machine), process ids and
a name of its own, the volumes that it asks for, and a loopback address for its network. In place of an image it has
what docs/mirror/deploy/Containerfile puts into one: the same entry point, Spark, Python and this program.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from reconciler.backends.mirror_jobs.runner.command_line import job_script
from tests.support.jobs.kubernetes.server import ADDRESS, ApiServer, Document, RefusedError
from tests.support.paths import ROOT

ENTRYPOINT = ROOT / "docs/mirror/deploy/kubernetes/entrypoint.sh"
LOOK_S = 0.3
USER = 10001
_SPARK = Path(pyspark.__file__).parent


_ISOLATED = ("unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--propagation", "private")
_UNMASKED = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_SETMASK, ())  # unshare leaves SIGTERM blocked
os.execvp(sys.argv[1], sys.argv[1:])
"""


class NotReadyError(Exception):
    """What a pod mounts or reads is not there yet."""


@dataclass
class RunningPod:
    name: str
    folder: Path
    address: str
    process: subprocess.Popen[bytes]
    deleted: bool = False
    ended: bool = False

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def inside(self, word: str = "") -> list[int]:
        """Processes of the pod, as this machine numbers them, with ``word`` in their command line."""
        namespace, found = _first_inside(self.process.pid), []
        with contextlib.suppress(OSError):
            mine = Path(f"/proc/{namespace}/ns/pid").readlink()
            for entry in Path("/proc").iterdir():
                with contextlib.suppress(OSError):
                    is_inside = entry.name.isdigit() and (entry / "ns/pid").readlink() == mine
                    if is_inside and word.encode() in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    def kill(self) -> None:
        """As the loss of its node, or the OOM killer: with everything in it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(_first_inside(self.process.pid), signal.SIGKILL)


def _first_inside(unshare: int) -> int:
    """The process that is 1 in the pod."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()[0])
    return unshare


@dataclass
class Kubelet:
    """``stop`` it, whatever happens. ``pods``: all that it ever ran, by name."""

    server: ApiServer
    namespace: str
    folder: Path
    pods: dict[str, RunningPod] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    """Pods whose node is gone: nobody tells the server about them any more."""
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> Kubelet:
        assert os.geteuid() == 0, "pods get file systems and process ids of their own, which takes root"
        self.folder.mkdir(parents=True)
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(30)
        for pod in self.pods.values():
            pod.kill()
            pod.process.wait(20)
            subprocess.run(["umount", "--lazy", pod.folder / "root"], capture_output=True, check=False)

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            with contextlib.suppress(OSError, RefusedError):
                for document in self.server.pods(self.namespace):
                    if document["metadata"]["name"] not in self.lost:
                        self._look(document)

    def _look(self, document: Document) -> None:
        name = document["metadata"]["name"]
        pod = self.pods.get(name)
        if pod is None:
            if document["status"].get("phase") == "Pending" and not document["metadata"].get("deletionTimestamp"):
                with contextlib.suppress(NotReadyError):
                    self.pods[name] = pod = self._begin(document)
                    self._bind(name)
                    self._tell(document, pod, "Running", {"running": {"startedAt": _now()}})
            elif document["metadata"].get("deletionTimestamp"):
                self._remove(name)
            return
        code = pod.process.poll()
        if code is not None and not pod.ended:
            pod.ended = True
            code = 128 - code if code < 0 else code
            terminated = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "finishedAt": _now()}
            self._tell(document, pod, "Succeeded" if code == 0 else "Failed", {"terminated": terminated})
        if document["metadata"].get("deletionTimestamp"):
            self._end(document, pod)

    def _bind(self, name: str) -> None:
        """As the scheduler: a pod without a node is deleted at once, and its container not told."""
        place = f"/api/v1/namespaces/{self.namespace}/pods/{name}/binding"
        target = {"apiVersion": "v1", "kind": "Node", "name": "node1"}
        self.server.ask(
            "POST", place, {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        )

    def _end(self, document: Document, pod: RunningPod) -> None:
        if pod.ended:
            self._remove(pod.name)
        elif not pod.deleted:
            pod.deleted = True
            os.kill(_first_inside(pod.process.pid), signal.SIGTERM)
            patience = document["metadata"].get("deletionGracePeriodSeconds", 30)
            threading.Timer(patience, pod.kill).start()

    def _remove(self, name: str) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.server.ask("DELETE", path, {"gracePeriodSeconds": 0})

    def _tell(self, document: Document, pod: RunningPod, phase: str, state: Document) -> None:
        container = document["spec"]["containers"][0]
        runs = phase == "Running"
        status = {
            "phase": phase,
            "podIP": pod.address,
            "podIPs": [{"ip": pod.address}],
            "startTime": _now(),
            "conditions": [{"type": "Ready", "status": str(runs)}],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": container["image"],
                    "ready": runs,
                    "started": runs,
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod.name}/status"
        self.server.ask("PATCH", path, {"status": status}, "application/merge-patch+json")

    # a pod

    def _begin(self, document: Document) -> RunningPod:
        name, spec = document["metadata"]["name"], document["spec"]
        number = len(self.pods) + 2
        address, folder = f"127.78.{number // 250}.{number % 250 + 1}", self.folder / name
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        container = spec["containers"][0]
        environ = self._environment(document, container, address)
        mounts = [
            (self._volume(document, volumes[mount["name"]], folder), mount["mountPath"], mount.get("subPath", ""))
            for mount in container.get("volumeMounts", ())
        ]
        for part in ("layers", "root", "etc"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "etc" / "hosts").write_text(self._hosts(name, address))
        script = folder / "run.sh"
        words = [*container.get("command", ["sh", str(ENTRYPOINT)]), *container.get("args", ())]
        read_only = container.get("securityContext", {}).get("readOnlyRootFilesystem", False)
        script.write_text(_script(folder, name, mounts, environ, words, read_only))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*_ISOLATED, sys.executable, "-c", _UNMASKED, "sh", script],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env={},
            )  # fmt: skip
        return RunningPod(name, folder, address, process)

    def _hosts(self, pod: str, address: str) -> str:
        """Names that DNS of the cluster knows: of this pod, of services and of the server."""
        lines = ["127.0.0.1 localhost", f"{ADDRESS} kubernetes.default.svc kubernetes.default.svc.cluster.local"]
        lines.append(f"{address} {pod}")
        documents = {document["metadata"]["name"]: document for document in self.server.pods(self.namespace)}
        addresses = {name: running.address for name, running in self.pods.items()} | {pod: address}
        for service in self.server.ask("GET", f"/api/v1/namespaces/{self.namespace}/services")["items"]:
            wanted = (service["spec"].get("selector") or {}).items()
            for name, document in documents.items():
                if wanted and name in addresses and wanted <= document["metadata"].get("labels", {}).items():
                    lines.append(f"{addresses[name]} {service['metadata']['name']}.{self.namespace}.svc")
        return "\n".join(lines) + "\n"

    def _environment(self, document: Document, container: Document, address: str) -> dict[str, str]:
        environ = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "SPARK_HOME": "/opt/spark", "JAVA_HOME": _java_home(), "RECONCILER_STATE": "/var/lib/reconciler",
            "HOME": "/var/lib/reconciler",
            "KUBERNETES_SERVICE_HOST": ADDRESS, "KUBERNETES_SERVICE_PORT": "443",
        }  # fmt: skip
        for source in container.get("envFrom", ()):
            environ |= {key: value.decode() for key, value in self._secret(source["secretRef"]["name"]).items()}
        fields = {
            "status.podIP": address,
            "metadata.name": document["metadata"]["name"],
            "metadata.namespace": self.namespace,
        }
        for variable in container.get("env", ()):
            source = variable.get("valueFrom")
            if source is None:
                environ[variable["name"]] = variable.get("value", "")
            elif "fieldRef" in source:
                environ[variable["name"]] = fields[source["fieldRef"]["fieldPath"]]
            else:
                asked = source["secretKeyRef"]
                environ[variable["name"]] = self._secret(asked["name"])[asked["key"]].decode()
        return environ

    def _secret(self, name: str) -> dict[str, bytes]:
        found = self._object("secrets", name).get("data") or {}
        return {key: base64.b64decode(value) for key, value in found.items()}

    def _object(self, plural: str, name: str) -> Document:
        try:
            return self.server.ask("GET", f"/api/v1/namespaces/{self.namespace}/{plural}/{name}")
        except RefusedError as error:
            raise NotReadyError(name) from error

    def _volume(self, document: Document, volume: Document, folder: Path) -> Path:
        place = folder / "volumes" / volume["name"]
        place.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            self._files(place, volume["configMap"], self._config_map(volume["configMap"]["name"]))
        elif "secret" in volume:
            self._files(place, volume["secret"], self._secret(volume["secret"]["secretName"]))
        elif "projected" in volume:
            account = document["spec"].get("serviceAccountName", "default")
            (place / "token").write_text(self.server.token(self.namespace, account))
            (place / "ca.crt").write_bytes(self.server.authority.read_bytes())
            (place / "namespace").write_text(self.namespace)
        else:
            assert "emptyDir" in volume, volume
        for path in (place, *place.rglob("*")):
            os.chown(path, USER, USER)
        return place

    def _config_map(self, name: str) -> dict[str, bytes]:
        found = self._object("configmaps", name)
        binary = {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
        return {key: value.encode() for key, value in (found.get("data") or {}).items()} | binary

    def _files(self, place: Path, asked: Document, contents: dict[str, bytes]) -> None:
        items = asked.get("items") or ()
        paths = {item["key"]: item["path"] for item in items} or {key: key for key in contents}
        for key, path in paths.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(contents[key])


def _script(
    folder: Path,
    name: str,
    mounts: list[tuple[Path, str, str]],
    environ: dict[str, str],
    words: list[str],
    read_only: bool,
) -> str:
    """Makes the pod's file system as the image would be, mounts its volumes, and runs its container as its user."""
    root, layers = folder / "root", folder / "layers"
    lines = [
        "set -e",
        f"hostname {name}",
        f"mount -t tmpfs tmpfs {layers}",  # what lies above / must not lie within it
        f"mkdir {layers}/upper {layers}/work",
        f"mount -t overlay overlay -o lowerdir=/,upperdir={layers}/upper,workdir={layers}/work {root}",
        f"chmod a+x {root}/root",  # an interpreter may be in the home of who runs the tests
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        f"cp {folder}/etc/hosts {root}/etc/hosts",
        f"echo reconciler:x:{USER}:{USER}::/var/lib/reconciler:/bin/sh >> {root}/etc/passwd",
        f"mkdir -p {root}/opt/spark/conf {root}/opt/reconciler {root}/var/lib/reconciler",
        f"for entry in {_SPARK}/*; do ln -sfn $entry {root}/opt/spark/; done",
        f"ln -sfn {job_script('mirror_job.py')} {root}/opt/reconciler/mirror_job.py",
        f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp",
        f"chown {USER}:{USER} {root}/var/lib/reconciler",
    ]
    for source, target, part in mounts:
        make = f"mkdir -p $(dirname {target}) && touch {target}" if part else f"mkdir -p {target}"
        lines.append(f"chroot {root} sh -c {shlex.quote(make)}")  # from within: /var/run is a link to /run
        lines.append(f"mount --bind {source}{'/' + part if part else ''} {root}$(chroot {root} readlink -f {target})")
    if ROOT.is_relative_to("/tmp"):  # the image's files are the checkout's, which the pod's own /tmp hides
        lines += [f"mkdir -p {root}{ROOT}", f"mount --bind {ROOT} {root}{ROOT}"]
    if read_only:
        lines.append(f"mount -o remount,ro {root}")
    variables = " ".join(f"{key}={shlex.quote(value)}" for key, value in environ.items())
    entry = shlex.join(words)
    inner = f"cd /var/lib/reconciler && exec env -i {variables} {entry}"
    lines.append(f"exec chroot --userspec={USER}:{USER} {root} sh -c {shlex.quote(inner)}")
    return "\n".join(lines) + "\n"


def _java_home() -> str:
    if home := os.environ.get("JAVA_HOME"):
        return home
    return str(Path(subprocess.check_output(["readlink", "-f", "/usr/bin/java"], text=True).strip()).parents[1])


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def until_true(what: str, holds: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.2)
