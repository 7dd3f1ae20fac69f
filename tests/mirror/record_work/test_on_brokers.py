"""Record work on real brokers: filters and added headers, and records of one name in several clusters."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from reconciler_mirror.driver.provenance_start import NotReadyError
from reconciler_mirror.driver.takeover import Takeover, WireTakeover
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneEnd, LaneProgress, LaneSpec, PartitionSpec, RecordWork, work_of
from reconciler_mirror.record_work import provenance_header as provenance
from reconciler_mirror.record_work.on_records import Decoded
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.replication.expressions.record_filter import AddedHeader, AllOf, Equals, Exists, Header, Key, Not, Where
from reconciler.replication.handover import FORWARD, LOCAL, FlowSettings, Naming, Provenance, Start
from tests.support.lanes.lane_runs import Content, Flow, UntilControl, content, endpoint, fill
from tests.support.lanes.raw import cluster_of

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    made = Flow(plain["east"], plain["west"], unique)
    create_topic(made.source, made.topic, 1)
    create_topic(made.target, made.remote, 1)
    return made


def _records(count: int) -> list[Content]:
    regions = (b"eu", b"us", None)
    return [
        (None if i % 5 == 0 else b"k%d" % i, b"v" * (i % 40), (("region", regions[i % 3]), ("n", b"%d" % i)), NOW + i)
        for i in range(count)
    ]


def test_filter_and_headers(flow: Flow) -> None:
    given = _records(3000)
    fill(flow.source, flow.topic, given, linger_ms=20, compression_type="lz4", batch_num_messages=200)
    where: Where = AllOf((Header("region", Equals(b"eu")), Not(Key(Exists(False)))))
    work = RecordWork(where, (AddedHeader("from", "{source_cluster}/{topic}-{partition}@{offset}"),))
    report, control = flow.run(batch_path, work=work)
    assert report.end is LaneEnd.STOPPED, report
    expected = [
        (key, value, (*headers, ("from", b"east/%s-0@%d" % (flow.topic.encode(), offset))), stamp)
        for offset, (key, value, headers, stamp) in enumerate(given)
        if key is not None and headers[0][1] == b"eu"
    ]
    assert flow.target_content()[0] == expected
    assert flow.position().offset == 3000
    last = control.reports[-1].partitions[0]
    assert (last.records, last.filtered) == (len(expected), 3000 - len(expected))


def test_a_topic_of_which_nothing_passes_moves_on_and_nothing_is_written(flow: Flow) -> None:
    fill(flow.source, flow.topic, _records(500), linger_ms=20)
    _, control = flow.run(batch_path, work=RecordWork(Key(Equals(b"nobody"))))
    assert (flow.position().offset, flow.target_content()[0]) == (500, [])
    assert control.reports[-1].partitions[0].filtered == 500
    fill(flow.source, flow.topic, [(b"nobody", b"at last", (), NOW)])
    flow.run(batch_path, work=RecordWork(Key(Equals(b"nobody"))))
    assert [value for _, value, _, _ in flow.target_content()[0]] == [b"at last"]


def test_a_big_record_is_copied_with_its_headers(flow: Flow) -> None:
    fill(flow.source, flow.topic, [(b"big", bytes(range(256)) * 3600, (), NOW), (b"small", b"", (), NOW)])
    flow.run(batch_path, work=RecordWork(headers=(AddedHeader("h", "v"),)))
    source, target = flow.source_content()[0], flow.target_content()[0]
    assert [(k, v, (*h, ("h", b"v")), t) for k, v, h, t in source] == target


# one name in several clusters


def taken(settings: FlowSettings, *specs: PartitionSpec) -> Takeover:
    takeover = WireTakeover(settings)
    try:
        return takeover.take("app", specs)
    finally:
        takeover.close()


class Lane:
    """One flow of the same-name topic, taken over and copied in a thread until the block ends."""

    def __init__(self, settings: FlowSettings, spec: PartitionSpec) -> None:
        took = taken(settings, spec)
        lane = LaneSpec(
            settings.name,
            0,
            f"mirror.{settings.name}.0",
            f"mirror.{settings.name}",
            settings.source,
            settings.target,
            settings.delivery,
            "read_committed",
            "earliest",
            None,
            (spec,),
            took.claim,
            work=work_of(settings),
        )
        self.control = UntilControl((spec,), lambda _: False)
        self._thread = threading.Thread(target=batch_path, args=(lane, self.control))
        self._thread.start()

    @property
    def newest(self) -> LaneProgress | None:
        return self.control.reports[-1] if self.control.reports else None

    def stop(self) -> None:
        self.control.finished = True
        self._thread.join(40)


class SameName:
    """``topic`` on every cluster, and flows between them that keep the name."""

    def __init__(self, topic: str, create_topic: CreateTopic, clusters: tuple[ClusterHandle, ...]) -> None:
        self.topic = topic
        self.clusters = {cluster.name: cluster for cluster in clusters}
        self._sent: Counter[bytes] = Counter()
        for cluster in clusters:
            create_topic(cluster, topic, 1)

    def settings(self, way: str, ways: tuple[str, ...], carry: str | None) -> FlowSettings:
        """``way``: ``east-west``; ``ways``: all that are declared."""
        source, target = way.split("-")
        arriving = tuple(sorted(f"{self.topic}-{other}" for other in ways if other.endswith(f"-{source}")))
        ends = tuple(endpoint(name, self.clusters[name].super_client()) for name in (source, target))
        return FlowSettings(
            name=f"{self.topic}-{way}",
            fingerprint="00000000000000aa",
            source=ends[0],
            target=ends[1],
            topics=(self.topic,),
            exclude_topics=(),
            naming=Naming("identity"),
            delivery="exactly_once",
            isolation="read_committed",
            start=Start(),
            lanes=1,
            provenance=None if carry is None else Provenance(carry, arriving),
        )

    def start(self, way: str, ways: tuple[str, ...], carry: str | None = FORWARD) -> Lane:
        source, _ = way.split("-")
        admin = AdminClient(self.clusters[source].super_client())
        identity = admin.describe_topics(TopicCollection([self.topic]))[self.topic].result(20).topic_id
        return Lane(self.settings(way, ways, carry), PartitionSpec(self.topic, 0, self.topic, str(identity)))

    @contextmanager
    def running(self, *ways: str, carry: str | None = FORWARD) -> Iterator[None]:
        with ExitStack() as stack:
            for way in ways:
                stack.callback(self.start(way, ways, carry).stop)
            yield

    def write(self, cluster: str, count: int, word: str) -> None:
        records: list[Content] = [
            (b"k%d" % (i % 7), f"{cluster} {word} {i}".encode(), (), NOW + i) for i in range(count)
        ]
        fill(self.clusters[cluster], self.topic, records, linger_ms=5)

    def values(self, cluster: str) -> list[bytes]:
        return [value or b"" for _, value, _, _ in content(self.clusters[cluster], self.topic, 1)[0]]

    def until_all_have(self, count: int, seconds: float = 40) -> None:
        """Every cluster holds ``count`` records, each once, and nothing comes after that."""
        end = time.monotonic() + seconds
        while any(len(self.values(name)) < count for name in self.clusters):
            assert time.monotonic() < end, {name: len(self.values(name)) for name in self.clusters}
            time.sleep(0.3)
        time.sleep(1.0)
        found = {name: Counter(self.values(name)) for name in self.clusters}
        first = next(iter(found.values()))
        assert first.total() == count
        assert set(first.values()) == {1}
        assert all(other == first for other in found.values())


@pytest.fixture
def two(plain: Sandbox, unique: str, create_topic: CreateTopic) -> SameName:
    return SameName(unique, create_topic, (plain["east"], plain["west"]))


def test_both_ways_every_record_is_on_both_sides_once(two: SameName) -> None:
    ways = ("east-west", "west-east")
    two.write("east", 300, "before")
    with two.running(*ways):
        two.write("west", 200, "live")
        two.until_all_have(500)
    with two.running(*ways):
        two.write("west", 10, "again")
        two.until_all_have(510)
    admin = AdminClient(two.clusters["east"].super_client())
    cluster_id = admin.describe_cluster().result(20).cluster_id
    marked = 0
    for key, value, headers, stamp in content(two.clusters["west"], two.topic, 1)[0]:
        record = Decoded(0, stamp, key, value, headers)
        found = provenance.path_among(record.headers, record.check(two.topic))
        assert found == ((provenance.short_id(cluster_id),) if (value or b"").startswith(b"east") else ())
        assert len(headers) == len(found)
        marked += len(found)
    assert marked == 300
    assert asyncio.run(_position(two, "east-west")).marked == (0, 0)


async def _position(two: SameName, way: str) -> positions.LanePosition:
    cluster = cluster_of(two.clusters[way.partition("-")[2]])
    try:
        found = await cluster.positions(f"mirror.{two.topic}-{way}", [(two.topic, 0)])
        return positions.decode((two.topic, 0), found[two.topic, 0].offset, found[two.topic, 0].metadata)
    finally:
        cluster.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("ways", "carry"),
    [
        pytest.param(("east-west", "west-hub", "hub-east"), FORWARD, id="ring"),
        pytest.param(("east-west", "west-east", "west-hub", "hub-west", "east-hub", "hub-east"), LOCAL, id="mesh"),
    ],
)
def test_three_clusters(
    trio: Sandbox, unique: str, create_topic: CreateTopic, ways: tuple[str, ...], carry: str
) -> None:
    three = SameName(unique, create_topic, tuple(trio[name] for name in ("east", "west", "hub")))
    for name in three.clusters:
        three.write(name, 50, "x")
    with three.running(*ways, carry=carry):
        three.until_all_have(150)
        three.write("west", 20, "live")
        three.until_all_have(170)


def test_copies_from_before_provenance_do_not_come_back(two: SameName) -> None:
    """An active-passive flow becomes one half of active-active."""
    two.write("east", 100, "old")
    one_way = two.start("east-west", (), None)
    _until(lambda: len(two.values("west")) == 100)
    one_way.stop()
    ways = ("east-west", "west-east")
    with pytest.raises(NotReadyError, match="has not begun to"):
        two.start("west-east", ways)
    with two.running(*ways):
        two.write("west", 5, "new")
        two.write("east", 5, "new")
        two.until_all_have(110)
    with two.running(*reversed(ways)):
        two.write("west", 5, "later")
        two.until_all_have(115)


def test_copies_from_a_time_without_provenance_do_not_come_back(two: SameName) -> None:
    """Active-active, then one way without provenance, then both again: the way back has positions from before."""
    ways = ("east-west", "west-east")
    with two.running(*ways):
        two.write("east", 10, "both")
        two.write("west", 5, "both")
        two.until_all_have(15)
    one_way = two.start("east-west", (), None)
    two.write("east", 20, "off")
    _until(lambda: len(two.values("west")) == 35)
    one_way.stop()
    forth = two.start("east-west", ways)
    back = two.start("west-east", ways)
    try:
        _until(lambda: back.newest is not None and bool(back.newest.conditions))
        assert back.newest is not None
        [condition] = back.newest.conditions
        two.write("east", 5, "later")
        _until(lambda: len(two.values("west")) == 40)
    finally:
        back.stop()
        forth.stop()
    assert (condition.code, condition.stops) == ("provenance_not_yet_marked", True)
    assert re.search(r"--partition 0 --to \d+\. It leaves out what producers wrote", condition.todo)
    assert len(two.values("east")) == 40, "nothing came back"


def test_the_same_cluster_under_two_names_is_refused(two: SameName) -> None:
    settings = two.settings("east-west", (), FORWARD)
    twin = replace(settings, target=replace(settings.source, cluster="twin"))
    with pytest.raises(NotReadyError, match="same cluster"):
        taken(twin)


def _until(wanted: Callable[[], bool], seconds: float = 40) -> None:
    end = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.3)
