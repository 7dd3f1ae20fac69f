"""``mirror import-positions`` on real brokers: what it finds, what it leaves aside, and when it does not write."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import jsonschema
import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters import mirrormaker
from reconciler.backends.clusters.groups import Side
from reconciler.backends.clusters.mirrormaker import Pair, read_records
from reconciler.operations.importers import positions as inheritance
from tests.support.clusters import CreateTopic
from tests.support.commands import Ended, two_clusters
from tests.support.paths import SCHEMAS
from tests.support.waiting import until

Cli = Callable[..., Ended]
Stored = tuple[int, int | None]
STAMP = 1_700_000_000_000
SCHEMA = json.loads((SCHEMAS / "reports" / "imported-positions.schema.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inheritance, "LOOK_AGAIN_S", 0.0)


@pytest.fixture
def env(write: Callable[..., Path], plain: Sandbox, unique: str, create_topic: CreateTopic) -> Path:
    """Flow ``unique`` of a topic with 20 records in partition 0 and 10 in partition 1; its remote topic is there."""
    east, west = plain["east"], plain["west"]
    create_topic(east, unique, partitions=2, retention_ms="-1")  # its records are of 2023
    create_topic(west, f"east.{unique}", partitions=2, retention_ms="-1")
    producer = Producer(east.super_client())
    for number in range(30):
        producer.produce(unique, str(number), partition=int(number >= 20), timestamp=STAMP + number)
    assert producer.flush(30) == 0
    create_topic(west, f"{unique}connectoffsets", partitions=3, cleanup_policy="compact")
    flows = f"flows:\n  {unique}: {{source: east, target: west, topics: [{unique}]}} # ours\n"
    return write(two_clusters(plain) + flows, unique)


def store(west: ClusterHandle, topic: str, *offsets: Stored, commit: bool = True) -> None:
    """As an exactly-once connector does: in a transaction. Its end is in the log when this returns."""
    producer = Producer({**west.super_client(), "transactional.id": f"connect-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition, offset in offsets:
        key = json.dumps(["mm2", {"cluster": "east", "partition": partition, "topic": topic}])
        value = None if offset is None else json.dumps({"offset": offset})
        producer.produce(f"{topic}connectoffsets", key=key, value=value)
    producer.flush(30)
    (producer.commit_transaction if commit else producer.abort_transaction)(30)
    committed, written = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    until(lambda: _ends(west, topic, committed) == _ends(west, topic, written), 30)  # its markers come later


def _ends(west: ClusterHandle, topic: str, isolation: IsolationLevel) -> list[int]:
    admin, name = AdminClient(west.super_client()), f"{topic}connectoffsets"
    partitions = admin.list_topics(name, timeout=30).topics[name].partitions
    asked = {TopicPartition(name, partition): OffsetSpec.latest() for partition in partitions}
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=30)
    return [future.result(30).offset for _, future in sorted(answers.items())]


def words(env: Path, flow: str) -> tuple[object, ...]:
    place = ("--offsets-topic", f"{flow}connectoffsets", "--connector", "mm2")
    return ("mirror", "import-positions", env, flow, *place)


def test_committed_positions_are_shown_then_written_and_replaced(
    cli: Cli, env: Path, plain: Sandbox, unique: str
) -> None:
    file = env / "topology.yaml"
    before = file.read_text()
    store(plain["west"], unique, (0, 3), (1, 9), (5, 1))
    store(plain["west"], unique, (0, 11))
    store(plain["west"], unique, (0, 15), commit=False)
    shown = cli(*words(env, unique))
    start = f"start: {{offsets: {{{unique}: {{0: 12, 1: 10}}}}}}"
    assert (shown.code, start in shown.out) == (0, True)
    assert f"{unique}-5: is at 2, and the source has 2 partitions" in shown.out
    [row] = [line.split() for line in shown.out.splitlines() if f"west/east.{unique}" in line]
    assert row == [unique, "2", "2", "8", f"west/east.{unique}"]
    assert file.read_text() == before

    assert cli(*words(env, unique), "--write").code == 0
    assert file.read_text() == before.replace("{source: east", f"{{{start}, source: east")
    assert cli("validate", env).code == 0

    store(plain["west"], unique, (0, 12), (1, None))
    again = cli(*words(env, unique), "--write", "--format", "json")
    document = json.loads(again.out)
    jsonschema.validate(document, SCHEMA)
    assert document["flows"][0]["topics"][0]["positions"] == {"0": 13}
    assert document["flows"][0]["topics"][0]["without_position"] == [1]
    assert "{0: 13, 1: 10}" in file.read_text(), "an offset that stands there stays"


@pytest.mark.long
def test_connect_may_keep_its_offsets_on_a_third_cluster(
    cli: Cli, write: Callable[..., Path], trio: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    """Of neither side of the flow: it is declared for its address alone, and named with --on."""
    east, west, hub = trio["east"], trio["west"], trio["hub"]
    create_topic(east, unique, partitions=2)
    create_topic(west, f"east.{unique}", partitions=2)
    records = Producer(east.super_client())
    for number in range(20):
        records.produce(unique, str(number), partition=number % 2, timestamp=STAMP + number)
    assert records.flush(30) == 0
    copy(west, unique, *[(number % 2, str(number)) for number in range(14)])
    create_topic(hub, f"{unique}connectoffsets", partitions=3, cleanup_policy="compact")
    store(hub, unique, (0, 6), (1, 6))
    flow = f"flows:\n  {unique}: {{source: east, target: west, topics: [{unique}]}}\n"
    env = write(two_clusters(trio) + flow, unique)
    assert "remote-topic-not-empty" in cli("plan", env).out

    missed = cli("mirror", "import-positions", env, unique)
    assert missed.code == 1
    assert f"hub/{unique}connectoffsets" in missed.err, missed.words
    asked = (*words(env, unique), "--on", "hub")
    written = cli(*asked, "--write")
    assert written.code == 0, written.words
    assert f"start: {{offsets: {{{unique}: {{0: 7, 1: 7}}}}}}" in (env / "topology.yaml").read_text()
    planned = cli("plan", env)
    assert planned.code == 2, planned.words
    assert "remote-topic-not-empty" not in planned.out

    without = env / "topology.yaml"
    without.write_text(without.read_text().replace("  hub:", "  # hub:"))
    undeclared = cli(*asked)
    assert (undeclared.code, "add it to clusters with its bootstrap_servers" in undeclared.err) == (1, True)


def test_a_transaction_that_is_undecided_is_waited_for_and_never_read_past(
    cli: Cli, env: Path, plain: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producer may count it as committed already: markers come later. The positions before it would be old ones."""
    store(plain["west"], unique, (0, 3))
    key = json.dumps(["mm2", {"cluster": "east", "partition": 0, "topic": unique}])
    names = {"transactional.id": f"undecided-{unique}", "transaction.timeout.ms": "600000"}
    producer = Producer({**plain["west"].super_client(), **names})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(f"{unique}connectoffsets", key=key, value=json.dumps({"offset": 11}))
    producer.flush(30)
    with monkeypatch.context() as patched:
        patched.setattr(mirrormaker, "DECIDED_WITHIN_S", 0.2)
        refused = cli(*words(env, unique), "--write")
    assert (refused.code, f"a transaction in west/{unique}connectoffsets-" in refused.err) == (1, True), refused.err
    monkeypatch.setattr(mirrormaker, "DECIDED_WITHIN_S", 60.0)
    deciding = threading.Timer(0.5, lambda: producer.commit_transaction(30))
    deciding.start()
    shown = cli(*words(env, unique))
    deciding.join()
    assert f"{{{unique}: {{0: 12}}}}" in shown.out, shown.words


def test_positions_of_the_flows_own_are_not_written_over(cli: Cli, env: Path, plain: Sandbox, unique: str) -> None:
    store(plain["west"], unique, (0, 3), (1, 4))
    consumer = Consumer({**plain["west"].super_client(), "group.id": f"mirror.{unique}"})
    consumer.commit(offsets=[TopicPartition(f"east.{unique}", 0, 7)], asynchronous=False)
    shown = cli(*words(env, unique))
    assert f"{unique}-0: the flow has a position of its own, 7" in shown.out
    assert f"{{{unique}: {{1: 5}}}}" in shown.out
    consumer.commit(offsets=[TopicPartition(f"east.{unique}", 1, 7)], asynchronous=False)
    consumer.close()
    before = (env / "topology.yaml").read_text()
    refused = cli(*words(env, unique), "--write")
    assert (refused.code, "no position to take over" in refused.err) == (1, True)
    assert (env / "topology.yaml").read_text() == before


def copy(west: ClusterHandle, topic: str, *records: tuple[int, str]) -> None:
    """As MirrorMaker 2 does at least once: with the source's timestamp."""
    producer = Producer(west.super_client())
    for partition, value in records:
        producer.produce(f"east.{topic}", value, partition=partition, timestamp=STAMP + int(value))
    assert producer.flush(30) == 0


def test_what_a_killed_mirrormaker_had_in_flight_is_found_in_both_logs(
    cli: Cli, env: Path, plain: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed twice in partition 0: 12 is stored, 12 to 16 came twice, 17 once. Partition 1 lacks one of them."""
    monkeypatch.setattr(mirrormaker, "WINDOWS", (4, 64))
    first = [(0, str(number)) for number in range(17)]
    second = [(0, str(number)) for number in range(12, 18)]
    other = [(1, str(number)) for number in range(20, 29) if number != 26]
    copy(plain["west"], unique, *first, *second, *other)
    store(plain["west"], unique, (0, 11), (1, 4))
    planned = cli("plan", env).out
    assert f"positions of 2 of these 2 partitions in {unique}connectoffsets, by connector mm2 of source east" in planned
    assert f"import-positions {env} {unique} --offsets-topic {unique}connectoffsets --connector mm2 --write" in planned
    shown = cli(*words(env, unique))
    assert (shown.code, f"start: {{offsets: {{{unique}: {{0: 18, 1: 6}}}}}}" in shown.out) == (0, True), shown.out
    assert "note: 7 records of 2 partitions after the stored positions, as both logs show, were copied to" in shown.out
    assert f"note: {unique}-1: at most 2 records from 6 on come twice" in shown.out
    assert cli(*words(env, unique), "--write").code == 0


def test_a_mirrormaker_that_ended_before_its_first_position_is_gone_on_with_where_both_logs_prove_it(
    cli: Cli, env: Path, plain: Sandbox, unique: str
) -> None:
    """In partition 0 all up to 7 was copied, some of it twice; in partition 1 one record is missing."""
    copy(plain["west"], unique, *[(0, str(number)) for number in (*range(8), *range(5, 8))], (1, "20"), (1, "22"))
    assert "remote-topic-not-empty" in cli("plan", env).out
    asked = words(env, unique)
    shown = cli(*asked)
    assert (shown.code, f"start: {{offsets: {{{unique}: {{0: 8}}}}}}" in shown.out) == (0, True), shown.words
    assert "note: 8 records of 1 partition without a position, as both logs show" in shown.out
    assert (
        f"{unique}-1: no position was stored, and where MirrorMaker 2 ended is not proved: west may have" in shown.out
    )
    written = cli(*asked, "--write")
    assert written.out.endswith("Then decide about 1 partition not copied (note above): plan is blocked.\n")
    assert f"east.{unique} 2" in cli("plan", env).out, "the two records of partition 1"
    (env / "topology.yaml").write_text((env / "topology.yaml").read_text().replace("{0: 8}", "{0: 8, 1: 1}"))
    assert cli("plan", env).code == 2


def test_logs_that_cannot_be_compared_are_reported(cli: Cli, env: Path, plain: Sandbox, unique: str) -> None:
    producer = Producer(plain["west"].super_client())
    producer.produce(f"east.{unique}", "0", partition=0, timestamp=1)
    assert producer.flush(30) == 0
    store(plain["west"], unique, (0, 0))
    told = f"{unique}-0: whether MirrorMaker 2 had records in flight is not known: west has no record around it as east"
    assert told in cli(*words(env, unique)).out


def test_a_mirrormaker_that_still_copies_is_not_taken_over(
    cli: Cli, env: Path, plain: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(plain["west"], unique, (0, 3), (1, 4))

    looks: list[str] = []

    def moving(side: Side, topic: str) -> Sequence[Pair]:
        if looks:
            store(plain["west"], unique, (0, 5))
        looks.append(topic)
        return read_records(side, topic)

    monkeypatch.setattr("reconciler.operations.importers.positions.read_records", moving)
    before = (env / "topology.yaml").read_text()
    refused = cli(*words(env, unique), "--write")
    assert (refused.code, "MirrorMaker 2 still copies: 1 position moved" in refused.err) == (3, True)
    assert (env / "topology.yaml").read_text() == before


def test_a_topic_that_is_not_there_is_reported_with_those_that_look_like_it(cli: Cli, env: Path, unique: str) -> None:
    ended = cli("mirror", "import-positions", env, unique, "--alias", "gone")
    assert (ended.code, "west/mm2-offsets.gone.internal is missing" in ended.words) == (1, True)
    assert f"west/{unique}connectoffsets" in ended.words


def test_another_connector_has_nothing_to_write(cli: Cli, env: Path, plain: Sandbox, unique: str) -> None:
    store(plain["west"], unique, (0, 3))
    ended = cli(*words(env, unique)[:-1], "another", "--write")
    assert (ended.code, "connector mm2: 1 position of another connector than another" in ended.words) == (1, True)


def test_a_cluster_that_is_not_declared_is_reported_with_those_that_are(cli: Cli, env: Path, unique: str) -> None:
    ended = cli("mirror", "import-positions", env, unique, "--on", "north")
    assert (ended.code, "--on names north" in ended.words, "Its clusters: east, west" in ended.words) == (1, True, True)


def test_a_flow_that_is_not_declared_is_reported_with_those_that_are(cli: Cli, env: Path, unique: str) -> None:
    ended = cli("mirror", "import-positions", env, "none")
    assert (ended.code, f"Its flows: {unique}" in ended.words) == (1, True)
