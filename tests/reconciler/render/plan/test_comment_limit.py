"""A comment that does not fit has less detail, and still all that people act on."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.engine.plan import file as planfile
from reconciler.model.environment.rollout import Rollout, RolloutWave
from reconciler.model.plan import Plan
from reconciler.render.markup import Format, visible
from reconciler.render.plan.markdown import GITHUB_LIMIT, Detail, fitting, plan_markdown, report_markdown
from reconciler.render.plan.outline import outline
from reconciler.render.reports.drift import drift_page
from tests.support.builders import topic, topology, world


def test_the_first_step_down_still_names_what_differs() -> None:
    seen = world("east")
    names = [f"t{number:03}" for number in range(100)]
    for name in names:
        seen.clusters["east"].put(name, 2, retention_ms="9000")
    made = seen.plan(topology(*(topic(name, configs={"retention.ms": "60"}) for name in names)))
    page = drift_page(made, Format.MARKDOWN)
    whole = report_markdown(page)
    less = report_markdown(page, limit=len(whole) * 8 // 10)
    assert "values before and after are left out" in less
    assert [name for name in names if f"{name} retention" in less] == names[:60]
    assert "and 40 more" in less
    least = report_markdown(page, limit=1_500)
    assert "only counts are shown" in least
    assert len(list(Detail)) == 5


def test_thousands_of_topics_that_no_one_manages_cost_a_change_none_of_its_values() -> None:
    seen = world("east")
    for number in range(4_000):
        seen.clusters["east"].put(f"unmanaged-{number:04}")
    seen.clusters["east"].put("orders", 2, retention_ms="9000")
    made = seen.plan(topology(topic("orders", configs={"retention.ms": "60"})))
    text = plan_markdown(made)
    assert "unmanaged" not in text.lower(), "it would be there on each plan"
    assert "9s" in text, "the value before"
    text = report_markdown(drift_page(made, Format.MARKDOWN))
    assert "9s" in text
    assert "Unmanaged (4,000)" in text
    assert "and 3,940 more" in text


def _steps(detail: Detail) -> list[str]:
    return [f"told as {detail.name}", *("x" * 9 for _ in range(50 - 10 * detail))]


@pytest.mark.parametrize("text", ["x" * 9, "\U0001f40d" * 4 + "x"], ids=["ascii", "characters of two code units"])
def test_each_step_down_begins_exactly_where_the_one_before_no_longer_fits(text: str) -> None:
    def told(detail: Detail) -> Iterator[str]:
        yield from (line.replace("x" * 9, text) for line in _steps(detail))
        yield from ("", "")  # empty lines at the end count for nothing

    for detail in Detail:
        whole = sum(len(line) + 1 for line in _steps(detail))
        fits = fitting(told, whole)
        assert fits.startswith(f"told as {detail.name}\n")
        assert len(fits.encode("utf-16-le")) // 2 == whole
        assert not fitting(told, whole - 1).startswith(f"told as {detail.name}\n") or detail is Detail.COUNTS


@given(st.lists(st.text(max_size=30), min_size=1), st.integers(40, 300))
@example(["x" * 13, "", "", "x" * 30], 40)
def test_nothing_is_longer_than_the_limit(lines: list[str], limit: int) -> None:
    told = fitting(lambda _: iter(lines), limit)
    assert len(told.encode("utf-16-le")) // 2 <= limit
    assert told == "\n".join(lines).rstrip("\n") + "\n" or told.endswith("more than fits here\n")


def test_counts_of_a_rollout_of_hundreds_of_waves_fit_and_can_be_found_again() -> None:
    clusters = [f"region-{number:03}-{'x' * 200}" for number in range(300)]
    waves = tuple(RolloutWave(f"wave {name}", clusters=(name,)) for name in clusters)
    made = world(*clusters).plan(replace(topology(topic("orders", *clusters)), rollout=Rollout(waves)))
    text = plan_markdown(made)
    assert len(text) <= GITHUB_LIMIT
    assert text.startswith("<!-- reconciler-plan ")
    assert "only counts are shown" in text
    assert "more than fits here" in text


def test_the_digest_and_the_outline_are_made_once_however_often_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world("east").plan(
        topology(*(topic(f"t{number}", configs={"retention.ms": str(number)}) for number in range(9)))
    )
    asked: list[str] = []

    def noted(name: str, made: Callable[[Plan], object]) -> Callable[[Plan], object]:
        def made_and_noted(plan: Plan) -> object:
            asked.append(name)
            return made(plan)

        return made_and_noted

    monkeypatch.setattr(planfile, "digest", noted("digest", planfile.digest))
    monkeypatch.setattr("reconciler.render.plan.markdown.outline", noted("outline", outline))
    plan_markdown(made, limit=800)
    assert sorted(asked) == ["digest", "outline"]


@given(st.text())
def test_no_character_hides(text: str) -> None:
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not [char for char in visible(text) if unicodedata.category(char) in hidden]
    assert len(visible(text)) >= len(text)
