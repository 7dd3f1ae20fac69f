"""etcd and kube-apiserver of this machine, with RBAC, and requests to them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.jobs.kubernetes.build import binary

ADDRESS = "127.77.0.1"
"""Of the server, on the port of the service ``kubernetes.default.svc`` of every cluster: pods ask there."""
ADMIN = "token-of-the-tests-admin"
Document = dict[str, Any]


class RefusedError(Exception):
    """``status``: of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


@dataclass
class ApiServer:
    """``stop`` it, whatever happens."""

    folder: Path
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def authority(self) -> Path:
        return self.folder / "cert" / "apiserver.crt"

    @property
    def url(self) -> str:
        return f"https://{ADDRESS}:443"

    def start(self) -> ApiServer:
        self.folder.mkdir(parents=True)
        with contextlib.ExitStack() as held:
            ports = [held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(2)]
        clients, peers = (f"http://127.0.0.1:{port}" for port in ports)
        private, public = self.folder / "sa.key", self.folder / "sa.pub"
        subprocess.run(["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text(f"{ADMIN},admin,admin,system:masters\n")
        self._run(
            "etcd", data_dir=self.folder / "etcd", listen_client_urls=clients, advertise_client_urls=clients,
            listen_peer_urls=peers, initial_advertise_peer_urls=peers, initial_cluster=f"default={peers}",
        )  # fmt: skip
        issuer = "https://kubernetes.default.svc"
        self._run(
            "kube-apiserver", etcd_servers=clients, bind_address=ADDRESS, secure_port=443,
            cert_dir=self.folder / "cert", service_account_issuer=issuer, service_account_key_file=public,
            service_account_signing_key_file=private, token_auth_file=self.folder / "tokens.csv",
            authorization_mode="RBAC", service_cluster_ip_range="10.0.0.0/24", endpoint_reconciler_type="none",
        )  # fmt: skip
        end = time.monotonic() + 120
        while not self._ready():
            assert time.monotonic() < end, (self.folder / "kube-apiserver.log").read_text()[-3000:]
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)

    def ask(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Document:
        """As the admin of the cluster. Raises RefusedError, and OSError where nothing answers."""
        context = ssl.create_default_context(cafile=str(self.authority))
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20, context=context) as answer:
                document: Document = json.loads(answer.read())
                return document
        except urllib.error.HTTPError as error:
            raise RefusedError(error.code, error.read().decode(errors="replace")) from None

    def create(self, document: Mapping[str, Any]) -> Document:
        """A namespaced object, or a Namespace. Fields that the server does not know are refused."""
        kind, version = str(document["kind"]), str(document["apiVersion"])
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        plural = "networkpolicies" if kind == "NetworkPolicy" else f"{kind.lower()}s"
        place = "" if kind == "Namespace" else f"/namespaces/{document['metadata']['namespace']}"
        return self.ask("POST", f"{root}{place}/{plural}?fieldValidation=Strict", document)

    def token(self, namespace: str, account: str) -> str:
        """Of a service account, as a kubelet asks for it."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.ask("POST", path, request)["status"]["token"])

    def pods(self, namespace: str, label: str = "") -> list[Document]:
        found = self.ask("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        name, _, value = label.partition("=")
        return [pod for pod in found if not label or pod["metadata"].get("labels", {}).get(name) == value]

    def _ready(self) -> bool:
        with contextlib.suppress(OSError, RefusedError, ValueError):
            return bool(self.ask("GET", "/api/v1/namespaces/default"))
        return False

    def _run(self, name: str, **flags: object) -> None:
        words = [f"--{key.replace('_', '-')}={value}" for key, value in flags.items()]
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [binary(name), *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            )
