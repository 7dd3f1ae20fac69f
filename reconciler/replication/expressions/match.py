"""Matches names and values of records with users' expressions, by RE2, which takes time linear in text and expression.

Literal prefixes and suffixes of an expression refuse most names without RE2.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from typing import Any

from reconciler.replication.expressions import tree

MOST_ENDS = 64
_PLACES = (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING, sre.AT_END, sre.AT_END_STRING)
_ENDS_OF_LINES = frozenset("\n\r\x85\u2028\u2029")


def ends_of(form: tree.Form) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Literal prefixes and suffixes, one of which every matching name has; None if there may be others."""
    ends = _ends(form)
    if ends is None or len(ends) > MOST_ENDS:
        return None
    return tuple(text for text, first in ends if first), tuple(text for text, first in ends if not first)


def simple(form: tree.Form) -> Callable[[str], bool] | None:
    """A test for characters alone, or with one ``.*`` among them."""
    if not isinstance(form, tree.Plain):
        return None
    items = _without_places(form.items)
    before, after = _literals(items), _literals(items[::-1])[::-1]
    if len(before) == len(items):
        return lambda name: name == before
    if len(before) + len(after) + 1 != len(items):
        return None
    kind, value, flags = items[len(before)]
    repeats = kind in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[:2] == (0, sre.MAXREPEAT)
    inner = tree.flat(value[2], flags) if repeats else ()
    if len(inner) != 1 or inner[0].kind is not sre.ANY or inner[0].flags & tree.DOTALL:
        return None
    length = len(before) + len(after)
    return lambda name: (
        name.startswith(before) and name.endswith(after) and len(name) >= length and _ENDS_OF_LINES.isdisjoint(name)
    )


def _ends(form: tree.Form) -> list[tuple[str, bool]] | None:
    """(text, whether it is the beginning): what every matching name begins or ends with, as alternatives; None where
    nothing is certain. Names that fail this test need no regular expression."""
    match form:
        case tree.Plain(items):
            return _of_items(_without_places(items))
        case tree.Every(parts):
            return next((ends for part in parts if (ends := _ends(part)) is not None), None)
        case tree.Some(parts):
            return _all(map(_ends, parts))
        case tree.Negated():
            return None


def _of_items(items: Sequence[tree.Item]) -> list[tuple[str, bool]] | None:
    """Literals at the beginning, else at the end; for alternatives, the literals of each."""
    if text := _literals(items):
        return [(text, True)]
    if text := _literals(items[::-1]):
        return [(text[::-1], False)]
    if items and items[0].kind is sre.BRANCH:
        bodies = (tree.flat(body, items[0].flags) for body in items[0].value[1])
        return _all(_of_items(_without_places((*body, *items[1:]))) for body in bodies)
    return None


def _all(parts: Iterable[list[tuple[str, bool]] | None]) -> list[tuple[str, bool]] | None:
    joined: list[tuple[str, bool]] = []
    for ends in parts:
        if ends is None or len(joined) > MOST_ENDS:
            return None
        joined += ends
    return joined


def _without_places(items: Sequence[tree.Item]) -> tuple[tree.Item, ...]:
    """Without ``^`` at the beginning and ``$`` at the end, which every whole name has."""
    first, last = 0, len(items)
    while first < last and items[first].kind is sre.AT and items[first].value in _PLACES[:2]:
        first += 1
    while first < last and items[last - 1].kind is sre.AT and items[last - 1].value in _PLACES[2:]:
        last -= 1
    return tuple(items[first:last])


def _literals(items: Iterable[tree.Item]) -> str:
    """Characters up to the first item that is something else."""
    text = ""
    for kind, value, flags in items:
        if kind is not sre.LITERAL or flags & tree.IGNORECASE:
            break
        text += chr(value)
    return text


try:
    import re2
except ImportError as error:  # an environment for Spark that was packed before
    raise ImportError(
        "google-re2 is missing, which matches the expressions of an environment. Install the locked packages again:"
        " make install, or pip install google-re2; then pack the environment for Spark again"
    ) from error

MOST_PROGRAM = 10_000
"""Limit of RE2 instructions of one expression, with which a name takes microseconds even in the worst case."""
MOST_PROGRAM_OF_VALUES = 1_000
MOST_STEPS = 2**26
"""Bytes of a value times instructions: half a second, when all of them have to be kept in sight."""
MOST_ITEMS = 249
"""Characters and dots up to which an expression's program is surely small."""
_SINGLE = (sre.LITERAL, sre.ANY)
_MEMORY = 8 << 20
_Test = Callable[[bytes], bool]


class ValueTooLongError(Exception):
    """A value takes more steps than one record may have."""


@dataclass(frozen=True, slots=True)
class Expressions:
    """One of them has to match a whole name. Of no expressions, none does."""

    texts: tuple[str, ...]
    match: Callable[[str], bool] = field(repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.texts)

    def first(self, name: str) -> str | None:
        """The first one that matches."""
        if not self.match(name):
            return None
        return next(text for text in self.texts if expressions([text]).match(name))


def expressions(texts: Iterable[str]) -> Expressions:
    """Raises ExpressionError."""
    return _expressions(tuple(texts))


@lru_cache(maxsize=1024)
def _expressions(texts: tuple[str, ...]) -> Expressions:
    """One test for several expressions. Plain ones are joined into one program, since a pass through RE2 costs about
    the same for one as for a hundred; those with lookarounds are separate."""
    if len(texts) == 1:
        match = _one(texts[0])[1]
        return Expressions(texts, match)
    forms = [_one(text)[0] for text in texts]
    plain = [tree.written(form.items, of_bytes=False) for form in forms if isinstance(form, tree.Plain)]
    others = [_compiled(form, of_bytes=False)[0] for form in forms if not isinstance(form, tree.Plain)]
    return Expressions(texts, _quick(tree.Some(tuple(forms)), _some([*_joined(plain), *others])))


@lru_cache(maxsize=16_384)
def _one(text: str) -> tuple[tree.Form, Callable[[str], bool]]:
    form = tree.form_of(text)
    if isinstance(form, tree.Plain) and len(form.items) <= MOST_ITEMS and all(it.kind in _SINGLE for it in form.items):
        # Long lists of names are matched in one program, and each of them alone hardly ever: compiled on first use.
        compiled = cache(lambda: _compiled(form, of_bytes=False)[0])
        return form, simple(form) or _quick(form, lambda data: compiled()(data))
    test, size = _compiled(form, of_bytes=False)
    if size > MOST_PROGRAM:
        raise _too_large(size, MOST_PROGRAM)
    return form, simple(form) or _quick(form, test)


def _quick(form: tree.Form, test: _Test) -> Callable[[str], bool]:
    """``test`` for names, which refuses most mismatches by prefix and suffix."""
    ends = ends_of(form)
    if ends is None:
        return lambda name: test(name.encode("utf-8", "surrogatepass"))
    first, last = ends
    return lambda name: (name.startswith(first) or name.endswith(last)) and test(name.encode("utf-8", "surrogatepass"))


def has_part(text: str, name: str) -> bool:
    """Whether a part of the name matches. False if undecidable: a lookaround may have no known place within a longer
    name, or the expression becomes too large."""
    try:
        return expressions([f"(?s:.*)(?:{text})(?s:.*)"]).match(name)
    except tree.ExpressionError:
        return False


@lru_cache(maxsize=1024)
def of_value(text: str) -> Callable[[bytes], bool]:
    """Matches a whole value of a record, in which a dot is any byte. Raises ExpressionError; a test raises
    ValueTooLongError."""
    test, size = _compiled(tree.form_of(text.encode()), of_bytes=True)
    if size > MOST_PROGRAM_OF_VALUES:
        raise _too_large(size, MOST_PROGRAM_OF_VALUES)
    longest = MOST_STEPS // max(1, size)

    def bounded(value: bytes) -> bool:
        if len(value) > longest:
            raise ValueTooLongError(f"{len(value):,} bytes, and {text} is matched with at most {longest:,}")
        return test(value)

    return bounded


def _compiled(form: tree.Form, *, of_bytes: bool) -> tuple[_Test, int]:
    """The test, and its number of instructions."""
    match form:
        case tree.Plain(items):
            program = _program(tree.written(items, of_bytes=of_bytes), of_bytes=of_bytes)
            return lambda data: program.fullmatch(data) is not None, int(program.programsize)
        case tree.Negated(part):
            inner, size = _compiled(part, of_bytes=of_bytes)
            return lambda data: not inner(data), size
        case tree.Every(parts):
            tests, sizes = zip(*(_compiled(part, of_bytes=of_bytes) for part in parts), strict=True)
            return lambda data: all(test(data) for test in tests), sum(sizes)
        case tree.Some(parts):
            tests, sizes = zip(*(_compiled(part, of_bytes=of_bytes) for part in parts), strict=True)
            return _some(tests), sum(sizes)


def _some(tests: Sequence[_Test]) -> _Test:
    if len(tests) == 1:
        return tests[0]
    return lambda data: any(test(data) for test in tests)


def _joined(texts: Sequence[str]) -> Iterator[_Test]:
    """All in one program, or in as few as their size allows."""
    if not texts:
        return
    try:
        program = _program("|".join(f"(?:{text})" for text in texts), of_bytes=False)
    except tree.ExpressionError:
        yield from _joined(texts[: len(texts) // 2])
        yield from _joined(texts[len(texts) // 2 :])
    else:
        yield lambda data: program.fullmatch(data) is not None


def _program(text: str, *, of_bytes: bool) -> Any:
    """RE2 runs in linear time, whatever the expression is, but may need much memory: what exceeds ``_MEMORY`` is
    refused with words. Nothing is captured. ``of_bytes``: the value of a record, which need not be UTF-8."""
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    options.never_capture = True
    if of_bytes:
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        return re2.compile(text.encode(), options)
    except re2.error as error:
        said = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        todo = f"Write smaller counts, at most {tree.MOST_COUNT} in all where they are nested, or several expressions"
        raise tree.ExpressionError(f"RE2, which matches it, refuses it: {said}", todo, costly=True) from None


def _too_large(size: int, most: int) -> tree.ExpressionError:
    return tree.ExpressionError(
        f"it becomes a program of {size:,} instructions, at most {most:,} are allowed",
        "Write smaller counts, or several expressions as a list",
        costly=True,
    )


NO_EXPRESSIONS = expressions(())
