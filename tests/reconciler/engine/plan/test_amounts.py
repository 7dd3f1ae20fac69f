"""Amounts that a plan copies, loses and moves: one unknown part makes the sum unknown, never zero."""

from __future__ import annotations

from dataclasses import replace

from reconciler.engine.plan.amounts import (
    Amount,
    AmountKind,
    amounts,
    beginning_to_travel,
)
from reconciler.engine.plan.impact import about, weighed
from reconciler.model.environment.topology import Tombstone, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import Basis, ImpactQuery, Plan, Stakes
from reconciler.render.plan.impact import amounts_lines, amounts_section, amounts_sentence
from reconciler.render.plan.markdown import plan_markdown
from reconciler.render.plan.sections import AboutPlan
from reconciler.render.plan.text import plan_text
from reconciler.resources.flows.routes import TopicHop
from tests.support.builders import World, flow, topic, topology, world
from tests.support.documents.maps import copying, running
from tests.support.documents.pages import words


def widened() -> tuple[World, Topology]:
    """A flow that carries ``orders`` and from now on two more, which are there, and one that is not."""
    seen = world("east", "west")
    for name in ("orders", "pay.in", "pay.out"):
        seen.clusters["east"].put(name, 2, 1)
    seen.apply(topology(topic("orders", "east", partitions=2), flow("east", "west", "orders")))
    return seen, topology(
        topic("orders", "east", partitions=2),
        topic("pay.new", "east", partitions=1),
        flow("east", "west", "orders", r"pay\..*"),
    )


def looked(seen: World, declared: Topology) -> tuple[Plan, LiveState, tuple[TopicHop, ...]]:
    live = seen.look(declared)
    made = seen.plan(declared)
    return made, live, beginning_to_travel(made, declared, live)


def test_what_begins_to_travel_is_asked_about_at_its_source() -> None:
    made, live, travelling = looked(*widened())
    assert [str(hop.source) for hop in travelling] == ["east/pay.in", "east/pay.out"]
    assert list(about([hop.source for hop in travelling], live).values()) == [
        ImpactQuery("pay.in", 2),
        ImpactQuery("pay.out", 2),
    ]
    assert made.changes


def test_one_copy_travels_and_takes_as_long_as_the_flow_copies_now() -> None:
    made, live, travelling = looked(*widened())
    stakes = {
        TopicRef("east", "pay.in"): Stakes(bytes=4_000, records=40),
        TopicRef("east", "pay.out"): Stakes(bytes=6_000, records=2),
    }
    job = running("west", copying("east-to-west", bytes_per_second=100.0))
    moving = LiveState(live.clusters, {"west": job})
    assert amounts(made, travelling, stakes, moving) == (Amount(AmountKind.COPY, "east-to-west", 2, 42, 10_000, 100.0),)
    quiet = LiveState(live.clusters, {"west": running("west", copying("east-to-west"))})
    [amount] = amounts(made, travelling, stakes, quiet)
    assert amount.seconds is None
    late = LiveState(live.clusters, {"west": replace(job, late_ms=60_000)})
    assert amounts(made, travelling, stakes, late)[0].seconds is None


def test_a_topic_whose_size_no_one_reported_makes_the_sum_unknown() -> None:
    made, live, travelling = looked(*widened())
    some = {TopicRef("east", "pay.in"): Stakes(bytes=4_000, records=40)}
    assert amounts(made, travelling, some, live) == (Amount(AmountKind.COPY, "east-to-west", 2),)
    assert amounts_sentence(amounts(made, travelling, some, live)) == "to copy: unknown, of 2 topics over 1 flow"


def test_replicas_are_stored_and_not_copied() -> None:
    seen, declared = world("east", "west", brokers=3), widened()[1]
    seen.clusters["east"].put("pay.in", 1, 3)
    made, live, travelling = looked(seen, declared)
    [amount] = amounts(made, travelling, {TopicRef("east", "pay.in"): Stakes(bytes=9_000, records=1)}, live)
    assert amount.bytes == 3_000


def test_what_is_deleted_or_expires_is_lost() -> None:
    seen = world("east")
    for name in ("old", "orders"):
        seen.clusters["east"].put(name, 1, retention_ms="9000")
    old = seen.clusters["east"].topics["old"]
    declared = replace(
        topology(topic("orders", configs={"retention.ms": "60"})),
        deletions=(Tombstone("east", "old", old.topic_id, "moved", "2099-01-01"),),
    )
    stakes = {
        TopicRef("east", "old"): Stakes(bytes=1_000, records=10),
        TopicRef("east", "orders"): Stakes(bytes=2_000, records=20, expiring=5),
    }
    live = seen.look(declared)
    made = weighed(seen.plan(declared), declared, stakes)
    assert amounts(made, (), {}, live) == (Amount(AmountKind.LOSE, "east", 2, 15, 1_500),)
    assert amounts(seen.plan(declared), (), {}, live) == (Amount(AmountKind.LOSE, "east", 2),)


def test_the_page_has_a_line_for_each_and_one_sentence() -> None:
    section = "".join(
        amounts_section(
            (
                Amount(AmountKind.COPY, "f", 12, 1_000, 3 << 30, 7_200.0),
                Amount(AmountKind.COPY, "<g>", 1, 0, 0, 0.0),
                Amount(AmountKind.LOSE, "east", 1, None, None),
                Amount(AmountKind.MOVE, "west", 2, None, 1 << 20, 10.0),
            )
        )
    )
    told = words(section)
    assert "to copy: at most 3.0 GiB, of 13 topics over 2 flows; to lose: unknown, of 1 topic on 1 cluster;" in told
    assert "to move: at most 1.0 MiB, of 2 topics on 1 cluster" in told
    assert "to copyflow f12at most 1,000at most 3.0 GiBabout 2.0 h" in told
    assert "to losecluster east1unknownunknownat once" in told
    assert "<g>" not in section
    assert list(amounts_section(())) == []


def test_what_is_known_to_be_nothing_is_never_unknown_in_any_format() -> None:
    """A topic without a byte has no record, and one without an offset none either, whatever else was not read."""
    for kind in (AmountKind.COPY, AmountKind.AGAIN):
        for none in (Amount(kind, "all", 19, None, 0, 0.0), Amount(kind, "all", 19, 0, None, None)):
            [line] = amounts_lines((none,))
            page, plan = words("".join(amounts_section((none,)))), Plan(Basis("shop", "0"))
            assert line == f"flow all {kind}: 19 topics, no record"
            assert amounts_sentence((none,)).startswith("to copy: nothing, ")
            assert f"{kind}flow all19nonenothingnone" in page
            assert line in plan_text(plan, about=AboutPlan(amounts=(none,)))
            assert line in plan_markdown(plan, about=AboutPlan(amounts=(none,)))
            assert "unknown" not in page
    unknown = Amount(AmountKind.COPY, "all", 19, None, None, None)
    assert amounts_lines((unknown,)) == ("flow all to copy: 19 topics, records unknown, bytes unknown, time unknown",)
    assert "to copyflow all19unknownunknownunknown" in words("".join(amounts_section((unknown,))))


def test_a_plan_that_makes_nothing_new_asks_nothing() -> None:
    seen, declared = widened()
    seen.apply(declared)
    assert looked(seen, declared)[2] == ()


def test_text_and_comment_have_it_below_the_headline_and_for_each_flow() -> None:
    told = (
        Amount(AmountKind.COPY, "f", 2, 20_000, 20 << 20, 4.0),
        Amount(AmountKind.COPY, "quiet", 1, 0, 0, 0.0),
        Amount(AmountKind.LOSE, "east", 1),
        Amount(AmountKind.MOVE, "west", 2, None, 1 << 20, None),
    )
    assert amounts_lines(told) == (
        "flow f to copy: 2 topics, at most 20,000 records, at most 20.0 MiB, about 4 s",
        "flow quiet to copy: 1 topic, no record",
        "cluster east to lose: 1 topic, records unknown, bytes unknown, at once",
        "cluster west to move: 2 topics, all of their records, at most 1.0 MiB, time unknown",
    )
    plan = Plan(Basis("shop", "0"))
    lines = plan_text(plan, about=AboutPlan(amounts=told)).splitlines()
    assert lines[1] == amounts_sentence(told)
    assert f"  {amounts_lines(told)[0]}" in lines
    assert "How much" not in plan_text(plan)
    comment = plan_markdown(plan, about=AboutPlan(amounts=told))
    assert "How much (4): to copy: at most 20.0 MiB, of 3 topics over 2 flows" in comment
    assert amounts_lines(told)[0] in comment
    assert "How much" not in plan_markdown(plan)
