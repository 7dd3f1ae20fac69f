"""Words to avoid: pages, helps and messages are in plain English, active and with the standard terms of the field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from reconciler.replication.names import RUNBOOKS
from tests.support.paths import ROOT, comments_and_code, nodes

AVOID = (
    (r"that are there\b", "says nothing beside its noun", "existing"),
    (r"is there already\b", "says nothing beside its noun", "already exists"),
    (r"by hand\b", "no hand is involved", "manually"),
    (r"\bmend(s|ed|ing)?\b", "is for clothes", "fix, repair"),
    (r"\btold\b(?! apart)", "who told whom? programs report, write and show", "reported, said, known"),
    (r"\bnobody\b", "hides who acts", "no one; or the subject: no principal, no host"),
    (r"\bwhoever\b", "hides who acts", "anyone who; or the subject: the user, the owner"),
    (r"\bwho (can |once )?([a-z]+ ){1,2}may\b", "a clause in place of a noun", "users who; the author; the owner"),
    (r"\bof one whose\b", "a clause in place of a noun", "the noun, then its property"),
    (r"\bwhat was told\b", "a clause in place of a noun", "the report"),
    (r"\b(partition|flow|mirror|lane|copy)s? stands? still\b", "no term of the field", "is stalled"),
    (r"\bheld against\b", "means a grudge", "compared with, re-checked against"),
    (r"\bmakes? anew\b", "old", "recreates"),
    (r"\bas you wished\b|\bwished\b", "old", "requested, desired"),
    (r"\bgone silent\b", "no term of the field", "last heard from"),
    (r"\blooked through\b", "no term of the field", "checked, searched"),
    (r"\bis of one mind\b|\bof one mind\b", "no term of the field", "consistent"),
    (r"\bheedless\b|\bhearken\b|\bhitherto\b", "old", "a plain word"),
    (r"\bin its hands\b", "no hand is involved", "holds"),
    (r"\b(is|are|was|were) wanted\b", "hides who wants", "must be; requested; declared"),
    (r"\b(is|are|was|were) meant\b(?! (to|for|as))", "hides who means", "you mean; intended"),
    (r"\b(is|are) not there\b", "says nothing beside its noun", "is missing, does not exist"),
    (r"\ball the same\b", "is old", "still, anyway"),
    (r"\bshall\b", "is for contracts", "must, will, should"),
    (r"\b(Kafka|git|azure|job) wants\b", "no program has wishes", "expects, needs, declares"),
    (r"\b(is|are) looked at\b", "hides who looks", "checked; the subject, and reads"),
    (r"\banew\b", "is old", "again; a new one"),
    (r"\byet to be\b", "is old", "new; to be created"),
    (r"\bstands? (at|still|open|on|for)\b", "no term of the field", "is at; rests; is in force; means"),
)
"""What, why, and what to write instead."""
FOR_USERS = (
    *AVOID,
    (r"\blook(s|ing)? (at|with)\b", "says less than the command", "check; check with"),
    (r"\b(go|goes|went|going) on\b", "says nothing of what", "continue, resume, keep"),
    (r"\b(some|every|any)body\b", "hides who acts", "another client; everyone; an operator"),
    (r"\b(that|what|which) (is|are) there\b", "says nothing beside its noun", "existing; what exists"),
    (r"\b(see|check|look at) who may\b", "a clause in place of a noun", "check which principals may"),
    (r"\b(begins?|reads?|written|copied|continues?|starts?|right) behind\b", "is not the order of a log", "after"),
)
"""Those of pages, helps and messages; explanations in the code may have the later ones."""
FENCE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "decisions" not in page.parts)]
HELPS = sorted((ROOT / "tests" / "golden" / "help").rglob("*.txt"))
SOURCES = [path for top in ("reconciler", "spark") for path in sorted((ROOT / top).rglob("*.py"))]


def found(text: str, avoid: tuple[tuple[str, str, str], ...] = FOR_USERS) -> Iterator[str]:
    """``words to avoid: better ones``, of each place."""
    plain = " ".join(text.split())
    if not any_of(avoid).search(plain):
        return
    for pattern, why, better in avoid:
        for match in re.finditer(pattern, plain, re.IGNORECASE):
            yield f"“{plain[max(0, match.start() - 30) : match.end() + 30]}”: {match[0]!r} {why}; write {better}"


@cache
def any_of(avoid: tuple[tuple[str, str, str], ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern, _, _ in avoid), re.IGNORECASE)


def prose(page: str) -> str:
    """Without blocks, words between backticks and addresses: names stay as they are."""
    return FENCE.sub(" ", page)


@cache
def texts(path: Path) -> tuple[str, ...]:
    """Texts in the code that users may read: all but docstrings."""
    documentation = {
        id(node.value) for node in nodes(path) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return tuple(
        node.value
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    )


def messages(path: Path) -> tuple[str, ...]:
    """Texts of more than one word, without scripts of pages."""
    return tuple(text for text in texts(path) if " " in text.strip() and "function(" not in text)


@cache
def explanations(path: Path) -> tuple[str, ...]:
    """Docstrings and comments, without names between backticks. A comment of several lines counts by line."""
    docstrings = (
        node.value.value
        for node in nodes(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return tuple(
        re.sub(r"``[^`]+``", " ", explained) for explained in (*docstrings, *comments_and_code(path)[0].values())
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_word_to_avoid(page: Path) -> None:
    assert list(found(prose(page.read_text("utf-8")))) == []


def test_no_help_has_a_word_to_avoid() -> None:
    assert len(HELPS) > 30
    assert [
        f"{path.name}: {one}" for path in HELPS for one in found(re.sub("[│╭╮╰╯─]", " ", path.read_text("utf-8")))
    ] == []


def test_no_message_has_a_word_to_avoid() -> None:
    assert sum(len(messages(path)) for path in SOURCES) > 1000
    assert [
        f"{path.relative_to(ROOT)}: {one}" for path in SOURCES for text in messages(path) for one in found(text)
    ] == []


def test_no_docstring_or_comment_has_a_word_to_avoid() -> None:
    assert sum(len(explanations(path)) for path in SOURCES) > 5000
    assert [
        f"{path.relative_to(ROOT)}: {one}"
        for path in SOURCES
        for text in explanations(path)
        for one in found(text, AVOID)
    ] == []


def test_a_message_names_no_page_that_only_a_checkout_has() -> None:
    """A package has no docs/: pages are named by ``linked``, which follows docs_url, alone."""
    named = [(path, text) for path in SOURCES for text in texts(path) if re.search(r"docs/[\w/-]+\.md", text)]
    assert named == [(ROOT / "reconciler/replication/names.py", RUNBOOKS)]


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("for the topics that are there", True),
        ("set it by hand", True),
        ("Nobody reads it", True),
        ("a flow of one\nwhose end is known", True),
        ("copying goes on", True),
        ("a hundred records behind", False),
        ("run `by hand`", False),
        ("[x](by-hand.md), a handle, an amendment", False),
        ("```\nby hand\n```", False),
    ],
)
def test_the_list_finds_words_and_leaves_names(text: str, hit: bool) -> None:
    assert any(found(prose(text))) == hit
