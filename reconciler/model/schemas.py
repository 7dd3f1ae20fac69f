"""Finds the JSON Schemas: YAML, plans, reports, the hand-over to Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from reconciler.text import printable_json

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator


def schema(name: str) -> Any:
    """The schema of ``name``, such as ``plan``. Installed they lie in the package, in a checkout beside it."""
    package = resources.files("reconciler")
    file = f"{name}.schema.json"
    for folder in ("schemas", "../schemas"):
        for place in (package.joinpath(folder, file), package.joinpath(folder, "reports", file)):
            if place.is_file():
                return json.loads(place.read_text(encoding="utf-8"))
    raise FileNotFoundError(file)


EDITORS_SCHEMA = "environment.schema.json"
"""Beside the files of an environment, so that editors check them without a network; no command reads it."""


def for_editors(texts: Mapping[str, str]) -> Mapping[str, str]:
    """``texts`` of a new environment by their path in its folder, and that schema, which each text names."""
    whole = printable_json(schema("environment"), indent=2) + "\n"
    return {**{path: naming_schema(path, text) for path, text in texts.items()}, EDITORS_SCHEMA: whole}


def naming_schema(path: str, text: str) -> str:
    """With a first line by which editors complete and check. ``path``: in the environment's folder."""
    return f"# yaml-language-server: $schema={'../' * path.count('/') or './'}{EDITORS_SCHEMA}\n{text}"


@cache
def validator(name: str) -> Draft202012Validator:
    """For records from untrusted writers. The standard accepts 2.0 or 1e300 as an integer; such numbers, and those
    beyond 64 bits, would be read, and fail at the first calculation."""
    from jsonschema import Draft202012Validator, validators  # 0.1 s, and many a plan reads no record

    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: type(value) is int and abs(value) < 2**63,
            "number": lambda _, value: type(value) in (int, float) and abs(value) < 2**63,
        }
    )
    strict = validators.extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]
    made: Draft202012Validator = strict(schema(name))
    return made
