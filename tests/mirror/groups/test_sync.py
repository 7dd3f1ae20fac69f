"""Group sync on real brokers: MirrorMaker 2's scenarios for offsets, held to exactness instead of its bound.

Ported from MirrorConnectorsIntegrationBaseTest: replication with an empty partition, offset sync, frequent syncs, no
checkpoints if no records, restart, translation behind the replication flow (rewind).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from mirror.batch_path import batch_path
from mirror.group_gaps import PATIENCE, GapCloser
from mirror.group_round import GroupRounds, RoundResult, Tell
from mirror.map_writing import MapWriter
from mirror.settings import GroupSettings

from replication.groups import EXCLUDED_GROUPS
from replication.mirrormaker import Checkpoint, checkpoints_topic
from sandbox.handles import Sandbox
from tests.conftest import CreateTopic
from tests.translation.truth import map_topic, placed
from tests.wire.lane_runs import Flow, producer
from tests.wire.raw import cluster_of
from tests.wire.test_groups import member
from translation.checkpoints import CheckpointLog
from translation.reading import MapReader
from wire.cluster import Cluster, Key
from wire.group_offsets import CommittedOffset
from wire.groups import Groups

Answer = TypeVar("Answer")


@dataclass
class Synced:
    """One flow whose groups are synced. ``rounds`` run on fresh connections, as after a restart of the job."""

    flow: Flow
    include: tuple[str, ...]
    follow: bool = False
    tell: Tell | None = None

    @property
    def log(self) -> str:
        return checkpoints_topic(self.flow.source.name, f".{self.flow.topic}.")

    def copy(self) -> None:
        self.flow.run(batch_path, self.flow.at_end())

    def round(self, count: int = 1) -> RoundResult:
        async def run(source: Cluster, target: Cluster) -> RoundResult:
            settings = GroupSettings(self.include, EXCLUDED_GROUPS, 1000, self.follow)
            log, maps = CheckpointLog(target, self.log), MapReader(target, self.flow.topic)
            closer = GapCloser(self.flow.topic, (source, target), committed=True)
            rounds = GroupRounds(settings, source, target, await log.read(), closer)
            routes = {(self.flow.topic, p): self.flow.remote for p in range(self.flow.partitions)}
            for _ in range(count):
                await maps.refresh()
                found = await rounds.run(routes, maps, {}, self.tell or log.write)
            return found

        return self._visit(run)

    async def write(self, checkpoints: Sequence[Checkpoint]) -> None:
        target = cluster_of(self.flow.target)
        try:
            await CheckpointLog(target, self.log).write(checkpoints)
        finally:
            target.close()

    def checkpoints(self) -> Mapping[tuple[str, str, int], Checkpoint]:
        return self._visit(lambda _, target: CheckpointLog(target, self.log).read())

    def commit(self, group: str, offsets: Mapping[int, int], metadata: str = "", *, on_target: bool = False) -> None:
        topic = self.flow.remote if on_target else self.flow.topic
        wanted = {group: {(topic, p): CommittedOffset(o, metadata=metadata) for p, o in offsets.items()}}

        async def run(source: Cluster, target: Cluster) -> None:
            answers = await Groups(target if on_target else source).commit(wanted)
            assert set(answers[group].values()) == {0}

        self._visit(run)

    def on_target(self, group: str) -> Mapping[Key, CommittedOffset]:
        async def run(_: Cluster, target: Cluster) -> Mapping[Key, CommittedOffset]:
            return (await Groups(target).offsets([group]))[group].offsets

        return self._visit(run)

    def offset(self, group: str, partition: int = 0) -> int | None:
        found = self.on_target(group).get((self.flow.remote, partition))
        return found.offset if found else None

    def _visit(self, ask: Callable[[Cluster, Cluster], Awaitable[Answer]]) -> Answer:
        async def run() -> Answer:
            source, target = cluster_of(self.flow.source), cluster_of(self.flow.target)
            try:
                return await ask(source, target)
            finally:
                source.close()
                target.close()

        return asyncio.run(run())


@pytest.fixture
def synced(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Synced:
    flow = Flow(plain["east"], plain["west"], unique, partitions=2)
    create_topic(flow.source, flow.topic, 2)
    create_topic(flow.target, flow.remote, 2)
    map_topic(flow.target)
    made = Synced(flow, (f"{unique}.*",))
    create_topic(flow.target, made.log, cleanup_policy="compact")
    return made


def write(flow: Flow, first: int, count: int) -> None:
    """To partition 0, half of them in transactions, so that offsets differ on both sides."""
    writer = producer(flow.source, transactional_id=f"{flow.topic}-{first}")
    writer.init_transactions(20)
    for part in range(0, count, 10):
        writer.begin_transaction()
        for number in range(part, min(part + 10, count)):
            writer.produce(flow.topic, b"%d" % (first + number), partition=0)
        writer.commit_transaction(20)


def next_values(flow: Flow, group: str) -> list[bytes]:
    """What a stock consumer of the group reads first at the target."""
    settings = {
        **flow.target.super_client(),
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }
    consumer = Consumer(settings)
    place = TopicPartition(flow.remote, 0)
    (at,) = consumer.committed([place], timeout=20)
    consumer.assign([TopicPartition(flow.remote, 0, at.offset)])
    found = [message.value() for message in consumer.consume(3, 5.0)]
    consumer.close()
    return found


def test_every_group_goes_on_at_its_exact_next_record(synced: Synced, unique: str) -> None:
    write(synced.flow, 0, 200)
    there = placed(synced.flow.source, synced.flow.topic)
    for number in (0, 1, 57, 100, 199):
        synced.commit(f"{unique}-{number}", {0: there[b"%d" % number]}, f"at {number}")
    synced.commit(f"{unique}-end", {0: there[b"199"] + 1})
    synced.copy()
    found = synced.round()
    assert (found.groups, found.inexact, found.written) == (6, 0, 6)
    here = placed(synced.flow.target, synced.flow.remote)
    for number in (0, 1, 57, 100, 199):
        group = f"{unique}-{number}"
        assert synced.on_target(group) == {
            (synced.flow.remote, 0): CommittedOffset(here[b"%d" % number], metadata=f"at {number}")
        }
        assert next_values(synced.flow, group) == [b"%d" % n for n in range(number, min(number + 3, 200))]
    told = synced.checkpoints()
    assert told[f"{unique}-57", synced.flow.remote, 0] == Checkpoint(
        f"{unique}-57", synced.flow.remote, 0, there[b"57"], here[b"57"], "at 57"
    )
    assert not synced.round().checkpoints, "a new application says again what stands already"
    write(synced.flow, 200, 5)
    synced.copy()
    synced.round()
    assert next_values(synced.flow, f"{unique}-end") == [b"200", b"201", b"202"]


def test_an_empty_partition_has_its_offset_too(synced: Synced, unique: str) -> None:
    write(synced.flow, 0, 10)
    synced.commit(unique, {0: 3, 1: 0})
    synced.copy()
    found = synced.round()
    assert synced.offset(unique, 1) == 0
    assert {(c.topic, c.partition) for c in found.checkpoints} == {(synced.flow.remote, 0)}


def test_no_checkpoints_before_records_are_mirrored(synced: Synced, unique: str) -> None:
    write(synced.flow, 0, 10)
    synced.commit(unique, {0: 4})
    assert not synced.round().checkpoints
    assert synced.offset(unique) is None
    synced.copy()
    assert len(synced.round().checkpoints) == 1
    assert next_values(synced.flow, unique)[0] == b"4"


def test_offsets_at_the_target_are_never_set_back(synced: Synced, unique: str) -> None:
    write(synced.flow, 0, 50)
    synced.copy()
    synced.commit(unique, {0: 30}, on_target=True)
    synced.commit(unique, {0: 5})
    found = synced.round(2)
    assert (found.written, synced.offset(unique)) == (0, 30)


@pytest.mark.parametrize("follow", [False, True])
def test_a_rewind_is_followed_when_asked(synced: Synced, unique: str, follow: bool) -> None:
    synced.follow = follow
    write(synced.flow, 0, 50)
    there = placed(synced.flow.source, synced.flow.topic)
    synced.copy()
    synced.commit(unique, {0: there[b"45"]})
    synced.round()
    ahead = synced.offset(unique)
    synced.commit(unique, {0: there[b"5"]})
    found = synced.round()  # a new application: it knows of the rewind by the checkpoints
    assert [c.upstream for c in found.checkpoints] == [there[b"5"]]
    assert next_values(synced.flow, unique)[0] == (b"5" if follow else b"45")
    synced.commit(unique, {0: there[b"46"]})
    synced.round()
    assert (synced.offset(unique) or 0) > (ahead or 0)


class Killed(Exception):  # noqa: N818  # no error of ours: the end of the process
    pass


@pytest.mark.parametrize("write_number", [1, 2])
def test_a_rewind_is_followed_though_the_application_was_killed_between_its_writes(
    synced: Synced, unique: str, write_number: int
) -> None:
    """It had set the group further, and then could not tell; or it had set it back, and could not tell."""
    synced.follow = True
    write(synced.flow, 0, 50)
    synced.copy()
    there = placed(synced.flow.source, synced.flow.topic)
    for position, dies in ((5, False), (45, True), (30, False), (10, True), (20, False)):
        writes = 0

        async def tell(checkpoints: Sequence[Checkpoint]) -> None:
            nonlocal writes
            writes += 1
            if dies and writes == write_number:  # noqa: B023
                raise Killed
            await synced.write(checkpoints)

        synced.commit(unique, {0: there[b"%d" % position]})
        synced.tell = tell
        with pytest.raises(Killed) if dies else contextlib.nullcontext():
            synced.round()
        if not dies:
            assert next_values(synced.flow, unique)[0] == b"%d" % position


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_active_members_at_the_target_are_left_alone(synced: Synced, unique: str, protocol: str) -> None:
    write(synced.flow, 0, 50)
    synced.copy()
    with member(synced.flow.target, unique, synced.flow.remote, protocol):
        synced.commit(unique, {0: 44})
        found = synced.round()
        assert (found.active, found.written) == ((unique,), 0)
        assert synced.offset(unique) == 5
    assert synced.round().written == 1
    assert (synced.offset(unique) or 0) > 5


def test_offsets_that_the_target_forgot_are_written_again(synced: Synced, unique: str) -> None:
    """As after offsets.retention.minutes."""
    write(synced.flow, 0, 10)
    synced.copy()
    synced.commit(unique, {0: 4})
    synced.round()
    admin = AdminClient(synced.flow.target.super_client())
    admin.delete_consumer_groups([unique])[unique].result(20)
    assert synced.on_target(unique) == {}
    assert synced.round().written == 1


def test_positions_of_mirrors_and_excluded_groups_stay(synced: Synced, unique: str) -> None:
    write(synced.flow, 0, 10)
    synced.copy()
    synced.include = (".*",)
    for group in (f"mirror.{unique}.another", f"console-consumer-{unique}"):
        synced.commit(group, {0: 4})
        synced.round()
        assert synced.on_target(group) == {}


@pytest.mark.parametrize("writes", [(False, True), (True, False), (False, False)], ids=["before", "behind", "no map"])
def test_what_a_killed_lane_did_not_write_is_counted(
    synced: Synced, unique: str, monkeypatch: pytest.MonkeyPatch, writes: tuple[bool, bool]
) -> None:
    """Two sessions, one of which or both did not come to write the map; nothing is copied afterwards."""
    write_map = MapWriter.write

    async def nothing(_: MapWriter) -> bool:
        return True

    for number, writing in enumerate(writes):
        monkeypatch.setattr(MapWriter, "write", write_map if writing else nothing)
        write(synced.flow, number * 40, 40)
        synced.copy()
    there, here = placed(synced.flow.source, synced.flow.topic), placed(synced.flow.target, synced.flow.remote)
    numbers = (0, 1, 17, 39, 40, 41, 62, 79)
    for number in numbers:
        synced.commit(f"{unique}-{number}", {0: there[b"%d" % number]})
    end = synced.flow.position().offset
    synced.commit(f"{unique}-end", {0: end})
    found = synced.round(PATIENCE + 2)
    assert (found.groups, found.inexact, found.gaps) == (9, 0, {})
    for number in numbers:
        offset = synced.offset(f"{unique}-{number}")
        assert offset is not None
        assert min(o for o in here.values() if o >= offset) == here[b"%d" % number]
    last = synced.offset(f"{unique}-end")
    assert last is not None
    assert last > here[b"79"]
    assert synced.round().inexact == 0, "a new application finds it in the map"


def test_a_gap_with_nothing_but_aborted_records_is_none(
    synced: Synced, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lane had gone past them, and was killed before it could say so."""

    async def nothing(_: MapWriter) -> bool:
        return True

    write(synced.flow, 0, 10)
    synced.copy()
    monkeypatch.setattr(MapWriter, "write", nothing)
    writer = producer(synced.flow.source, transactional_id=unique)
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce(synced.flow.topic, b"never", partition=0)
    writer.flush(20)
    writer.abort_transaction(20)
    synced.copy()
    end = synced.flow.position().offset
    assert end > placed(synced.flow.source, synced.flow.topic)[b"9"] + 2
    synced.commit(unique, {0: end})
    assert synced.round().inexact == 1
    assert synced.round(PATIENCE + 2).inexact == 0


def test_a_gap_that_cannot_be_counted_is_told_and_nothing_is_missed(
    synced: Synced, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: MapWriter) -> bool:
        return True

    for number in range(3):
        write(synced.flow, number * 10, 10)
        with monkeypatch.context() as patched:
            if number == 1:
                patched.setattr(MapWriter, "write", nothing)
            synced.copy()
    there, here = placed(synced.flow.source, synced.flow.topic), placed(synced.flow.target, synced.flow.remote)
    place = TopicPartition(synced.flow.topic, 0, there[b"15"])
    admin = AdminClient(synced.flow.source.super_client())
    admin.delete_records([place])[place].result(30)
    synced.commit(unique, {0: there[b"17"]})
    found = synced.round(PATIENCE + 2)
    assert found.inexact == 1
    assert "begins at" in found.gaps[unique]
    assert synced.offset(unique) == here[b"9"] + 1 <= here[b"17"]
