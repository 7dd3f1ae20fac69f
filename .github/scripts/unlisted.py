"""Prints, one a line, the environments that differ between two commits and that RECONCILER_ENVIRONMENTS does not list.

Standard library only. A folder that others link into is a place for shared files, and no environment; one that is gone
has nothing to check.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("environments")
TOUCHED = Path(__file__).parent / "touched"


def listed() -> set[str]:
    found = json.loads(os.environ.get("RECONCILER_ENVIRONMENTS") or "[]")
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError
    return set(found)


def links() -> Iterator[Path]:
    """Where the links below ``environments/`` lead."""
    for folder, folders, files in os.walk(ROOT):
        for path in (Path(folder) / name for name in (*folders, *files)):
            if path.is_symlink():
                yield path.resolve()


def unlisted(before: str, now: str) -> Iterator[str]:
    known, shared = listed(), list(links())
    for folder in sorted(ROOT.iterdir() if ROOT.is_dir() else ()):
        name, place = folder.name, folder.resolve()
        planned = name in known or any(one.startswith(f"{name}/") for one in known)
        if planned or name.startswith(".") or not any(folder.rglob("*.yaml")):
            continue
        if any(place in one.parents for one in shared if folder.absolute() == place):
            continue
        if subprocess.run([TOUCHED, before, now, str(folder)], check=True, stdout=subprocess.PIPE).stdout:
            yield name


if __name__ == "__main__":
    try:
        for one in unlisted(*sys.argv[1:3]):
            print(one)
    except ValueError:
        sys.exit('RECONCILER_ENVIRONMENTS is no JSON list of names, such as ["prod", "staging"]')
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
