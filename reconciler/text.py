"""Formats text for people: durations, sizes, plurals, quoted names, "did you mean"; and what is listed together."""

import difflib
import hashlib
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

_UNITS_IN_WORDS = {
    "ms": ("millisecond", "msec"), "s": ("second", "sec"), "m": ("minute", "min"), "h": ("hour", "hr"), "d": ("day",),
    "w": ("week",), "B": ("byte",), "KiB": ("k", "kb", "kib"), "MiB": ("m", "mb", "mib"), "GiB": ("g", "gb", "gib"),
    "TiB": ("t", "tb", "tib"),
}  # fmt: skip
"""Unit -> what people write instead of it, in lower case and without an s at the end."""
_QUANTITY = re.compile(r"([0-9]+)\s*([A-Za-z]+)")
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")
_SEVERAL = re.compile(r"([0-9]+\s*[A-Za-z]+[\s,]*){2,}")
_FRACTION = re.compile(r"[0-9]+[.,][0-9]+\s*[A-Za-z]+")
_NAME = re.compile(r"[\w-]+[.:/_][\w$]")
"""A word with a mark inside it, which no word of a sentence has."""
_MILLISECONDS = re.compile(r"[0-9]{1,18}")
_EPOCH = datetime.fromtimestamp(0, UTC)
LARGEST = (1 << 63) - 1
PACE_AFTER_S = 3.0
"""A mean over less than this jumps."""
LONGEST_WORD, LONGEST_TEXT = 500, 5_000  # _TOO_LONG holds the first one, too
"""Characters that people are shown: no name of Kafka's is longer than half a word of them, and no folded list than a
text of them."""
_TOO_LONG = re.compile(r"\S{501,}")
ANY_FOLDER = "ENV"
"""In a command of a message, in place of the folder of the environment, which who writes the message does not know."""
_COMMAND = re.compile(rf"\b(reconciler(?:\s+[a-z-]+){{1,2}}\s+){ANY_FOLDER}\b(?:(\s+)FLOW\b)?")


def duration_ms(text: str) -> int:
    """``500ms``, ``5s``, ``10m``, ``2h``, ``7d``, ``1w`` in milliseconds. Raises ValueError with what to write."""
    return _read(text, MILLISECONDS, "a duration such as 500ms, 5s, 10m, 2h, 7d or 1w")


def size_bytes(text: str) -> int:
    """``512B``, ``64KiB``, ``1MiB``, ``1GiB``, ``2TiB`` in bytes. Raises ValueError with what to write."""
    return _read(text, BYTES, "a size such as 512B, 64KiB, 1MiB, 1GiB or 2TiB")


def _read(text: str, units: dict[str, int], wanted: str) -> int:
    if _FRACTION.fullmatch(text):
        raise ValueError(f"write {wanted}: whole numbers only, so a smaller unit instead of a fraction")
    if _SEVERAL.fullmatch(text):
        raise ValueError(f"write {wanted}: one number with one unit")
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ValueError(f"write {wanted}")
    number, unit = match.groups()
    if unit not in units:
        word = unit.lower()
        near = next((one for one in units if word == one or word.rstrip("s") in _UNITS_IN_WORDS[one]), None)
        near = near or {known.lower(): known for known in units}.get(word)
        raise ValueError(f"write {wanted}; {unit} is not a unit" + (f", {near} is" if near else ""))
    if len(number) > 19 or int(number) * units[unit] > LARGEST:
        raise ValueError(f"write {wanted}; this one is beyond what Kafka can hold")
    return int(number) * units[unit]


def moment_ms(text: str, zone: tzinfo | None = None) -> int:
    """``2026-01-01T00:00:00Z``, or milliseconds since 1970 as they are. ``zone``: of a time without one, which is
    refused by default. Raises ValueError with the reason."""
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("It is not a time") from None
    if at.tzinfo is None and zone is None:
        raise ValueError("Without a zone it would mean another moment on another machine")
    since = (at if at.tzinfo is not None else at.replace(tzinfo=zone)) - _EPOCH
    if since < timedelta():
        raise ValueError("No record is of a time before 1970, and Kafka reads -1 as latest")
    return since // timedelta(milliseconds=1)


def looks_like_duration(text: str) -> bool:
    match = _QUANTITY.fullmatch(text)
    return match is not None and match.group(2) in MILLISECONDS


def looks_like_size(text: str) -> bool:
    match = _QUANTITY.fullmatch(text)
    return match is not None and match.group(2) in BYTES


def printable_json(document: object, **how: Any) -> str:
    """As ``json.dumps``, with letters as they are; what hides, or steers a terminal, is written as its number. A
    reader gets the same document."""
    text = json.dumps(document, ensure_ascii=False, **how)
    return text if text.isascii() and "\x7f" not in text else _NOT_ASCII.sub(_printable, text)


def _printable(match: re.Match[str]) -> str:
    char = match.group()
    return char if char.isprintable() else json.dumps(char)[1:-1]


def sentence(text: object) -> str:
    """With a capital letter at its beginning, unless that is the name of a host, a setting or a topic."""
    words = str(text)
    return words if _NAME.match(words) else f"{words[:1].upper()}{words[1:]}"


def one_line(error: object) -> str:
    """An error's lines (what, why, what to do) as sentences that follow each other."""
    *before, last = str(error).split("\n")
    return " ".join([*(line if line.endswith((".", ":")) else f"{line}." for line in before), last])


def size_words(count: int) -> str:
    """``3.2 GiB``, for people; rounded."""
    for unit, size in reversed(BYTES.items()):
        if count >= size and size > 1:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def time_words(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3.5 h``; rounded up."""
    whole = math.ceil(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{math.ceil(whole / 60)} min" if whole < 7200 else f"{whole / 3600:.1f} h"


def pace_words(done: int, of: int, seconds: float) -> str:
    """``34/s, about 25 s left``, by the mean since the beginning; empty while that says little, and at the end."""
    if done <= 0 or done >= of or seconds < PACE_AFTER_S:
        return ""
    rate = done / seconds
    return (
        f"{rate:,.0f}/s, about {time_words((of - done) / rate)} left"
        if rate >= 1
        else (f"about {time_words((of - done) / rate)} left")
    )


def counted(count: int, name: str, many: str = "") -> str:
    """``many`` only where the plural is not ``name`` and an s."""
    return f"{count:,} {name if count == 1 else many or name + 's'}"


def batched(items: Iterable[Value], size: int) -> Iterator[list[Value]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Key -> its values; keys and values in the order in which they come."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def moment(at_ms: float, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """UTC. Timestamps of records and of what others wrote may be beyond any calendar."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{str(at_ms)[:20]} ms after 1970"


BRIEF = 3
"""Names in a sentence that says more than them."""


def first_of(names: Sequence[str], shown: int = 5, left_out: int = 0) -> str:
    """``a, b and 3 more``. ``left_out``: how many more there are than ``names``."""
    more = len(names) - shown + left_out
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


DEEPEST = 4
"""Parts of a name that ``by_prefix`` looks at."""


def by_prefix(names: Sequence[str], shown: int = 8) -> str:
    """``east.crm-* 41, east.Search.* 22, 30 others``: names by what they begin with, most first; a beginning that most
    have in common is looked behind. Those alone are others."""
    tokens = [re.split(r"(?<=[._-])", name) for name in names]
    prefixes = Counter(each[0] for each in tokens)
    for depth in range(1, DEEPEST):
        commonest, count = prefixes.most_common(1)[0]
        if 2 * count <= len(names):
            break
        within = Counter("".join(each[: depth + 1]) for each in tokens if "".join(each[:depth]) == commonest)
        if within.most_common(1)[0][1] == 1:
            break
        prefixes = (prefixes - Counter({commonest: count})) + within
    many = [(prefix, count) for prefix, count in prefixes.most_common(shown) if count > 1]
    others = len(names) - sum(count for _, count in many)
    rest = [counted(others, "other" if many else "name")] if others else []
    return ", ".join([*(f"{prefix}* {count:,}" for prefix, count in many), *rest])


def total(counts: Iterable[int | None]) -> int | None:
    """None when one of them is not known."""
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def columns(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> Iterator[str]:
    """A line each row, every column as wide as its widest cell; a column without any text is left out. ``right``:
    columns of numbers. A cell that is too long is shortened here: each other row would be filled up to its width."""
    rows = [[shortened(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            if width
        )
        yield "  ".join(cells).rstrip()


def shortened(text: str, longest: int | None = LONGEST_TEXT) -> str:
    """``text`` for people: each word and the whole by both ends, with how long it is, where it is too long. The digest
    tells two apart that differ in the middle. ``longest`` None: a list that was asked for whole."""
    if len(text) <= LONGEST_WORD:
        return text
    words = _TOO_LONG.sub(lambda word: _ends(word.group(), LONGEST_WORD), text)
    return words if longest is None or len(words) <= longest else _ends(text, longest)


def _ends(text: str, longest: int) -> str:
    kept = longest * 2 // 5
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{text[:kept]}[... {len(text):,} characters, SHA-256 {digest} ...]{text[-kept:]}"


def quoted(text: str) -> str:
    """``text`` in JSON's quotes. Nothing in it can end the line, move the cursor or hide: what does not print is
    written as its number. Two texts never read alike."""
    description = json.dumps(text, ensure_ascii=False)
    return description if description.isprintable() else _NOT_ASCII.sub(_printable, description)


def in_shell(text: str) -> str:
    """One word of a command that people copy, whatever it is called; a principal always in quotes, as people write
    it."""
    return f"'{text}'" if text.startswith("User:") and "'" not in text else shlex.quote(text)


def command_of(text: str, folder: str, flow: str = "FLOW") -> str:
    """``text`` with its commands as they are typed: ``folder``, as a shell and the form of ``text`` want it, and
    ``flow`` where they have placeholders."""
    return _COMMAND.sub(lambda it: it[1] + folder + (f"{it[2]}{flow}" if it[2] else ""), text)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, or None when none is near."""
    return _nearest(name, tuple(sorted(known)))


@lru_cache(maxsize=1 << 10)
def _nearest(name: str, known: tuple[str, ...]) -> str | None:
    """One slip is often made in each of a thousand entries."""
    by_lower = {other.lower(): other for other in known}
    names = difflib.get_close_matches(name.lower(), by_lower, n=5, cutoff=0.6)
    return by_lower[min(names, key=lambda other: distance(name.lower(), other))] if names else None


def distance(left: str, right: str) -> int:
    """How many characters to add, drop, replace or swap with their neighbour (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, last = row.copy(), before
        row[0] = i
        for j, b in enumerate(right, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]


def suggestion(name: str, known: Iterable[str], otherwise: str) -> str:
    """What to do about an unknown name: the nearest one, or all when they are few, or ``otherwise``."""
    names = sorted(known)
    near = nearest(name, names)
    if near is not None:
        return f"Perhaps you mean {near}"
    if names and len(names) <= 20:
        return f"Known here: {', '.join(names)}"
    return otherwise
