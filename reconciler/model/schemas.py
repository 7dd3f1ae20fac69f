"""Finds the JSON Schemas: YAML, plans, reports, the hand-over to Spark."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def schema(name: str) -> Any:
    """The schema of ``name``, such as ``plan``. Installed they lie in the package, in a checkout beside it."""
    package = resources.files("reconciler")
    file = f"{name}.schema.json"
    for folder in ("schemas", "../schemas"):
        for place in (package.joinpath(folder, file), package.joinpath(folder, "reports", file)):
            if place.is_file():
                return json.loads(place.read_text(encoding="utf-8"))
    raise FileNotFoundError(file)
