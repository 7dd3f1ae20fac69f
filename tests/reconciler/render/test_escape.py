"""What others wrote is shown in a length that people read, and orders nothing from a log, a terminal or a forge."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.edits.compare import compare
from reconciler.environment.load import load
from reconciler.errors import ExitCode, Problem, ReconcilerError, TopologyError, Unknown, Where
from reconciler.model.changes import AlterConfigs, ConfigChange, Reason, Refused, Risk, Role, Subject, Unmanaged, Why
from reconciler.model.environment.topology import TopicRef
from reconciler.model.plan import Basis, Outcome, Plan, Planned, Result
from reconciler.model.reports.edit import Against
from reconciler.model.reports.explain import ExplainedValue, Explanation, TopicAnswer
from reconciler.render import console
from reconciler.render.console import MovingLine, run_app, say, say_now, show
from reconciler.render.markup import Format, Style, findable, lines_of, markdown, page, visible
from reconciler.render.page import code
from reconciler.render.plan.formats import Review, render
from reconciler.render.plan.sections import NO_HANDOFF
from reconciler.render.reports.apply import outcomes_in
from reconciler.render.reports.declared import explanation_json, explanation_text
from reconciler.render.reports.drift import drift_in
from reconciler.text import LONGEST_TEXT, LONGEST_WORD, columns, shortened

SIZE = 300_000
WORD, WORDS = "0:1," * (SIZE // 4), "no, not so. " * (SIZE // 12)
LENGTH = f"{SIZE:,} characters"


def long_plan(value: str) -> Plan:
    """On a cluster, in its answers and in git."""
    ref = TopicRef("east", "orders")
    reason = Reason(Why.CONFIG_DIFFERS, f"declared in topics.yaml, {value} is there")
    config = ConfigChange("x.y", value, "topic", f"{value}!", f"declared as {value}")
    change = AlterConfigs(ref, "id", (config,), Role.DECLARED, reason)
    return Plan(
        Basis("prod", "0" * 64),
        (Planned("configs:east/orders", change, "source topics", Risk.HIGH, f"{value} goes", "irreversible: gone"),),
        unknown=(Unknown("groups of east", f"the broker said {value}", value, (value,)),),
        refused=(Refused(Subject.of_text("east/pay"), Reason(Why.CONFIG_DIFFERS, value), value),),
        unmanaged=(Unmanaged(TopicRef("east", "old"), 1),),
        notes=(value,),
    )


def long_edit(value: str) -> Review:
    def topology(label: str) -> str:
        clusters = {"east": {"bootstrap_servers": ["east.example:9092"]}}
        topic = {"clusters": ["east"], "partitions": 1, "labels": {"note": label}}
        return json.dumps({"clusters": clusters, "topics": {"orders": topic}})

    loaded = (load({"topology.yaml": topology(each)}, "prod", date(2026, 1, 1)) for each in ("x", value))
    return Review(None, compare(*loaded), Against("main", "c" * 40))


def explained(value: str) -> Explanation:
    values = (ExplainedValue("x.y", value, value, "topics.yaml:3", value, (value,)), ExplainedValue("z", "1", "git"))
    answer = TopicAnswer(TopicRef("east", "orders"), "topics.yaml:1", value, value, values)
    return Explanation("prod", "east/orders", topics=(answer,), unknown=(Unknown("east", value, value),), asked=True)


def outcomes(value: str, form: Format) -> str:
    return outcomes_in(long_plan(value), [Outcome("configs:east/orders", Result.FAILED, f"the broker: {value}")], form)


REPORTS: dict[str, Callable[[str, Format], str]] = {
    "plan": lambda value, form: render(Review(long_plan(value)), form, NO_HANDOFF),
    "edit": lambda value, form: render(long_edit(value), form, NO_HANDOFF),
    "drift": lambda value, form: drift_in(long_plan(value), form),
    "apply": outcomes,
    "explain": lambda value, form: (explanation_json if form is Format.JSON else explanation_text)(explained(value)),
}


@pytest.mark.parametrize("value", [WORD, WORDS], ids=["a word", "words"])
@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize("report", REPORTS)
def test_a_long_value_is_shortened_for_people_and_whole_for_machines(report: str, form: Format, value: str) -> None:
    usual, text = (REPORTS[report](each, form) for each in ("60000", value))
    if form is Format.JSON:
        assert json.dumps(value)[1:-1] in text
    else:
        assert len(text) - len(usual) < 40 * LONGEST_TEXT
        assert value[:100] in text.replace("&#", "") or form is Format.MARKDOWN
        assert "characters, SHA-256" in text


@pytest.mark.parametrize("shown", [visible, markdown, page, code], ids=lambda each: each.__name__)
@pytest.mark.parametrize("value", [WORD, WORDS], ids=["a word", "words"])
def test_it_says_how_long_it_is_and_two_never_read_alike(shown: Callable[[str], str], value: str) -> None:
    other = f"{value[: SIZE // 2]}x{value[SIZE // 2 + 1 :]}"
    assert LENGTH in shown(value)
    assert len(shown(value)) < 2 * LONGEST_TEXT
    assert shown(value) != shown(other)


@given(st.text(max_size=LONGEST_WORD))
def test_what_people_can_read_stays(text: str) -> None:
    assert shortened(text) == text


def test_a_name_as_long_as_kafka_takes_is_whole() -> None:
    name, list_of_names = "n" * 249, ", ".join("n" * 249 for _ in range(8))
    assert visible(name) == name
    assert visible(list_of_names) == list_of_names


def test_a_list_that_was_asked_for_is_whole() -> None:
    names = ", ".join(f"orders-{number}" for number in range(5_000))
    assert len(names) > LONGEST_TEXT
    assert lines_of([names], Style(full=True)) == f"{names}\n"
    assert len(lines_of([names])) < LONGEST_TEXT + 100
    assert findable(["east", WORD, "Orders"]) == f"east {shortened(WORD).lower()} orders"


def test_a_long_cell_makes_no_other_row_long() -> None:
    assert max(map(len, columns([("a", WORD, "x"), ("b", "1", "y")]))) < 2 * LONGEST_WORD


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("::set-output name=x::y", r"\u003a:set-output name=x::y"),
        ("  ::add-mask::x", r"  \u003a:add-mask::x"),
        ("orders: ##[error]x", r"orders: \u0023#[error]x"),
        ("##vso[task.setvariable variable=x]y", r"\u0023#vso[task.setvariable variable=x]y"),
        ("a ##teamcity[message text='x']", r"a \u0023#teamcity[message text='x']"),
        ("section_start:1:x\r\x1b[0K", r"section_start:1:x \u001b[0K"),
        ("a\n::error::x", "a ::error::x"),
        ("\x1b]8;;http://evil.example\x07x", r"\u001b]8;;http://evil.example\u0007x"),
        ("ls\u202egpj.exe", r"ls\u202egpj.exe"),
        ("east::orders ## a [b]", "east::orders ## a [b]"),
    ],
)
def test_whatever_a_command_prints_orders_nothing(
    line: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker's error reaches progress, errors, questions and reports; each is printed by one of these."""
    monkeypatch.setattr(console, "MOVING", MovingLine())
    say(line)
    say_now(line)
    show(line.replace("\n", " "))
    said = capsys.readouterr()
    assert said.err == f"{shown}\n{shown}\n"
    assert said.out == f"{shown}\n"
    assert lines_of([line]) == f"{shown}\n"

    document = json.dumps({"a": [line, f"\\{line}"]}, indent=1)
    show(document, "json")
    printed = capsys.readouterr().out
    assert json.loads(printed) == json.loads(document)
    assert not any(each in printed for each in ("##[", "##vso[", "##teamcity["))


@pytest.mark.parametrize("text", ["!1", "&1", "$1", "#1", "GL-1", "GH-1", "[issue:1]", "group/project!7", "@all"])
def test_no_comment_mentions_people_or_issues_to_a_forge(text: str) -> None:
    """GitLab's references, which it looks for behind the entities."""
    shown = markdown(f"a {text} b")
    assert "\u200b" in shown


def test_an_error_is_as_many_lines_as_it_has_parts(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()

    @app.command()
    def fails() -> None:
        raise ReconcilerError("the broker said ::error::x", "::warning::x", WORD)

    with pytest.raises(SystemExit) as ended:
        run_app(app, [])
    assert ended.value.code == ExitCode.ERROR
    first, second, third = capsys.readouterr().err.splitlines()
    assert (first, second) == ("the broker said ::error::x", r"\u003a:warning::x")
    assert LENGTH in third


def test_a_thousand_problems_are_enough_for_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 100,000 keys that appear twice, in a pull request of a stranger."""
    app = typer.Typer()
    problems = tuple(Problem("duplicate-key", Where("a.yaml", number, 1), "a", "b", "c") for number in range(1, 1_500))

    @app.command()
    def fails() -> None:
        raise TopologyError(problems)

    with pytest.raises(SystemExit):
        run_app(app, [])
    *shown, left, count = capsys.readouterr().err.splitlines()
    assert len(shown) == 1_000
    assert left == "and 499 more; reconciler validate ENV --format json has all of them"
    assert count == "1,499 problems in the topology"
