"""Installs Kafka's jars: fetched through Maven, checked against committed digests."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.install import prerequisites
from reconciler_sandbox.releases import NEWEST, Release

STAMP = ".checked"
Progress = Callable[[str], None]


def expected(text: str) -> dict[str, str]:
    """Jar name -> sha256 in hex, from lines as ``sha256sum`` writes them."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return {name.lstrip("*"): digest for digest, name in pairs}


def digest_of(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(listed: str, folder: Path) -> str:
    """Changes when the list, or any jar's name, size or time changes; reads no jar."""
    jars = sorted(folder.glob("*.jar"))
    seen = "".join(f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}\n" for jar in jars)
    return hashlib.sha256((listed + seen).encode()).hexdigest()


def complete(release: Release = NEWEST) -> bool:
    """True when the folder was checked and nothing has moved since."""
    stamp = release.jars / STAMP
    return stamp.is_file() and stamp.read_text() == _stamp(release.checksums.read_text(), release.jars)


def wrong(folder: Path, listed: Mapping[str, str]) -> dict[str, str]:
    """Jar name -> what is wrong with it; empty when the folder is exactly the list."""
    names = {jar.name for jar in folder.glob("*.jar")}
    problems = dict.fromkeys(names - set(listed), "is not in the list")
    for name, digest in listed.items():
        if name not in names:
            problems[name] = "is missing"
        elif (actual := digest_of(folder / name)) != digest:
            problems[name] = f"has sha256 {actual}, listed is {digest}"
    return problems


def ensure(progress: Progress = lambda _: None, release: Release = NEWEST) -> Path:
    """The folder of Kafka's jars, complete and checked. Asks Maven only if something is amiss. Raises SandboxError."""
    folder = release.jars
    if complete(release):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    text = release.checksums.read_text()
    if wrong(folder, expected(text)):
        progress(f"fetching {release.product} {release.version} with Maven")
        _fetch(release, expected(text))
    (folder / STAMP).write_text(_stamp(text, folder))
    return folder


def _fetch(release: Release, listed: Mapping[str, str]) -> None:
    folder = release.jars
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as name:
        fresh = Path(name)
        copy_from_maven(fresh, release)
        problems = wrong(fresh, listed)
        if problems:
            lines = "\n".join(f"  {jar} {description}" for jar, description in sorted(problems.items()))
            raise SandboxError(
                f"{release.product}'s jars are not those of {release.checksums.name}:\n{lines}",
                "Unknown code would run in the sandbox.",
                "Check where Maven gets its artifacts from (settings.xml), clear them from ~/.m2 and run again.",
            )
        # One by one, so that running brokers keep the files they have open.
        for jar in fresh.glob("*.jar"):
            jar.replace(folder / jar.name)
    for jar in folder.glob("*.jar"):
        if jar.name not in listed:
            jar.unlink()


def copy_from_maven(folder: Path, release: Release = NEWEST) -> None:
    """All runtime jars of the release's pom into ``folder``. Raises SandboxError with Maven's own words."""
    prerequisites.java()
    command = [prerequisites.maven(), "-B", "-q", "-Dstyle.color=never", "-f", str(release.pom)]
    command += [f"-Dkafka.version={release.version}", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line][:5]
        todo = "Check the network and Maven's settings.xml (proxy, mirror), then run again."
        raise SandboxError(
            f"Maven could not fetch {release.product}'s jars", "\n".join(f"  {line}" for line in said), todo
        )


def write_checksums(release: Release = NEWEST) -> None:
    """Renews the committed list from what Maven serves now: after a change of its pom, to be reviewed."""
    folder = Path(tempfile.mkdtemp())
    try:
        copy_from_maven(folder, release)
        release.checksums.write_text("".join(f"{digest_of(jar)}  {jar.name}\n" for jar in sorted(folder.glob("*.jar"))))
    finally:
        shutil.rmtree(folder)
