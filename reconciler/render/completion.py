"""Candidates for shell completion: environment folders, and names declared in their YAML files.

It asks no cluster and validates nothing: unreadable files give no names. Each function ends quickly and raises nothing,
because the user keeps typing.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

MOST_FOLDERS = 500
_DEPTH = 3
_HEAD_BYTES = 65_536
_DECLARES = re.compile(rb"^(clusters|flows):", re.MULTILINE)
_ADOPTED = "cluster.yaml"


def environments(incomplete: str) -> list[str]:
    """Environment folders with prefix ``incomplete``, at most three levels below."""
    start, _, _ = incomplete.rpartition("/")
    root = f"{start}/" if start else "/" if incomplete.startswith("/") else ""
    paths: set[str] = set()
    for folder in islice(_folders(root, _DEPTH), MOST_FOLDERS):
        declaring = set()
        for path in Path(folder).glob("*.yaml"):
            with suppress(OSError), path.open("rb") as file:
                if _DECLARES.search(file.read(_HEAD_BYTES)):
                    declaring.add(path.name)
        if declaring == {_ADOPTED}:  # ``adopt`` writes each cluster into a folder of its own, within the environment's
            paths.add(os.path.dirname(folder))  # noqa: PTH120 - a text: Path would turn "./env" into "env"
        elif declaring:
            paths.add(folder)
    return sorted(path for path in paths if path.startswith(incomplete))


def flows(ctx: Any) -> list[str]:
    return sorted(_names(ctx, "flows"))


def clusters(ctx: Any) -> list[str]:
    return sorted(_names(ctx, "clusters"))


def topics(ctx: Any) -> list[str]:
    return sorted(_names(ctx, "topics"))


def subjects(ctx: Any) -> list[str]:
    """What ``explain`` explains."""
    return sorted({*_names(ctx, "flows"), *_names(ctx, "topics"), *_names(ctx, "mirrors")})


def _folders(root: str, depth: int) -> Iterator[str]:
    """Folders down to ``depth``, without hidden and unreadable ones, since completion must not print errors."""
    try:
        with os.scandir(root or ".") as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    except OSError:
        return
    for name in names:
        yield f"{root}{name}"
    for name in names if depth > 1 else ():
        yield from _folders(f"{root}{name}/", depth - 1)


def _names(ctx: Any, section: str) -> set[str]:
    """The keys of a section over all files of the environment named earlier on the command line."""
    from reconciler.backends.files import read_readable
    from reconciler.environment.yaml.nodes import Mapping, node_at
    from reconciler.environment.yaml.read import read

    # behind an option that has no value yet nothing is parsed, and the words are left over
    env = ctx.params.get("env") or next((word for word in ctx.args if Path(word).is_dir()), None)
    if env is None:
        return set()
    parts = [node_at(read(file, text).root, section) for file, text in read_readable(Path(env))[0].items()]
    return {name for part in parts if isinstance(part, Mapping) for name in part.entries}
