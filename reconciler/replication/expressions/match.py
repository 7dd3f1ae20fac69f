"""Matches whole names, and whole values of records, with expressions that others wrote: by RE2, whose time grows with
the length of the text and of the expression and with nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from reconciler.replication.expressions.ends import ends_of, simple
from reconciler.replication.expressions.re2_syntax import MOST_COUNT, written
from reconciler.replication.expressions.tree import Every, ExpressionError, Form, Negated, Plain, Some, form_of

try:
    import re2
except ImportError as error:  # an environment for Spark that was packed before
    raise ImportError(
        "google-re2 is missing, which matches the expressions of an environment. Install the locked packages again:"
        " make install, or pip install google-re2; then pack the environment for Spark again"
    ) from error

MOST_PROGRAM = 10_000
"""Instructions of one expression. Names are read in microseconds even where RE2 has to keep all of them in sight."""
MOST_PROGRAM_OF_VALUES = 1_000
MOST_STEPS = 2**26
"""Bytes of a value times instructions: half a second, when all of them have to be kept in sight."""
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


@lru_cache(maxsize=4096)
def _expressions(texts: tuple[str, ...]) -> Expressions:
    if len(texts) == 1:
        form = form_of(texts[0])
        test, size = _compiled(form, of_bytes=False)
        if size > MOST_PROGRAM:
            raise _too_large(size, MOST_PROGRAM)
        return Expressions(texts, simple(form) or _quick(form, test))
    for text in texts:
        _expressions((text,))
    forms = [form_of(text) for text in texts]
    plain = [written(form.items, of_bytes=False) for form in forms if isinstance(form, Plain)]
    others = [_compiled(form, of_bytes=False)[0] for form in forms if not isinstance(form, Plain)]
    return Expressions(texts, _quick(Some(tuple(forms)), _some([*_joined(plain), *others])))


def _quick(form: Form, test: _Test) -> Callable[[str], bool]:
    """As ``test``, of names; most of those that do not match are refused by how they begin and end."""
    ends = ends_of(form)
    if ends is None:
        return lambda name: test(name.encode("utf-8", "surrogatepass"))
    first, last = ends
    return lambda name: (name.startswith(first) or name.endswith(last)) and test(name.encode("utf-8", "surrogatepass"))


def has_part(text: str, name: str) -> bool:
    """Whether a part of the name matches. Raises ExpressionError."""
    return expressions([f"(?s:.*)(?:{text})(?s:.*)"]).match(name)


@lru_cache(maxsize=1024)
def of_value(text: str) -> Callable[[bytes], bool]:
    """Matches a whole value of a record, in which a dot is any byte. Raises ExpressionError; a test raises
    ValueTooLongError."""
    test, size = _compiled(form_of(text.encode()), of_bytes=True)
    if size > MOST_PROGRAM_OF_VALUES:
        raise _too_large(size, MOST_PROGRAM_OF_VALUES)
    longest = MOST_STEPS // max(1, size)

    def bounded(value: bytes) -> bool:
        if len(value) > longest:
            raise ValueTooLongError(f"{len(value):,} bytes, and {text} is matched with at most {longest:,}")
        return test(value)

    return bounded


def _compiled(form: Form, *, of_bytes: bool) -> tuple[_Test, int]:
    """The test, and how many instructions it has."""
    match form:
        case Plain(items):
            program = _program(written(items, of_bytes=of_bytes), of_bytes=of_bytes)
            return lambda data: program.fullmatch(data) is not None, int(program.programsize)
        case Negated(part):
            inner, size = _compiled(part, of_bytes=of_bytes)
            return lambda data: not inner(data), size
        case Every(parts):
            tests, sizes = zip(*(_compiled(part, of_bytes=of_bytes) for part in parts), strict=True)
            return lambda data: all(test(data) for test in tests), sum(sizes)
        case Some(parts):
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
    except ExpressionError:
        yield from _joined(texts[: len(texts) // 2])
        yield from _joined(texts[len(texts) // 2 :])
    else:
        yield lambda data: program.fullmatch(data) is not None


def _program(text: str, *, of_bytes: bool) -> Any:
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
        todo = f"Write smaller counts, at most {MOST_COUNT} in all where they are nested, or several expressions"
        raise ExpressionError(f"RE2, which matches it, refuses it: {said}", todo, costly=True) from None


def _too_large(size: int, most: int) -> ExpressionError:
    return ExpressionError(
        f"it becomes a program of {size:,} instructions, at most {most:,} are allowed",
        "Write smaller counts, or several expressions as a list",
        costly=True,
    )


NO_EXPRESSIONS = expressions(())
