"""Ranks modules by the words of a phrase: the words of their paths and of their docstrings' first lines, no more."""

import ast
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.support.paths import parsed

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be by do does for from how in into is it its not of on or than that the their them there
        they this to what when where which who why with""",
    )
)


def words(text: str) -> set[str]:
    """The words of ``text``, lower case, without stop words, possessives and the commonest English endings."""
    found = re.findall(r"[a-z0-9]+", text.lower().replace("'s", ""))
    return {stem(word) for word in found if word not in STOP_WORDS}


def stem(word: str) -> str:
    for ending in ("ings", "ing", "ies", "ed", "es", "er", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def modules(root: Path, folders: Iterable[str]) -> dict[str, set[str]]:
    """Every module below ``folders`` of ``root``, by its path there, with its words."""
    return {
        str(path.relative_to(root)): words(f"{path.relative_to(root)} {first_line(path)}")
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
    }


def first_line(path: Path) -> str:
    return (ast.get_docstring(parsed(path)) or "").partition("\n")[0]


def ranked(phrase: str, modules: Mapping[str, set[str]]) -> Sequence[str]:
    """Paths by the weight of the phrase's words they have: a word counts the more, the fewer modules have it."""
    frequency = Counter(word for each in modules.values() for word in each)
    weight = {word: math.log(len(modules) / frequency[word]) for word in words(phrase) if frequency[word]}
    return sorted(
        modules,
        key=lambda path: (-sum(weight.get(word, 0.0) for word in modules[path]), len(modules[path]), path),
    )
