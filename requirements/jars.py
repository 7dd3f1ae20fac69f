"""Kafka's jars of the sandbox: their digests, and the Maven coordinates that go with them.

``python -m requirements.jars`` writes the coordinates anew, from the local Maven repository, by digest."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler_sandbox.install.jars import digest_of, expected
from reconciler_sandbox.paths import CHECKSUMS

COORDINATES = Path(__file__).parent / "jars.coordinates"
REPOSITORY = Path.home() / ".m2" / "repository"
_LINE = re.compile(r"(?P<group>[\w.-]+):(?P<artifact>[\w.-]+):(?P<version>[\w.-]+)")


@dataclass(frozen=True, order=True)
class Jar:
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def purl(self) -> str:
        return f"pkg:maven/{self.group}/{self.artifact}@{self.version}"


def jars(coordinates: str | None = None, checksums: str | None = None) -> tuple[Jar, ...]:
    """Each jar of the sandbox. Raises ValueError when coordinates and digests are not of the same jars."""
    digests = expected(CHECKSUMS.read_text("utf-8") if checksums is None else checksums)
    listed = []
    for line in (COORDINATES.read_text("utf-8") if coordinates is None else coordinates).splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"not group:artifact:version: {line!r}")
        digest = digests.pop(f"{match['artifact']}-{match['version']}.jar", None)
        if digest is None:
            raise ValueError(f"{line} has no digest in {CHECKSUMS.name}: renew the coordinates with make lock")
        listed.append(Jar(match["group"], match["artifact"], match["version"], digest))
    if digests:
        raise ValueError(
            f"{', '.join(sorted(digests))}: no coordinates in {COORDINATES.name}; renew them with make lock"
        )
    return tuple(sorted(listed))


def located(digests: Mapping[str, str], files: Iterable[Path], repository: Path) -> list[str]:
    """``group:artifact:version`` of each jar whose digest a file of the repository has; the layout is Maven's."""
    names = []
    for file in files:
        if file.name in digests and digest_of(file) == digests[file.name]:
            *group, artifact, version, _ = file.relative_to(repository).parts
            names.append(f"{'.'.join(group)}:{artifact}:{version}")
    return sorted(set(names))


def main() -> int:
    digests = expected(CHECKSUMS.read_text("utf-8"))
    text = "".join(f"{name}\n" for name in located(digests, REPOSITORY.rglob("*.jar"), REPOSITORY))
    try:
        jars(text)
    except ValueError as error:
        print(f"{REPOSITORY} does not hold the jars of {CHECKSUMS.name}: {error}", file=sys.stderr)
        return 1
    COORDINATES.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
