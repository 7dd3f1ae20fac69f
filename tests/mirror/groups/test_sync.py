"""Group sync on real brokers: MirrorMaker 2's scenarios for offsets, held to exactness instead of its bound.

Ported from MirrorConnectorsIntegrationBaseTest: replication with an empty partition, offset sync, frequent syncs, no
checkpoints if no records, restart, translation behind the replication flow (rewind).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.groups.translators import SEEN_ROUNDS
from reconciler_mirror.lane.offset_map_writer import MapWriter
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.mirrormaker_records import Checkpoint
from tests.support.clusters import CreateTopic, consumer_protocol, delete_topic, member
from tests.support.lanes.lane_runs import Flow, producer
from tests.support.lanes.synced import Synced, write
from tests.support.lanes.truth import map_topic, placed
from tests.support.reading import to_the_end
from tests.support.waiting import until


@pytest.fixture
def synced(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Synced:
    flow = Flow(plain["east"], plain["west"], unique, partitions=2)
    create_topic(flow.source, flow.topic, 2)
    create_topic(flow.target, flow.remote, 2)
    map_topic(flow.target)
    made = Synced(flow, (f"{unique}.*",))
    create_topic(flow.target, made.log, cleanup_policy="compact")
    return made


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


def test_every_group_continues_at_its_exact_next_record(synced: Synced, unique: str) -> None:
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


@pytest.mark.parametrize("doubled", [False, True], ids=["once", "some of it twice"])
def test_a_group_in_what_another_tool_has_copied_is_never_moved_ahead(
    doubled: bool, synced: Synced, unique: str
) -> None:
    """A take-over from MirrorMaker 2: its copies are read and paired; where they do not pair, the group reads again."""
    flow = synced.flow
    write(flow, 0, 100)
    copies = producer(flow.target)
    for number, message in enumerate(to_the_end(flow.source, flow.topic, [0])):
        for _ in range(1 + (doubled and number == 70)):
            copies.produce(flow.remote, message.value(), timestamp=message.timestamp()[1], partition=0)
    copies.flush(20)
    at = placed(flow.source, flow.topic)
    write(flow, 100, 20)
    synced.commit(f"{unique}-behind", {0: at[b"30"]})
    synced.commit(f"{unique}-beyond", {0: at[b"99"] + 1})
    flow.run(batch_path, flow.at_end(), start_offsets={(flow.topic, 0): at[b"99"] + 1})
    synced.round(SEEN_ROUNDS + 2)
    assert next_values(flow, f"{unique}-behind")[0] == (b"0" if doubled else b"30")
    assert next_values(flow, f"{unique}-beyond")[0] == b"100"


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


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=consumer_protocol)])
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
    found = synced.round(SEEN_ROUNDS + 2)
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
    assert synced.round(SEEN_ROUNDS + 2).inexact == 0


def test_a_gap_that_cannot_be_counted_is_reported_and_nothing_is_missed(
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
    found = synced.round(SEEN_ROUNDS + 2)
    assert found.inexact == 1
    assert "begins at" in found.gaps[unique]
    assert synced.offset(unique) == here[b"9"] + 1 <= here[b"17"]


def test_a_group_beyond_the_log_of_the_source_is_said_to_be(synced: Synced, unique: str) -> None:
    write(synced.flow, 0, 10)
    synced.copy()
    synced.commit(unique, {0: 5_000})
    found = synced.round(SEEN_ROUNDS + 2)
    assert found.inexact == 1
    assert (
        f"{synced.flow.topic}-0 (at 5000): the log ends before that on {synced.flow.source.name}, at "
        in found.gaps[unique]
    )


def test_a_recreated_remote_topic_gets_no_offset_of_its_former_copy(
    synced: Synced, unique: str, create_topic: CreateTopic
) -> None:
    """Neither by rounds that have translated the group before, nor by a new application. Once the copy is made again,
    the group goes on at its record in it, and so does who reads its checkpoint."""
    flow = synced.flow
    write(flow, 0, 50)
    at = placed(flow.source, flow.topic)[b"40"]
    synced.commit(unique, {0: at})
    synced.copy()

    def make_anew() -> None:
        assert synced.offset(unique) is not None
        delete_topic(flow.target, flow.remote)
        until(lambda: synced.offset(unique) is None, 20)  # Kafka deletes it with the topic
        create_topic(flow.target, flow.remote, 2)

    for found in (synced.round(SEEN_ROUNDS + 4, between=make_anew), synced.round(SEEN_ROUNDS + 2)):
        assert synced.offset(unique) is None
        assert f"{flow.remote} on west was deleted and recreated since it was mirrored" in found.gaps[unique]
    checkpoint = synced.checkpoints()[unique, flow.remote, 0]
    assert (checkpoint.upstream, checkpoint.downstream) == (0, 0)
    write(flow, 50, 20)  # the new copy is the longer one, with other offsets: its session sees no aborted lane
    synced.copy()
    synced.round()
    assert next_values(flow, unique)[0] == b"40"
    checkpoint = synced.checkpoints()[unique, flow.remote, 0]
    assert (checkpoint.upstream, checkpoint.downstream) == (at, placed(flow.target, flow.remote)[b"40"])


def test_an_offset_of_a_recreated_source_topic_is_not_taken_for_one_of_the_former(
    synced: Synced, unique: str, create_topic: CreateTopic
) -> None:
    flow = synced.flow
    write(flow, 0, 50)
    synced.copy()
    delete_topic(flow.source, flow.topic)
    create_topic(flow.source, flow.topic, 2)
    write(flow, 100, 30)
    synced.commit(unique, {0: 7})
    found = synced.round(SEEN_ROUNDS + 2)
    assert synced.offset(unique) is None, "its record is not in the copy"
    assert f"{flow.topic} on east was deleted and recreated since it was mirrored" in found.gaps[unique]
