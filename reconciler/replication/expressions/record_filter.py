"""The filter of a flow: which records are copied, by ``where`` tests over headers, key and timestamp; and the headers
that a flow adds.

Keys and header values are bytes and stay bytes: text in a test means its UTF-8 bytes. No code, no decoding, no value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reconciler.replication.expressions.match import of_value


@dataclass(frozen=True, slots=True)
class Equals:
    operand: bytes


@dataclass(frozen=True, slots=True)
class Prefix:
    operand: bytes


@dataclass(frozen=True, slots=True)
class Matches:
    """The whole value; in ``pattern`` a dot is any byte, also a newline."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Exists:
    """For a key: it is not null. For a header: the record has one with the name."""

    wanted: bool


ValueTest = Equals | Prefix | Matches | Exists


@dataclass(frozen=True, slots=True)
class Header:
    """Holds when one of the headers of that name passes; a null value only exists."""

    name: str
    test: ValueTest


@dataclass(frozen=True, slots=True)
class Key:
    """A null key passes no test but ``exists: false``."""

    test: ValueTest


@dataclass(frozen=True, slots=True)
class Timestamp:
    """ms since 1970: from ``from_ms`` up to but not with ``to_ms``; None is open."""

    from_ms: int | None = None
    to_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Where, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Where


Where = Header | Key | Timestamp | AllOf | AnyOf | Not


class RecordFields(Protocol):
    """A record as a test sees it. Header names are bytes, in their order."""

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def headers(self) -> Iterable[tuple[bytes, bytes | None]]: ...


Predicate = Callable[[RecordFields], bool]


def compiled(where: Where) -> Predicate:
    """The predicate. Raises ExpressionError for an invalid pattern; the predicate raises ValueTooLongError."""
    match where:
        case Header(name, Exists(wanted)):
            title = name.encode()
            return lambda record: any(data == title for data, _ in record.headers) is wanted
        case Header(name, test):
            # A record may have a header several times. One value that passes is enough.
            title, passes = name.encode(), _value_test(test)
            return lambda record: any(
                data == title and value is not None and passes(value) for data, value in record.headers
            )
        case Key(Exists(wanted)):
            return lambda record: (record.key is not None) is wanted
        case Key(test):
            accepts = _value_test(test)
            return lambda record: (key := record.key) is not None and accepts(key)
        case Timestamp(low, high):
            return lambda record: (low is None or record.timestamp >= low) and (high is None or record.timestamp < high)
        case AllOf(parts):
            every = tuple(compiled(part) for part in parts)
            return lambda record: all(test(record) for test in every)
        case AnyOf(parts):
            some = tuple(compiled(part) for part in parts)
            return lambda record: any(test(record) for test in some)
        case Not(part):
            inner = compiled(part)
            return lambda record: not inner(record)


def _value_test(test: ValueTest) -> Callable[[bytes], bool]:
    """Tests a header's or key's bytes. The header was found before, so ``Exists`` is always true here."""
    match test:
        case Equals(operand):
            return lambda value: value == operand
        case Prefix(operand):
            return lambda value: value.startswith(operand)
        case Matches(pattern):
            return of_value(pattern)
        case Exists(wanted):
            return lambda _: wanted


def canonical(where: Where) -> Where:
    """An equal test in one form: nested ``all`` and ``any`` flattened, parts sorted, none twice, none alone."""
    match where:
        case AllOf(parts) | AnyOf(parts):
            return _joined(type(where), parts)
        case Not(part):
            inner = canonical(part)
            return inner.part if isinstance(inner, Not) else Not(inner)
        case _:
            return where


def _joined(kind: type[AllOf] | type[AnyOf], parts: Iterable[Where]) -> Where:
    """Parts in the order of their documents, each once: two filters that differ in order alone have one fingerprint,
    and no job restarts for them."""
    flat: dict[str, Where] = {}
    for part in parts:
        inner = canonical(part)
        for each_part in inner.parts if isinstance(inner, kind) else (inner,):
            flat[json.dumps(filter_document(each_part), sort_keys=True)] = each_part
    ordered = tuple(flat[name] for name in sorted(flat))
    return ordered[0] if len(ordered) == 1 else kind(ordered)


def filter_document(where: Where) -> dict[str, Any]:
    """A filter in the form of environments and hand-overs."""
    match where:
        case Header(name, test):
            return {"header": {"name": name, **_test_document(test)}}
        case Key(test):
            return {"key": _test_document(test)}
        case Timestamp(low, high):
            return {"timestamp": {"from": low, "to": high}}
        case AllOf(parts):
            return {"all": [filter_document(part) for part in parts]}
        case AnyOf(parts):
            return {"any": [filter_document(part) for part in parts]}
        case Not(part):
            return {"not": filter_document(part)}


def _test_document(test: ValueTest) -> dict[str, Any]:
    """As ``where`` has it in YAML and in the hand-over."""
    match test:
        case Equals(operand):
            return {"equals": _bytes_document(operand)}
        case Prefix(operand):
            return {"prefix": _bytes_document(operand)}
        case Matches(pattern):
            return {"matches": pattern}
        case Exists(wanted):
            return {"exists": wanted}


def _bytes_document(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def read(given: Mapping[str, Any]) -> Where:
    """The inverse of ``filter_document``. Raises KeyError, TypeError or ValueError for any other document."""
    ((kind, inner),) = given.items()
    match kind:
        case "header":
            rest = {key: value for key, value in inner.items() if key != "name"}
            return Header(str(inner["name"]), _read_test(rest))
        case "key":
            return Key(_read_test(inner))
        case "timestamp":
            return Timestamp(_read_ms(inner["from"]), _read_ms(inner["to"]))
        case "all":
            return AllOf(tuple(read(part) for part in inner))
        case "any":
            return AnyOf(tuple(read(part) for part in inner))
        case "not":
            return Not(read(inner))
        case _:
            raise ValueError(f"where has the unknown test {kind}")


def _read_ms(given: object) -> int | None:
    return None if given is None else int(str(given))


def _read_test(given: Mapping[str, Any]) -> ValueTest:
    """Raises ValueError unless there is exactly one test, of a known kind."""
    ((kind, operand),) = given.items()
    match kind:
        case "equals":
            return Equals(_read_bytes(operand))
        case "prefix":
            return Prefix(_read_bytes(operand))
        case "matches":
            return Matches(str(operand))
        case "exists":
            return Exists(bool(operand))
        case _:
            raise ValueError(f"where has the unknown test {kind}")


def _read_bytes(operand: str | Mapping[str, str]) -> bytes:
    return operand.encode() if isinstance(operand, str) else bytes.fromhex(operand["hex"])


# Headers that a flow adds to each record: names, and texts with placeholders.

PLACEHOLDERS = ("source_cluster", "topic", "partition", "offset", "flow")
PROVENANCE_HEADER = "mirror.path"
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class AddedHeader:
    """``value`` as written: ``{topic}`` is a placeholder, ``{{`` and ``}}`` are braces."""

    name: str
    value: str


def fault(value: str) -> str | None:
    """The first part of ``value`` that is neither text nor a known placeholder, or None."""
    for part in _PART.finditer(value):
        if part.group() not in ("{{", "}}") and part.group(1) not in PLACEHOLDERS:
            return part.group()
    return None


def varies(value: str) -> bool:
    """Whether the value differs between records of one partition."""
    return any(part.group(1) == "offset" for part in _PART.finditer(value))


def filled(value: str, **known: object) -> str:
    """``known`` holds every placeholder. Raises KeyError for one it lacks."""

    def part(match: re.Match[str]) -> str:
        whole = match.group()
        return whole[0] if whole in ("{{", "}}") else str(known[match.group(1)])

    return _PART.sub(part, value)
