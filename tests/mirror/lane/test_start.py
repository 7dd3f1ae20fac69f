"""A source partition that nobody serves is waited for, and once that lasts it is told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from reconciler_mirror.lane import first_start, positions, run, target_tails
from reconciler_mirror.lane import start as batch_start
from reconciler_mirror.lane.partition import Partition, Phase, SourceLog
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.same_offsets import delivery
from reconciler_mirror.lane.same_offsets.place import Look, SamePartition
from reconciler_mirror.lane.start import Starter
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.model.lane import AWAITED, Claim, Condition, LaneEnd, PartitionSpec

from reconciler.kafka.client.cluster import NO_ID, CommittedPosition
from reconciler.kafka.client.errors import BrokerError, MalformedResponseError
from reconciler.kafka.protocol.groups.group_offsets import GroupOffsets
from reconciler.replication.offsets.position_metadata import Owner
from tests.support.lanes.lane_spec import ClaimedControl
from tests.support.lanes.lane_spec import lane as any_lane

SPEC = PartitionSpec("orders", 0, "east.orders", "")
SERVED = SimpleNamespace(node=1, epoch=3)
NO_LEADER = SimpleNamespace(node=-1, epoch=3)


def lane_of(leader: SimpleNamespace, offsets: object = None) -> Any:
    """Whose source has one partition, led by ``leader``, that answers ListOffsets with ``offsets``."""

    async def refresh(_: object) -> None:
        pass

    async def list_offsets(asked: dict[object, int], **_: object) -> dict[object, object]:
        return dict.fromkeys(asked, offsets)

    async def leaders_of(asked: dict[object, int], _: object) -> AsyncIterator[object]:
        for key in asked:
            raise AssertionError(f"nothing is copied of {key}, so no epoch of it is asked for")
            yield

    topics = {name: SimpleNamespace(error=0, leaders={0: leader}, topic_id=NO_ID) for name in ("orders", "east.orders")}
    cluster = SimpleNamespace(
        refresh=refresh,
        list_offsets=list_offsets,
        leaders_of=leaders_of,
        topics=topics,
        leader=lambda *_: leader,
        pool=None,
    )
    routes = SimpleNamespace(place=lambda _: None)
    return SimpleNamespace(source=cluster, target=cluster, changed=set[Partition](), committed_only=True, routes=routes)


@pytest.mark.parametrize(
    ("leader", "offsets", "why"),
    [(NO_LEADER, None, "it has no leader"), (SERVED, BrokerError(78, "offsets"), "OFFSET_NOT_AVAILABLE (78)")],
)
def test_it_is_reported_once_it_lasts_and_no_longer_once_it_is_over(
    monkeypatch: pytest.MonkeyPatch, leader: SimpleNamespace, offsets: object, why: str
) -> None:
    seconds = itertools.count(1000)
    monkeypatch.setattr(batch_start, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    partition = Partition(SPEC, log=SourceLog(committed=9, covered=9, reached=9))
    lane = lane_of(leader, offsets)
    again, told = [], []
    for _ in range(8):
        again.append(asyncio.run(Starter(lane)._start([partition])))
        told.append(partition.hold.condition)
    assert again == [[partition]] * 8, "it is tried again and again"
    assert told[:6] == [None] * 6
    assert told[6] is not None
    assert (told[6].code, told[6].topic, told[6].partition, told[6].stops) == ("source_unavailable", "orders", 0, True)
    assert why in told[6].text
    assert lane.changed == {partition}
    assert asyncio.run(Starter(lane_of(SERVED, 9))._start([partition])) == []
    assert partition.hold.condition is None
    assert partition.hold.waits_since == 0.0


@pytest.mark.parametrize("meanwhile", [Phase.STOPPED, Phase.LEAVING])
def test_a_start_does_not_undo_what_happens_to_its_partition_meanwhile(meanwhile: Phase) -> None:
    """Each answer takes a while; by then a commit may be denied, which stops the partition, or it leaves the lane."""
    partition, placed = Partition(SPEC, log=SourceLog(committed=9, covered=9, reached=9)), list[Partition]()
    lane = lane_of(SERVED)

    async def late(asked: dict[object, int], **_: object) -> dict[object, int]:
        partition.hold.phase = meanwhile
        return dict.fromkeys(asked, 9)

    lane.source.list_offsets, lane.routes.place = late, placed.append
    assert asyncio.run(Starter(lane)._start([partition])) == []
    assert (partition.hold.phase, placed) == (meanwhile, [])


@pytest.mark.parametrize(("code", "raises"), [(14, True), (16, True), (30, False), (69, False)])
def test_a_group_whose_coordinator_does_not_answer_may_copy_into_the_same_topic(
    monkeypatch: pytest.MonkeyPatch, code: int, *, raises: bool
) -> None:
    """Two environments would mix their records; a group that may not be read, or is gone, proves nothing."""

    class Groups:
        def __init__(self, _: object) -> None:
            pass

        async def listed(self) -> list[str]:
            return ["mirror.f", "mirror.other"]

        async def offsets(self, names: list[str]) -> dict[str, GroupOffsets]:
            return {name: GroupOffsets({}, code) for name in names}

    monkeypatch.setattr(first_start, "GroupClient", Groups)
    target: Any = SimpleNamespace(name="west")
    work = first_start.copied_by_others(target, "mirror.f", Owner("mine"), [("east.orders", 0)])
    if raises:
        with pytest.raises(BrokerError, match=r"group mirror\.other on west"):
            asyncio.run(work)
    else:
        assert asyncio.run(work) == {}


A, B = (Partition(PartitionSpec("orders", number, "east.orders", "")) for number in range(2))


def test_a_copy_without_a_leader_does_not_hold_up_the_first_start_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(*_: object) -> dict[object, object]:
        return {}

    async def no_keys(*_: object) -> set[object]:
        return set()

    async def list_offsets(asked: dict[object, int], **_: object) -> dict[object, object]:
        assert [*asked] == [A.target, B.target]
        return {A.target: BrokerError(5, "east.orders"), B.target: 0}

    monkeypatch.setattr(first_start, "copied_before", none)
    monkeypatch.setattr(first_start, "only_aborted", no_keys)
    spec = SimpleNamespace(start_kind="earliest", work=SimpleNamespace(provenance=None), state="f", flow="f")
    lane: Any = SimpleNamespace(target=SimpleNamespace(list_offsets=list_offsets), spec=spec)
    waiting: list[tuple[Partition, str]] = []
    found = asyncio.run(first_start.never_copied(lane, [A, B], lambda *each: waiting.append(each)))
    assert (found, waiting) == ([B], [(A, "LEADER_NOT_AVAILABLE (5)")])


def test_a_partition_without_a_beginning_is_tried_again_while_others_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = Partition(SPEC, log=SourceLog(committed=9, covered=9, reached=9))
    unread, placed, lane = Partition(SPEC), list[Partition](), lane_of(SERVED, 9)

    async def positions_of_one(*_: object) -> list[Partition]:
        return [copied]

    monkeypatch.setattr(Starter, "_with_positions", positions_of_one)
    lane.routes.place = placed.append
    assert asyncio.run(Starter(lane)._start([unread, copied])) == [unread]
    assert placed == [copied]


def test_a_copy_at_the_same_offsets_that_others_append_to_does_not_hold_up_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor one without a leader. It waits with a condition of its own, and is not placed by an older answer."""
    monkeypatch.setattr(batch_start, "REPORT_AFTER", -1.0)
    busy, lost, free = (Partition(SPEC, log=SourceLog(covered=3, reached=3)) for _ in range(3))
    specs = {each: replace(SPEC, partition=number) for number, each in enumerate((busy, lost, free))}
    for each, spec in specs.items():
        each.spec = spec
    placed: list[Partition] = []

    async def look(*_: object) -> dict[object, object]:
        return {busy.target: Look(9, None), lost.target: BrokerError(5, "east.orders"), free.target: Look(3, None)}

    async def known(*_: object) -> None:
        pass

    async def least(*_: object) -> tuple[dict[object, int], dict[object, object]]:
        return {}, {}

    async def compared(_: object, partition: Partition, *__: object) -> None:
        if partition is busy:
            raise BrokerError(6, "another producer appends to it")

    monkeypatch.setattr(delivery, "look", look)
    for name, fake in (("_known", known), ("_least", least), ("_compared", compared)):
        monkeypatch.setattr(delivery.SameStarter, name, fake)
    monkeypatch.setattr(delivery.SameStarter, "_placed", lambda _, partition, __: placed.append(partition))
    same: Any = SimpleNamespace(state_of=lambda _: SamePartition(7, 0), leaders=None)
    found = asyncio.run(delivery.SameStarter(lane_of(SERVED), same)._with_positions([busy, lost, free]))
    assert found == placed == [free]
    codes = [each.hold.condition and each.hold.condition.code for each in (busy, lost, free)]
    assert codes == ["target_unavailable", "target_unavailable", None]


def test_an_odd_answer_while_a_lane_prepares_is_named_in_its_report(monkeypatch: pytest.MonkeyPatch) -> None:
    async def odd(*_: object) -> None:
        raise MalformedResponseError("a Metadata response ends early")

    class Preparing(ClaimedControl):
        def partitions(self) -> tuple[PartitionSpec, ...]:
            return (SPEC,)

        def claim(self) -> Claim:
            return AWAITED

    monkeypatch.setattr(run, "prepare", odd)
    report = run.batch_path(replace(any_lane(0, SPEC), claim=AWAITED), Preparing())
    assert (report.end, report.error) == (LaneEnd.FAILED, "a Metadata response ends early")
    [condition] = report.progress.conditions
    assert (condition.code, condition.stops) == ("lane_failed", True)


def test_the_start_of_a_partition_that_left_meanwhile_is_not_written() -> None:
    """Its successor may have copied by then, and this position would be the older one."""
    dirty: list[Partition] = []
    lane: Any = SimpleNamespace(urgent=False, mark_dirty=dirty.append, source=SimpleNamespace(pool=None), target=None)
    partition, other = Partition(SPEC), Partition(SPEC)
    partition.hold.leave()
    for each in (partition, other):
        Starter(lane)._write_soon(each)
    assert dirty == [other]


SOURCE_ID, TARGET_ID, OTHER_ID = (UUID(int=number) for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("told", "topic_id", "known_of", "code"),
    [
        (60, "id", (SOURCE_ID, TARGET_ID), None),
        (59, "id", (SOURCE_ID, TARGET_ID), "position_regressed"),
        (-1, "id", (SOURCE_ID, TARGET_ID), "position_missing"),
        (20, "", (SOURCE_ID, TARGET_ID), None),
        (20, "id", (OTHER_ID, TARGET_ID), None),
        (20, "id", (SOURCE_ID, OTHER_ID), None),
        (20, "id", (NO_ID, NO_ID), None),
    ],
    ids=["as committed", "older", "none", "after a seek", "source made anew", "target made anew", "no ids"],
)
def test_what_the_lane_itself_committed_is_known_without_any_map(
    monkeypatch: pytest.MonkeyPatch, told: int, topic_id: str, known_of: tuple[UUID, UUID], code: str | None
) -> None:
    """A coordinator may answer before it has read its log, also when its broker comes back under the same lane."""
    metadata = positions.encode(("east.orders", 0), LanePosition(told, topic_id, 0, Claim(1, "app")))

    async def nothing(_: object, flow: str, wanted: dict[object, object]) -> dict[object, object]:
        if wanted and known_of == (SOURCE_ID, TARGET_ID):
            raise BrokerError(5, "the offset map, which has no leader")
        return {}

    async def answer(_: str, keys: list[object]) -> dict[object, CommittedPosition]:
        return dict.fromkeys(keys, CommittedPosition(told, metadata))

    async def ends(asked: dict[object, int], **_: object) -> dict[object, int]:
        return dict.fromkeys(asked, 60)

    async def unproved(*_: object) -> dict[object, int]:
        return {}

    monkeypatch.setattr(batch_start, "newest_chunks", nothing)
    monkeypatch.setattr(target_tails, "ended_at", unproved)
    has_ids = NO_ID not in known_of
    topics = {"east.orders": SimpleNamespace(topic_id=TARGET_ID if has_ids else NO_ID)}
    target = SimpleNamespace(topics=topics, positions=answer, list_offsets=ends, topic_prefix="")
    spec: Any = SimpleNamespace(
        flow="f", state="f", group="mirror.f", claim=Claim(1, "app"), start_offsets={}, start_kind="earliest",
        start_timestamp_ms=None, work=SimpleNamespace(provenance=False), partitions=(), isolation="read_committed",
    )  # fmt: skip
    stopped: list[Condition] = []

    async def begun() -> tuple[Lane, Partition]:
        lane = Lane.__new__(Lane)
        lane.spec, lane.source, lane.target = spec, cast(Any, target), cast(Any, target)
        lane.identity = cast(Any, SimpleNamespace(transactional=True))
        lane.changed, lane.known = cast(Any, set()), {("orders", 0): (60, known_of)}
        lane.stop = lambda _, condition: stopped.append(condition)  # type: ignore[method-assign,assignment,misc]
        lane.mark_dirty = lambda _: None  # type: ignore[method-assign,assignment]
        partition = Partition(PartitionSpec("orders", 0, "east.orders", "id"))
        partition.log.topic_id = SOURCE_ID if has_ids else NO_ID
        await Starter(lane)._with_positions([partition])
        return lane, partition

    lane, partition = asyncio.run(begun())
    assert [condition.code for condition in stopped] == ([code] if code else [])
    if code:
        assert "60" in stopped[0].text
        assert lane.known["orders", 0] == (60, known_of)
    else:
        assert partition.log.committed == lane.known["orders", 0][0] == told
