"""Only dangerous changes are asked about, only so many, and what is not known blocks nothing."""

from __future__ import annotations

from dataclasses import replace

from reconciler.engine.plan.impact import MOST, about, empty_then, filled, questions, weighed
from reconciler.model.changes import Risk
from reconciler.model.environment.topology import Tombstone, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import ImpactQuery, Plan, ReadingGroup, Stakes
from reconciler.render.plan.impact import size, stakes_lines
from tests.support.builders import flow, topic, topology, world


def lowered(count: int) -> tuple[Topology, Plan, LiveState]:
    seen = world("east")
    names = [f"t{number:03}" for number in range(count)]
    for name in names:
        seen.clusters["east"].put(name, 2, retention_ms="9000")
    wished = topology(*(topic(name, configs={"retention.ms": "60"}) for name in names))
    return wished, seen.plan(wished), seen.look(wished)


def test_what_is_dangerous_is_asked_about_with_the_retention_it_gets() -> None:
    seen = world("east", "west")
    for name in ("small", "grown", "old", "same"):
        seen.clusters["east"].put(name, 2, retention_ms="9000")
    wished = topology(
        topic("small", configs={"retention.ms": "60"}),
        topic("grown", partitions=4),
        topic("same", configs={"retention.ms": "90000"}),
        topic("new", partitions=1),
        flow("east", "west", "grown"),
    )
    old = seen.clusters["east"].topics["old"]
    wished = replace(wished, deletions=(Tombstone("east", "old", old.topic_id, "moved", "2099-01-01"),))
    made = seen.plan(wished)
    assert questions(made, seen.look(wished)) == {
        TopicRef("east", name): query
        for name, query in {
            "small": ImpactQuery("small", 2, 60),
            "old": ImpactQuery("old", 2),
            "grown": ImpactQuery("grown", 2),
        }.items()
    }
    told = {one.id: one.stakes for one in weighed(made, wished, {}).changes}
    assert told["partitions:east/grown"] == Stakes(flows=("east-to-west",))
    assert told["create:east/new"] is None


def test_what_expires_is_reported_of_the_retention_and_not_of_what_else_happens_to_the_topic() -> None:
    seen = world("east")
    seen.clusters["east"].put("both", 2, retention_ms="9000")
    wished = topology(topic("both", partitions=4, configs={"retention.ms": "60"}))
    made = seen.plan(wished)
    assert questions(made, seen.look(wished)) == {TopicRef("east", "both"): ImpactQuery("both", 2, 60)}
    told = {TopicRef("east", "both"): Stakes(1 << 20, 40, 30)}
    found = {one.id: stakes_lines([one.stakes]) for one in weighed(made, wished, told).changes}
    assert any("30 of these are past the new limit" in line for line in found["configs:east/both"])
    assert not any("past the new limit" in line for line in found["partitions:east/both"])


def test_a_plan_without_danger_asks_nothing() -> None:
    seen, wished = world("east"), topology(topic("new", partitions=1))
    assert questions(seen.plan(wished), seen.look(wished)) == {}


def test_it_is_capped_and_says_so() -> None:
    wished, made, live = lowered(MOST + 5)
    assert len(questions(made, live)) == MOST
    found = weighed(made, wished, {})
    assert sum(one.stakes is not None for one in found.changes) == MOST
    assert f"what is at stake was read for the first {MOST} of {MOST + 5} dangerous changes" in found.notes


def test_a_topic_without_records_has_none_to_lose() -> None:
    seen = world("east")
    for name in ("empty", "full", "risky", "keyed", "gone"):
        seen.clusters["east"].put(name, 2, retention_ms="9000")
    shorter = {"retention.ms": "60"}
    wished = topology(
        topic("empty", configs=shorter),
        topic("full", configs=shorter),
        topic("risky", configs={**shorter, "unclean.leader.election.enable": "true"}),
        topic("keyed", partitions=4, labels={"keyed": "true"}),
    )
    gone = seen.clusters["east"].topics["gone"]
    wished = replace(wished, deletions=(Tombstone("east", "gone", gone.topic_id, "moved", "2099-01-01"),))
    told = {TopicRef("east", name): Stakes(records=0) for name in ("empty", "risky", "keyed", "gone")}
    told[TopicRef("east", "full")] = Stakes(records=1)
    found = {one.id.split("/")[1]: one for one in weighed(seen.plan(wished), wished, told).changes}
    assert {name: one.risk for name, one in found.items()} == {
        "empty": Risk.MEDIUM,
        "full": Risk.HIGH,
        "risky": Risk.HIGH,
        "keyed": Risk.MEDIUM,
        "gone": Risk.HIGH,
    }
    assert found["empty"].risk_why.startswith("it holds no record now; retention.ms")
    assert found["empty"].reversibility == "reversible while no one has written to it"
    assert found["keyed"].reversibility.startswith("irreversible")


def test_what_is_not_known_is_reported_and_blocks_nothing() -> None:
    wished, made, _ = lowered(1)
    found = weighed(made, wished, {TopicRef("east", "t000"): Stakes(unknown=("its bytes: not allowed",))})
    assert (found.unknown, found.refused, found.exit_code) == ((), (), made.exit_code)
    assert "not known: its bytes: not allowed" in stakes_lines([found.changes[0].stakes])


def test_equal_changes_are_added_up_and_one_unknown_makes_no_sum() -> None:
    one = Stakes(1 << 30, 10, 5, (ReadingGroup("g", "Stable", 2, 7),))
    assert stakes_lines([one, one])[:2] == (
        "holds at most 20 records, 2.0 GiB on disk, all replicas",
        "at most 10 of these are past the new limit and are deleted at once, about 1.0 GiB",
    )
    assert stakes_lines([one, one, replace(one, readers=())])[2] == "read by g (2 members, 14 behind)"
    assert stakes_lines([one, Stakes()]) == ("read by g (2 members, 7 behind)",)
    assert stakes_lines([None]) == ()


def test_sizes_for_people() -> None:
    assert [size(n) for n in (0, 1023, 1024, 150 << 20, 5 << 40)] == ["0 B", "1023 B", "1.0 KiB", "150 MiB", "5.0 TiB"]


def test_a_topic_that_was_empty_is_asked_again_before_its_saved_plan_is_applied() -> None:
    """On nothing, a lowered retention is of medium risk; by the time of the apply that may be untrue."""
    wished, made, live = lowered(3)
    refs = [TopicRef("east", f"t{number:03}") for number in range(3)]
    made = weighed(made, wished, {refs[0]: Stakes(0, 0), refs[1]: Stakes(0, 0), refs[2]: Stakes(9, 9)})
    assert about(empty_then(made), live) == {ref: ImpactQuery(ref.name, 2) for ref in refs[:2]}
    now = {refs[0]: Stakes(0, 0), refs[1]: Stakes(1 << 20, 1_234)}
    assert [str(one) for one in filled(made, now)] == ["records of east/t001: was none, is at most 1,234"]
    dark = filled(made, {refs[0]: Stakes(unknown=("records: no answer",))})
    assert [str(one) for one in dark] == ["records of east/t000: was none, is not known (records: no answer)"]
    assert not filled(made, {refs[0]: Stakes(0, 0)})


def test_where_nothing_was_called_empty_no_one_is_asked_again() -> None:
    wished, made, live = lowered(1)
    assert live.topic(TopicRef("east", "t000")) is not None
    assert empty_then(made) == []
    assert empty_then(weighed(made, wished, {TopicRef("east", "t000"): Stakes(9, 9)})) == []
