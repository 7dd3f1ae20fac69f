"""JSON codec of frozen dataclasses: records in Kafka, saved plans, the hand-over, the job's control channel.

A dataclass is an object of its fields in their order (in ``rows`` an array), an Enum its value, bytes are hex digits, a
tuple is an array, a frozenset a sorted one, a mapping an object; one by pairs is an object of objects. Reading is
strict: what ``encoded`` does not write is refused, with the path to it and its value.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

SPARSE: Mapping[str, Any] = {"sparse": True}
"""For ``field(metadata=SPARSE)``: documents and digests omit the field at its default. Documents of older releases stay
readable, and an environment that does not use a feature keeps its digests."""

T = TypeVar("T")
Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]


class MalformedError(ValueError):
    """A document of another form than expected. ``path``: names and indexes to the wrong part."""

    def __init__(self, problem: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(path) or 'it'} {problem}")
        self.problem = problem
        self.path = path

    def within(self, name: str) -> MalformedError:
        return MalformedError(self.problem, (name, *self.path))


@cache
def sparse_fields(kind: type) -> Mapping[str, Any]:
    """Name -> default of the fields of a dataclass that are left out while they hold that default."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
        if field.metadata.get("sparse")
    }


def named(name: str) -> Mapping[str, Any]:
    """For ``field(metadata=...)`` of a field with another name in JSON."""
    return {"name": name}


def parsed(text: str | bytes) -> Any:
    """Parses JSON from any client. Raises only ValueError, also for too deep nesting, for duplicate names, which
    parsers resolve differently, and for values that could be read but not written again (lone surrogates, NaN,
    infinity)."""
    try:
        given = text if isinstance(text, str) else text.decode()
        document = json.loads(given, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_once)
        if not given.isascii() or "\\u" in given:
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return document


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(name for name in names if names.count(name) > 1)[:60]!r} twice in one object")
    return document


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:20]} is no number of JSON")
    return number


class _Coder(NamedTuple):
    encode: Encode
    decode: Decode


def _same(value: Any) -> Any:
    return value


class Codec:
    """``own``: annotation -> special encoder and decoder. ``rows``: see the module.

    ``lenient``: unknown fields of a later release are ignored, and missing ones of an older release get their default.
    """

    def __init__(
        self, own: Mapping[Any, tuple[Encode, Decode]] | None = None, *, rows: bool = False, lenient: bool = False
    ) -> None:
        # By type, made when first needed. ``rows``: dataclasses as arrays, for messages that are sent often.
        # ``lenient``: fields with a default may be missing, for documents of other releases.
        self._coders: dict[Any, _Coder] = {
            kind: _Coder(encode, _explained(decode)) for kind, (encode, decode) in (own or {}).items()
        }
        self._rows = rows
        self._lenient = lenient

    def encoded(self, value: Any, kind: Any = None) -> Any:
        """``value``, a dataclass or of the annotation ``kind``, as json.dumps takes it."""
        return self._coder(kind or type(value)).encode(value)

    def decoded(self, kind: type[T], document: Any) -> T:
        """Raises MalformedError, or ValueError where ``kind`` itself refuses a value."""
        value: T = self._coder(kind).decode(document)
        return value

    def _coder(self, kind: Any) -> _Coder:
        coder = self._coders.get(kind)
        if coder is None:
            coder = self._coders[kind] = self._build(kind)
        return coder

    def _build(self, kind: Any) -> _Coder:
        """The coder of a type, built once from its annotation."""
        origin, inner = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            if type(None) not in inner:
                raise TypeError(f"how {kind} is written has to be said")
            members = tuple(member for member in inner if member is not type(None))
            encode, decode = self._coder(Union[members])  # noqa: UP007  # of as many as the annotation has
            return _Coder(
                _same if encode is _same else lambda value: None if value is None else encode(value),
                lambda given: None if given is None else decode(given),
            )
        if origin is Literal:
            return _Coder(_same, _member({word: word for word in inner}))
        if origin is tuple:
            return self._array(inner)
        if origin is frozenset:
            items = self._array((inner[0], ...))
            return _Coder(lambda value: items.encode(sorted(value)), lambda given: frozenset(items.decode(given)))
        if origin is not None and issubclass(origin, Mapping):
            return self._object(*inner)
        if isinstance(kind, type) and is_dataclass(kind):
            if not self._rows:
                return self._fields(kind)
            hints = _hints(kind)
            values = attrgetter(*hints) if len(hints) > 1 else lambda value: (getattr(value, next(iter(hints))),)
            coders = [self._coder(hint) for hint in hints.values()]
            return _tuple(coders, values, lambda row: kind(*row), tuple(hints))
        if issubclass(kind, Enum):
            return _Coder(lambda value: value.value, _member({member.value: member for member in kind}))
        if kind is bytes:
            return _Coder(bytes.hex, _hexadecimal)
        return _Coder(_same, lambda given: _expect(given, kind))

    def _array(self, inner: tuple[Any, ...]) -> _Coder:
        """A tuple of any length, or of fixed members. A list of plain JSON values is passed on without a loop."""
        if inner[1:] != (...,):
            return _tuple([self._coder(kind) for kind in inner], _same, tuple, range(len(inner)))
        encode, decode = self._coder(inner[0])

        def decoded(given: Any) -> tuple[Any, ...]:
            _expect(given, list)
            return tuple(_each(given, [decode] * len(given), range(len(given))))

        return _Coder(list if encode is _same else lambda value: [encode(item) for item in value], decoded)

    def _object(self, key: Any, content: Any) -> _Coder:
        """A mapping. Keys that are tuples cannot be names of a JSON object, so such a mapping is a list of pairs."""
        if get_origin(key) is tuple:
            return self._pairs(get_args(key), content)
        read_key = _whole_number if key is int else self._coder(key).decode
        encode, decode = self._coder(content)

        def encoded(value: Mapping[Any, Any]) -> dict[str, Any]:
            return {str(name): encode(item) for name, item in value.items()}

        def decoded(given: Any) -> dict[Any, Any]:
            _expect(given, dict)
            return dict(
                zip(map(read_key, given), _each(given.values(), [decode] * len(given), list(given)), strict=True)
            )

        return _Coder(encoded, decoded)

    def _pairs(self, keys: tuple[Any, Any], content: Any) -> _Coder:
        encode, decode = self._coder(Mapping[keys[0], Mapping[keys[1], content]])  # type: ignore[valid-type]

        def encoded(value: Mapping[tuple[Any, Any], Any]) -> Any:
            nested: dict[Any, dict[Any, Any]] = {}
            for (outer, inner), item in value.items():
                nested.setdefault(outer, {})[inner] = item
            return encode(nested)

        def decoded(given: Any) -> dict[tuple[Any, Any], Any]:
            return {(outer, key): item for outer, inner in decode(given).items() for key, item in inner.items()}

        return _Coder(encoded, decoded)

    def _fields(self, kind: type) -> _Coder:
        """A dataclass as an object. ``metadata["name"]``: the field's name in the document; SPARSE fields are omitted
        at their default. A strict reader requires every other field and refuses unknown ones; a lenient one uses
        defaults for missing fields, and skips unknown ones."""
        sparse, members = sparse_fields(kind), fields(kind)
        coders = {name: self._coder(hint) for name, hint in _hints(kind).items()}
        titles = {field.name: field.metadata.get("name", field.name) for field in members}
        names = {title: name for name, title in titles.items()}
        defaulted = {
            titles[field.name] for field in members if (field.default, field.default_factory) != (MISSING, MISSING)
        }
        optional = defaulted if self._lenient else {titles[name] for name in sparse}

        def encoded(value: Any) -> dict[str, Any]:
            document = {}
            for name, (encode, _) in coders.items():
                item = getattr(value, name)
                if name not in sparse or item != sparse[name]:
                    document[titles[name]] = encode(item)
            return document

        def decoded(given: Any) -> Any:
            _expect(given, dict)
            if lacking := [title for title in names if title not in given and title not in optional]:
                raise MalformedError(f"lacks the field {', '.join(map(repr, lacking))}")
            known = [title for title in given if title in names]
            if len(known) < len(given) and not self._lenient:
                raise MalformedError(f"has unknown fields: {', '.join(sorted(given.keys() - names.keys()))}")
            decoders = [coders[names[title]].decode for title in known]
            values = _each([given[title] for title in known], decoders, known)
            return kind(**dict(zip((names[title] for title in known), values, strict=True)))

        return _Coder(encoded, decoded)


FORMAT_VERSION = 1


class JsonRecord(Generic[T]):
    """A value in a Kafka record with a format version. ``name``: for errors."""

    def __init__(self, kind: type[T], name: str, codec: Codec | None = None) -> None:
        self._kind = kind
        self._name = name
        self._codec = codec or Codec()

    def dumps(self, value: T) -> bytes:
        document = {"format_version": FORMAT_VERSION, **self._codec.encoded(value)}
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    def loads(self, text: bytes) -> T:
        """Raises ValueError for what ``dumps`` of this version did not write, as far as the codec is strict."""
        try:
            document = parsed(text)
            if type(document) is not dict:
                raise ValueError("it is no JSON object")
            if (version := document.pop("format_version", None)) != FORMAT_VERSION:
                raise ValueError(f"it has format version {version!r}, and this release reads {FORMAT_VERSION}")
            return self._codec.decoded(self._kind, document)
        except ValueError as error:
            raise ValueError(f"no {self._name}: {error}") from None


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    """Field -> annotation, in the order of the fields."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _each(values: Iterable[Any], decoders: list[Decode], names: Sequence[object]) -> list[Any]:
    """``values`` decoded one by one; ``names`` for the path of an error."""
    made: list[Any] = []
    try:
        for decode, value in zip(decoders, values, strict=True):
            made.append(decode(value))
    except MalformedError as error:
        raise error.within(str(names[len(made)])) from None
    return made


def _tuple(
    coders: list[_Coder], values: Callable[[Any], Any], build: Callable[[list[Any]], Any], names: Sequence[object]
) -> _Coder:
    """An array of a fixed length: ``values`` of what is written, ``build`` of what was read. Has to be quick."""
    decoders = [coder.decode for coder in coders]
    deep = [(place, *coder) for place, coder in enumerate(coders) if coder.encode is not _same]
    known: set[tuple[type, ...]] = set()  # types of rows that were read: what is not deep is right by its type

    def encoded(value: Any) -> list[Any]:
        row = [*values(value)]
        for place, encode, _ in deep:
            row[place] = encode(row[place])
        return row

    def decoded(given: Any) -> Any:
        _expect(given, list)
        # Thousands of rows have the same types in their places. The first of them is checked in full, the others only
        # in the places whose own items may differ.
        types_given = tuple(map(type, given))
        if types_given not in known:
            if len(given) != len(decoders):
                raise MalformedError(f"has {len(given)} items; it must have {len(decoders)}")
            row = _each(given, decoders, names)
            known.add(types_given)
            return build(row)
        row = given[:]
        for place, _, decode in deep:
            try:
                row[place] = decode(row[place])
            except MalformedError as error:
                raise error.within(str(names[place])) from None
        return build(row)

    return _Coder(encoded, decoded)


def _explained(decode: Decode) -> Decode:
    """A decoder of a caller's own may raise what it likes: it becomes a MalformedError with the value, to which the
    path in the document is added on the way out."""

    def decoded(given: Any) -> Any:
        try:
            return decode(given)
        except MalformedError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedError(f"is {given!r}, which cannot be read: {error!r}") from error

    return decoded


def _expect(given: Any, kind: type) -> Any:
    """``given``, where it is of this very type."""
    if type(given) is not kind:
        raise MalformedError(f"is {given!r}; it must be {_WORDS.get(kind, kind.__name__)}")
    return given


_WORDS = {int: "a whole number", str: "text", bool: "true or false", list: "an array", dict: "an object"}


def _member(members: Mapping[Any, Any]) -> Decode:
    """``members``: of an Enum or a Literal, by how they are written."""

    def decoded(given: Any) -> Any:
        if type(given) not in (str, int) or given not in members:
            raise MalformedError(f"is {given!r}; it must be one of {', '.join(map(str, members))}")
        return members[given]

    return decoded


def _hexadecimal(given: Any) -> bytes:
    _expect(given, str)
    try:
        return bytes.fromhex(given)
    except ValueError:
        raise MalformedError(f"is {given!r}; it must be hex digits") from None


def _whole_number(given: str) -> int:
    if not given.isascii() or not given.removeprefix("-").isdecimal():
        raise MalformedError(f"has the key {given!r}; it must be a whole number")
    return int(given)
