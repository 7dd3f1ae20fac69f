"""The number of lanes changes while an old lane hangs: whenever it wakes up, it commits nothing."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from reconciler_mirror.driver import takeover
from reconciler_mirror.driver.provenance_start import NotReadyError
from reconciler_mirror.driver.takeover import WireTakeover
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Claim, LaneEnd, LaneReport, LaneSpec, PartitionSpec, lane_of, lane_spec
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client.cluster import Key
from reconciler.replication.handover import FlowSettings, Naming, Start
from reconciler.replication.names import OFFSETS_PARTITIONS, OFFSETS_TOPIC
from reconciler.replication.offsets.codec import decode_key
from tests.support.lanes.lane_runs import Flow, UntilControl, caught_up, conditions, fill, has
from tests.support.lanes.truth import map_topic, raw_records

PARTITIONS, OLD_LANES, NEW_LANES = 4, 7, 2
FIRST, MORE = 400, 300


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: Callable[..., str]) -> Flow:
    names = (f"{unique}x{number}" for number in count())  # of some all partitions are in the first two lanes
    topic = next(one for one in names if max(old_rule(one, p, OLD_LANES) for p in range(PARTITIONS)) >= NEW_LANES)
    made = Flow(plain["east"], plain["west"], topic, PARTITIONS)
    create_topic(made.source, made.topic, PARTITIONS)
    create_topic(made.target, made.remote, PARTITIONS)
    return made


def write(flow: Flow, first: int, many: int) -> None:
    for partition in range(PARTITIONS):
        numbers = range(first, first + many)
        fill(flow.source, flow.topic, [(None, b"%d" % n, (), -1) for n in numbers], partition)


def settings(flow: Flow) -> FlowSettings:
    lane = flow.lane()
    return FlowSettings(
        flow.topic, "0", lane.source, lane.target, (flow.topic,), (), Naming(), "exactly_once",
        "read_committed", Start(), NEW_LANES,
    )  # fmt: skip


def old_lane(flow: Flow) -> LaneSpec:
    """The last lane of the old application that has partitions; the new one has no such lane."""
    slices = slices_of(flow, OLD_LANES, old_rule)
    number = max(lane for lane, specs in slices.items() if specs)
    assert number >= NEW_LANES
    return flow.lane(lane=number, transactional_id=f"mirror.{flow.topic}.{number}", partitions=slices[number])


def old_rule(topic: str, partition: int, lanes: int) -> int:
    """Of releases before decision 151, whose applications are taken over by this one."""
    return zlib.crc32(f"{topic}\0{partition}".encode()) % lanes


def slices_of(
    flow: Flow, lanes: int, rule: Callable[[str, int, int], int] = lane_of
) -> dict[int, tuple[PartitionSpec, ...]]:
    specs = flow.specs()
    return {n: tuple(s for s in specs if rule(s.topic, s.partition, lanes) == n) for n in range(lanes)}


def run_new_lanes(flow: Flow, claim: Claim) -> list[LaneReport]:
    reports = []
    for number, specs in slices_of(flow, NEW_LANES).items():
        if specs:
            lane = flow.lane(
                lane=number, transactional_id=f"mirror.{flow.topic}.{number}", partitions=specs, claim=claim
            )
            reports.append(batch_path(lane, UntilControl(specs, caught_up)))
    return reports


@pytest.fixture
def zombie(flow: Flow, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of the old application that copies its lane."""
    write(flow, 0, FIRST)
    spec = tmp_path / "lane"
    spec.write_bytes(pickle.dumps(old_lane(flow)))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.lanes.lane_process", str(spec)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line.split()[0]) >= FIRST * len(old_lane(flow).partitions):
            break
    yield process
    process.kill()
    process.wait()


def test_a_lane_that_was_stopped_while_it_copied_commits_nothing_when_it_continues(
    flow: Flow, zombie: subprocess.Popen[str]
) -> None:
    zombie.send_signal(signal.SIGSTOP)
    write(flow, FIRST, MORE)  # the zombie's fetch brings it as soon as it wakes up
    took = WireTakeover(settings(flow)).take("new", flow.specs())
    assert took.claim == Claim(2, "new")
    assert {report.end for report in run_new_lanes(flow, took.claim)} == {LaneEnd.STOPPED}
    zombie.send_signal(signal.SIGCONT)
    assert zombie.wait(60) == 0, "it sees that it is superseded and ends"
    write(flow, FIRST + MORE, 10)
    run_new_lanes(flow, took.claim)
    values = {p: [int(value or b"") for _, value, _, _ in found] for p, found in flow.target_content().items()}
    assert values == {partition: list(range(FIRST + MORE + 10)) for partition in range(PARTITIONS)}


def run_as(flow: Flow, named: FlowSettings, claim: Claim) -> list[LaneReport]:
    """The lanes of a definition, as the driver makes them, until they have caught up or stopped."""
    reports = []
    for number, specs in slices_of(flow, NEW_LANES).items():
        if specs:
            lane = replace(lane_spec(named, number), partitions=specs, claim=claim)
            done = UntilControl(specs, lambda told: caught_up(told) or has("position_missing")(told))
            reports.append(batch_path(lane, done))
    return reports


def test_a_renamed_flow_continues_under_its_first_name_while_a_lane_of_before_hangs(
    flow: Flow, zombie: subprocess.Popen[str]
) -> None:
    """Nothing is copied again or left out: positions, transactional ids and the offset map are those of the old name,
    so the takeover of now fences lanes of then."""
    map_topic(flow.target)
    zombie.send_signal(signal.SIGSTOP)
    write(flow, FIRST, MORE)
    renamed = replace(settings(flow), name=f"{flow.topic}-renamed", moved_from=flow.topic)
    took = WireTakeover(renamed).take("new", flow.specs())
    assert took.claim == Claim(2, "new"), "one above the claim that it found under the old name"
    assert took.started is None, "it has run before"
    reports = run_as(flow, renamed, took.claim)
    assert {(report.progress.flow, report.end) for report in reports} == {(renamed.name, LaneEnd.STOPPED)}
    zombie.send_signal(signal.SIGCONT)
    assert zombie.wait(60) == 0, "it sees that it is superseded and ends"
    write(flow, FIRST + MORE, 10)
    run_as(flow, renamed, took.claim)
    values = {p: [int(value or b"") for _, value, _, _ in found] for p, found in flow.target_content().items()}
    assert values == {partition: list(range(FIRST + MORE + 10)) for partition in range(PARTITIONS)}
    names = {decode_key(key)[0] for key, _ in raw_of_map(flow)}
    assert names == {flow.topic}, "the map of before continues"


def test_under_another_name_without_moved_it_stops_and_doubles_nothing(flow: Flow) -> None:
    map_topic(flow.target)
    write(flow, 0, FIRST)
    first = settings(flow)
    run_as(flow, first, WireTakeover(first).take("old", flow.specs()).claim)
    other = replace(first, name=f"{flow.topic}-renamed")
    reports = run_as(flow, other, WireTakeover(other).take("new", flow.specs()).claim)
    assert {c.code for report in reports for c in conditions([report.progress])} == {"position_missing"}
    values = {p: [int(value or b"") for _, value, _, _ in found] for p, found in flow.target_content().items()}
    assert values == {partition: list(range(FIRST)) for partition in range(PARTITIONS)}


def raw_of_map(flow: Flow) -> list[tuple[bytes, bytes]]:
    """Of this test's source topic: other tests share the map, and one of these writes keys that are none."""
    parts = (raw_records(flow.target, OFFSETS_TOPIC, number) for number in range(OFFSETS_PARTITIONS))
    return [(key, value) for part in parts for key, value in part if f"/{flow.topic}/".encode() in key]


def test_a_lane_that_wakes_up_in_the_middle_of_the_takeover_waits_and_leaves(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes its transactional.id after that was fenced, so only the claim can tell it."""
    write(flow, 0, FIRST)
    lane = old_lane(flow)
    batch_path(lane, UntilControl(lane.partitions, caught_up))
    write(flow, FIRST, MORE)
    reports: list[LaneReport] = []
    control = UntilControl(lane.partitions, lambda _: False)
    late = threading.Thread(target=lambda: reports.append(batch_path(lane, control)))
    fence = takeover._Open._fence_others

    async def fence_and_dawdle(self: takeover._Open, keys: Collection[Key]) -> dict[Key, LanePosition]:
        found = await fence(self, keys)
        late.start()
        time.sleep(1.5)
        return found

    monkeypatch.setattr(takeover._Open, "_fence_others", fence_and_dawdle)
    took = WireTakeover(settings(flow)).take("new", flow.specs())
    run_new_lanes(flow, took.claim)
    late.join(30)
    assert [report.end for report in reports] == [LaneEnd.SUPERSEDED]
    assert sum(p.records for p in reports[0].progress.partitions) == 0
    values = {p: [int(value or b"") for _, value, _, _ in found] for p, found in flow.target_content().items()}
    assert values == {partition: list(range(FIRST + MORE)) for partition in range(PARTITIONS)}


def test_what_was_committed_between_reading_and_fencing_counts(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    write(flow, 0, FIRST)
    lane = old_lane(flow)
    batch_path(lane, UntilControl(lane.partitions, caught_up))
    write(flow, FIRST, MORE)
    busy = threading.Thread(target=lambda: batch_path(lane, UntilControl(lane.partitions, caught_up)))
    claim = takeover._Open._claim

    async def claim_after_another_commit(self: takeover._Open, mine: Claim, found: dict[Key, LanePosition]) -> None:
        if not busy.ident:
            busy.start()
            busy.join(30)
        await claim(self, mine, found)

    monkeypatch.setattr(takeover._Open, "_claim", claim_after_another_commit)
    took = WireTakeover(settings(flow)).take("new", flow.specs())
    run_new_lanes(flow, took.claim)
    values = {p: [int(value or b"") for _, value, _, _ in found] for p, found in flow.target_content().items()}
    assert values == {partition: list(range(FIRST + MORE)) for partition in range(PARTITIONS)}


@pytest.mark.parametrize("for_good", [False, True], ids=["for a while", "for good"])
def test_positions_that_went_back_are_not_written_again(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, *, for_good: bool
) -> None:
    """A broker that has just started told what had been committed 20 minutes before, and records were doubled."""
    map_topic(flow.target)
    write(flow, 0, FIRST)
    run_new_lanes(flow, WireTakeover(settings(flow)).take("old", flow.specs()).claim)
    read_all, told = positions.read_all, count()

    async def read_old(*asked: Any) -> dict[Key, LanePosition]:
        right = await read_all(*asked)
        old = for_good or next(told) < 3
        return {key: replace(at, offset=7, claim=Claim(1, "older")) for key, at in right.items()} if old else right

    with monkeypatch.context() as patched:
        patched.setattr(positions, "read_all", read_old)
        patched.setattr(takeover, "OLD_WITHIN_S", 1.0 if for_good else 60.0)
        took = WireTakeover(settings(flow)).take("new", flow.specs())
    assert took.started is None
    report = run_new_lanes(flow, took.claim)
    assert {r.end for r in report} == {LaneEnd.STOPPED}
    values = {p: [int(value or b"") for _, value, _, _ in content] for p, content in flow.target_content().items()}
    assert values == {partition: list(range(FIRST)) for partition in range(PARTITIONS)}


@pytest.mark.parametrize("recorded", [True, False], ids=["by owner", "of a release before"])
def test_a_flow_of_another_environment_is_not_touched(flow: Flow, *, recorded: bool) -> None:
    """Without an owner, positions of topics that our source does not have are another's."""
    write(flow, 0, FIRST)
    first, specs = settings(flow), flow.specs()
    theirs = specs if recorded else tuple(replace(spec, topic_id="AAAAAAAAAAAAAAAAAAAAAQ") for spec in specs)
    claim = WireTakeover(first, environment="a" if recorded else "").take("app-a", theirs).claim
    run_as(flow, first, claim)
    if not recorded:
        for number in range(PARTITIONS):
            at = LanePosition(FIRST, theirs[0].topic_id, 0, Claim(1, "app-a"))
            flow.set_position(FIRST, number, positions.encode((flow.remote, number), at))
    with pytest.raises(NotReadyError) as refused:
        WireTakeover(first, environment="b").take("app-b", specs)
    assert refused.value.condition.code == "flow_not_ours"
    owner = "environment a" if recorded else "a flow of another source cluster"
    assert f"group mirror.{flow.topic} on {flow.target.name} belongs to {owner}" in refused.value.condition.text
    assert "by application app-a" in refused.value.condition.text
    if recorded:
        assert "moved: [{environment: b, from: a}]" in refused.value.condition.todo
        write(flow, FIRST, 10)
        assert {report.end for report in run_as(flow, first, claim)} == {LaneEnd.STOPPED}, "nobody was fenced"
        assert (
            WireTakeover(first, environment="b", moved_from=("a",)).take("app-b", specs).claim.owner.environment == "b"
        )


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_flow_without_topics_has_an_owner(flow: Flow, delivery: Any) -> None:
    """Without one, another environment's job took the topics that came later, and this one's job ended."""
    map_topic(flow.target)
    latest = replace(settings(flow), delivery=delivery, start=Start("latest"))
    claim = WireTakeover(latest, environment="a").take("app-a", ()).claim
    for _ in range(2):
        assert takeover.mark_owner(latest, claim)
    for specs in ((), flow.specs()):
        with pytest.raises(NotReadyError) as refused:
            WireTakeover(latest, environment="b").take("app-b", specs)
        assert refused.value.condition.code == "flow_not_ours"
        assert "belongs to environment a" in refused.value.condition.text
    write(flow, 0, FIRST)
    took = WireTakeover(latest, environment="a").take("app-a2", flow.specs())
    assert took.started == PARTITIONS, "it has not run yet, so it starts at the end"
    run_as(flow, latest, took.claim)
    write(flow, FIRST, MORE)
    run_as(flow, latest, took.claim)
    values = {p: [int(value or b"") for _, value, _, _ in content] for p, content in flow.target_content().items()}
    assert values == {partition: list(range(FIRST, FIRST + MORE)) for partition in range(PARTITIONS)}


def test_an_owner_that_the_target_keeps_nowhere_is_written_later(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "_MARKED_WITHIN_S", 0.3)
    named = replace(settings(flow), target=replace(settings(flow).target, topic_prefix=f"{flow.topic}-none-"))
    assert not takeover.mark_owner(named, Claim(1, "app-a"))


def test_who_took_a_flow_is_named(flow: Flow) -> None:
    write(flow, 0, 1)
    first = settings(flow)
    claim = WireTakeover(first, environment="a").take("app-a", flow.specs()).claim
    run_as(flow, first, claim)
    WireTakeover(first, environment="b", moved_from=("a",)).take("app-b", flow.specs())
    write(flow, 1, 1)
    told = {(report.end, report.error) for report in run_as(flow, first, claim)}
    assert told == {(LaneEnd.SUPERSEDED, f"flow {flow.topic}: application app-b of environment b has taken it")}
