"""Sees at a glance that data is as a JSON Schema wants it, which nearly every file of a topology is.

Border: all or nothing. "No" means "not seen at a glance", and jsonschema decides: it knows every keyword and words what
is wrong, and takes 0.1 s to be imported. Where the answer is "yes", jsonschema's is, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Test = Callable[[Any], bool]
"""Of plain YAML data: mappings with texts for keys, lists and scalars."""

_SAYS_NOTHING = frozenset({"$defs", "$id", "$schema", "default", "description", "title"})
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def glance(schema: Mapping[str, Any]) -> Test:
    """``schema``: whole, with the ``$defs`` that it refers to."""
    return _Glances(schema).at(schema)


class _Glances:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._defs: Mapping[str, Any] = root.get("$defs", {})
        self._of_defs: dict[str, Test] = {}

    def at(self, schema: Mapping[str, Any] | bool) -> Test:
        if isinstance(schema, bool):
            return lambda _: schema
        tests = [self._by(word, value, schema) for word, value in schema.items() if word not in _SAYS_NOTHING]
        return tests[0] if len(tests) == 1 else lambda data: all(test(data) for test in tests)

    def _by(self, word: str, value: Any, schema: Mapping[str, Any]) -> Test:
        match word:
            case "$ref":
                return self._referred(value)
            case "type":
                types = _types(value)
                return lambda data: type(data) in types
            case "enum":
                known = {(type(one), one) for one in value}
                return lambda data: not isinstance(data, list | dict) and (type(data), data) in known
            case "anyOf":
                return self._any(value)
            case "oneOf" if _apart(value):
                return self._any(value)
            case "items":
                each = self.at(value)
                return lambda data: not isinstance(data, list) or all(map(each, data))
            case "properties" | "patternProperties" | "additionalProperties":
                return self._fields(schema) if word == _first_of_fields(schema) else _always
            case "propertyNames":
                name = self.at(value)
                return lambda data: not isinstance(data, dict) or all(map(name, data))
            case "required":
                wanted = frozenset(value)
                return lambda data: not isinstance(data, dict) or data.keys() >= wanted
            case _:
                return _of_size(word, value)

    def _any(self, choices: Sequence[Mapping[str, Any]]) -> Test:
        tests = [self.at(one) for one in choices]
        return lambda data: any(test(data) for test in tests)

    def _referred(self, reference: str) -> Test:
        """Read when it is first asked for: definitions may refer to each other."""
        name = reference.removeprefix("#/$defs/")

        def test(data: Any) -> bool:
            if name not in self._of_defs:
                self._of_defs[name] = self.at(self._defs[name]) if name in self._defs else _never
            return self._of_defs[name](data)

        return test

    def _fields(self, schema: Mapping[str, Any]) -> Test:
        known = {name: self.at(one) for name, one in schema.get("properties", {}).items()}
        patterns = [(re.compile(text), self.at(one)) for text, one in schema.get("patternProperties", {}).items()]
        other = self.at(schema.get("additionalProperties", True))

        def asked(name: str) -> Iterable[Test]:
            found = [test for pattern, test in patterns if pattern.search(name)]
            return [*found, known[name]] if name in known else found or [other]

        def test(data: Any) -> bool:
            return not isinstance(data, dict) or all(
                test(value) for name, value in data.items() for test in asked(name)
            )

        return test


def _apart(choices: Sequence[Mapping[str, Any]]) -> bool:
    """Is each of them for data of another type? Only then one that holds says that no other does."""
    types = [{type(word) for word in one["enum"]} if "enum" in one else _types(one.get("type", ())) for one in choices]
    return all(types) and sum(map(len, types)) == len(set().union(*types))


def _types(named: str | Sequence[str]) -> set[type]:
    return {one for name in ([named] if isinstance(named, str) else named) for one in _TYPES[name]}


def _first_of_fields(schema: Mapping[str, Any]) -> str:
    """What a mapping's fields must be is one question, whichever words ask it."""
    return next(word for word in ("properties", "patternProperties", "additionalProperties") if word in schema)


def _of_size(word: str, value: Any) -> Test:
    match word:
        case "minimum":
            return lambda data: not _is_number(data) or data >= value
        case "exclusiveMinimum":
            return lambda data: not _is_number(data) or data > value
        case "maximum":
            return lambda data: not _is_number(data) or data <= value
        case "minLength":
            return lambda data: not isinstance(data, str) or len(data) >= value
        case "minItems":
            return lambda data: not isinstance(data, list) or len(data) >= value
        case "minProperties":
            return lambda data: not isinstance(data, dict) or len(data) >= value
        case "maxProperties":
            return lambda data: not isinstance(data, dict) or len(data) <= value
        case "pattern":
            wanted = re.compile(value)
            return lambda data: not isinstance(data, str) or wanted.search(data) is not None
        case "uniqueItems" if value is True:
            return lambda data: not isinstance(data, list) or _are_different(data)
        case _:
            return _never


def _is_number(data: Any) -> bool:
    return isinstance(data, int | float) and not isinstance(data, bool)


def _are_different(items: list[Any]) -> bool:
    return len(items) < 2 or (all(isinstance(item, str) for item in items) and len(set(items)) == len(items))


def _always(_: Any) -> bool:
    return True


def _never(_: Any) -> bool:
    return False
