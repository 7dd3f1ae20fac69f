"""Checks YAML against the JSON Schema, with every finding in our own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from reconciler.environment.yaml.locations import Step, locate
from reconciler.environment.yaml.nodes import Document, Scalar
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.errors import Problem
from reconciler.kafka.address import without_login
from reconciler.model.schemas import schema
from reconciler.text import nearest, suggestion

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

SECTIONS = {"clusters": "cluster", "topics": "topic", "flows": "flow", "mirrors": "mirror"}
SINGLE = ("audit", "cutover", "defaults", "docs_url", "rollout", "shrink_limit")
_WORDS = {**SECTIONS, "deletions": "deletion of", "moved": "move of", "classes": "class", "access": "access rule",
          "quotas": "quota", "users": "user", "webhooks": "webhook"}  # fmt: skip
_TITLED = tuple(
    [section] for section in ("access", "deletions", "moved", "protected", "quotas", "users", "webhooks", *SINGLE)
)
_TYPES = {
    "object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number", "number": "a number",
    "boolean": "true or false", "null": "nothing",
}  # fmt: skip
_BY_NAME = {**SECTIONS, "classes": "class"}
_MEANT = {
    "from": "source", "to": "target", "cluster": "clusters", "replicas": "replication_factor",
    "replication": "replication_factor", "brokers": "bootstrap_servers", "servers": "bootstrap_servers",
    "exclude": "exclude_topics", "regex": "topics", "pattern": "topics", "num_partitions": "partitions",
    "settings": "configs", "properties": "configs",
}  # fmt: skip
"""Other tools' names for our fields, where no similar spelling helps."""
_BLANK = {"ssl.endpoint.identification.algorithm": "Write none to turn the check of host names off, or https"}
"""Settings that Java clients take blank."""


@cache
def environment_schema() -> dict[str, Any]:
    fields: dict[str, Any] = schema("environment")
    return fields


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # slow to import, and needed for mistakes only

    return Draft202012Validator(environment_schema())


@cache
def _yes_or_no() -> jsonschema_rs.Validator:
    """A fast validator: accepts a valid file in a fiftieth of the time, including import. jsonschema judges files that
    it refuses."""
    return jsonschema_rs.validator_for(environment_schema())


def check_shape(document: Document) -> tuple[Problem, ...]:
    """Every problem of the file's shape. A value with a problem of YAML is not judged again."""
    if document.root is None:
        return ()
    data: Any = document.root.data
    # Of topics with equal bodies only one is validated, since the schema depends on the body alone. A thousand topics
    # rarely have a hundred different bodies.
    topics = data.get("topics") if isinstance(data, dict) else None
    shapes = {**data, "topics": {repr(body): body for body in topics.values()}} if isinstance(topics, dict) else data
    if (not document.problems and _yes_or_no().is_valid(shapes)) or _validator().is_valid(shapes):
        return ()
    known = {problem.where for problem in document.problems}
    problems: dict[tuple[str, str, str], Problem] = {}
    for error in _validator().iter_errors(data):
        for problem in _translate(document, error):
            if problem.where not in known:
                problems.setdefault((problem.code, str(problem.where), problem.what), problem)
    return tuple(problems.values())


def subject(path: Sequence[Step]) -> str:
    """``flow east-to-west: topics[0]`` for the path flows, east-to-west, topics, 0."""
    match list(path):
        case []:
            return "the file"
        case [section]:
            return str(section)
        case [str() as section, *rest] if section in SINGLE:
            tail = path_words(rest[1:] if rest[:1] == [section] else rest)
            return f"{section}: {tail}" if tail else section
        case [section, int() as index, *rest]:
            head, tail = f"{section}[{index}]", path_words(rest)
            return f"{head}: {tail}" if tail else head
        case [section, name, *rest]:
            head, tail = f"{_WORDS.get(str(section), str(section))} {name}", path_words(rest)
            return f"{head}: {tail}" if tail else head
    raise AssertionError(path)


def path_words(path: Sequence[Step]) -> str:
    """``waves[0].soak``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _is_secret(path: Sequence[Step]) -> bool:
    if path[:1] in (["users"], ["webhooks"]):
        return len(path) < 3 or path[2] in ("password", "url")
    return "client" in path[2:3] or "principals" in path[2:3]


def show(value: object, secret: bool = False) -> str:
    """A value in words; ``secret`` ones, such as client settings, are never shown."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case int() | float():
            return "a number" if secret else f"the number {value}"
        case _:
            text = str(value)
            return "text" if secret else f'the text "{text if len(text) <= 60 else text[:57] + "..."}"'


def _translate(document: Document, error: ValidationError) -> Iterator[Problem]:
    # jsonschema names neither a line nor a remedy, and its words are those of the schema, not of the file.
    """Problems of one finding of jsonschema: unknown and missing fields by name, everything else as a bad value."""
    path = list(error.absolute_path)
    instance: Any = error.instance
    schema = error.schema if isinstance(error.schema, dict) else {}
    match error.validator:
        case "additionalProperties" if schema.get("additionalProperties") is False:
            known = list(schema.get("properties", {}))
            for field in instance:
                if field in known or (not path and field.startswith("x-")):
                    continue
                problem = f"{subject(path)} has the unknown field {field}"
                why = "A field that nothing reads would look as if it took effect"
                meant = _MEANT.get(field)
                todo = f"Perhaps you mean {meant}" if meant in known else suggestion(field, known, "Remove it")
                where = document.where(_node_at(document, path).entries[field])
                yield Problem("unknown-field", where, problem, why, todo)
        case "required":
            for field in schema["required"]:
                if f"'{field}'" in error.message:
                    wanted = schema["properties"][field]
                    if reference := wanted.get("$ref"):
                        wanted = environment_schema()["$defs"][reference.rsplit("/", 1)[-1]]
                    problem, why = f"{subject(path)} lacks the field {field}", "It has no default"
                    todo = f"Add {field}: {wanted.get('title', 'a value')}"
                    yield Problem("missing-field", document.where(_at(document, path)), problem, why, todo)
        case _ if "propertyNames" in error.absolute_schema_path:
            name = str(instance)
            problem, why = f'{subject(path)}: the name "{name}" cannot be used', schema["description"]
            where = document.where(_node_at(document, path).entries[name])
            yield Problem("bad-name", where, problem, why, f"Write {schema['title']}")
        case "oneOf" | "anyOf" if isinstance(instance, dict):
            # A mapping is wrong in its fields: the alternatives that take a single word do not concern it.
            for inner in error.context or ():
                if not (inner.validator == "enum" and not list(inner.relative_path)):
                    yield from _translate(document, inner)
        case _:
            yield _bad_value(document, path, error, schema)


def _at(document: Document, path: Sequence[Step]) -> Any:
    assert document.root is not None
    return locate(document.root, path)


def _node_at(document: Document, path: Sequence[Step]) -> Any:
    here = _at(document, path)
    return here.value if hasattr(here, "value") else here


def _bad_value(document: Document, path: list[Step], error: ValidationError, schema: dict[str, Any]) -> Problem:
    """A value that does not fit, in the words of the schema's title. The value itself is only shown where it cannot be
    a secret."""
    wanted = str(schema.get("title", "another value")) if path[1:] or path in _TITLED else "a mapping"
    where, name, todo = document.where(_at(document, path)), subject(path), f"Write {wanted}"
    if error.instance is None:
        problem = f"{name} has no value; it must be {wanted}"
        why = "An empty value is more often forgotten than meant"
        todo = f"{todo}, or remove the field"
        # ``{cleanup.policy: compact,delete}`` has a key ``delete`` without a value: a comma ends the one before.
        beside = _node_at(document, path[:-1])
        for before, entry in pairwise(beside.entries.values() if isinstance(beside, YamlMapping) else ()):
            value = before.value
            if entry.key == path[-1] and isinstance(value, Scalar) and value.line == entry.line:
                todo = f"Inside {{ }} a comma ends a value: write {before.key}: [{value.text}, {entry.key}] for a list"
        return Problem("missing-value", where, problem, why, _BLANK.get(str(path[-1]) if path else "", todo))
    if error.validator == "uniqueItems":
        problem = f"{name} names something twice"
        return Problem("duplicate-item", where, problem, "Only one of the two can take effect", "Remove the repetition")

    code, why = "bad-value", "Nothing else has a meaning here"
    match error.validator:
        case "type" | "pattern" if wanted.startswith("a size"):
            code, why = "bad-size", "Without a known unit the value could mean bytes or megabytes"
        case "type" | "pattern" if "duration" in wanted:
            code, why = "bad-duration", "Without a known unit the value could mean seconds or milliseconds"
        case "type":
            types: Any = error.validator_value
            *most, last = [_TYPES[word] for word in ([types] if isinstance(types, str) else types)]
            words = f"{', '.join(most)} or {last}" if most else last
            code, why, todo = "wrong-type", f"It cannot be read as {words}", _type_todo(error, todo)
        case "enum" | "oneOf" | "anyOf":
            code = "unknown-value"
            options = [schema, *schema.get("oneOf", ()), *schema.get("anyOf", ())]
            choices = [str(choice) for option in options for choice in option.get("enum", ())]
            near = nearest(str(error.instance), choices)
            todo = f"Perhaps you mean {near}" if near else todo
        case "maximum" | "minimum":
            code, why = "out-of-range", "Kafka or the mirror job cannot work with it"
            if error.validator == "maximum" and f" {error.validator_value}" not in wanted:
                todo = f"{todo}, at most {error.validator_value}"
        case "minItems" | "minLength" | "minProperties":
            code, why = "empty-value", "Without it there is nothing to do"
        case "pattern" if wanted == "host:port":
            todo = _address_todo(str(error.instance))
    # A value may be a secret in the wrong field, and an address may carry a login: neither is repeated.
    given = without_login(str(error.instance)) if wanted == "host:port" else error.instance
    shown = "empty" if code == "empty-value" else show(given, _is_secret(path))
    return Problem(code, where, f"{name} must be {wanted}, not {shown}", why, todo)


def _address_todo(text: str) -> str:
    """The correct form of an address, by its fault."""
    parts = [re.sub(".*(://|@)", "", part.strip()).rstrip("/") for part in text.split(",") if part.strip()]
    addresses = [re.sub(":0+(?=[1-9][0-9]*$)", ":", part) for part in parts]
    if "$" in text or "{{" in text:
        return "Write the address itself: references are resolved in client settings only"
    if len(addresses) > 1:
        return f"Write each address as one of the list: [{', '.join(addresses)}]"
    if addresses and addresses != [text]:
        return f"Write {addresses[0]}" + ("; security.protocol says how to connect" if "://" in text else "")
    return f"Write host:port, such as {text}:9092" if re.fullmatch(r"[A-Za-z0-9._-]+", text) else "Write host:port"


def _type_todo(error: ValidationError, usual: str) -> str:
    """The remedy for the probable intention; ``usual`` otherwise. Never repeats values of secrets."""
    value, path = error.instance, list(error.absolute_path)
    if error.validator_value == "array" and isinstance(value, (str, int)) and not isinstance(value, bool):
        several = [part.strip() for part in str(value).split(",")] if "," in str(value) else []
        if _is_secret(path):
            return "Write a list"
        return f"Write a list: [{', '.join(several)}]" if several else "Put it in brackets to make it a list of one"
    if isinstance(value, dict) and path[-2:-1] in (["configs"], ["client"]) and len(value) == 1:
        return f"Write the whole name with dots, {path[-1]}.{next(iter(value))}: VALUE"
    if not path:
        return "Write sections, such as topics: and below it orders: {clusters: [east]}"
    if isinstance(value, list) and len(path) == 1 and path[0] in _BY_NAME:
        return f"Write each {_BY_NAME[str(path[0])]} below its name, NAME: and its fields, without a dash"
    if isinstance(value, dict) and len(path) == 1 and error.validator_value != "object":
        return "Write a list: each with a dash, - and its fields"
    if isinstance(value, str):
        as_boolean = error.validator_value in ("integer", "boolean") and value in ("true", "false")
        if as_boolean or (error.validator_value == "integer" and value.isdecimal() and len(value) < 20):
            return "Remove the quotes"
    if error.validator_value == "string" and isinstance(value, (int, float, bool)):
        return "Put it in quotes"
    return usual
