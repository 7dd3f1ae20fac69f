"""Plans as Markdown and HTML: kept as files, fit for where they are shown, and harmless whatever they hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.engine.plan import file as planfile
from reconciler.engine.topology_map import topology_map
from reconciler.errors import Unknown
from reconciler.model.changes import (
    AlterConfigs,
    ConfigChange,
    Ignored,
    Reason,
    Refused,
    Risk,
    Role,
    Subject,
    Unmanaged,
    Why,
)
from reconciler.model.environment.topology import TopicRef
from reconciler.model.plan import Basis, Outcome, Plan, Planned, Result, SeenCluster
from reconciler.render.markup import Format
from reconciler.render.page import CSS, SCRIPT
from reconciler.render.plan.html import plan_html
from reconciler.render.plan.markdown import GITHUB_LIMIT, marker, plan_markdown
from reconciler.render.plan.outline import outline
from reconciler.render.plan.sections import AboutPlan, Handoff, of_this_plan
from reconciler.render.reports.apply import outcomes_in
from reconciler.render.reports.drift import drift_in
from tests.support.documents.maps import changed_plan, regions
from tests.support.documents.pages import FOREIGN, NASTY, elements, undressed, unescaped, words
from tests.support.documents.plans import PLANS, agrees

HANDOFF = Handoff("reconciler apply environments/sandbox --plan plan.json", "plan.html of this run")


def large(topics: int, alike: bool = False) -> Plan:
    """Changes of which no two can be told as one, unless ``alike``."""
    changes = []
    for number in range(topics):
        ref = TopicRef("east", f"orders-{number:05}")
        value = "60000" if alike else str(60_000 + number)
        config = ConfigChange("retention.ms", "604800000", "topic", value, "declared")
        reason = Reason(Why.CONFIG_DIFFERS, "declared in topics.yaml")
        change = AlterConfigs(ref, f"id-{number}", (config,), Role.DECLARED, reason)
        risk = Risk.HIGH if number % 7 == 0 else Risk.LOW
        changes.append(Planned(f"configs:{ref}", change, "source topics", risk, "records go", "irreversible: gone"))
    clusters = (SeenCluster("east", "id-of-east", 3, topics),)
    return Plan(Basis("prod", "0" * 64, clusters=clusters), tuple(changes))


def nasty() -> Plan:
    plan = PLANS["edited"]()
    return replace(
        plan,
        basis=replace(plan.basis, environment=NASTY),
        refused=(Refused(Subject.of_text(NASTY), Reason(Why.CONFIG_DIFFERS, NASTY), NASTY),),
        unknown=(Unknown(NASTY, NASTY, NASTY, (NASTY,)),),
        unmanaged=(Unmanaged(TopicRef("east", NASTY), 1),),
        ignored=(Ignored(Subject.of_text(NASTY), NASTY, NASTY),),
        notes=(NASTY,),
    )


@pytest.mark.parametrize("name", PLANS)
def test_pages(name: str) -> None:
    plan = PLANS[name]()
    agrees(f"{name}.plan.md", plan_markdown(plan, HANDOFF))
    agrees(f"{name}.plan.html", undressed(plan_html(plan, HANDOFF)))
    agrees(f"{name}.drift.md", drift_in(plan, Format.MARKDOWN))
    agrees(f"{name}.drift.html", undressed(drift_in(plan, Format.HTML)))


def test_outcome_pages() -> None:
    plan = PLANS["first"]()
    ids = [one.id for one in plan.changes]
    outcomes = [Outcome(ids[0], Result.DONE, "", 0.5), Outcome(ids[1], Result.FAILED, "the broker said no\nAsk it.")]
    outcomes += [Outcome(one, Result.SKIPPED, "needs what failed") for one in ids[2:]]
    agrees("partly.outcome.md", outcomes_in(plan, outcomes, Format.MARKDOWN))
    agrees("partly.outcome.html", undressed(outcomes_in(plan, outcomes, Format.HTML)))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("render", [plan_markdown, plan_html])
def test_everything_the_plan_holds_is_on_the_page(name: str, render: object) -> None:
    plan = PLANS[name]()
    text = words(plan_html(plan)) if render is plan_html else unescaped(plan_markdown(plan))
    entries = [entry for step in outline(plan) for place in step.places for entry in place.entries]
    assert bool(entries) == bool(plan.changes)
    for (
        entry
    ) in entries:  # the reason of a change is in its headline; of changes told together, the first one's is the why
        assert entry.headline in text
        assert entry.why in text
        assert all(one in text for one in entry.names)
    for planned in plan.changes:
        assert planned.risk_why in text
        assert planned.needs_why in text
        if planned.risk_why:
            assert planned.reversibility in text
    for refused in plan.refused:
        assert refused.reason.text in text
        assert refused.todo in text
        assert refused.reason.code in text
    for unknown in plan.unknown:
        assert unknown.error in text
        assert all(one in text for one in (unknown.todo, *unknown.detail))
    drifted = drift_in(plan, Format.HTML if render is plan_html else Format.MARKDOWN)
    drifted = words(drifted) if render is plan_html else unescaped(drifted)
    for one in plan.unmanaged:  # the same on each plan of a healthy environment, so drift has them, and JSON
        assert f"{one.ref}, " not in text
        assert str(one.ref) in drifted
        assert str(one.ref.name) in planfile.dumps(plan)
    assert all(one.rule in drifted and one.text in drifted for one in plan.ignored)
    assert all(one.rule in text and one.text in text for one in of_this_plan(plan).ignored)
    assert all(note in text for note in plan.notes)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        pytest.param(large(20), "", id="all"),
        pytest.param(large(400), "values before and after are left out", id="no values"),
        pytest.param(large(1_000), "by name only", id="names"),
        pytest.param(large(10_000, alike=True), "values before and after are left out", id="alike"),
    ],
)
def test_a_comment_fits_by_telling_less_and_says_so(plan: Plan, said: str) -> None:
    text = plan_markdown(plan, HANDOFF)
    assert len(text.encode("utf-16-le")) // 2 <= GITHUB_LIMIT
    assert said in text
    assert ("too long" in text) == bool(said)
    assert "HIGH risk" in text
    assert HANDOFF.apply in text
    if said:
        assert HANDOFF.artifact in text


def test_the_last_step_has_counts_and_points_to_the_artifact() -> None:
    text = plan_markdown(large(500), HANDOFF, limit=2_000)
    assert len(text) <= 2_000
    assert "only counts are shown" in text
    assert "HIGH risk (72)" in text
    assert "500 changes" in text
    assert HANDOFF.artifact in text
    assert "orders-00000" not in text


@pytest.mark.slow
@pytest.mark.parametrize("render", [plan_markdown, plan_html])
def test_large_counts_are_written_as_people_write_them(render: Callable[[Plan], str]) -> None:
    text = render(large(7_001))
    assert "7,001 changes" in text
    assert "1,001 HIGH risk" in text
    assert not re.search(r"\((7001|1001)\)|\b1001 HIGH", text)


def test_less_detail_is_never_longer() -> None:
    plan = large(300)
    lengths = [len(plan_markdown(plan, HANDOFF, limit)) for limit in (10**7, 60_000, 20_000, 1)]
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) > 2


def test_the_hidden_line_names_environment_digest_and_command() -> None:
    plan = PLANS["edited"]()
    first = plan_markdown(plan, HANDOFF).splitlines()[0]
    assert first.startswith(marker("plan", "sandbox"))
    assert not first.startswith(marker("plan", "sand"))
    found = json.loads(first.removeprefix("<!-- reconciler-plan ").removesuffix(" -->"))
    assert found == {"environment": "sandbox", "digest": planfile.digest(plan), "apply": HANDOFF.apply}


@pytest.mark.parametrize("name", ["troubled", "unchanged"])
def test_no_command_where_there_is_nothing_to_apply(name: str) -> None:
    assert "Apply exactly this" not in plan_markdown(PLANS[name](), HANDOFF)
    assert "Apply exactly this" not in plan_html(PLANS[name](), HANDOFF)


def test_markdown_cannot_be_broken_out_of() -> None:
    hidden, _, text = plan_markdown(nasty(), HANDOFF).partition("\n")
    assert hidden.count("-->") == 1
    assert "<img" not in text
    assert not re.search(r"@octocat|#12\b|https://|\*\*b\*\*|`x`|```[^s\n]", text)
    assert text.count("<details>") == text.count("</details>")
    assert not re.search(r"^# h", text, re.MULTILINE)
    assert "\u202e" not in text
    assert "\\u202e" in unescaped(text)


@pytest.mark.parametrize("plan", [PLANS["edited"](), PLANS["troubled"](), nasty()])
def test_html_is_whole_asks_nothing_of_others_and_holds_no_foreign_markup(plan: Plan) -> None:
    text = plan_html(plan, HANDOFF)
    found = elements(text)
    assert {tag for tag, _ in found.tags}.isdisjoint(FOREIGN)
    assert [tag for tag, _ in found.tags].count("script") == 1
    for _, attributes in found.tags:
        assert not attributes.keys() & {"src", "onerror", "onclick", "srcset", "style"}
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"url\(|@import", text)
    policy = next(a["content"] for tag, a in found.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "prefers-color-scheme:dark" in text
    assert "width=device-width" in text


def test_what_is_folded_is_printed_also_from_a_page_too_short_for_a_filter() -> None:
    assert 0 < SCRIPT.index("beforeprint") < SCRIPT.index("return}")


def test_no_name_is_wider_than_the_page_or_below_its_sign() -> None:
    """Seen in a browser at 320 pixels, and on paper; these rules are what it needs."""
    body = re.search(r"^body\{[^}]*\}", CSS, re.MULTILINE)
    assert body is not None
    assert "overflow-wrap:anywhere" in body[0]
    assert re.search(r"\.card>header \.mono\{[^}]*max-width:calc\(100% - 1\.7rem\)", CSS)
    assert re.search(r"^pre\{[^}]*white-space:pre-wrap", CSS, re.MULTILINE)
    assert "screen and (prefers-color-scheme:dark)" in CSS
    assert "details::details-content{content-visibility:visible" in CSS.partition("@media print")[2]


def test_links_within_the_page_lead_somewhere() -> None:
    found = elements(plan_html(PLANS["troubled"]()))
    names = {attributes.get("id") for _, attributes in found.tags}
    links = [attributes["href"] for tag, attributes in found.tags if tag == "a"]
    assert links
    assert all(link and link[1:] in names for link in links)


def test_the_map_is_on_the_page_and_folded_in_the_comment() -> None:
    plan, drawn = changed_plan(), topology_map(regions(lanes=4), None, changed_plan())
    page = plan_html(plan, HANDOFF, AboutPlan(drawn=drawn))
    found = elements(page)
    assert [tag for tag, _ in found.tags].count("svg") == 2, "one is drawn for phones"
    assert page.count('class="map phone"') == 1
    assert "east-to-west: restarting" in words(page)
    assert not any("style" in attributes for _, attributes in found.tags)
    comment = plan_markdown(plan, HANDOFF, about=AboutPlan(drawn=drawn))
    chart = comment.partition("```mermaid\n")[2].partition("```")[0]
    assert chart.startswith("flowchart LR\n")
    assert 'c0 -.->|"east-to-west#58; restarting"| c1' in chart
    assert comment.count("<details>") == comment.count("</details>")


def test_a_comment_that_would_be_too_long_leaves_the_map_out_first() -> None:
    drawn = topology_map(regions(lanes=4), None, changed_plan())
    whole, cut = (plan_markdown(large(count), HANDOFF, about=AboutPlan(drawn=drawn)) for count in (20, 420))
    assert "```mermaid" in whole
    assert "```mermaid" not in cut
    assert len(cut) <= GITHUB_LIMIT
