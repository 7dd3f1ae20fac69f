"""Every JSON that a command prints has a schema, and docs/formats.md names both; the schemas agree with each other."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.main import get_command

from reconciler.cli.main import app, main
from tests.support.commands import commands_of
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/formats.md").read_text("utf-8")
SCHEMAS = {path.name: json.loads(path.read_text("utf-8")) for path in (ROOT / "schemas").rglob("*.json")}


def _prints_json(command: Any) -> bool:
    return any(
        "--format" in parameter.opts and "json" in list(parameter.type_descriptor.annotation)
        for parameter in command.params
    )


def _rows() -> Iterator[tuple[str, str]]:
    """Commands and schema of each row of the first table."""
    for row in PAGE.partition("| exit code")[0].splitlines():
        if row.startswith("| `"):
            commands, schema = row.strip("| ").split(" | ")
            yield commands, re.findall(r"\(\.\./schemas/(?:reports/)?([a-z.-]+)\)", schema)[0]


def test_every_command_that_prints_json_is_on_the_page() -> None:
    printing = {name for name, command in commands_of(get_command(app)) if _prints_json(command)}
    assert len(printing) > 8
    named = {
        words.strip() for commands, _ in _rows() for words in re.findall(r"`([a-z]+(?:[ -][a-z]+)*)[^`]*`", commands)
    }
    assert printing == named


def test_each_schema_says_the_kinds_of_its_documents() -> None:
    for _, schema in _rows():
        kind = SCHEMAS[schema]["properties"]["kind"]
        assert kind.get("enum", [kind.get("const")]) != [None], schema


def test_every_schema_is_on_the_page() -> None:
    assert set(re.findall(r"schemas/(?:reports/)?([a-z-]+\.schema\.json)\)", PAGE)) == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_closed_and_names_its_version(name: str) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == name
    assert schema["title"]
    assert all(one["additionalProperties"] is False for one in schema.get("oneOf", [schema]))
    if name != "environment.schema.json":  # written by people, who name no version
        assert schema["properties"]["format_version"] == {"const": 1}
        assert "format_version" in schema["required"]


def test_what_a_command_prints_has_its_kind_and_its_exit_code() -> None:
    for _, name in _rows():
        told = {"kind", "exit_code"} if name == "sandbox.schema.json" else {"kind", "exit_code", "environment"}
        assert told <= set(SCHEMAS[name]["required"]) | _of_plans(name), name


def _of_plans(name: str) -> set[str]:
    """A plan has its environment among what it rests on."""
    return {"environment"} if "environment" in json.dumps(SCHEMAS[name]["properties"].get("basis", {})) else set()


def test_status_prints_what_the_status_record_says() -> None:
    record, printed = (SCHEMAS[f"{name}.schema.json"] for name in ("status", "status-report"))
    definitions = copy.deepcopy(printed["$defs"])
    assert definitions["condition"]["properties"].pop("runbook"), "which the program adds"
    assert {name: definitions[name] for name in record["$defs"]} == record["$defs"]
    told = record["properties"]["flows"]["additionalProperties"]["properties"]
    assert set(told) - set(printed["$defs"]["flow"]["properties"]) == {"lanes"}


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("clusters: {east: {bootstrap_servers: ['h:1']}}\n", []),
        ("topics:\n  a: {clusters: [west], partitons: 1}\n", ["unknown-cluster", "unknown-field"]),
        ("topics: [\n", ["yaml-broken"]),
        (None, ["no-files"]),
    ],
)
def test_validate_prints_problems_for_programs(
    text: str | None, codes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "topology.yaml").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(tmp_path), "--format", "json"])
    said = capsys.readouterr()
    told = json.loads(said.out)
    Draft202012Validator(SCHEMAS["validation.schema.json"]).validate(told)
    assert sorted(one["code"] for one in told["problems"]) == codes
    assert told["exit_code"] == ended.value.code == (1 if codes else 0)
    assert bool(said.err) == bool(codes), "people are told, too"
