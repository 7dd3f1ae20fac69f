"""Licences of the locked packages, as their own metadata tells them.

``python -m requirements.licences`` writes the page anew."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from requirements.locked import Package, packages

PAGE = Path(__file__).parents[1] / "docs" / "licences.md"
UNTOLD = "not stated by the package"
SPDX = frozenset(
    {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "LGPL-2.1-or-later", "MIT", "MPL-2.0", "PSF-2.0"}
)
"""Identifiers that the older field ``License`` may hold, which takes any text. ``License-Expression`` is SPDX by
definition (core metadata 2.4)."""
_CLASSIFIER = "License :: OSI Approved :: "


@dataclass(frozen=True)
class Licence:
    """``spdx``: an SPDX expression; else ``words``: what the package says in words of its own. Both None: nothing."""

    spdx: str | None = None
    words: str | None = None


Told = Callable[[Package], Licence | None]


def installed(package: Package) -> Licence | None:
    """None when the package is not installed at this version, which says nothing about its licence."""
    try:
        metadata = importlib.metadata.metadata(package.name)
    except importlib.metadata.PackageNotFoundError:
        return None
    if metadata["Version"] != package.version:
        return None
    classifiers = [line for line in metadata.get_all("Classifier") or [] if line.startswith(_CLASSIFIER)]
    [expression, *_] = metadata.get_all("License-Expression") or [None]
    [field, *_] = metadata.get_all("License") or [None]
    return read(expression, field, classifiers)


def read(expression: str | None, field: str | None, classifiers: Iterable[str] = ()) -> Licence:
    """From the three places of a package's metadata, the most exact first. A field of several lines is the text of a
    licence, not its name."""
    text = (field or "").strip()
    if expression:
        return Licence(spdx=expression)
    if text in SPDX:
        return Licence(spdx=text)
    if text and "\n" not in text and text != "UNKNOWN":
        return Licence(words=text)
    names = sorted(line.removeprefix(_CLASSIFIER) for line in classifiers)
    return Licence(words=", ".join(names) or None)


def page(locked: Iterable[Package], told: Told = installed) -> str:
    """The page as text. ``told``: the licence of a package, None where it is not installed."""
    listed = sorted(locked)
    runtime = _lines([package for package in listed if package.runtime], told)
    rest = _lines([package for package in listed if not package.runtime], told)
    return f"""# Licences of the dependencies

The project itself is under [Apache-2.0](../LICENSE). `make licences` writes this page from locks and metadata: SPDX
identifiers, or a package's own words in quotation marks; else *{UNTOLD}*. Wheels may hold more, such as Spark's jars in
`pyspark`: see their licence files. With hashes: `make sbom` ([security](SECURITY.md#what-the-project-depends-on)).

## The program and the mirror job

{runtime}
## Development, sandbox, and the extra `serve`

{rest}
## Jars of the sandbox

Maven fetches Kafka's jars; their licences are not read.
"""


def _lines(listed: Iterable[Package], told: Told) -> str:
    return "".join(f"* `{package.name}` {package.version}: {cell(told(package))}\n" for package in listed)


def cell(licence: Licence | None) -> str:
    if licence is None:
        return f"{UNTOLD} (not installed where this page was written)"
    if licence.spdx is not None:
        return licence.spdx
    return UNTOLD if licence.words is None else f'"{licence.words}"'


def main() -> int:
    PAGE.write_text(page(packages()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
