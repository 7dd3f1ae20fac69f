"""Partitions that have nothing to do cost nothing: no row is made anew, no frame travels, no view is built again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import cast
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.board.board import Board
from reconciler_mirror.lane import progress as batch_telling
from reconciler_mirror.lane.partition import Partition, SourceLog, Tuning
from reconciler_mirror.lane.progress import ProgressReports
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.lane.transactional import Sessions
from reconciler_mirror.leases.channel import ROWS
from reconciler_mirror.leases.task import LaneControl, LeaseState, ReportDelta
from reconciler_mirror.model.lane import (
    Condition,
    Discovered,
    LaneProgress,
    PartitionProgress,
    PartitionSpec,
)
from reconciler_mirror.model.views import FlowView

from reconciler.kafka.client.auth.settings import ConnectionSettings
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.transactions import Identity
from reconciler.replication.handover import FlowSettings
from reconciler.replication.handover_reader import parse
from tests.support.lanes.handover import handover
from tests.support.lanes.lane_spec import lane as lane_spec

MANY = 2_000
SPECS = tuple(PartitionSpec("quiet", number, "east.quiet", "id") for number in range(MANY))


def quiet(number: int, **changes: object) -> PartitionProgress:
    return replace(PartitionProgress("quiet", number, 7, 7), **changes)  # type: ignore[arg-type]


def snapshot(*rows: PartitionProgress, conditions: tuple[Condition, ...] = ()) -> LaneProgress:
    return LaneProgress("orders", 0, rows, conditions)


def flow() -> FlowSettings:
    return parse(json.dumps(handover(flows=[handover()["flows"][0] | {"lanes": 1}]))).flows[0]


def in_loop(test: Callable[[Lane], None]) -> None:
    async def run() -> None:
        clusters = [ClusterClient(name, ["nowhere:1"], ConnectionSettings()) for name in ("east", "west")]
        lane = Sessions(Tuning()).lane(lane_spec(0), (clusters[0], clusters[1]), cast(Identity, None))
        for spec in SPECS:
            partition = Partition(spec, log=SourceLog(committed=7, reached=7, covered=7, end=7))
            lane.partitions[partition.source] = partition
            lane.changed.add(partition)
        test(lane)
        lane.failed.cancel()

    asyncio.run(run())


def test_a_lane_makes_rows_of_what_changed_only() -> None:
    def test(lane: Lane) -> None:
        telling = ProgressReports(lane)
        with patch.object(batch_telling, "row", wraps=batch_telling.row) as made:
            first = telling.progress()
            assert made.call_count == MANY
            assert telling.progress().partitions == first.partitions
            assert made.call_count == MANY, "nothing had changed"
            one = lane.partitions["quiet", 5]
            one.log.committed = one.log.end = 9
            lane.mark_dirty(one)
            now = telling.progress()
            assert made.call_count == MANY + 1
        differing = [(a, b) for a, b in zip(first.partitions, now.partitions, strict=True) if a is not b]
        assert [(a.position, b.position) for a, b in differing] == [(7, 9)]

    in_loop(test)


def test_a_partition_that_left_is_reported_no_more_and_a_condition_comes_and_goes_with_its_partition() -> None:
    def test(lane: Lane) -> None:
        telling = ProgressReports(lane)
        gone, broken = lane.partitions["quiet", 0], lane.partitions["quiet", 1]
        lane.stop(broken, Condition("record_refused", "text", "todo", "quiet", 1, stops=True))
        assert [c.code for c in telling.progress().conditions] == ["record_refused"]
        del lane.partitions[gone.source]
        lane.changed.add(gone)
        broken.hold.condition = None
        lane.changed.add(broken)
        told = telling.progress()
        assert len(told.partitions) == MANY - 1
        assert told.conditions == ()

    in_loop(test)


def test_a_lease_reports_only_changes_to_its_driver() -> None:
    rows = [quiet(number) for number in range(MANY)]
    untold = ReportDelta()
    first = snapshot(*rows)
    assert untold.of(first) == first
    assert untold.of(first) is None
    assert untold.of(snapshot(*rows)) is None, "another snapshot of the same"
    rows[3] = quiet(3, position=8, end=8, records=1)
    assert untold.of(snapshot(*rows)) == snapshot(rows[3])
    trouble = Condition("quota_throttled", "text", "todo")
    assert untold.of(snapshot(*rows, conditions=(trouble,))) == snapshot(conditions=(trouble,))
    assert untold.of(snapshot(*rows)) == snapshot()


def test_once_the_lanes_partitions_changed_everything_is_reported_again() -> None:
    """The driver forgets what it knew of those that leave, and they may come back as they were."""
    control = LaneControl(lane_spec(0, *SPECS[:2]), LeaseState(10.0))
    both = snapshot(quiet(0), quiet(1))
    control.report(both)
    assert control.unreported() == both
    for specs in (SPECS[:1], SPECS[:2]):
        control.take(specs)
        assert control.unreported() == both
        assert control.unreported() is None
    control.take(SPECS[:2])
    assert control.unreported() is None


def test_the_board_builds_views_of_what_was_reported_and_of_what_lags() -> None:
    board = Board((flow(),))
    board.discovered("orders", Discovered(SPECS, (), 1, complete=True))
    board.taken_over("orders")
    board.progress(snapshot(*(quiet(number) for number in range(MANY))))
    looks = [board.view()[0].partitions for _ in range(2)]
    board.progress(snapshot(quiet(5, end=9, waiting_since_ms=1_000)))
    looks += [board.view()[0].partitions, (late := board.view()[0]).partitions]
    rebuilt = [
        [now.partition for before, now in zip(*pair, strict=True) if now is not before] for pair in pairwise(looks)
    ]
    assert rebuilt == [[], [5], [5]], "the age of what lags grows by itself"
    assert (late.figures.records_lag, len(late.partitions)) == (2, MANY)


FEW = 6
NUMBERS = st.integers(0, FEW - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("row"), NUMBERS, st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("stop"), st.frozensets(NUMBERS, max_size=2)),
        st.tuples(st.just("specs"), st.frozensets(NUMBERS, min_size=1)),
        st.tuples(st.just("path"), NUMBERS, st.sampled_from(["batch", "record level"])),
        st.tuples(st.just("tell")),
        st.tuples(st.just("view")),
    ),
    max_size=30,
)


@given(STEPS)
def test_the_board_shows_the_same_after_partial_and_whole_reports(steps: list[tuple[object, ...]]) -> None:
    """Two drivers: one hears whole snapshots and looks once, the other hears differences and looks now and then."""
    whole, pieces = Board((flow(),)), Board((flow(),))
    control = LaneControl(lane_spec(0, *SPECS[:FEW]), LeaseState(10.0))
    rows = {number: quiet(number, position=None, end=None) for number in range(FEW)}
    specs, conditions = SPECS[:FEW], tuple[Condition, ...]()

    def tell() -> None:
        now = snapshot(*(rows[spec.partition] for spec in specs), conditions=conditions)
        control.report(now)
        whole.progress(control.latest)
        if (news := control.unreported()) is not None:
            pieces.progress(ROWS.decoded(LaneProgress, json.loads(json.dumps(ROWS.encoded(news)))))

    for board in (whole, pieces):
        board.discovered("orders", Discovered(specs, (), 1, complete=True))
        board.taken_over("orders")
    for step in steps:
        match step:
            case ("row", int(number), int(position), int(behind)):
                rows[number] = quiet(number, position=position, end=position + behind, records=position)
            case ("stop", frozenset() as stopped):
                conditions = tuple(
                    Condition("record_refused", "text", "todo", "quiet", number, stops=True)
                    for number in sorted(stopped)
                )
            case ("specs", frozenset() as numbers):
                tell()
                specs = tuple(SPECS[number] for number in sorted(numbers))
                for board in (whole, pieces):
                    board.discovered("orders", Discovered(specs, (), 1, complete=True))
                control.take(specs)
            case ("path", int(number), str(name)):
                rows[number] = replace(rows[number], path=name)
            case ("view",):
                pieces.view()
            case _:
                tell()
    tell()
    assert shown(pieces) == shown(whole)


def shown(board: Board) -> FlowView:
    """Without what depends on when it was asked for: times, rates, and the lag of an earlier view that knew it."""
    [view] = board.view()
    return replace(
        view,
        committed_ms=None,
        figures=replace(view.figures, records_per_second=0.0, bytes_per_second=0.0, last_lag=None),
        conditions=tuple((condition, 0) for condition, _ in view.conditions),
    )
