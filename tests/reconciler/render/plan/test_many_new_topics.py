"""A widened expression reads on one screen: topics of applications by their owner in red, the rest by prefix."""

from __future__ import annotations

from reconciler.model.changes import Risk
from reconciler.render.markup import Style
from reconciler.render.plan.outline import outline
from reconciler.render.plan.text import plan_text
from reconciler.text import by_prefix
from tests.support.builders import World, flow, topic, topology, world

OF_APPLICATIONS = ("_schemas", "connect-configs", "connect-offsets", "connect-status", "totals-agg-changelog")


def widened() -> World:
    seen = world("east", "west")
    for number in range(40):
        seen.clusters["east"].put(f"crm-{number}", 1 + number % 20)
        seen.clusters["east"].put(f"Search.{number}", 1 + number % 20)
    for name in OF_APPLICATIONS:
        seen.clusters["east"].put(name, 1)
    return seen


def test_topics_of_applications_are_dangerous_by_owner() -> None:
    made = widened().plan(topology(topic("pay", partitions=1), flow("east", "west", ".*", replication_factor=1)))
    risky = {planned.change.ref.name: planned for planned in made.changes if planned.risk == Risk.HIGH}  # type: ignore[union-attr]
    assert sorted(risky) == sorted(f"east.{name}" for name in OF_APPLICATIONS)
    assert "exclude_topics of flow east-to-west" in risky["east._schemas"].risk_why
    assert "a schema registry keeps its schemas" in risky["east._schemas"].risk_why
    assert "Kafka Streams keeps" in risky["east.totals-agg-changelog"].risk_why
    titles = [entry.title for step in outline(made) for entry in step.entries if entry.risk is Risk.HIGH]
    assert "3 topics, each" in titles, "those of Connect together"
    assert "3 HIGH risk" not in plan_text(made)
    assert "5 HIGH risk" in plan_text(made).splitlines()[0]


def test_topics_that_someone_left_out_or_asked_for_are_not() -> None:
    only = flow("east", "west", ".*", exclude_topics=("_schemas", "connect-.*", ".*-changelog"), replication_factor=1)
    made = widened().plan(topology(topic("pay", partitions=1), only))
    assert not [planned for planned in made.changes if planned.risk == Risk.HIGH]


def test_the_rest_is_reported_by_prefix() -> None:
    made = widened().plan(topology(topic("pay", partitions=1), flow("east", "west", ".*", replication_factor=1)))
    text = plan_text(made)
    assert "east.crm-* 40, east.Search.* 40" in text or "east.Search.* 40, east.crm-* 40" in text
    assert len(text.splitlines()) < 60
    assert len(plan_text(made, Style(full=True)).splitlines()) > len(text.splitlines())


def test_names_by_what_they_begin_with() -> None:
    names = ["crm-a", "crm-b", "crm-c", "pay.x", "pay.y", "alone"]
    assert by_prefix(names) == "crm-* 3, pay.* 2, 1 other"
    assert by_prefix([*(f"east.crm-{n}" for n in range(9)), "east.a", "__b"]) == "east.crm-* 9, 2 others"
    assert by_prefix(["a", "b"]) == "2 names"
