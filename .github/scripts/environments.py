"""Environments that differ between two commits: ``listed``, as a JSON list, those that RECONCILER_ENVIRONMENTS lists;
``unlisted``, one a line, the others.

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


class RefusedError(Exception):
    """Ends the step with words instead of a traceback."""


def named() -> list[str]:
    """What RECONCILER_ENVIRONMENTS lists."""
    try:
        found = json.loads(os.environ.get("RECONCILER_ENVIRONMENTS") or "[]")
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise RefusedError('RECONCILER_ENVIRONMENTS is no JSON list of names, such as ["prod", "staging"]')
    return found


def touched(before: str, now: str, folder: Path) -> bool:
    return bool(subprocess.run([TOUCHED, before, now, str(folder)], check=True, stdout=subprocess.PIPE).stdout)


def listed(before: str, now: str) -> list[str]:
    return [name for name in named() if touched(before, now, ROOT / name)]


def links() -> Iterator[Path]:
    """Where the links below ``environments/`` lead."""
    for folder, folders, files in os.walk(ROOT):
        for path in (Path(folder) / name for name in (*folders, *files)):
            if path.is_symlink():
                yield path.resolve()


def unlisted(before: str, now: str) -> Iterator[str]:
    known, shared = named(), list(links())
    for folder in sorted(ROOT.iterdir() if ROOT.is_dir() else ()):
        name, place = folder.name, folder.resolve()
        planned = name in known or any(one.startswith(f"{name}/") for one in known)
        if planned or name.startswith(".") or not any(folder.rglob("*.yaml")):
            continue
        if any(place in one.parents for one in shared if folder.absolute() == place):
            continue
        if not name.isprintable():
            raise RefusedError(f"the folder {name!r} in {ROOT} has a name that no line can hold: rename it")
        if touched(before, now, folder):
            yield name


def main(words: list[str]) -> None:
    match words:
        case ["listed", before, now]:
            print(json.dumps(listed(before, now)))
        case ["unlisted", before, now]:
            for name in unlisted(before, now):
                print(name)
        case _:
            raise RefusedError("usage: listed|unlisted BEFORE NOW")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RefusedError as error:
        sys.exit(f"environments.py: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
