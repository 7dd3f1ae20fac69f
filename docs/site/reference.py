"""The page of reference of an environment, made of its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]


def environment_page(schema_file: Path) -> str:
    """Every key of the YAML of an environment: what it takes, and what it means."""
    schema = json.loads(schema_file.read_text("utf-8"))
    lines = [f"# {schema['title']}", "", schema.get("description", ""), ""]
    for key, value in sorted(schema["properties"].items()):
        lines += [f"## {key}", "", _description(value, schema), "", *_table(key, value, schema), ""]
    return "\n".join(lines)


def _table(section: str, value: Schema, schema: Schema) -> Iterator[str]:
    """Rows in the order of their keys, each with an address: ``topics.NAME.partitions``."""
    rows: dict[str, Schema] = {}
    for path, of in _rows("", value, schema, ()):
        rows.setdefault(path, of)
    if rows:
        yield "| key | takes | means |"
        yield "|---|---|---|"
    for path, of in sorted(rows.items()):
        anchor = f'<a id="{section}.{path}"></a>'.replace(".[]", "[]")
        yield f"| {anchor}`{path}` | {_cell(_takes(of, schema))} | {_cell(_description(of, schema))} |"


def _rows(path: str, value: Schema, schema: Schema, above: tuple[str, ...]) -> Iterator[tuple[str, Schema]]:
    """Each key with what it takes, and the keys that it holds; ``above`` ends what holds itself."""
    value, name = _resolved(value, schema)
    if name in above:
        return
    above = (*above, name) if name else above
    for key, inner in value.get("properties", {}).items():
        place = f"{path}.{key}" if path else key
        yield place, inner
        yield from _rows(place, inner, schema, above)
    items = value.get("items")
    if isinstance(items, Mapping):
        yield from _rows(f"{path}[]" if path else "[]", items, schema, above)
    for inner in (value.get("additionalProperties"), *value.get("patternProperties", {}).values()):
        if isinstance(inner, Mapping):
            yield from _rows(f"{path}.NAME" if path else "NAME", inner, schema, above)
    for choice in (*value.get("oneOf", ()), *value.get("anyOf", ())):
        yield from _rows(path, choice, schema, above)


def _resolved(value: Schema, schema: Schema) -> tuple[Schema, str]:
    reference = value.get("$ref", "")
    if not reference:
        return value, ""
    name = reference.rpartition("/")[2]
    target = schema["$defs"][name]
    return {**target, **{key: content for key, content in value.items() if key != "$ref"}}, name


def _takes(value: Schema, schema: Schema) -> str:
    resolved, _ = _resolved(value, schema)
    if "enum" in resolved:
        return ", ".join(f"`{json.dumps(each)}`" for each in resolved["enum"])
    return str(resolved.get("title") or resolved.get("type", ""))


def _description(value: Schema, schema: Schema) -> str:
    return str(_resolved(value, schema)[0].get("description", ""))


def _cell(text: str) -> str:
    escaped = text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
    return escaped.replace("*", "\\*")


def with_addresses(table: str) -> str:
    """Rows that begin with a name in code get it as their address: ``metrics.html#mirror_flow_topics``."""
    return re.sub(r"^\| `(\w+)` \|", r'| <a id="\1"></a>`\1` |', table, flags=re.MULTILINE)
