"""Parses a flow's ``where`` and ``headers``."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from reconciler.environment.declarations.values import Wrong
from reconciler.environment.yaml.locations import Step
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Node, Scalar, Sequence
from reconciler.replication.expressions.added_headers import PLACEHOLDERS, PROVENANCE_HEADER, AddedHeader, fault
from reconciler.replication.expressions.record_filter import (
    AllOf,
    AnyOf,
    Equals,
    Exists,
    Header,
    Key,
    Matches,
    Not,
    Prefix,
    Timestamp,
    ValueTest,
    Where,
)
from reconciler.replication.expressions.unfit import flags_of_a_part, unfit_for_values
from reconciler.text import nearest

Path = tuple[Step, ...]
Note = Callable[[Path, Wrong], None]
MAX_DEPTH = 20


def time_ms(text: str) -> int | Wrong:
    """Milliseconds since 1970 of a time with its zone, or of the number itself."""
    if re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is not None and moment.tzinfo is not None:
        return int(moment.astimezone(UTC).timestamp() * 1000)
    why = "Without a zone it would mean another moment on another machine" if moment else "It is not a time"
    todo = "Write a time with its zone such as 2026-01-01T00:00:00Z, or milliseconds since 1970"
    return Wrong("bad-timestamp", f'"{text}"', why, todo)


def selection(node: Node, note: Note, path: Path = ("where",)) -> Where:
    """Where something is wrong it is noted, and the answer is not to be used."""
    assert isinstance(node, YamlMapping)
    if len(path) > MAX_DEPTH:
        note(path, Wrong("bad-where", "where is nested too deeply", "Nobody could review it", "Write it flat"))
        return AllOf(())
    ((kind, entry),) = node.entries.items()
    here, inner = (*path, kind), entry.value
    match kind, inner:
        case "all" | "any", Sequence(items=items):
            parts = tuple(selection(item, note, (*here, index)) for index, item in enumerate(items))
            return AllOf(parts) if kind == "all" else AnyOf(parts)
        case "not", YamlMapping():
            return Not(selection(inner, note, here))
        case "header", YamlMapping(entries=fields):
            name = fields["name"].value if "name" in fields else None
            assert isinstance(name, Scalar)
            return Header(name.text, _value_test(inner, note, here))
        case "key", YamlMapping():
            return Key(_value_test(inner, note, here))
        case "timestamp", YamlMapping():
            return _between(inner, note, here)
    raise AssertionError(kind)


def _value_test(node: YamlMapping, note: Note, path: Path) -> ValueTest:
    given = [key for key in node.entries if key != "name"]
    if len(given) != 1:
        problem = f"{path[-1]} has {' and '.join(given) or 'no test'}"
        todo = "Write one of equals, prefix, matches or exists; join several with all or any"
        note(path, Wrong("bad-where", problem, "Each test asks one thing", todo))
        return Exists(True)
    kind, value = given[0], node.entries[given[0]].value
    match kind, value:
        case "exists", Scalar():
            return Exists(value.data is True)
        case "matches", Scalar(text=written):
            text = flags_of_a_part(written)
            if wrong := unfit_for_values(text):
                note((*path, kind), Wrong(wrong.code, f'"{text}", {wrong.what}', wrong.why, wrong.todo))
            return Matches(text)
        case "equals", _:
            return Equals(_operand(value, note, (*path, kind)))
        case _:
            return Prefix(_operand(value, note, (*path, kind)))


def _operand(node: Node, note: Note, path: Path) -> bytes:
    if isinstance(node, Scalar):
        return node.text.encode()
    assert isinstance(node, YamlMapping)
    digits = node.entries["hex"].value
    assert isinstance(digits, Scalar)
    if len(digits.text) % 2:
        description = f'hex "{digits.text}" has {len(digits.text)} digits'
        note((*path, "hex"), Wrong("bad-where", description, "Two digits make a byte", "Add the missing digit"))
        return b""
    return bytes.fromhex(digits.text)


def _between(node: YamlMapping, note: Note, path: Path) -> Timestamp:
    by_name: dict[str, int] = {}
    for side, entry in node.entries.items():
        assert isinstance(entry.value, Scalar)
        moment = time_ms(entry.value.text)
        if isinstance(moment, Wrong):
            note((*path, side), Wrong(moment.code, f"timestamp.{side} is {moment.what}", moment.why, moment.todo))
        else:
            by_name[side] = moment
    low, high = by_name.get("from"), by_name.get("to")
    if low is not None and high is not None and low >= high:
        description = "timestamp.from is not before timestamp.to"
        note(path, Wrong("bad-where", description, "No record could pass", "Exchange the two, or leave one out"))
    return Timestamp(low, high)


def additions(node: Node | None, note: Note) -> tuple[AddedHeader, ...]:
    """``headers.add`` in its order."""
    if not isinstance(node, YamlMapping):
        return ()
    headers = []
    for name, entry in node.entries.items():
        if not isinstance(entry.value, Scalar):
            continue
        path: Path = ("headers", "add", name)
        wrong = _wrong_addition(name, entry.value.text)
        if wrong is not None:
            note(path, wrong)
        headers.append(AddedHeader(name, entry.value.text))
    return tuple(headers)


def _wrong_addition(name: str, value: str) -> Wrong | None:
    if name == PROVENANCE_HEADER:
        why = "It says which clusters a record has been on, and two-way flows rely on it"
        return Wrong("bad-added-header", f"the header {name} is added", why, "Choose another name")
    bad = fault(value)
    if bad is None:
        return None
    near = nearest(bad.strip("{}"), PLACEHOLDERS)
    todo = f"Perhaps {{{near}}} is meant" if near else "Write {{ and }} for braces"
    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    return Wrong("bad-added-header", f"the header {name} holds {bad}", f"Known are {known}", todo)
