"""Releases of the program, built as wheels from the repository's history and installed in environments of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from io import BytesIO
from pathlib import Path

from tests.support.jobs.hosts.mirror_hosts import Program
from tests.support.paths import ROOT

_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def environ() -> dict[str, str]:
    """Of this process, without what leads Python to a checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def previous() -> str:
    """The newest tag before this commit; while there is none, the commit that was main's 50 commits ago."""
    described = _git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD~1", missing_is="")
    return described.decode().strip() or "HEAD~50"


def installed(revision: str, folder: Path) -> Program:
    """Beside the packages of this environment, which both releases share. ``revision`` empty: what is checked out."""
    source = folder / "source"
    source.mkdir(parents=True)
    if revision:
        with tarfile.open(fileobj=BytesIO(_git("archive", revision))) as archive:
            archive.extractall(source, filter="data")
    else:
        for name in _git("ls-files", "--cached", "--others", "--exclude-standard", "-z").decode().split("\0"):
            if name and (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, source / name)
    _run(*_PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source))
    [wheel] = folder.glob("*.whl")
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
    _run(*_PIP, "--python", str(folder / "venv" / "bin" / "python"), "install", "--no-deps", str(wheel))
    # Folders named in a .pth file are searched, but the .pth files in them (such as that of our checkout) are not read.
    [places] = (folder / "venv" / "lib").glob("python*/site-packages")
    (places / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = (str(folder / "venv" / "bin" / "python"), "-c", "import reconciler; print(reconciler.__file__)")
    assert _run(*where, cwd=folder).startswith(str(folder)), "the wheel is what runs, not the checkout"
    return Program((str(folder / "venv" / "bin" / "reconciler"),), folder, environ())


def _run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=cwd, env=environ())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _git(*words: str, missing_is: str | None = None) -> bytes:
    done = subprocess.run(["git", *words], capture_output=True, timeout=60, check=False, cwd=ROOT)
    if done.returncode and missing_is is not None:
        return missing_is.encode()
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
