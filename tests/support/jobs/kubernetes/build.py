"""kube-apiserver, etcd, helm and kustomize, built by Go from the modules that go.sum of the folders here pins."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from reconciler_sandbox.paths import STATE

VERSION = "1.34.2"
_HERE = Path(__file__).parent
_BINARIES = STATE / f"kubernetes-{VERSION}"
_PACKAGES = {
    "kube-apiserver": ("apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "etcd": ("etcd", "."),
    "helm": ("packaging", "helm.sh/helm/v3/cmd/helm"),
    "kustomize": ("packaging", "sigs.k8s.io/kustomize/kustomize/v5"),
}


def binary(name: str) -> Path:
    """Built where it is not there yet, which takes minutes."""
    path = _BINARIES / name
    if path.exists():
        return path
    go = shutil.which("go")
    assert go is not None, f"{name} is built by Go 1.24 or newer, which is not on the PATH: install it for this target"
    folder, package = _PACKAGES[name]
    _BINARIES.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    words = [go, "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", str(draft), package]
    built = subprocess.run(words, cwd=_HERE / folder, capture_output=True, text=True, env={**os.environ, "GOFLAGS": ""})
    assert built.returncode == 0, f"{name} could not be built:\n{built.stderr[-3000:]}"
    draft.replace(path)
    return path
