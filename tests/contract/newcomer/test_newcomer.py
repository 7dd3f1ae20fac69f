"""A newcomer who knows Kafka finds the module: by the words of a task against paths and first docstring lines.

Where this fails, correct the first docstring line or the name of the module, never the phrase or the ranking.
"""

from pathlib import Path

import pytest

from tests.contract.newcomer.phrases import PHRASES
from tests.contract.newcomer.ranking import modules, ranked

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def paths() -> dict[str, set[str]]:
    return modules(ROOT, ("reconciler", "spark", "sandbox"))


def test_there_are_fifty_phrases_and_each_names_modules_that_exist(paths: dict[str, set[str]]) -> None:
    assert len({phrase for phrase, _ in PHRASES}) == 50
    assert [end for _, right in PHRASES for end in right if sum(path.endswith(f"/{end}") for path in paths) != 1] == []


def test_the_right_module_is_among_the_first_three_for_45_of_50_tasks(paths: dict[str, set[str]]) -> None:
    best = {phrase: ranked(phrase, paths)[:3] for phrase, _ in PHRASES}
    lost = {
        phrase: best[phrase]
        for phrase, right in PHRASES
        if not any(path.endswith(f"/{end}") for end in right for path in best[phrase])
    }
    assert len(PHRASES) - len(lost) >= 45, "\n".join(f"{phrase}: {paths}" for phrase, paths in lost.items())
