"""The survey of a move: how much of a lag is of records that a client can miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from reconciler.backends.clusters.groups import PartitionBounds
from reconciler.environment.load import load
from reconciler.errors import Unknown
from reconciler.kafka.client.cluster import CommittedPosition
from reconciler.model.reports.failover import (
    DrainedFlow,
    FailoverFacts,
    GroupMove,
    GroupOffset,
    GroupState,
    Key,
    KnownLag,
    Leg,
    Level,
    TranslatedPartition,
    Way,
)
from reconciler.operations.failover.charts import Chart, of_both, settled
from reconciler.operations.failover.decide import FailoverRequest, checks_of, move_of
from reconciler.operations.failover.survey import Survey, known_lag, stopping_conditions
from reconciler.replication.names import LAG_HOLDS_MS
from reconciler.replication.offsets.map import CopiedRun, Exactness, Gap, PartitionMap, Stretch, Translation
from reconciler.replication.status import ConditionCount, FlowStatus, LastLag, PartitionLag, ReportedCondition
from reconciler.resources.flows.routes import selector_of
from tests.support.builders import flow
from tests.support.documents.live_values import condition as told


@pytest.mark.parametrize(
    ("lag", "worst", "left"),
    [
        (None, (), None),
        (7, (), 7),
        (7, (PartitionLag("heartbeats", 0, 3, None),), 4),
        (7, (PartitionLag("orders", 0, 4, None), PartitionLag("heartbeats", 0, 3, None)), 4),
    ],
)
def test_the_last_known_lag_leaves_out_heartbeats(
    lag: int | None, worst: tuple[PartitionLag, ...], left: int | None
) -> None:
    told = FlowStatus("east-to-west", "", records_lag=lag, worst_partitions=worst)
    known = known_lag(told, 100_000, selector_of(flow("east", "west", "orders")), 112_000)
    assert (known and known.records) == left
    assert known is None or (known.at_ms, known.since_s) == (100_000 - LAG_HOLDS_MS, 32)


def test_a_lag_that_became_unknown_is_reported_as_last_known() -> None:
    """The source died, its ends are too old, and the job says how far behind it was before."""
    told = FlowStatus("east-to-west", "", records_lag=None, last_lag=LastLag(1_161, 1_000))
    assert known_lag(told, 100_000, selector_of(flow("east", "west", "orders")), 21_400) == KnownLag(1_161, 1_000, 21)


def test_what_may_be_lost_is_said_by_partition_and_what_was_never_known_apart() -> None:
    orders, beats = PartitionLag("orders", 3, 1_158, None), PartitionLag("heartbeats", 0, 3, None)
    told = FlowStatus("there", "", records_lag=None, last_lag=LastLag(1_161, 1_000, 2, (orders, beats)))
    known = known_lag(told, 100_000, selector_of(flow("us", "eu", "orders")), 21_400)
    assert known == KnownLag(1_158, 1_000, 21, 2, (orders,))
    move = move_of(load({"e.yaml": ENVIRONMENT}, "e"), Way.FAILOVER, "there")
    drained = DrainedFlow((), "running", lag=known)
    checks = checks_of(FailoverFacts(move, False, "no answer", drained, ()), FailoverRequest(unplanned=True))
    said = [check.text for check in checks if check.code == "loss"]
    assert "at most 1,158 records as of" in said[0]
    assert said[1:] == [
        "most of them in orders-3 1,158",
        "of 2 more partitions of there it was not known then: all that they hold may be lost; the conditions of the "
        "flow name them",
    ]


@pytest.mark.parametrize(
    ("lag", "words"),
    [
        (
            KnownLag(1_161, 1_000, 21),
            "at most 1,161 records as of 00:00:01 UTC on 1970-01-01, then 21 s of writes unknown",
        ),
        (None, "unknown; the mirror recorded no lag before the outage"),
    ],
)
def test_what_may_be_lost_is_said_with_its_time(lag: KnownLag | None, words: str) -> None:
    topology = load({"e.yaml": ENVIRONMENT}, "e")
    move = move_of(topology, Way.FAILOVER, "there")
    drained = DrainedFlow((), "running", lag=lag)
    checks = checks_of(FailoverFacts(move, False, "no answer", drained, ()), FailoverRequest(unplanned=True))
    assert f"records of us that may be lost: {words}" in [check.text for check in checks]


@pytest.mark.parametrize("counted", [True, False])
def test_conditions_that_the_status_record_only_counts_are_named_by_their_codes(counted: bool) -> None:
    def condition(code: str, *, stops: bool = True) -> ReportedCondition:
        return told(code, f"{code}: the text", stops=stops)

    counts = (("source_truncated", True, 1201), ("target_missing", True, 3), ("slow", False, 9), ("corrupt", True, 1))
    flow_status = FlowStatus(
        "f",
        "",
        conditions=(condition("source_truncated"), condition("corrupt"), condition("slow", stops=False)),
        condition_counts=tuple(ConditionCount(*each) for each in counts) if counted else (),
    )
    rest = (("1,203 more conditions that stop copying: source_truncated x1,200, target_missing x3", ""),)
    full = tuple((f"{each.code}: the text", each.todo) for each in flow_status.conditions[:2])
    assert stopping_conditions(flow_status) == (*full, *(rest if counted else ()))


ENVIRONMENT = """
clusters: {us: {bootstrap_servers: ["u:1"]}, eu: {bootstrap_servers: ["e:1"]}}
flows:
  there: {source: us, target: eu, topics: [orders]}
  back: {source: eu, target: us, topics: [orders]}
"""


class Destination:
    """What is left: its topics, and where its groups stand."""

    def partitions(self) -> Mapping[str, int]:
        return {"orders": 4, "us.orders": 4, "other": 1}

    def offsets(self, groups: Iterable[str]) -> Mapping[str, Mapping[Key, CommittedPosition]]:
        stand: dict[str, dict[Key, CommittedPosition]] = {
            "was here": {("orders", 0): CommittedPosition(5, "")},
            "never": {("us.orders", 0): CommittedPosition(5, "")},
        }
        return {name: stand[name] for name in groups if name in stand}


def test_what_no_checkpoint_shows_of_a_lost_origin_is_reported_with_its_groups() -> None:
    """Offsets on copies of the destination's own topics are only on the origin."""
    topology = load({"e.yaml": ENVIRONMENT}, "e")
    move = move_of(topology, Way.FAILOVER, "there")
    survey: Any = Survey(topology, move)
    survey.destination, survey.lost = Destination(), Unknown("cluster us", "no answer")
    groups = tuple(GroupMove(name, GroupState(), GroupState(), ()) for name in ("never", "was here"))
    found = survey._unmapped(groups)
    assert (found.topics, found.without) == (("orders",), ("never",))
    (check,) = (
        one
        for one in checks_of(
            FailoverFacts(move, False, "no answer", None, groups, unmapped=found), FailoverRequest(unplanned=True)
        )
        if one.code == "copies"
    )
    assert (check.level, "copies of orders on us" in check.text) == (Level.WARNS, True)
    assert check.text.endswith("by auto.offset.reset where they have never been: never")
    command = (
        "kafka-consumer-groups.sh --bootstrap-server e:1 --group GROUP --topic orders --reset-offsets --to-datetime"
    )
    assert command in check.todo


@pytest.mark.parametrize("known", [None, 100])
def test_a_partition_without_a_record_is_exact_but_for_an_offset_beyond_its_log(known: int | None) -> None:
    why = "offset 5000 is beyond the log of orders-0 on east, which ends at 100"
    empty = PartitionBounds(100, 100, 100)
    beyond = GroupOffset(("orders", 0), ("east.orders", 0), 5_000, "", TranslatedPartition(known, False, why), None)
    told = settled(beyond, empty, empty).translated
    assert (told.offset, told.exact, told.reason) == (100, False, why)
    within = GroupOffset(("orders", 0), ("east.orders", 0), 100, "", TranslatedPartition(known, False, why), None)
    assert settled(within, empty, empty).translated == TranslatedPartition(100, True)


@pytest.mark.parametrize("exact", [True, False])
def test_an_offset_beyond_the_destinations_log_becomes_its_beginning_with_why(exact: bool) -> None:
    """Nothing that a map says can be behind the end of the log that it is about (decision 264)."""
    named = GroupOffset(("orders", 0), ("east.orders", 0), 30, "", TranslatedPartition(10**15, exact), None)
    told = settled(named, PartitionBounds(0, 60, 60), PartitionBounds(7, 60, 60)).translated
    assert (told.offset, told.exact, told.end) == (7, False, 60)
    assert f"names offset {10**15} of east.orders-0, whose log ends at 60" in told.reason


@pytest.mark.parametrize("final", [True, False])
def test_between_two_flows_an_offset_beyond_the_log_is_not_called_behind(final: bool) -> None:
    """Of a topic that both clusters write under one name."""
    leg_out, leg_back = Leg("out", forward=True), Leg("back", forward=False)
    key, why = ("orders", 0), "offset 5000 is beyond the log"
    copied = PartitionMap([Stretch(0, 10, (CopiedRun(0, 0, 10),))])
    gap = None if final else Gap(10, 10, None, None)
    out = Chart(leg_out, {key: copied}, {key: 10}, {(key, 5_000): Translation(10, Exactness.EARLIER, why, gap)})
    back = Chart(leg_back, {key: copied}, {key: 20}, {(key, 5_000): Translation(10, Exactness.EARLIER, "late", gap)})
    offer = GroupOffset(key, key, 5_000, "", TranslatedPartition(10, False, why), None)
    (both,) = of_both([(back, offer), (out, offer)])
    assert (both.translated.exact, both.translated.reason == why) == (False, final)
