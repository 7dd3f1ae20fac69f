"""The tables of changes: before beside after, by kind and owner, each line with a link that stays."""

from __future__ import annotations

import re

import pytest

from reconciler.engine.topic_list import owners
from reconciler.model.environment.topology import TopicRef
from reconciler.render.plan.html import anchor, change_tables, plan_html
from reconciler.render.plan.kinds import words_of
from reconciler.render.plan.outline import outline
from reconciler.render.plan.sections import AboutPlan
from tests.support.builders import cluster, flow, topic, topology, world
from tests.support.documents.pages import NASTY, elements, words
from tests.support.documents.plans import PLANS

OWNERS = {
    TopicRef("east", "orders"): "shop",
    TopicRef("west", "east.orders"): "shop",
    TopicRef("west", "east.pay"): "b",
}


def rows(html: str) -> list[list[str]]:
    lines = re.findall(r"<tr[^>]*>(.*?)</tr>", html)
    return [
        [words(f"<p>{cell}</p>").strip() for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line)] for line in lines
    ]


def test_before_is_beside_after_under_the_owner() -> None:
    told = rows("".join(change_tables(PLANS["edited"](), OWNERS)))
    assert ["owner b: 1 change"] in told
    assert told.index(["owner b: 1 change"]) < told.index(["owner shop: 4 changes"])
    assert [
        "~",
        "east.pay",
        "west",
        "max.message.bytes",
        "2MiB (topic)",
        "remove the override",
        "medium risk",
        "1",
    ] in told
    assert ["~", "orders", "east", "partitions", "6", "8", "HIGH risk", "2"] in told
    assert ["!", "mirror west", "", "job", "running", "restarted once", "medium risk", "3"] in told
    assert ["", "", "", "because", "", "flow east-to-west: lanes 2 -> 4", "", ""] in told


def test_without_owners_nothing_is_said_of_them() -> None:
    assert "owner" not in "".join(change_tables(PLANS["edited"](), {}))
    assert list(change_tables(PLANS["unchanged"](), OWNERS)) == []


@pytest.mark.parametrize("name", PLANS)
def test_every_change_is_in_a_table_and_leads_to_its_step(name: str) -> None:
    plan = PLANS[name]()
    html = "".join(change_tables(plan, {}))
    steps = {f"step-{step.number}" for step in outline(plan)}
    shown = " ".join(words(html).split())
    for step in outline(plan):
        for entry in step.entries:
            assert all(each in shown for each in entry.names)
    assert set(re.findall(r'href="#(step-\d+)"', html)) == steps
    for planned in plan.changes:
        for field in words_of(planned.change).fields(planned.change):
            assert all(" ".join(text.split()) in shown for text in (field.name, field.before, field.after) if text)


@pytest.mark.parametrize("name", PLANS)
def test_links_lead_somewhere_on_the_whole_page(name: str) -> None:
    found = elements(plan_html(PLANS[name](), about=AboutPlan(owners=OWNERS)))
    names = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(names) == len(set(names))
    links = {attributes["href"] for tag, attributes in found.tags if tag == "a"}
    assert {link[1:] for link in links if link} <= set(names)


def test_equal_changes_of_many_topics_are_one_line_that_names_them_all() -> None:
    html = "".join(change_tables(PLANS["first"](), {}))
    assert "12 topics, each" in words(html)
    assert "east.clicks-07" in words(html)


def test_a_link_to_a_change_is_the_same_in_each_plan() -> None:
    first, again = PLANS["edited"](), PLANS["edited"]()
    assert [anchor(each.id) for each in first.changes] == [anchor(each.id) for each in again.changes]
    assert len({anchor(each.id) for each in first.changes}) == len(first.changes)


def test_few_changes_are_open_with_their_steps_and_many_are_folded() -> None:
    assert '<details class="section" id="steps" open>' in plan_html(PLANS["edited"]())
    many = world("east").plan(
        topology(*(topic(f"t{number}", partitions=number + 1, replication_factor=1) for number in range(30)))
    )
    page = plan_html(many)
    assert '<details class="section" id="steps">' in page
    assert '<details class="kind" id="kind-topics" open>' in page


def test_names_are_text_wherever_they_come_from() -> None:
    declared = topology(topic("orders", partitions=1, replication_factor=1))
    html = "".join(change_tables(world("east").plan(declared), {TopicRef("east", "orders"): f"<script>{NASTY}"}))
    assert "<script>" not in html
    assert "<img" not in html
    assert "owner <script>" in words(html)


def test_copies_are_their_source_s_owner_s_over_several_flows() -> None:
    declared = topology(
        cluster("east"),
        topic("orders", "east", partitions=1, labels={"owner": "shop"}),
        topic("other", "east", partitions=1),
        flow("east", "west", "orders|other"),
        flow("west", "hub", ".*"),
    )
    seen = world("east", "west", "hub")
    seen.apply(declared)
    assert owners(declared, seen.look(declared)) == {
        TopicRef("east", "orders"): "shop",
        TopicRef("west", "east.orders"): "shop",
        TopicRef("hub", "west.east.orders"): "shop",
    }
