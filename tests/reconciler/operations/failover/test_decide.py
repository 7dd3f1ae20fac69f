"""Failover as decisions: its flows, what stops it, the offsets to set, its warnings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.clusters.groups import GroupsSeen, PartitionBounds
from reconciler.errors import ExitCode, ReconcilerError, Unknown
from reconciler.kafka.client.cluster import CommittedPosition
from reconciler.model.environment.flow_settings import Carry, OffsetsKept
from reconciler.model.environment.topology import Topology
from reconciler.model.options import KeepDiverged
from reconciler.model.reports.failover import (
    CopiesSeen,
    DrainedFlow,
    FailoverFacts,
    FailoverStep,
    FenceSeen,
    GroupMove,
    GroupOffset,
    GroupState,
    Key,
    Level,
    PartedPartition,
    PartitionState,
    Report,
    StepResult,
    TranslatedPartition,
    Way,
)
from reconciler.model.schemas import schema as schema_of
from reconciler.operations.cutover.decide import of_failover
from reconciler.operations.failover import run
from reconciler.operations.failover.decide import FailoverRequest, checks_of, move_of, ours, pause_reason, started_by
from reconciler.operations.failover.diverged import exported, sides_of
from reconciler.operations.failover.fence import Fence, written_by_mirrors
from reconciler.operations.failover.group_offsets import due, least, offsets_planned, written
from reconciler.operations.failover.run import FailoverOptions, exit_code
from reconciler.operations.failover.steps import Switch
from reconciler.operations.failover.survey import Survey
from reconciler.render.markup import Format
from reconciler.render.reports.failover import failover_json, failover_markdown, failover_text, parted_text
from reconciler.replication.groups import GroupSelector
from reconciler.replication.handover import Naming
from reconciler.replication.mirrormaker_records import Checkpoint
from reconciler.replication.offsets.parting import WholeRecord
from reconciler.replication.offsets.position_metadata import PositionMark
from reconciler.resources.acls.derive_from_flows import denial
from tests.support.builders import flow, topology

THERE, BACK = flow("east", "west", "orders"), flow("west", "east", "orders")
BOTH = topology(THERE, BACK)
MOVE = move_of(BOTH, Way.FAILOVER, "east-to-west")
RUNNING = DrainedFlow((PartitionState(("orders", 0), ("east.orders", 0), 100, 100, 100),), "running")
IDLE = GroupState("classic", "Empty", 0)


def offset(translated: int | None, before: int | None, *, exact: bool = True, partition: int = 0) -> GroupOffset:
    key = ("orders", partition), ("east.orders", partition)
    return GroupOffset(*key, 50, "", TranslatedPartition(translated, exact, "" if exact else "a gap", 100), before)


def group(*offsets: GroupOffset, state: str = "Empty", origin: int = 0) -> GroupMove:
    there = GroupState("classic", state, int(state == "Stable"))
    return GroupMove("billing", replace(IDLE, members=origin), there, offsets)


def seen(**changes: object) -> FailoverFacts:
    return replace(FailoverFacts(MOVE, True, "", RUNNING, (group(offset(60, 40)),)), **changes)  # type: ignore[arg-type]


def levels(one: FailoverFacts, request: FailoverRequest | None = None) -> dict[str, Level]:
    return {check.code: check.level for check in checks_of(one, request or FailoverRequest())}


def test_failback_is_the_same_move_the_other_way() -> None:
    back = move_of(BOTH, Way.FAILBACK, "east-to-west")
    assert (MOVE.origin, MOVE.destination, MOVE.drained, MOVE.started) == (
        "east",
        "west",
        "east-to-west",
        "west-to-east",
    )
    assert (back.origin, back.destination, back.drained, back.started) == (
        "west",
        "east",
        "west-to-east",
        "east-to-west",
    )
    assert {(leg.flow, leg.forward) for leg in back.legs} == {("east-to-west", False), ("west-to-east", True)}


def test_without_a_way_back_it_is_said_and_nothing_is_started() -> None:
    alone = move_of(topology(THERE), Way.FAILOVER, "east-to-west")
    assert (alone.started, len(alone.legs)) == ("", 1)
    assert levels(seen(move=alone))["way-back"] is Level.WARNS
    back = move_of(topology(THERE), Way.FAILBACK, "east-to-west")
    assert (back.drained, back.started) == ("", "east-to-west")


def test_a_flow_that_is_not_declared() -> None:
    with pytest.raises(ReconcilerError, match="no flow nowhere"):
        move_of(BOTH, Way.FAILOVER, "nowhere")


def test_a_pause_has_its_maker_and_the_flow_it_started() -> None:
    assert ours(pause_reason(MOVE, ""))
    assert not ours("maintenance")
    assert started_by(pause_reason(MOVE, "west-to-east"), "west-to-east")
    assert not started_by(pause_reason(MOVE, ""), "west-to-east")


def test_a_partition_whose_end_is_unknown_does_not_count_as_copied() -> None:
    """Its leader is away: the drain would end at once, and its records would be left behind unseen."""
    flow = replace(RUNNING, partitions=(PartitionState(("orders", 0), ("east.orders", 0), 100),))
    assert levels(seen(flow=flow))["lag"] is Level.STOPS
    assert levels(seen(flow=flow), FailoverRequest(accept_loss=True))["lag"] is Level.WARNS
    survey = SimpleNamespace(partitions=lambda: flow.partitions, positions=lambda _: {("east.orders", 0): 100})
    switch: Any = SimpleNamespace(move=MOVE, request=FailoverRequest(), survey=survey, _say_now=print)
    with pytest.raises(ReconcilerError, match="whether east-to-west has copied orders-0 is not known"):
        Switch._drain(switch, seen(flow=flow))


def test_a_lost_origin_stops_it_until_that_is_agreed() -> None:
    lost = seen(reachable=False, unreachable_because="no route to host")
    assert levels(lost)["origin"] is Level.STOPS
    agreed = levels(lost, FailoverRequest(unplanned=True))
    assert agreed["origin"] is Level.WARNS
    assert agreed["loss"] is Level.WARNS
    assert Level.STOPS not in agreed.values()


def test_what_was_unread_at_a_checkpoint_is_called_so_with_when_that_was() -> None:
    by_checkpoint = replace(offset(60, 40), translated=TranslatedPartition(60, False, "", 60 + 458_260))
    lost = seen(
        reachable=False,
        flow=replace(RUNNING, groups_read_ms=1_768_000_000_000),
        groups=(written(group(by_checkpoint), {}),),
        unreachable_because="no answer",
    )
    checks = checks_of(lost, FailoverRequest(unplanned=True))
    text = failover_text(Report("e", lost, checks, (FailoverStep("offsets", StepResult.PLANNED, ""),), dry=True))
    assert "by their last checkpoints, 458,260 records unread there, 0 missed; what they read since then is" in text
    assert "groups of east were read last at 2026-01-09 23:06:40 UTC: what they have read since then they read" in text
    assert not re.search(r"at most|<=", text)
    assert "unread" in next(line for line in text.splitlines() if line.startswith("group ")).split()
    assert "reconciler failover ENV east-to-west --fence" in text
    unknown = checks_of(replace(lost, flow=RUNNING), FailoverRequest(unplanned=True))
    assert any("when the mirror read groups of east last is not known" in check.text for check in unknown)


def test_a_fence_that_cannot_be_stops_only_who_asked_for_it() -> None:
    cannot = seen(fence=FenceSeen(obstacle="east has no authorizer"))
    assert levels(cannot, FailoverRequest(fence=True))["fence"] is Level.STOPS
    assert levels(cannot)["fence"] is Level.WARNS
    assert "fence" not in levels(seen())


def test_rules_that_a_failover_cannot_lift_are_reported() -> None:
    mine = denial("east.orders", "User:app")
    assert not {"read-only", "read-only-unknown"} & levels(seen(copies=CopiesSeen(True, frozenset({mine})))).keys()
    others = seen(copies=CopiesSeen(True, others=frozenset({mine})))
    assert levels(others)["read-only"] is Level.WARNS
    unknown = seen(copies=CopiesSeen(True, obstacle="may not read them"))
    assert levels(unknown)["read-only-unknown"] is Level.WARNS
    stops = [check for check in of_failover(checks_of(unknown, FailoverRequest()), "f", some=False) if check.todo]
    assert [(check.code, check.level) for check in stops] == [("read-only-unknown", Level.STOPS)]


def test_a_rule_for_everyone_is_not_made_where_a_mirror_writes() -> None:
    assert written_by_mirrors(BOTH, "east", ["orders"]) == {}, "its copies have other names"
    same = [replace(one, naming=Naming("identity")) for one in (THERE, BACK)]
    assert written_by_mirrors(topology(*same), "east", ["orders"]) == {"orders": "west-to-east"}
    assert written_by_mirrors(BOTH, "east", ["orders", "west.orders"]) == {"west.orders": "west-to-east"}


def test_a_fence_leaves_out_what_a_third_cluster_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its mirror writes it, which has to go on."""
    monkeypatch.setattr(Fence, "rules", lambda _: frozenset())
    monkeypatch.setattr(Fence, "made", lambda _: frozenset())
    hub = topology(flow("east", "west", ".*"), flow("north", "east", "orders"))
    seen_there = Fence(hub, "east-to-west").look({"orders", "north.orders"})
    assert seen_there == FenceSeen(missing=frozenset({denial("orders")}))


@pytest.mark.parametrize("paused", [True, False])
def test_records_that_no_flow_copies_stop_it_until_the_user_agrees(paused: bool) -> None:
    behind = replace(RUNNING.partitions[0], position=90)  # type: ignore[index]
    stuck = replace(RUNNING, partitions=(behind,), job="running" if paused else "stopped")
    stuck = replace(stuck, paused_by="ann", pause_reason="maintenance") if paused else stuck
    assert levels(seen(flow=stuck))["lag"] is Level.STOPS
    assert levels(seen(flow=stuck), FailoverRequest(accept_loss=True))["lag"] is Level.WARNS
    again = replace(stuck, paused_by="ann", pause_reason=pause_reason(MOVE, ""))
    assert levels(seen(flow=again))["lag"] is Level.WARNS, "an earlier failover paused it: it continues from there"


def test_warnings_are_reported() -> None:
    open_ones = replace(RUNNING, partitions=(replace(RUNNING.partitions[0], written=120),))  # type: ignore[index]
    assert levels(seen(flow=open_ones))["transactions"] is Level.WARNS
    stuck = replace(RUNNING, conditions=(("a stuck partition", "free it"),))
    assert levels(seen(flow=stuck))["condition"] is Level.WARNS
    assert levels(seen(flow=replace(RUNNING, partitions=Unknown("x", "no answer"))))["positions"] is Level.STOPS
    assert levels(seen(groups=(group(offset(1, 1), origin=2),)))["members-origin"] is Level.WARNS
    assert levels(seen(groups=(group(offset(1, 1), state="Stable"),)))["members-destination"] is Level.WARNS
    assert levels(seen(unsupported={"s": "is a share group"}))["unsupported"] is Level.WARNS
    assert levels(seen(groups=()))["groups"] is Level.WARNS


@given(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9)), st.sampled_from(["Empty", "Stable", ""]))
def test_offsets_are_never_set_back_or_under_members(wanted: int, before: int | None, state: str) -> None:
    moved = written(group(offset(wanted, before), state=state), {})
    (one,) = moved.offsets
    if state == "Stable":
        assert one.after == before
        assert bool(moved.note) == (before != wanted)
    else:
        assert one.after == max(wanted, before or 0)
        assert bool(moved.note) == (before is not None and before > wanted)
    if not moved.note:
        assert (one.again, one.missed) == (0, 0)


def test_a_third_cluster_that_writes_the_same_topics_is_warned_of() -> None:
    names = [("east", "west"), ("west", "east"), ("north", "west"), ("north", "east")]
    mesh = [replace(flow(*pair, "orders"), provenance=Carry.LOCAL) for pair in names]
    note = move_of(topology(*mesh), Way.FAILOVER, "east-to-west").note
    assert note.startswith("north may write to the same topics")
    assert not move_of(topology(*mesh[:2]), Way.FAILOVER, "east-to-west").note


def test_what_was_refused_stays_as_it_was() -> None:
    mine = group(offset(60, 40), offset(7, None, partition=1))
    assert {one.destination for one in due((mine,))["billing"]} == {("east.orders", 0), ("east.orders", 1)}
    moved = written(mine, {("east.orders", 0): "TOPIC_AUTHORIZATION_FAILED (29)"})
    assert [one.after for one in moved.offsets] == [40, 7]
    assert "29" in moved.note
    assert moved.offsets[0].again == 20


def test_an_inexact_offset_bounds_what_is_read_again() -> None:
    (one,) = written(group(offset(60, 40, exact=False)), {}).offsets
    assert (one.after, one.again, one.missed) == (60, 40, 0)


def test_counted_records_are_reported_instead_of_offsets() -> None:
    mine = offset(60, 64)
    mine = replace(mine, translated=replace(mine.translated, between=0))
    moved = written(group(mine), {})
    assert (moved.offsets[0].after, moved.offsets[0].missed, moved.note) == (64, 0, "")


def test_two_topics_that_lead_to_one_take_the_earlier_offset() -> None:
    assert [one.translated.offset for one in least((offset(9, 1), offset(4, 1)))] == [4]


def test_a_step_that_can_set_nothing_does_not_say_that_all_is_set() -> None:
    stands, ahead, due_now = (
        written(group(offset(60, 60)), {}),
        written(group(offset(60, 90)), {}),
        group(offset(60, 40)),
    )
    assert offsets_planned([stands], "west") == FailoverStep("offsets", StepResult.ALREADY, "all offsets are set")
    text = "no offset can be set; 1 group not as they should be: billing (it was further there already: it has read "
    assert (
        offsets_planned([stands, ahead], "west").text == f"{text}there, or was set ahead; offsets are never set back)"
    )
    assert offsets_planned([ahead, due_now], "west").text == "set 1 offset of 1 group on west"


def test_a_run_that_finds_nothing_to_do_ends_as_the_run_that_did_it() -> None:
    steps = (offsets_planned([written(group(offset(60, 90)), {})], "west"),)
    now = seen(groups=(written(group(offset(60, 90)), {}),))
    done = Report("test", now, (), steps, dry=False, left_behind=0)
    assert (exit_code(done), exit_code(replace(done, dry=True))) == (ExitCode.PARTIAL, ExitCode.DONE)
    assert "dry run" not in failover_text(done)


def test_a_group_that_reads_at_the_destination_is_not_said_to_be_moved() -> None:
    moved, alone = written(group(offset(60, 60)), {}), written(group(offset(60, None), state="Stable"), {})
    steps = (FailoverStep("pause", StepResult.DONE, "paused", 1.0),)
    report = Report("test", seen(groups=(moved, alone)), (), steps, dry=False, left_behind=0)
    verdict = failover_text(report).splitlines()[0]
    assert verdict == (
        "Moved 1 group from east to west: 0 records read again, 0 missed; 1 group left alone, with members on west"
    )


def test_what_a_group_that_went_on_at_the_destination_has_missed_is_a_bound() -> None:
    """After a failover without the origin it read on there: nothing of that is missed, and nobody can tell."""
    steps = (FailoverStep("pause", StepResult.DONE, "paused", 1.0),)
    report = Report("test", seen(groups=(written(group(offset(60, 90)), {}),)), (), steps, dry=False, left_behind=0)
    text = failover_text(report)
    assert text.startswith("Moved 1 group from east to west: 0 records read again, at most 30 missed\n")
    assert re.search(r"billing +0 +0 +1 +0 +<= 30 +it was further there already: it has read there, or was set", text)


@pytest.mark.parametrize("dry", [True, False])
def test_all_formats_say_the_same(dry: bool) -> None:
    groups = (written(group(offset(60, 70), state="Stable", origin=1), {}),)
    steps = tuple(
        FailoverStep(name, StepResult.DONE, f"{name} it", 1.0) for name in ("drain", "pause", "offsets", "start")
    )
    now = seen(groups=groups)
    report = Report("test", now, checks_of(now, FailoverRequest()), steps, dry, None if dry else 3, 4.0)
    document = json.loads(failover_json(report, 5))
    schema = schema_of("failover")
    jsonschema.validate(document, schema)
    text, page = failover_text(report), failover_markdown(report)
    for words in (text, page):
        assert document["verdict"] in words
        assert all(check["text"] in words for check in document["checks"])
        assert all(step["text"] in words for step in document["steps"])
        assert "it has members there" in words
        assert all(check["todo"] in words for check in document["checks"])
    assert ("not copied: 3 offsets written on east since" in text) is not dry
    todo = [check["todo"] for check in document["checks"] if check["todo"]]
    assert todo
    assert {" " * 8 + line for line in todo} <= set(text.splitlines()), "each remedy has a line of its own"


def test_a_comment_says_how_many_groups_it_leaves_out() -> None:
    moved = written(group(offset(60, 60)), {})
    groups = tuple(replace(moved, group=f"g{number}") for number in range(43))
    report = Report("test", seen(groups=groups), (), (), dry=True, left_behind=0)
    for words in (failover_text(report), failover_markdown(report)):
        assert "g39" in words
        assert "g40" not in words
        assert "and 3 more groups; --format json has them all" in words


def test_a_group_writes_no_markup_and_no_line_of_its_own() -> None:
    """Whoever may join a group names it."""
    hostile = replace(written(group(offset(60, 70)), {}), group="x|<img src=y>\n::add-mask::z")
    report = Report("test", seen(groups=(hostile,)), (), (), dry=True, left_behind=None, seconds=1.0)
    for words in (failover_text(report), failover_markdown(report)):
        assert not any(line.startswith("::") for line in words.splitlines())
    assert "<img" not in failover_markdown(report)


FLOW = replace(flow("east", "west", "orders"), offsets=OffsetsKept.SAME)
ENVIRONMENT = topology(FLOW)
REMOTE = "east.orders"
IDLE_CONSUMER = GroupState("consumer", "Empty", 0)


@dataclass
class Side:
    """A cluster with one topic. It has no offset map, and asking it for one is a fault."""

    topic: str
    ends: tuple[int, ...]
    offsets: dict[str, dict[Key, CommittedPosition]] = field(default_factory=dict)
    last: tuple[Checkpoint, ...] = ()
    kind: str = "consumer"
    topic_id: str = ""
    marked: Mapping[Key, PositionMark] = field(default_factory=dict)

    def topic_ids(self) -> Mapping[str, str]:
        return {self.topic: self.topic_id}

    def marks(self, flow: str) -> Mapping[Key, PositionMark]:
        return self.marked

    def positions(self, flow: str) -> Mapping[Key, int]:
        return {(self.topic, number): end for number, end in enumerate(self.ends)}

    def partitions(self) -> Mapping[str, int]:
        return {self.topic: len(self.ends)}

    def bounds(self, keys: Iterable[Key]) -> Mapping[Key, PartitionBounds]:
        return {key: PartitionBounds(0, self.ends[key[1]], self.ends[key[1]]) for key in keys if key[0] == self.topic}

    def groups(self, _: GroupSelector) -> GroupsSeen:
        return GroupsSeen(dict.fromkeys(self.offsets, replace(IDLE_CONSUMER, kind=self.kind)), self.offsets)

    def checkpoints(self, source: str, _: str) -> Mapping[tuple[str, str, int], Checkpoint]:
        assert source == "east"
        return {(told.group, told.topic, told.partition): told for told in self.last}


def survey(way: Way, east: Side, west: Side, environment: Topology = ENVIRONMENT) -> Any:
    made: Any = Survey(environment, move_of(environment, way, FLOW.name))
    made.origin, made.destination = (east, west) if way is Way.FAILOVER else (west, east)
    return made


def moved(groups: tuple[GroupMove, ...]) -> dict[str, dict[Key, tuple[int | None, bool]]]:
    return {
        move.group: {o.destination: (o.translated.offset, o.translated.exact) for o in move.offsets} for move in groups
    }


@pytest.mark.parametrize("kept", list(OffsetsKept))
@pytest.mark.parametrize(("now", "left"), [("one", 20), ("another+id_", 30), ("", 20)])
def test_of_a_source_topic_that_was_recreated_nothing_counts_as_copied(kept: OffsetsKept, now: str, left: int) -> None:
    """The position, and the end of a copy with the same offsets, are of the topic that was there before."""
    east = Side("orders", (30,), topic_id=now)
    west = Side(REMOTE, (10,), marked={(REMOTE, 0): PositionMark(topic_id="one")})
    looked = survey(Way.FAILOVER, east, west, topology(replace(FLOW, offsets=kept)))
    (partition,) = looked.partitions()
    assert partition.left == left


@pytest.mark.parametrize(("way", "topics"), [(Way.FAILOVER, ("orders", REMOTE)), (Way.FAILBACK, (REMOTE, "orders"))])
def test_an_offset_is_its_own_translation_both_ways(way: Way, topics: tuple[str, str]) -> None:
    here, there = topics
    standing = {"g": {(here, 0): CommittedPosition(4711, "m"), (here, 1): CommittedPosition(90, "")}}
    sides = {here: Side(here, (5000, 100), standing), there: Side(there, (5000, 80))}
    groups, _ = survey(way, sides["orders"], sides[REMOTE]).groups()
    assert moved(groups) == {"g": {(there, 0): (4711, True), (there, 1): (80, False)}}
    assert groups[0].offsets[0].metadata == "m"


def test_of_a_share_group_all_behind_its_start_offset_may_be_delivered_again() -> None:
    standing = {"g": {("orders", 0): CommittedPosition(30, "")}}
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
    for choice in KeepDiverged:
        assert f"reconciler failback ENV {FLOW.name} --diverged {choice}" in todo
    assert checks(Way.FAILBACK, partition(4711, 4723, 5211, 12, 480), accept_loss=True)["diverged"][0] is Level.WARNS


def test_an_old_source_that_only_lacks_records_can_be_filled() -> None:
    told = checks(Way.FAILBACK, partition(4711, 4711, 5211, 0, 500))
    assert "diverged" not in told
    assert told["not-filled"][0] is Level.STOPS
    assert "lacks 500 records" in told["not-filled"][1]


def test_records_that_only_wait_to_be_copied_stop_nothing() -> None:
    assert checks(Way.FAILBACK, partition(10, 12, 10, 2, 0))["not-copied"][0] is Level.WARNS


def test_an_uncompared_partition_is_unknown() -> None:
    assert "no answer" in checks(Way.FAILBACK, partition(unknown="no answer"))["parted-unknown"][1]


def test_a_translated_flow_has_no_such_check() -> None:
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
        "Flow f, 9 partitions: 1 diverged, 1 unknown, 1 where one side continues; the others are the same"
    )
    assert [line.split()[-1] for line in text.splitlines()[3:]] == ["diverged", "behind", "answer"]
    assert parted_text("f", ("east", "west"), (), 9).startswith("The same: 9 partitions of flow f")


def test_what_a_move_has_done_is_shown_also_where_its_report_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("a file, where a folder is wanted")
    done = Report("test", seen(), (), (FailoverStep("fence", StepResult.DONE, "1 deny rule"),), False, 0)
    options = FailoverOptions(FailoverRequest(), False, True, Format.TEXT, tmp_path / "taken" / "report.json", "")
    with pytest.raises(ReconcilerError, match=r"report\.json cannot be written"):
        run._show(done, ExitCode.DONE, options)
    assert "1 deny rule" in capsys.readouterr().out
