"""Every problem code of the source is explained: those of folders by docs/change/messages.md, the others by an example
of tests/golden/messages.md, which gives just the message shown. UPDATE_GOLDEN=1, without xdist, writes it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.exceptions import TyperException
from typer.main import get_command

from reconciler.cli.main import app
from reconciler.environment.load import load
from reconciler.errors import TopologyError
from tests.support.commands import commands_in, take
from tests.support.paths import ROOT, nodes

PROGRAM: Any = get_command(app)
PAGE = (ROOT / "docs" / "change" / "messages.md").read_text(encoding="utf-8")
EXAMPLES_FILE = ROOT / "tests" / "golden" / "messages.md"
EXAMPLES = EXAMPLES_FILE.read_text("utf-8")


def sections(page: str) -> dict[str, str]:
    return dict(re.findall(r"^### ([a-z0-9-]+)\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE))


# test_files.py makes these
OF_FOLDERS = {
    "no-folder", "no-files", "unreadable", "linked-folder", "link-leads-out", "not-fetched", "not-utf8",
    "nested-repository", "untracked-link", "wrong-extension",
}  # fmt: skip


def _codes_in_source() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "reconciler").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\b(Problem|Wrong|Unfit|problem|code)\b", text):  # none of the patterns below is in it
            continue
        for node in nodes(path):
            match node:
                case ast.Call(
                    func=ast.Name(id="Problem" | "Wrong" | "Unfit") | ast.Attribute(attr="problem"), args=[first, *_]
                ):
                    found |= set(_words(first))
                case ast.Assign(targets=[ast.Name(id="code")], value=value):
                    found |= set(_words(value))
                case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="code"), *_])], value=ast.Tuple(elts=[first, *_])):
                    found |= set(_words(first))
    return found


def _words(expression: ast.expr) -> list[str]:
    """The texts an expression may be: ``"a" if x == ".ms" else "b"`` is a or b."""
    match expression:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp(body=body, orelse=other):
            return [*_words(body), *_words(other)]
    return []


def test_the_pages_list_every_code_and_no_other() -> None:
    assert sections(PAGE).keys() == OF_FOLDERS
    assert [code for code, text in sections(PAGE).items() if len(text.split()) < 3] == []
    assert sections(EXAMPLES).keys() == _codes_in_source() - OF_FOLDERS


SLOW = "mirror-loop-unproved"  # the proof is given up after millions of steps


@pytest.mark.usefixtures("own_policies")
@pytest.mark.parametrize(
    "code",
    [pytest.param(code, marks=pytest.mark.slow) if code == SLOW else code for code in sorted(sections(EXAMPLES))],
)
def test_each_example_gives_the_message_shown(code: str) -> None:
    section = sections(EXAMPLES)[code]
    texts = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    shown = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    assert texts, "an example in yaml"
    files = {f"part-{number}.yaml": text for number, text in enumerate(texts, 1)}
    with pytest.raises(TopologyError) as caught:
        load(files, "example")
    told = [str(problem) for problem in caught.value.problems if problem.code == code]
    if os.environ.get("UPDATE_GOLDEN") and len(shown) == len(told):
        page = EXAMPLES_FILE.read_text("utf-8")
        for before, now in zip(shown, told, strict=True):
            page = page.replace(f"```text\n{before}```", f"```text\n{now}\n```")
        EXAMPLES_FILE.write_text(page, "utf-8")
        return
    assert shown == [f"{message}\n" for message in told]


# Where the folder of an environment is the first argument.
COMMAND = re.compile(
    r"\breconciler (apply|plan|status|verify|doctor|explain|drift|validate|failover|failback|rollout|offsets|"
    r"mirror (?:start|stop|seek|pause|resume|host|import-positions)|diverged \w+|reassignments \w+)\b"
    r"(?! (?:ENV\b|-->|\0))"
)


def _messages() -> Iterator[tuple[str, str]]:
    """(place, text) of each text of the program but help and docstrings; ``\\0`` for what is put in."""
    for path in [*(ROOT / "reconciler").rglob("*.py"), *(ROOT / "spark").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        if "cli" in path.parts or "reconciler " not in text:
            continue
        parts = {id(part) for node in nodes(path) if isinstance(node, ast.JoinedStr) for part in node.values}
        parts |= {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}  # docstrings
        for node in nodes(path):
            match node:
                case ast.JoinedStr(values=values):
                    words = "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in values)
                case ast.Constant(value=str(words)) if id(node) not in parts:
                    pass
                case _:
                    continue
            yield f"{path.relative_to(ROOT)}:{node.lineno}", words


def test_each_command_of_a_message_has_its_environment() -> None:
    """So that the console and the live page can put its folder there, and it can be copied."""
    lacking = [f"{place}: {found[0]}" for place, words in _messages() for found in COMMAND.finditer(words)]
    assert lacking == []


def test_each_command_of_a_message_is_one_that_the_program_takes() -> None:
    wrong, seen = [], 0
    for place, text in _messages():
        for words in commands_in(text, PROGRAM):
            seen += 1
            if words[:2] in (["mirror", "stop"], ["mirror", "resume"]) and len(words) < 4 < text.count(" "):
                wrong.append(f"{place}: {' '.join(words)} is of all flows, and the message of one")
            try:
                take(PROGRAM, words)
            except (TyperException, KeyError, AssertionError) as error:
                wrong.append(f"{place}: reconciler {' '.join(words)}: {error!r}")
    assert wrong == []
    assert seen > 100, "the expression has gone blind"
