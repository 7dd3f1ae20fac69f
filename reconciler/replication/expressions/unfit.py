"""Why an expression cannot be used, with what to write instead. Users of MirrorMaker 2 write Java's."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.replication.expressions.match import expressions, of_value
from reconciler.replication.expressions.tree import ExpressionError, require_short

_CLASSES = {
    "alpha": "A-Za-z", "lower": "a-z", "upper": "A-Z", "digit": "0-9", "alnum": "A-Za-z0-9", "xdigit": "0-9A-Fa-f",
    "l": "A-Za-z", "ll": "a-z", "lu": "A-Z", "n": "0-9", "nd": "0-9", "isalphabetic": "A-Za-z", "isletter": "A-Za-z",
    "islatin": "A-Za-z", "isdigit": "0-9", "islowercase": "a-z", "isuppercase": "A-Z", "punct": "._-", "ascii": " -~",
    "javalowercase": "a-z", "javauppercase": "A-Z", "space": " ", "blank": " ", "graph": "!-~", "print": " -~",
}  # fmt: skip
_CLASS = re.compile(r"\\([pP])(?:\{(\w*)[^}]*\}?|(\w?))")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_JAVA_ONLY = (
    (r"\\E", "ends a quotation of Java; put a backslash before each special character"),
    (r"\(\?<[A-Za-z]", "names a group in Java; write (?:...), since nothing refers to it"),
    (r"\\k<", "refers to a group in Java; write the text out"),
    (r"&&", "intersects sets in Java; write the set that is left"),
    (r"\\z", "is the end in Java; leave it out, since whole names have to match"),
    (r"\\x\{", r"is a character of Java; write it as \xHH, or itself"),
    (r"\\[hHRXG]", "is known to Java only; topic names have no use for it"),
    (r"\[\[:|\[\[", "nests sets; write one set such as [A-Za-z]"),
)
_BEGINS_JAVA = frozenset("\\(&[")
_FLAGS = re.compile(r"(?:\(\?[aiLmsux]+\))+")
_NUMBERED = re.compile(r"(?<!\\)(?:\\\\)*(\\[1-9]|\(\?\([0-9])")


@dataclass(frozen=True, slots=True)
class Unfit:
    """``what`` follows ``is "(a)\\1", ``; none ends with a full stop."""

    code: str
    what: str
    why: str
    todo: str


def unfit(text: str) -> Unfit | None:
    """What keeps an expression from being matched with names, or None."""
    return _unfit(text, lambda text: expressions([text]), "It cannot be matched with any name")


def unfit_for_values(text: str) -> Unfit | None:
    """``unfit`` for an expression that is matched with values of records, which may be long."""
    return _unfit(text, of_value, "No record could be tested")


def _unfit(text: str, compile_it: Callable[[str], object], why: str) -> Unfit | None:
    try:
        _java(text)
        compile_it(text)
    except ExpressionError as error:
        if error.costly:
            why = "Matching it would take too many steps or too much memory: plan, run and the mirror job would wait"
            return Unfit("regex-costly", f"which costs too much: {error.problem}", why, error.todo)
        return Unfit("bad-regex", f"not a regular expression that can be matched: {error.problem}", why, error.todo)
    return None


def _java(text: str) -> None:
    """Raises ExpressionError for syntax that only Java has, or that has another meaning in Java."""
    require_short(text)
    if _BEGINS_JAVA.isdisjoint(text):
        return
    for match in _CLASS.finditer(text):
        if not _escaped(text, match):
            negated, name = match[1] == "P", (match[2] or match[3] or "").lower()
            chars = _CLASSES.get(name, "A-Za-z")
            inside = text.count("[", 0, match.start()) > text.count("]", 0, match.start())
            todo = f"Write {chars}" if inside and not negated else f"Write [{'^' if negated else ''}{chars}]"
            raise ExpressionError(f"{_at(match)} is a character class of Java", todo)
    for match in _QUOTED.finditer(text):
        if not _escaped(text, match):
            quoted = re.sub(r"[\\.^$*+?{}\[\]|()]", r"\\\g<0>", match[1])
            raise ExpressionError(f"\\Q at position {match.start() + 1} quotes in Java", f"Write {quoted}")
    for java, words in _JAVA_ONLY:
        for match in re.finditer(java, text):
            if not _escaped(text, match):
                problem, todo = words.split("; ", 1)
                raise ExpressionError(f"{_at(match)} {problem}", todo[0].upper() + todo[1:])
    if leading := _FLAGS.match(text):
        problem = f"{leading[0]} would hold for the whole list, which is joined to one expression"
        raise ExpressionError(problem, f"Write flags for a part: {flags_of_a_part(text)}")
    if numbered := _NUMBERED.search(text):
        place = f"{numbered.group(1)} at position {numbered.start(1) + 1}"
        raise ExpressionError(f"{place} refers back to a group", "Write the text out, or a list of expressions")


def flags_of_a_part(text: str) -> str:
    """``(?i)orders.*`` as ``(?i:orders.*)``, which matches the same and may be joined with others."""
    flags = _FLAGS.match(text)
    letters = "".join(dict.fromkeys(filter(str.isalpha, flags[0]))) if flags else ""
    return f"(?{letters}:{text[flags.end() :]})" if flags else text


def _at(match: re.Match[str]) -> str:
    return f"{match.group()} at position {match.start() + 1}"


def _escaped(text: str, match: re.Match[str]) -> bool:
    """A backslash that is itself escaped begins nothing."""
    before = text[: match.start()]
    slashes = len(before) - len(before.rstrip("\\"))
    return match.group().startswith("\\") and slashes % 2 == 1
