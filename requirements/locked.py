"""The locked Python packages, read from the locks. Standard library only: CI asks for advisories before it installs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

FOLDER = Path(__file__).parent
RUNTIME = FOLDER / "runtime.lock"
DEMO = FOLDER.parent / "sandbox" / "reconciler_sandbox" / "demo" / "flights.lock"
LOCKS = (RUNTIME, FOLDER / "dev.lock", FOLDER / "build.lock", DEMO)
"""All that `make install` installs. What the first one does not name is for development and the sandbox."""
_PIN = re.compile(r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)==(?P<version>[0-9][\w.!+-]*)(?: ; (?P<marker>[^\\]+))?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, order=True)
class Package:
    """A package at its locked version. ``hashes``: sha256 in hex of each file that may be installed (wheels, source).
    ``runtime``: False for what only development and the sandbox install. ``marker``: where it is installed."""

    name: str
    version: str
    hashes: tuple[str, ...]
    runtime: bool
    marker: str = ""

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{quote(self.version)}"


def packages(locks: Sequence[Path] = LOCKS) -> tuple[Package, ...]:
    """Each locked package once, by name; the first of ``locks`` is the program's own. Raises ValueError where they
    disagree or have a line of another form."""
    by_name: dict[str, Package] = {}
    for lock in locks:
        for package in parse(lock.read_text("utf-8"), runtime=lock == locks[0]):
            known = by_name.setdefault(package.name, package)
            if known.version != package.version:
                raise ValueError(
                    f"{package.name} is locked at {known.version} and, in {lock.name}, at {package.version}"
                )
    return tuple(by_name[name] for name in sorted(by_name))


def parse(text: str, runtime: bool) -> Iterator[Package]:
    """Packages of one lock, as ``uv pip compile --generate-hashes`` writes it."""
    for requirement in text.replace("\\\n", " ").splitlines():
        pin = _PIN.match(requirement)
        if not requirement.strip() or requirement.startswith("#"):
            continue
        hashes = tuple(sorted(_HASH.findall(requirement)))
        if pin is None or not hashes:
            raise ValueError(f"not a pinned package with sha256 hashes: {requirement[:80]!r}")
        marker = (pin["marker"] or "").partition("--hash")[0].strip()
        yield Package(pin["name"], pin["version"], hashes, runtime, marker)
