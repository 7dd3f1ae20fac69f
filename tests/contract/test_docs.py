"""The pages: every command line on them is one the program takes, every link leads somewhere, every page is
reached. Options are on the page that the site makes of each --help."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.exceptions import TyperException
from typer.main import get_command

from reconciler.cli.main import app
from tests.support.commands import commands_of, take
from tests.support.paths import ROOT

PROGRAM: Any = get_command(app)
COMMANDS = dict(commands_of(PROGRAM))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FOLDERS = r"reconciler|spark|tests|bench|schemas|docs|mirror|e2e|interop|\.github"
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
PLACEHOLDER = re.compile(r"\b[A-Z]+\b")


def _command_lines(text: str) -> Iterator[str]:
    """Of blocks and of words between backticks, with every optional part and the first of each alternative."""
    for block in FENCE.findall(text):
        whole = block.replace("\\\n", " ")
        yield from re.findall(r"^\s*(?:\$ )?(?:\w+=\S+ )*reconciler ([a-z].*)$", whole, re.MULTILINE)
    for words in re.findall(r"`(?:reconciler )([^`\n]+)`", FENCE.sub("", text)):
        yield words.replace("\\|", "|")
    for words in re.findall(r"^\| ((?:`[a-z][^`]*`(?:, )?)+) \|", FENCE.sub("", text), re.MULTILINE):
        yield from (one for one in re.findall(r"`([^`]+)`", words.replace("\\|", "|")) if _is_a_command(one))


def _is_a_command(words: str) -> bool:
    return words.split()[0] in PROGRAM.commands and " ENV" in words


def _spellings(line: str) -> Iterator[list[str]]:
    """``start|stop ENV [--plan FILE]``: with start and with stop, and with a word in place of each placeholder."""
    plain = re.sub(r"\[[^\]]*\.\.\.\]|(?<=\S)\[[^\]]*\]", "", line.partition(" #")[0])
    plain = re.sub(r"[\[\]]|(?<=[A-Z])\.\.\.", " ", plain).partition(" || ")[0]
    choices = [[one for one in word.split("|") if one] for word in shlex.split(plain) if word != "|"]
    for number in range(max(len(some) for some in choices)):
        yield [PLACEHOLDER.sub("1", some[min(number, len(some) - 1)]) for some in choices]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_line_is_one_the_program_takes(name: str) -> None:
    for line in _command_lines((ROOT / name).read_text("utf-8")):
        for words in _spellings(line):
            try:
                take(PROGRAM, words)
            except (TyperException, KeyError, AssertionError) as error:
                raise AssertionError(f"reconciler {line}: {words}: {error!r}") from error


def test_the_pages_have_many_command_lines() -> None:
    """Else the expressions above have gone blind."""
    assert sum(len(list(_command_lines(page.read_text("utf-8")))) for page in PAGES) > 50


@pytest.mark.parametrize(
    "line",
    ["plan ENV --fromat json", "plam ENV", "mirror seek ... --too earliest", "explain ENV", "plan ENV --format cvs"],
)
def test_a_wrong_command_line_is_found(line: str) -> None:
    [words] = _spellings(line)
    with pytest.raises((TyperException, KeyError, AssertionError)):
        take(PROGRAM, words)


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, without punctuation, spaces to hyphens."""
    headings = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _links(page: Path) -> Iterator[tuple[Path, str]]:
    for link in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if "://" not in link:
            place, _, anchor = link.partition("#")
            yield (page.parent / place).resolve() if place else page, anchor


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    for place, anchor in _links(ROOT / name):
        assert place.exists(), place
        assert not anchor or anchor in _anchors(place), f"{place}#{anchor}"


def test_every_page_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    left = [ROOT / "README.md"]
    while left:
        seen.add(page := left.pop())
        for place, _ in _links(page):
            pages = place.glob("*.md") if place.is_dir() else [place]
            left += [one for one in pages if one.suffix == ".md" and one not in seen]
    assert seen >= set(PAGES), sorted(map(str, set(PAGES) - seen))


def test_one_page_names_every_page_but_single_decisions() -> None:
    contents = ROOT / "docs" / "contents.md"
    linked = {place for place, _ in _links(contents)}
    assert {page for page in PAGES[1:] if "decisions" not in page.parts} - {contents} <= linked


def test_the_readme_is_a_screen_and_a_half() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 75
    assert len([line for line in lines if line.startswith("* [")]) == 5


@pytest.mark.parametrize("name", NAMES)
def test_what_is_named_in_the_tree_is_there(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", text):
        assert (ROOT / path).exists() or (ROOT / "tests" / path).exists(), path
    for module in re.findall(r"python -m (bench[\w.]*|sandbox[\w.]*)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets


def test_every_folder_of_tests_is_reported() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    folders = {page.relative_to(ROOT / "tests").parts[0] for page in (ROOT / "tests").rglob("test_*.py")}
    assert folders | {"support"} == set(re.findall(r"`tests/([a-z0-9]+)[`/]", page.partition("## Tests")[2]))


# docs/SECURITY.md says only what a test holds

SECURITY = (ROOT / "docs/SECURITY.md").read_text("utf-8")
CLAIMS = ("Who can do what", "Attacks, and what becomes of them", "Ports")
_NAMED = re.compile(r"`(tests/[A-Za-z0-9_/]+\.py)?::(test_[a-z0-9_]+)`")


def rows(section: str) -> Iterator[tuple[str, str]]:
    """What a row is about, and its last cell."""
    table = SECURITY.partition(f"\n## {section}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert lines[0].endswith(" test |"), f"the last column of {section} names tests"
    for line in lines[2:]:
        cells = line.removesuffix(" |").split(" | ")
        yield cells[0], cells[-1]


def named(cell: str) -> Iterator[tuple[str, str]]:
    """A name without a file is of the file before it."""
    file = ""
    for match in _NAMED.finditer(cell):
        file = match[1] or file
        yield file, match[2]


@cache
def functions_of(file: str) -> frozenset[str]:
    path = ROOT / file
    tree = ast.parse(path.read_text("utf-8")) if file and path.is_file() else ast.Module([], [])
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_each_claim_names_the_tests_that_hold_it() -> None:
    bare = [about for section in CLAIMS for about, cell in rows(section) if not list(named(cell))]
    assert bare == [], "write its test, then its name; or say what is true"


def test_the_tests_that_are_named_exist() -> None:
    gone = [
        f"{file}::{name} of {about}"
        for section in CLAIMS
        for about, cell in rows(section)
        for file, name in named(cell)
        if name not in functions_of(file)
    ]
    assert gone == []


def test_a_file_that_is_named_anywhere_on_the_page_exists() -> None:
    files = set(re.findall(r"\btests/[A-Za-z0-9_/]+\.py\b", SECURITY))
    assert {file for file in files if not (ROOT / file).is_file()} == set()


# What stands beside its tables, by the first words of each sentence or row

_STANDALONE = "tests/e2e/spark/clusters/test_standalone.py"
_MIRRORS = "tests/reconciler/environment/declarations/test_mirrors.py"
_COMMAND_LINE = "tests/reconciler/backends/mirror_jobs/runner/test_command_line.py"
_LOG_LINES, _CHANNEL = "tests/mirror/test_log_lines.py", "tests/mirror/leases/test_channel.py"
_RIGHTS, _IMAGE = "tests/e2e/mirror/test_failover_rights.py", "tests/interop/test_manifests.py"
_JARS, _FILES = "tests/sandbox/install/test_jars.py", "tests/reconciler/backends/test_files.py"
_PRIVILEGES = "tests/e2e/apply/test_least_privilege.py"
BESIDE = {
    "`channel` defaults to": f"{_CHANNEL}::test_what_is_bound_is_apart_from_what_tasks_get",
    "A range needs two ports": f"{_MIRRORS}::test_a_range_has_two_ports_that_exist",
    "Without a secret anyone": f"{_MIRRORS}::test_a_standalone_cluster_lets_everybody_in_unless_it_is_said_otherwise",
    "One serves master, workers": (
        f"{_STANDALONE}::test_the_secret_of_the_cluster_is_nowhere_but_in_its_file_and_in_variables"
    ),
    "and in the environment the reference": (
        f"{_COMMAND_LINE}::test_a_standalone_cluster_gets_the_secret_by_a_variable_and_by_nothing_else"
    ),
    "`make test-hostile`": "tests/e2e/hostile/test_hostile_environments.py::test_no_environment_does_harm",
    "`make fuzz": "tests/fuzz/test_corpus.py::test_fresh_inputs_end_as_documented",
    "Run folders, logs": (
        "tests/e2e/test_canaries.py::test_no_command_lets_a_secret_out "
        f"{_FILES}::test_a_text_written_over_another_keeps_its_permissions_and_its_link"
    ),
    "Logs hold no records": f"{_LOG_LINES}::test_a_traceback_names_its_frames_and_holds_none_of_their_values",
    "Tests log in with exactly": f"{_PRIVILEGES}::test_without_a_rule_apply_does_what_it_reports_and_no_more",
    "| a rule of `reconciler-plan`": (
        f"{_PRIVILEGES}::test_without_a_rule_plan_says_what_it_may_not_and_invents_nothing"
    ),
    "| READ or WRITE on": "tests/reconciler/backends/state/test_lock.py::test_rights",
    "| another writing right": f"{_PRIVILEGES}::test_without_a_rule_apply_does_what_it_reports_and_no_more",
    "| a rule of `mirror`": (
        "tests/mirror/driver/test_least_privilege.py::test_without_a_rule_the_mirror_says_so_and_nothing_is_lost"
    ),
    "| a [failover's]": (
        f"{_RIGHTS}::test_without_a_rule_no_group_is_left_behind_in_silence "
        f"{_RIGHTS}::test_what_a_broker_hides_is_not_taken_for_what_is_not_there"
    ),
    "Packages are installed by": (
        f"{_IMAGE}::test_the_container_file_copies_what_its_context_has_and_runs_as_no_one_special "
        f"{_JARS}::test_a_jar_that_is_not_the_listed_one_is_never_put_in_place"
    ),
    "[Licences]": "tests/requirements/test_sbom.py::test_every_locked_package_is_there_once_with_its_hashes",
    "weekly proposals": "tests/workflows/test_own_repository.py::test_newer_versions_are_proposed_each_week",
    "advisories from OSV": "tests/requirements/test_advisories.py::test_every_package_is_asked_about_by_its_purl",
}
ASKED = ("Each row names a test", "Report a hole", "Give the principals", "Executors connect to the driver:")
"""What the reader is to do or to look at."""


def beside_the_tables() -> Iterator[str]:
    """Sentences, and rows of tables without a column of tests; what is not defended is no claim."""
    text = re.sub(r"```.*?```", "", SECURITY.partition("\n## Not defended")[0], flags=re.DOTALL)
    for line in text.splitlines():
        if line.startswith("|"):
            if not re.search(r"tests/|::test_| test \|$|^\|---|^\| without \| then", line):
                yield line
        elif line and not line.startswith("#"):
            yield from re.split(r"(?<=[.:]) (?=[A-Z`[])|; (?=weekly|advisories)", line)


def test_each_sentence_beside_the_tables_is_held_by_a_test_or_claims_nothing() -> None:
    found = [*beside_the_tables()]
    unheld = [each for each in found if not each.startswith((*BESIDE, *ASKED))]
    assert unheld == [], "write its test and name it in BESIDE; or take the sentence out"
    assert [start for start in (*BESIDE, *ASKED) if not any(each.startswith(start) for each in found)] == []
    names = [test.partition("::") for tests in BESIDE.values() for test in tests.split()]
    assert [f"{file}::{name}" for file, _, name in names if name not in functions_of(file)] == []


# The table of logins names a test in each cell, or says that there is none; that of what refuses them, for each cause

_LETTER = re.compile(r"\b[A-Z]\b")

LOGINS = (
    (ROOT / "docs/decisions/access/0101-one-way-to-log-in.md").read_text("utf-8").partition("\n## What is tested\n")[2]
)


def test_each_cell_of_the_table_of_logins_is_a_test_that_exists_or_says_that_there_is_none() -> None:
    cells = [line.strip("| ").split(" | ") for line in LOGINS.splitlines() if line.startswith("|")]
    tests = {row[0]: list(named(row[1])) for row in cells if len(row) == 2}
    logins = [row for row in cells if len(row) == 7][1:]
    assert len(logins) > 10
    causes = [row for row in cells if len(row) == 4][1:]
    assert [row[0] for row in causes if not _LETTER.search(row[3])] == [], "each cause has a test"
    used = {letter for row in logins for cell in row[1:] if cell != "not tested" for letter in cell.split(", ")}
    used |= {letter for row in causes for cell in row[2:] for letter in _LETTER.findall(cell)}
    assert used == set(tests), "each letter has a test, and each test a cell"
    gone = [(file, name) for row in tests.values() for file, name in row if name not in functions_of(file)]
    assert (gone, [letter for letter, row in tests.items() if not row]) == ([], [])
