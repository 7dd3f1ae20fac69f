"""A position that another client committed is never obeyed, whatever starts the flow, however often, until a seek."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from reconciler_mirror.driver import takeover
from reconciler_mirror.driver.takeover import Takeover, WireTakeover
from reconciler_mirror.lane import positions, transactional
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Claim, Condition, LaneProgress, PartitionSpec, lane_of, lane_spec
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client.cluster import GROUP, Key
from reconciler.kafka.client.errors import WireError
from reconciler.replication.handover import FlowSettings, Naming, Provenance, Start
from reconciler.replication.offsets.position_metadata import END, moved
from tests.support.lanes.lane_runs import Flow, Lane, UntilControl, conditions, fill, running
from tests.support.lanes.raw import cluster_of
from tests.support.lanes.truth import map_topic

LANES, FIRST, MORE = 2, 60, 30
NOW = 1_700_000_000_000


def back(flow: Flow) -> tuple[int, str]:
    return 20, ""


def forward(flow: Flow) -> tuple[int, str]:
    return FIRST + MORE - 5, ""


def beyond(flow: Flow) -> tuple[int, str]:
    return 10_000, ""


def garbage(flow: Flow) -> tuple[int, str]:
    return 20, '{"c":"x","i":[1'


def in_its_name(flow: Flow) -> tuple[int, str]:
    """Metadata of the same partition, at another offset."""
    return 20, flow.position(5).metadata.rstrip(END)


def of_another(flow: Flow) -> tuple[int, str]:
    """Offset and metadata of another partition, as a tool that copies both would write them."""
    there = flow.position(7)
    return there.offset, there.metadata.rstrip(END)


WAYS: Mapping[int, Callable[[Flow], tuple[int, str]]] = dict(
    enumerate((back, forward, beyond, garbage, in_its_name, of_another), start=1)
)
FEWER, PARTITIONS = 7, 9
"""Partitions 0 and 8 are left alone; ``FEWER`` has less records, and no more of them."""

KINDS: Mapping[str, Mapping[str, Any]] = {
    "earliest": {},
    "latest": {"start": Start("latest")},
    "at least once": {"delivery": "at_least_once"},
    "provenance": {"provenance": Provenance("local")},
}


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: Callable[..., str]) -> Flow:
    made = Flow(plain["east"], plain["west"], unique, PARTITIONS)
    map_topic(made.target)
    create_topic(made.source, made.topic, PARTITIONS, retention_ms="-1")
    create_topic(made.target, made.remote, PARTITIONS, retention_ms="-1")
    return made


def write(flow: Flow, numbers: Iterable[int]) -> None:
    for partition in range(PARTITIONS):
        few = [n for n in numbers if partition != FEWER or n < 20]
        fill(flow.source, flow.topic, [(None, b"%d" % n, (), NOW + n) for n in few], partition)


def settings(flow: Flow, **changes: Any) -> FlowSettings:
    lane = flow.lane()
    made = FlowSettings(
        flow.topic, "0", lane.source, lane.target, (flow.topic,), (), Naming(), "exactly_once",
        "read_committed", Start(), LANES,
    )  # fmt: skip
    return replace(made, **changes)


def settled(progress: LaneProgress) -> bool:
    """Every partition is at its end or stopped."""
    stopped = {(condition.topic, condition.partition) for condition in progress.conditions if condition.stops}
    return bool(progress.partitions) and all(
        (p.topic, p.partition) in stopped or (p.position is not None and p.end is not None and p.position >= p.end)
        for p in progress.partitions
    )


def started(flow: Flow, named: FlowSettings, application: str) -> dict[int, Condition]:
    """As a driver starts it: takes over, and runs the lanes until all is copied or stopped. By partition."""
    return run_lanes(flow, named, taken(named, application, flow.specs()).claim)


def taken(named: FlowSettings, application: str, specs: Sequence[PartitionSpec]) -> Takeover:
    """As a driver, which tries again: a topic that was made a moment ago may not be led yet."""
    taking, end = WireTakeover(named), time.monotonic() + 30
    try:
        while True:
            try:
                return taking.take(application, specs)
            except WireError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
    finally:
        taking.close()


def run_lanes(flow: Flow, named: FlowSettings, claim: Claim) -> dict[int, Condition]:
    stopped: dict[int, Condition] = {}
    for number, specs in lanes_of(flow).items():
        control = UntilControl(specs, settled)
        report = batch_path(replace(lane_spec(named, number), partitions=specs, claim=claim), control)
        assert control.finished, report
        stopped |= {c.partition: c for c in conditions([control.reports[-1]]) if c.partition is not None}
    return stopped


def lanes_of(flow: Flow) -> dict[int, tuple[PartitionSpec, ...]]:
    specs = flow.specs()
    return {n: tuple(s for s in specs if lane_of(s.topic, s.partition, LANES) == n) for n in range(LANES)}


def numbers(flow: Flow) -> dict[int, list[int]]:
    return {p: [int(value or b"") for _, value, _, _ in found] for p, found in flow.target_content().items()}


async def offsets_deleted(flow: Flow, partition: int) -> None:
    """As kafka-consumer-groups --delete-offsets: OffsetDelete, layout 0, which confluent-kafka does not offer."""
    group, topic = f"mirror.{flow.topic}".encode(), flow.remote.encode()
    body = struct.pack(f">h{len(group)}sih{len(topic)}sii", len(group), group, 1, len(topic), topic, 1, partition)
    cluster = cluster_of(flow.target)
    try:
        connection = await cluster.control(await cluster.coordinator(group.decode(), GROUP))
        assert await connection.ask((47, 0, False), body, lambda answer: (0, bytes(answer[:2]))) == bytes(2)
    finally:
        cluster.close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted offsets are asked for again for a minute: the coordinator could be reading its log."""
    monkeypatch.setattr(takeover, "OLD_WITHIN_S", 1.0)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] if kind == "latest" else []) for kind in KINDS]
)
def test_it_is_stopped_at_every_start_until_a_seek(flow: Flow, kind: str) -> None:
    named = settings(flow, **KINDS[kind])
    first = replace(named, start=Start())
    write(flow, range(FIRST))
    assert started(flow, first, "first") == {}
    write(flow, range(FIRST, FIRST + MORE))
    foreign = {number: way(flow) for number, way in WAYS.items()}
    for number, (offset, metadata) in foreign.items():
        flow.set_position(offset, number, metadata)
    before = numbers(flow)
    for application in ("second", "third"):
        stopped = started(flow, named, application)
        assert {number: condition.code for number, condition in stopped.items()} == dict.fromkeys(
            foreign, "position_foreign"
        )
        for number, (offset, _) in foreign.items():
            assert f", {offset}, was committed by another client" in stopped[number].text
            assert f"--partition {number} --to {FIRST}" in stopped[number].todo
        copied = numbers(flow)
        assert {number: copied[number] for number in foreign} == {number: before[number] for number in foreign}
        assert copied[0] == list(range(FIRST + MORE))
    for number in foreign:
        sought(flow, number, FIRST)
    assert started(flow, named, "fourth") == {}
    assert numbers(flow) == {
        number: list(range(20 if number == FEWER else FIRST + MORE)) for number in range(PARTITIONS)
    }


def sought(flow: Flow, partition: int, offset: int) -> None:
    """As ``mirror seek`` does it, beside what stands there."""
    now, key = flow.position(partition), (flow.remote, partition)
    [spec] = [spec for spec in flow.specs() if spec.partition == partition]
    metadata = moved(key, (now.offset, now.metadata), offset, spec.topic_id, same=False)
    flow.set_position(offset, partition, metadata.rstrip(END))


def test_it_does_not_prove_that_the_flow_has_run_before(flow: Flow) -> None:
    """The others begin where ``start`` says, and not at their beginning."""
    write(flow, range(FIRST))
    flow.set_position(20, 1, "")
    named = settings(flow, start=Start("latest"))
    for application in ("first", "second"):
        assert {n: c.code for n, c in started(flow, named, application).items()} == {1: "position_foreign"}
    write(flow, range(FIRST, FIRST + MORE))
    assert {n: c.code for n, c in started(flow, named, "third").items()} == {1: "position_foreign"}
    copied = numbers(flow)
    assert (copied[0], copied[1]) == (list(range(FIRST, FIRST + MORE)), [])


def test_where_all_positions_are_another_clients_a_new_topic_comes_whole(
    flow: Flow, create_topic: Callable[..., str]
) -> None:
    """kafka-consumer-groups --reset-offsets --all-topics: the flow has run before, whatever start says."""
    named = settings(flow, start=Start("latest"))
    assert started(flow, named, "first") == {}
    write(flow, range(FIRST))
    assert started(flow, named, "second") == {}
    for number in range(PARTITIONS):
        flow.set_position(20, number, "")
    later = Flow(flow.source, flow.target, f"{flow.topic}-later")
    create_topic(later.source, later.topic)
    create_topic(later.target, later.remote)
    fill(later.source, later.topic, [(None, b"first", (), NOW)])
    assert taken(named, "third", (*flow.specs(), *later.specs())).started is None


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_deleted_offsets_are_no_beginning(flow: Flow, delivery: str) -> None:
    """Of one partition (kafka-consumer-groups --delete-offsets), then of the group."""
    named = settings(flow, delivery=delivery)
    write(flow, range(FIRST))
    assert started(flow, named, "first") == {}
    before = numbers(flow)
    asyncio.run(offsets_deleted(flow, 8))
    for application in ("second", "third"):
        stopped = started(flow, named, application)
        assert {n: c.code for n, c in stopped.items()} == {8: "position_missing"}
        assert f"--partition 8 --to {FIRST}" in stopped[8].todo
    group, admin = f"mirror.{flow.topic}", AdminClient(flow.target.super_client())
    admin.delete_consumer_groups([group])[group].result(20)
    assert {c.code for c in started(flow, named, "fourth").values()} == {"position_missing"}
    assert numbers(flow) == before


@pytest.mark.parametrize("start", [Start("latest"), Start("timestamp", NOW + 1_000)], ids=["latest", "timestamp"])
def test_deleted_offsets_leave_out_nothing_of_a_partition_that_had_none_to_copy(flow: Flow, start: Start) -> None:
    """The offset map has nothing of partition 1, which begins no second time at the end: it has what came since."""
    named = settings(flow, start=start)
    assert started(flow, named, "first") == {}
    fill(flow.source, flow.topic, [(None, b"0", (), NOW)], 0)
    fill(flow.source, flow.topic, [(None, b"0", (), NOW + 2_000)], 0)
    assert started(flow, named, "second") == {}
    group, admin = f"mirror.{flow.topic}", AdminClient(flow.target.super_client())
    admin.delete_consumer_groups([group])[group].result(20)
    fill(flow.source, flow.topic, [(None, b"1", (), NOW)], 1)
    assert {n: c.code for n, c in started(flow, named, "third").items()} == {0: "position_missing"}
    assert numbers(flow)[1] == [1]


def test_one_that_comes_while_the_flow_is_taken_over_is_not_obeyed(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the claim and the end of its transaction; idle partitions, and one that the old lane still copies."""
    named = settings(flow)
    write(flow, range(FIRST))
    assert started(flow, named, "first") == {}
    fence = takeover._Open._fence_others

    async def fence_and_meddle(self: takeover._Open, keys: Collection[Key]) -> dict[Key, LanePosition]:
        await asyncio.to_thread(flow.set_position, 20, 1, "")
        found = await fence(self, keys)
        await asyncio.to_thread(flow.set_position, 20, 2, "")
        return found

    monkeypatch.setattr(takeover._Open, "_fence_others", fence_and_meddle)
    write(flow, range(FIRST, FIRST + MORE))
    stopped = started(flow, named, "second")
    assert {c.code for c in stopped.values()} <= {"position_foreign"}
    assert stopped.keys() <= {1, 2}
    copied = numbers(flow)
    for number in (1, 2):
        assert copied[number] == list(range(FIRST if number in stopped else FIRST + MORE)), "nothing is doubled"


def test_one_that_comes_beside_a_lane_counts_only_where_that_does_not_copy(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane goes by what it knows, and writes over it with its next commit, where that comes before it looks; what was
    paused is read again. Neither takes a stranger's claim for that of a later application."""
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 1000.0)
    named = settings(flow, delivery="at_least_once")
    write(flow, range(FIRST))
    claim = taken(named, "first", flow.specs()).claim
    specs, paused = flow.specs(), (flow.topic, 1)
    lane = Lane(replace(lane_spec(named, 0), partitions=specs, claim=claim, paused=frozenset({paused})))
    later = positions.encode((flow.remote, 3), LanePosition(20, claim=Claim(claim.number + 5, "another")))
    with running(lane):
        at = {number: 20 if number == FEWER else FIRST for number in range(PARTITIONS) if number != 1}
        lane.until(lambda told: at.items() <= {p.partition: p.position for p in told.partitions}.items())
        for number in (0, 1, 2):
            flow.set_position(20, number, later if number == 2 else "")
        write(flow, range(FIRST, FIRST + MORE))
        lane.control.left_alone = frozenset()
        lane.control.wake()
        told = lane.until(lambda told: settled(told) and any(c.partition == 1 for c in told.conditions))
        lane.until(lambda told: {p.partition: p.position for p in told.partitions}[2] == FIRST + MORE)
        assert {c.partition: c.code for c in told.conditions} == {1: "position_foreign"}
    copied = numbers(flow)
    assert (copied[0], copied[1], copied[2]) == (list(range(FIRST + MORE)), [], list(range(FIRST + MORE)))
    now = flow.position(2)
    assert positions.decode((flow.remote, 2), now.offset, now.metadata).proved
