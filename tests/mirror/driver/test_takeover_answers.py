"""What a takeover writes when its group coordinator tells an older state than it told before, or nothing yet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from reconciler_mirror.conditions.flow import takeover_refused
from reconciler_mirror.driver import takeover
from reconciler_mirror.driver.takeover import Takeover
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.model.lane import Claim, PartitionSpec

from reconciler.kafka.client.cluster import NO_ID, Key
from reconciler.kafka.client.errors import UNKNOWN_TOPIC, BrokerError
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset, GroupOffsets
from reconciler.replication.handover import FlowSettings, Naming, Start
from reconciler.replication.handover_reader import parse
from tests.support.lanes.handover import handover
from tests.support.lanes.lane_spec import lane

IDS = ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")
KEYS = (("east.orders", 0), ("east.orders", 1))
SPECS = tuple(PartitionSpec("orders", number, "east.orders", IDS[0]) for number in range(2))
LOADING = 14
State = Mapping[Key, LanePosition]


def state(offset: int, claim: int, topic_id: str = IDS[0]) -> State:
    return {key: LanePosition(offset, topic_id, 0, Claim(claim, f"app-{claim}")) for key in KEYS}


NOW, OLD = state(1_000, 3), state(7, 2)


@dataclass
class Coordinator:
    """A coordinator in memory. ``snapshots``: what its answers without require_stable tell in turn, the last for good;
    ``pending``: partitions whose commit is undecided. ``fenced_after``: answers before the first fence, which writes
    markers. ``commits``: what was asked to be committed."""

    log: State
    snapshots: Sequence[State]
    pending: Collection[Key] = ()
    error: int = 0
    asked: int = 0
    fenced_after: int = 0
    commits: list[Mapping[Key, CommittedOffset]] = field(default_factory=list)
    cluster: Any = field(default_factory=lambda: SimpleNamespace(name="west"))

    async def offsets(self, groups: Sequence[str], *, stable: bool = False) -> dict[str, GroupOffsets]:
        assert not stable
        told = self.snapshots[min(self.asked, len(self.snapshots) - 1)]
        self.asked += 1
        return {groups[0]: GroupOffsets({key: _committed(key, at) for key, at in told.items()}, self.error)}

    async def decided(self, group: str, within: float) -> dict[Key, CommittedOffset | None]:
        assert self.commits == [], "our own claim makes all of them undecided"
        return {key: None if key in self.pending else _committed(key, at) for key, at in self.log.items()}

    def written(self) -> dict[Key, tuple[int, Claim]]:
        """The last that was committed of each."""
        last = {key: at for commit in self.commits for key, at in commit.items()}
        return {key: (at.offset, positions.decode(key, at.offset, at.metadata).claim) for key, at in last.items()}


def _committed(key: Key, at: LanePosition) -> CommittedOffset:
    return CommittedOffset(at.offset, at.leader_epoch, positions.encode(key, at))


class Identity:
    version_2 = True

    def __init__(self, coordinator: Coordinator, transactional_id: str | None) -> None:
        self._coordinator, self.transactional = coordinator, transactional_id is not None

    async def prepare(self) -> None:
        pass

    async def start(self) -> None:
        self._coordinator.fenced_after = self._coordinator.fenced_after or self._coordinator.asked

    async def end(self, *, committed: bool) -> None:
        assert committed

    async def commit_positions(self, wanted: Mapping[Key, CommittedOffset]) -> None:
        if wanted:
            self._coordinator.commits.append(wanted)


async def _nothing(*_: Any) -> Any:
    return {}


@pytest.fixture(autouse=True)
def without_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {"east.orders": SimpleNamespace(topic_id=IDS[0], error=0)}
    cluster = SimpleNamespace(cluster_id="west-id", refresh=_nothing, topics=topics, close=lambda: None)
    monkeypatch.setattr(takeover, "cluster_of", lambda _: cluster)
    for name in ("settle", "last_committed", "copied_before"):
        monkeypatch.setattr(takeover, name, _nothing)
    monkeypatch.setattr(takeover, "_LOOK_AGAIN_S", 0.001)


def take(
    coordinator: Coordinator,
    monkeypatch: pytest.MonkeyPatch,
    delivery: str = "exactly_once",
    waits: Callable[[int], None] = lambda _: None,
) -> Takeover:
    monkeypatch.setattr(takeover, "GroupClient", lambda _: coordinator)
    monkeypatch.setattr(takeover, "Identity", lambda _cluster, name, *_: Identity(coordinator, name))
    ends = lane(0)
    flow = FlowSettings(
        "orders", "0", ends.source, ends.target, ("orders",), (), Naming(), delivery, "read_committed", Start(), 2
    )
    return asyncio.run(takeover._Open(flow, waits, "", ()).take("new", SPECS))


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("first", [OLD, {}], ids=["old", "nothing"])
def test_an_answer_older_than_one_before_is_asked_for_again(
    first: State, delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, told = Coordinator(NOW, [NOW, first, first, first, NOW]), list[int]()
    took = take(coordinator, monkeypatch, delivery, told.append)
    assert took == Takeover(Claim(4, "new"), None)
    assert set(told) <= {2}
    if delivery == "exactly_once":
        assert coordinator.written() == dict.fromkeys(KEYS, (1_000, Claim(4, "new")))


@pytest.mark.parametrize("told", [OLD, {}], ids=["old", "nothing"])
def test_one_that_stays_older_is_never_written_again(told: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes read what is decided, and stop where it went back; nothing begins at the flow's start."""
    monkeypatch.setattr(takeover, "OLD_WITHIN_S", 0.02)
    coordinator = Coordinator(NOW, [told])
    assert take(coordinator, monkeypatch) == Takeover(Claim(4, "new"), None), "above every claim that was told"
    assert coordinator.written() == {}


def test_one_that_goes_back_after_the_fence_fails_the_takeover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "OLD_WITHIN_S", 0.02)
    coordinator = Coordinator(NOW, [NOW, NOW, OLD])
    with pytest.raises(BrokerError, match="UNSTABLE_OFFSET_COMMIT"):
        take(coordinator, monkeypatch)
    assert {offset for offset, _ in coordinator.written().values()} == {1_000}


def test_what_is_undecided_for_long_hinders_no_takeover(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that hangs in the middle of a commit: the fence ends its transaction."""
    coordinator = Coordinator(NOW, [NOW], pending=KEYS)
    assert take(coordinator, monkeypatch).claim == Claim(4, "new")
    assert coordinator.written() == dict.fromkeys(KEYS, (1_000, Claim(4, "new")))


def test_a_seek_and_a_recreated_topic_may_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for back in (state(7, 3, ""), state(7, 3, IDS[1])):
        coordinator = Coordinator(NOW, [NOW, back])
        take(coordinator, monkeypatch)
        assert coordinator.written() == dict.fromkeys(KEYS, (7, Claim(4, "new")))


def test_a_coordinator_that_is_still_loading_is_an_error_and_no_empty_group(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator({}, [{}], error=LOADING)
    with pytest.raises(BrokerError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        take(coordinator, monkeypatch)
    assert coordinator.commits == []


def test_positions_that_the_map_has_and_the_coordinator_lacks_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A coordinator of Kafka 4 may answer while it still loads its log: with old positions, and with none."""

    async def committed(*_: Any) -> Mapping[Key, int]:
        return {("orders", 0): 1_000, ("orders", 1): 900}

    monkeypatch.setattr(takeover, "last_committed", committed)
    half = {KEYS[1]: NOW[KEYS[1]]}
    coordinator = Coordinator(NOW, [{}, half, OLD, NOW])
    assert take(coordinator, monkeypatch) == Takeover(Claim(4, "new"), None)
    assert coordinator.written() == dict.fromkeys(KEYS, (1_000, Claim(4, "new")))
    assert coordinator.fenced_after == 4, "nothing was written before all of it was reported"


def test_a_position_that_was_deleted_with_its_remote_topic_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The map knows it, and of a topic that is not there no id tells that it is of a former one."""

    async def committed(_cluster: Any, _flow: str, wanted: Mapping[Key, Any]) -> Mapping[Key, int]:
        return dict.fromkeys(wanted, 1_000)

    monkeypatch.setattr(takeover, "last_committed", committed)
    gone = {"east.orders": SimpleNamespace(topic_id=NO_ID, error=UNKNOWN_TOPIC)}
    cluster = SimpleNamespace(cluster_id="west-id", refresh=_nothing, topics=gone, close=lambda: None)
    monkeypatch.setattr(takeover, "cluster_of", lambda _: cluster)
    waited = list[int]()
    took = take(Coordinator({}, [{}]), monkeypatch, waits=waited.append)
    assert (took.started, waited) == (2, [])


def test_where_one_identity_is_refused_the_others_ask_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were left pending, and told of in the job's log when they were collected."""
    asked: list[asyncio.Task[None]] = []

    class OneRefused:
        def __init__(self, *_: object) -> None:
            self.cluster = SimpleNamespace(close=lambda: None)

        async def prepare(self) -> None:
            asked.append(asyncio.create_task(asyncio.sleep(3600)))
            await asyncio.sleep(0)
            raise BrokerError(30, "coordinator of mirror.orders on west")

    monkeypatch.setattr(takeover, "_Open", OneRefused)
    taking = takeover.WireTakeover(cast(FlowSettings, None))
    with pytest.raises(BrokerError):
        taking.prepare()
    assert [task.cancelled() for task in asked] == [True]
    taking.close()


@pytest.mark.parametrize(
    ("code", "named", "todo"),
    [
        (30, "permission_denied", "group mirror.orders): reconciler doctor ENV prints the commands"),
        (53, "permission_denied", "(transactional ids mirror.orders.*, "),
        (15, "target_unreachable", "Check west:9092."),
    ],
)
def test_a_right_that_it_lacks_is_none_of_the_network(code: int, named: str, todo: str) -> None:
    flow = parse(json.dumps(handover())).flows[0]
    condition = takeover_refused(flow, BrokerError(code, "positions of group mirror.orders on west"))
    assert (condition.code, condition.stops) == (named, True)
    assert todo in condition.todo
