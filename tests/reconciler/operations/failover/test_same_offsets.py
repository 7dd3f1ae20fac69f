"""Moves along a flow that keeps offsets: each offset is its own translation, and both logs are compared before a way
back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from reconciler.backends.clusters.groups import GroupPosition, GroupsSeen, PartitionBounds
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.environment.flows import OffsetsKept
from reconciler.model.reports.failover import (
    FailoverFacts,
    GroupMove,
    GroupState,
    Key,
    Level,
    PartedPartition,
    Way,
)
from reconciler.operations.failover.decide import FailoverRequest, checks_of, move_of, written
from reconciler.operations.failover.diverged import exported, sides_of
from reconciler.operations.failover.survey import Survey
from reconciler.render.reports.failover import parted_text
from reconciler.replication.groups import GroupSelector
from reconciler.replication.mirrormaker_records import Checkpoint
from reconciler.replication.offsets.one_sided import WholeRecord
from tests.support.builders import flow, topology

FLOW = replace(flow("east", "west", "orders"), offsets=OffsetsKept.SAME)
ENVIRONMENT = topology(FLOW)
REMOTE = "east.orders"
IDLE = GroupState("consumer", "Empty", 0)


@dataclass
class Side:
    """A cluster with one topic. It has no offset map, and asking it for one is a fault."""

    topic: str
    ends: tuple[int, ...]
    offsets: dict[str, dict[Key, GroupPosition]] = field(default_factory=dict)
    last: tuple[Checkpoint, ...] = ()
    kind: str = "consumer"

    def partitions(self) -> Mapping[str, int]:
        return {self.topic: len(self.ends)}

    def bounds(self, keys: Iterable[Key]) -> Mapping[Key, PartitionBounds]:
        return {key: PartitionBounds(0, self.ends[key[1]], self.ends[key[1]]) for key in keys if key[0] == self.topic}

    def groups(self, _: GroupSelector) -> GroupsSeen:
        return GroupsSeen(dict.fromkeys(self.offsets, replace(IDLE, kind=self.kind)), self.offsets)

    def checkpoints(self, source: str, _: str) -> Mapping[tuple[str, str, int], Checkpoint]:
        assert source == "east"
        return {(told.group, told.topic, told.partition): told for told in self.last}


def survey(way: Way, east: Side, west: Side) -> Any:
    made: Any = Survey(ENVIRONMENT, move_of(ENVIRONMENT, way, FLOW.name))
    made.origin, made.destination = (east, west) if way is Way.FAILOVER else (west, east)
    return made


def moved(groups: tuple[GroupMove, ...]) -> dict[str, dict[Key, tuple[int | None, bool]]]:
    return {
        move.group: {o.destination: (o.translated.offset, o.translated.exact) for o in move.offsets} for move in groups
    }


@pytest.mark.parametrize(("way", "topics"), [(Way.FAILOVER, ("orders", REMOTE)), (Way.FAILBACK, (REMOTE, "orders"))])
def test_an_offset_is_its_own_translation_both_ways(way: Way, topics: tuple[str, str]) -> None:
    here, there = topics
    standing = {"g": {(here, 0): GroupPosition(4711, "m"), (here, 1): GroupPosition(90, "")}}
    sides = {here: Side(here, (5000, 100), standing), there: Side(there, (5000, 80))}
    groups, _ = survey(way, sides["orders"], sides[REMOTE]).groups()
    assert moved(groups) == {"g": {(there, 0): (4711, True), (there, 1): (80, False)}}
    assert groups[0].offsets[0].metadata == "m"


def test_of_a_share_group_all_behind_its_start_offset_may_be_delivered_again() -> None:
    standing = {"g": {("orders", 0): GroupPosition(30, "")}}
    made = survey(Way.FAILOVER, Side("orders", (45,), standing, kind="share"), Side(REMOTE, (45,)))
    (group,), _ = made.groups()
    done = written(group, {})
    assert [(offset.after, offset.again, offset.missed) for offset in done.offsets] == [(30, 15, 0)]
    assert (done.note, moved((done,))) == ("", {"g": {(REMOTE, 0): (30, False)}})
    assert made.exact_groups() == (group,), "nothing is waited for that does not come"


def test_a_flow_has_copied_as_far_as_its_copy_ends() -> None:
    found = survey(Way.FAILOVER, Side("orders", (50, 10)), Side(REMOTE, (45, 10))).partitions()
    assert [(each.target, each.position, each.left) for each in found] == [((REMOTE, 0), 45, 5), ((REMOTE, 1), 10, 0)]


def test_of_a_lost_source_the_last_checkpoints_count() -> None:
    last = (Checkpoint("g", REMOTE, 0, 30, 30, "m"), Checkpoint("g", "other", 0, 1, 1))
    made = survey(Way.FAILOVER, Side("orders", (0,)), Side(REMOTE, (45,), last=last))
    made.lost = Unknown("cluster east", "no answer")
    (group,), _ = made.groups()
    (offset,) = group.offsets
    assert (offset.translated.offset, offset.translated.end, offset.metadata) == (30, 45, "m")
    assert replace(offset, after=30).again == 15, "it may have read all that is there"


def checks(way: Way, *parted: PartedPartition, accept_loss: bool = False) -> dict[str, tuple[Level, str, str]]:
    facts = FailoverFacts(move_of(ENVIRONMENT, way, FLOW.name), True, "", None, (), same_offsets=True, parted=parted)
    told = checks_of(facts, FailoverRequest(accept_loss=accept_loss))
    return {check.code: (check.level, check.text, check.todo) for check in told}


def partition(
    at: int = 0, source_end: int = 0, target_end: int = 0, ours: int = 0, theirs: int = 0, unknown: str = ""
) -> PartedPartition:
    return PartedPartition(("orders", 0), (REMOTE, 0), at, source_end, target_end, ours, theirs, unknown)


def test_positions_outside_of_kafka_are_named_as_valid() -> None:
    level, text, _ = checks(Way.FAILOVER)["same-offsets"]
    assert (level, "databases" in text) == (Level.FINE, True)


def test_a_way_back_with_records_on_both_sides_is_stopped_with_exact_offsets_and_counts() -> None:
    level, text, todo = checks(Way.FAILBACK, partition(4711, 4723, 5211, 12, 480))["diverged"]
    assert level is Level.STOPS
    assert (
        "12 records of east were never copied: orders-0 from 4,711 on (12 on east up to 4,723, 480 on west up to 5,211)"
        in text
    )
    assert f"reconciler diverged export ENV {FLOW.name} --to-file" in todo
    assert checks(Way.FAILBACK, partition(4711, 4723, 5211, 12, 480), accept_loss=True)["diverged"][0] is Level.WARNS


def test_an_old_source_that_only_lacks_records_can_be_filled() -> None:
    told = checks(Way.FAILBACK, partition(4711, 4711, 5211, 0, 500))
    assert "diverged" not in told
    assert told["not-filled"][0] is Level.STOPS
    assert "lacks 500 records" in told["not-filled"][1]


def test_what_only_waits_to_be_copied_stops_nobody() -> None:
    assert checks(Way.FAILBACK, partition(10, 12, 10, 2, 0))["not-copied"][0] is Level.WARNS


def test_what_nobody_can_tell_is_unknown() -> None:
    assert "no answer" in checks(Way.FAILBACK, partition(unknown="no answer"))["parted-unknown"][1]


def test_a_translated_flow_tells_nothing_of_it() -> None:
    facts = FailoverFacts(move_of(ENVIRONMENT, Way.FAILOVER, FLOW.name), True, "", None, ())
    assert not [check for check in checks_of(facts, FailoverRequest()) if check.code == "same-offsets"]


def test_only_flows_that_keep_offsets_can_diverge() -> None:
    plain = topology(flow("east", "west", "orders"))
    with pytest.raises(ReconcilerError, match="does not keep offsets"):
        sides_of(plain, "east-to-west")


def test_a_record_is_exported_whole() -> None:
    record = WholeRecord(7, 1_700_000_000_000, None, b"\xff", ((b"h", None), (b"i", b"j")))
    assert exported("east", ("orders", 3), record) == {
        "cluster": "east",
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": 1_700_000_000_000,
        "key": None,
        "value": "/w==",
        "headers": [["h", None], ["i", "ag=="]],
    }


def test_the_list_says_what_each_side_has_alone() -> None:
    rows = (partition(4711, 4723, 5211, 12, 480), partition(10, 12, 10, 2, 0), partition(unknown="no answer"))
    text = parted_text("f", ("east", "west"), rows, 9)
    assert text.startswith(
        "Flow f, 9 partitions: 1 diverged, 1 unknown, 1 where one side goes on; the others are the same"
    )
    assert [line.split()[-1] for line in text.splitlines()[3:]] == ["diverged", "behind", "answer"]
    assert parted_text("f", ("east", "west"), (), 9).startswith("The same: 9 partitions of flow f")
