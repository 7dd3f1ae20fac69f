"""What a reviewer is spared: mere defaults, and unchanged parts."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from typing import Any

import jsonschema

from reconciler.engine.drift.causes import differences
from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.build import plan as make_plan
from reconciler.engine.plan.summary import applied_verdict
from reconciler.environment.load import load
from reconciler.errors import Moved, StalePlan, Unknown
from reconciler.model.changes import About, Reason, Refused, Subject, Why
from reconciler.model.environment.flow_settings import ConfigSync, Delivery
from reconciler.model.environment.topology import TopicDefaults
from reconciler.model.plan import Basis, Plan
from reconciler.model.principals import entity
from reconciler.model.schemas import schema
from reconciler.operations.review.plan import goes_on
from reconciler.render.markup import Style
from reconciler.render.plan.html import plan_html
from reconciler.render.plan.markdown import plan_markdown
from reconciler.render.plan.sections import Handoff
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.drift import drift_json, drift_text, drift_verdict
from reconciler.resources.mirrors.handover import mirror_handover
from tests.support.builders import cluster, flow, topic, topology, world
from tests.support.fakes.cluster import unreachable


def planned(use_defaults_from: str) -> Plan:
    seen = world()
    seen.clusters["east"].put("orders", 3, retention_ms="86400000")
    orders = topic("orders", partitions=3, configs={"retention.ms": "86400000"})
    sync = ConfigSync(use_defaults_from=use_defaults_from)
    return seen.plan(topology(orders, flow("east", "west", "orders", configs=sync)))


def test_defaults_taken_over_are_one_line_without_chosen_values() -> None:
    plan = planned("source")
    for told in map(html.unescape, (plan_text(plan, Style()), plan_markdown(plan), plan_html(plan))):
        assert "configs at what the source's brokers have by default (use_defaults_from: source)" in told
        assert "delete.retention.ms" in told
        assert "delete.retention.ms = " not in told
    assert "retention.ms = 1d (source east/orders)" in plan_text(plan, Style())
    assert '"key": "delete.retention.ms"' in planfile.dumps(plan)
    assert "brokers have by default" not in plan_text(planned("target"), Style())


def test_only_what_moved_is_reported() -> None:
    one = Moved("topic east/a", "id x, 3 partitions, retention.ms=1, segment.ms=5", "id x, 3 partitions, segment.ms=6")
    assert str(one) == "topic east/a: was retention.ms=1, segment.ms=5, is segment.ms=6"
    gone = Moved("topic east/a", "id x, 3 partitions, a=1", "id x, 3 partitions")
    assert str(gone) == "topic east/a: was a=1, is not set"


def test_of_what_came_the_beginning_is_reported() -> None:
    there = ", ".join(["id x", "3 partitions", *(f"k{number}=1" for number in range(30))])
    assert str(Moved("topic east/a", "absent", there)).endswith(
        "was absent, is id x, 3 partitions, k0=1, k1=1 and 28 more"
    )


def test_a_world_that_moved_is_cut() -> None:
    stale = StalePlan(tuple(Moved(f"topic east/{number}", "absent", "id x") for number in range(5000)))
    assert "topic east/19:" in str(stale)
    assert "and 4980 more" in str(stale)
    assert len(stale.moved) == 5000


def test_one_refusal_that_meets_many_topics_is_reported_once() -> None:
    seen = world("east")
    east = cluster("east", defaults=TopicDefaults(configs={"no.such.key": "1"}))
    made = [f"t{number:02}" for number in range(30)]
    for name in made:
        seen.clusters["east"].put(name, 1)
    plan = seen.plan(topology(east, *(topic(name) for name in made)))
    assert len(plan.refused) == 30
    told = plan_text(plan, Style())
    assert told.count("have no topic config no.such.key") == 1
    assert "met by east/t00, east/t01" in told
    assert "and 22 more" in told
    assert "Blocked (30)" in told


def test_partitions_that_others_added_are_drift() -> None:
    seen = world("east")
    seen.clusters["east"].put("orders", 8)
    plan = seen.plan(topology(topic("orders", partitions=6)))
    [found] = differences(plan)
    assert (found.subject, found.kind, found.found, found.wished) == (
        "east/orders",
        "partitions",
        "8 partitions",
        "6 partitions",
    )
    assert found.mended_by == ""
    assert drift_verdict(plan) == "Drift: 1 difference; 1 that apply cannot fix"
    told = json.loads(drift_json(plan))
    jsonschema.validate(told, schema("drift"))


def test_a_saved_plan_that_apply_would_refuse_says_so() -> None:
    clear = Plan(Basis("prod", "0" * 64), ())
    blocked = replace(
        clear,
        refused=(
            Refused(Subject(About.TOPIC, "east", "a"), Reason(Why.PARTITIONS_SHRINK, "it cannot"), "Ask for more"),
        ),
    )
    dark = replace(clear, unknown=(Unknown("cluster east", "no answer"),))
    handoff = Handoff("reconciler apply prod --plan p.json")
    assert goes_on(clear, handoff) == "apply exactly this with: reconciler apply prod --plan p.json"
    for held in (blocked, dark):
        assert goes_on(held, handoff).startswith("apply refuses it")
        assert goes_on(held, handoff).endswith("reconciler apply prod --plan p.json --partial")
    assert "git revert" in goes_on(clear, Handoff())


def test_nothing_done_is_not_said_to_be_as_declared_where_something_is_blocked() -> None:
    clear = Plan(Basis("prod", "0" * 64), ())
    refused = (Refused(Subject(About.CLUSTER, "west"), Reason(Why.WRONG_CLUSTER_ID, "another cluster"), "Look"),)
    held = replace(clear, refused=refused, unknown=(Unknown("cluster east", "no answer"),))
    assert applied_verdict(clear, ()) == "Nothing to apply: everything is as declared"
    assert applied_verdict(held, ()) == "Nothing could be applied: 1 blocked, 1 unknown"


def test_changes_of_a_stage_are_where_a_person_looks_for_them() -> None:
    """By cluster and name, whatever is done to a topic; in JSON they stand in the order of their execution."""
    seen = world("a", "b")
    for name in ("log", "orders"):
        seen.clusters["a"].put(name, 1)
    topics = [topic(name, "a", "b", partitions=2) for name in ("log", "orders", "pay", "zoo")]
    plan = seen.plan(topology(*topics))
    shown = [line.split()[1] for line in plan_text(plan).splitlines() if line.startswith("    ") and line[4] in "+~"]
    assert shown == ["log:", "orders:", "pay:", "zoo:", "4"]
    assert [one.id for one in plan.changes][:3] == ["create:a/pay", "create:a/zoo", "partitions:a/log"]


def test_a_cluster_that_does_not_answer_is_reported_once_with_its_mirrors() -> None:
    seen, wished = world(), topology(topic("orders"), flow("east", "west", "orders"))
    seen.clusters["west"].fail_on(1, unreachable("west"))
    live = seen.look(wished)
    silent = replace(live, mirrors={"west": Unknown("mirror west", "west did not answer")})
    [unknown] = make_plan(wished, silent).unknown
    assert (unknown.subject, "mirror west" in unknown.detail) == ("cluster west", True)
    heard = replace(silent, clusters=world().look(wished).clusters)
    assert [one.subject for one in make_plan(wished, heard).unknown] == ["mirror west"]


def test_rules_that_differ_in_their_names_alone_are_reported_together_with_how_many() -> None:
    """As the first plan after an import has them: one rule for each topic, all for one principal."""
    names = ", ".join(f"t-{number:02}" for number in range(35))
    entries = f"[{{role: consumer, principal: 'User:app', clusters: [west], topics: [{names}], groups: [g]}}]"
    declared = load({"e.yaml": f"clusters: {{west: {{bootstrap_servers: ['b:1']}}}}\naccess: {entries}\n"}, "test")
    seen = world("west")
    for number in range(35):
        seen.clusters["west"].put(f"t-{number:02}", 1, 1)
    planned = seen.plan(declared)
    together = "allow User:app read on 35 topics: t-00, t-01, t-02, t-03, t-04, t-05, t-06, t-07 and 27 more"
    lines = plan_text(planned).splitlines()
    assert any(line.strip() == together for line in lines), plan_text(planned)
    assert any(line.strip() == "allow User:app read on group g" for line in lines)
    assert "allow User:app read on topic t-34" in plan_text(planned, Style(full=True))
    assert together in html.unescape(plan_markdown(planned).replace("\u200b", ""))
    page = html.unescape(plan_html(planned))
    assert f"<summary>{together}</summary>" in page
    assert page.count("allow User:app read on topic t-34</code>") == 1, "folded"


def test_many_grants_of_one_principal_are_reported_as_what_it_may_do() -> None:
    grants = [
        f"{{principal: 'User:app', clusters: [west], resource: topic, names: [t-{number}], operations: [read]}}"
        for number in range(4)
    ]
    text = f"clusters: {{west: {{bootstrap_servers: ['b:1']}}}}\naccess: [{', '.join(grants)}]\n"
    told = [line.strip() for line in plan_text(world("west").plan(load({"e.yaml": text}, "test"))).splitlines()]
    assert "+ User:app: 4 grants: 4 rules; declared in e.yaml:2:10 and 3 more" in told
    assert "allow User:app read on 4 topics: t-0, t-1, t-2, t-3" in told


def test_what_no_file_names_is_listed_by_drift_and_not_by_each_plan() -> None:
    quotas = "[{clusters: [west], user: app, producer_byte_rate: 1MiB}]"
    declared = load({"e.yaml": f"clusters: {{west: {{bootstrap_servers: ['b:1']}}}}\nquotas: {quotas}\n"}, "test")
    seen = world("west")
    seen.clusters["west"].quotas = {entity({"user": "stranger"}): {"request_percentage": 1.0}}
    planned = seen.plan(declared)
    assert {each.rule for each in planned.ignored} == {"quota-unmanaged"}
    for render in (plan_text, plan_markdown, plan_html):
        assert "quota-unmanaged" not in render(planned)
    assert "quota-unmanaged" in drift_text(planned)


def test_the_card_of_a_dangerous_restart_begins_with_its_cause() -> None:
    exact = flow("east", "west", "orders")
    before, after = (
        topology(topic("orders", partitions=1), each)
        for each in (exact, replace(exact, delivery=Delivery.AT_LEAST_ONCE))
    )
    seen = world()
    seen.apply(before)
    previous: dict[str, Any] = {"west": mirror_handover(before, before.mirrors["west"])}
    page = plan_html(seen.plan(after, previous=previous))
    [card] = re.findall('<article class="card">.*?</article>', page, re.DOTALL)
    [first, *_] = re.findall("<li>.*?</li>", card, re.DOTALL)
    assert 'delivery "exactly_once" -> "at_least_once"' in html.unescape(first)
    assert "fingerprint" not in card
