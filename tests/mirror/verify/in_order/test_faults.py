"""Copies spoilt in every way, in all codecs and batches, on real brokers: each fault is named with both offsets, and
nothing else is; also when the comparison pauses and is taken up again from its file."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from reconciler_mirror.verify import report, tasks
from reconciler_mirror.verify.bounds import sampled
from reconciler_mirror.verify.in_order.compare import Continued, compared
from reconciler_mirror.verify.model import OffsetSpan, PartitionRange, PartitionReading, together
from reconciler_mirror.verify.read_partition import Readers
from reconciler_mirror.verify.resuming import ProgressFile
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.replication.runs.verification import Equality, Sample
from tests.support.jobs.verify_runs import Content, HandMadeFlow, endpoint

pytestmark = pytest.mark.kafka
COUNT = 400
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Fault = Callable[[list[Content], int], None]
TWO_HEADERS = (("a", b"1"), ("b", None))


def good(seed: int) -> list[Content]:
    chance = random.Random(seed)
    records: list[Content] = []
    for number in range(COUNT):
        key = chance.choice((None, b"", b"k%d" % number))
        value = chance.choice((None, b"", b"v%d" % number, chance.randbytes(chance.choice((60, 130, 9_000)))))
        headers = chance.choice(((), TWO_HEADERS, (("h", b"%d" % number),)))
        records.append((key, value, headers, 1_700_000_000_000 + 3 * number + chance.randrange(-20, 20)))
    records[200] = (b"the key", b"the value", TWO_HEADERS, 1_700_000_000_200)
    records[201] = (b"another", b"one", (), 1_700_000_000_201)
    return records


def setting(**changes: Any) -> Fault:
    def spoil(records: list[Content], at: int) -> None:
        names = ("key", "value", "headers", "timestamp")
        records[at] = tuple(changes.get(name, part) for name, part in zip(names, records[at], strict=True))  # type: ignore[assignment]

    return spoil


def missing(records: list[Content], at: int) -> None:
    del records[at]


def doubled(records: list[Content], at: int) -> None:
    records.insert(at, records[at])


def swapped(records: list[Content], at: int) -> None:
    records[at : at + 2] = records[at : at + 2][::-1]


def three_missing(records: list[Content], at: int) -> None:
    del records[at : at + 3]


def nothing(_: list[Content], __: int) -> None: ...


FAULTS: list[tuple[str, Fault, tuple[tuple[str, ...], int, int, int] | None]] = [
    ("nothing", nothing, None),
    ("value", setting(value=b"the valuf"), (("value",), 200, 200, 1)),
    ("tombstone", setting(value=None), (("value",), 200, 200, 1)),
    ("empty value", setting(value=b""), (("value",), 200, 200, 1)),
    ("key", setting(key=b"the kez"), (("key",), 200, 200, 1)),
    ("no key", setting(key=None), (("key",), 200, 200, 1)),
    ("empty key", setting(key=b""), (("key",), 200, 200, 1)),
    ("timestamp", setting(timestamp=1_700_000_000_199), (("timestamp",), 200, 200, 1)),
    ("header order", setting(headers=TWO_HEADERS[::-1]), (("headers",), 200, 200, 1)),
    ("header", setting(headers=(("a", b"1"), ("b", b""))), (("headers",), 200, 200, 1)),
    ("missing", missing, (("missing",), 200, 200, 1)),
    ("three missing", three_missing, (("missing",), 200, 200, 3)),
    ("doubled", doubled, (("extra",), 201, 201, 1)),
    ("swapped", swapped, (("swapped",), 200, 200, 2)),
    (
        "all",
        setting(key=b"", value=None, headers=(), timestamp=1),
        (("key", "value", "headers", "timestamp"), 200, 200, 1),
    ),
]
MOVED = len(FAULTS)
"""Three more partitions: a record of the first lies in the second, and every seventh record of the third is spoilt."""


def fill(handle: ClusterHandle, topic: str, partitions: list[list[Content]], seed: int) -> None:
    """In other batches and codecs from partition to partition: a producer each, and all of them at work at once."""
    chance = random.Random(seed)
    producers = []
    for partition, records in enumerate(partitions):
        made = Producer(
            {
                **handle.client(),
                "compression.type": CODECS[(partition + seed) % len(CODECS)],
                "batch.num.messages": chance.choice((1, 3, 17, 100)),
                "linger.ms": 5,
                "enable.idempotence": True,  # a retry right after the topic is made must not swap batches
            }
        )
        for key, value, headers, timestamp in records:
            made.produce(topic, value, key, partition, timestamp=timestamp, headers=list(headers))
        producers.append(made)
    assert sum(made.flush(60) for made in producers) == 0


def spans(handle: ClusterHandle, topic: str, partitions: int) -> list[OffsetSpan]:
    with closing(Consumer({**handle.client(), "group.id": "x"})) as consumer:
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, p), 20) for p in range(partitions)]
    of = endpoint(handle)
    return [OffsetSpan(of, topic, p, "read_committed", low, high) for p, (low, high) in enumerate(ends)]


@pytest.fixture(scope="module")
def plans(plain: Sandbox) -> list[PartitionRange]:
    east, west = plain["east"], plain["west"]
    flow = HandMadeFlow(f"faults{random.randrange(10**6)}", east, west)
    ours = [good(number) for number in range(MOVED + 3)]
    theirs = [list(records) for records in ours]
    for records, (_, spoil, _) in zip(theirs, FAULTS, strict=False):
        spoil(records, 200)
    theirs[MOVED + 1].insert(100, theirs[MOVED].pop(300))
    for number in range(0, COUNT, 7):
        setting(value=b"spoilt")(theirs[MOVED + 2], number)
    topic = flow.topics(flow.name, len(ours))
    fill(east, topic, ours, 0)
    fill(west, f"east.{topic}", theirs, 2)
    pairs = zip(spans(east, topic, len(ours)), spans(west, f"east.{topic}", len(ours)), strict=True)
    return [
        PartitionRange(number, flow.name, source, target, source.end, source.end, ids=("a", "b"))
        for number, (source, target) in enumerate(pairs)
    ]


def told(reading: PartitionReading) -> list[tuple[tuple[str, ...], int | None, int | None, int]]:
    return [(one.what, one.source_offset, one.target_offset, one.count) for one in reading.differences]


def read(plan: PartitionRange, kept: ProgressFile | None = None, steps: int = 0) -> PartitionReading:
    """``steps``: looks after which each piece pauses; what is known then goes through the file."""
    reading: PartitionReading | None = None
    while reading is None or not (reading.done or reading.error):
        with closing(Readers()) as readers:
            looks = iter(range(10**9))
            given = Continued(plan) if reading is None else Continued(plan, reading.source_next, reading.target_next)
            [piece] = compared(given, readers, lambda looks=looks: bool(steps) and next(looks) >= steps)  # type: ignore[misc]
        reading = together(reading, piece)
        if kept is not None and not reading.done:
            kept.keep([plan], {plan.index: reading})
            reading = kept.earlier([plan])[plan.index]
    return reading


@pytest.mark.parametrize("pausing", [False, pytest.param(True, marks=pytest.mark.long)])
def test_each_fault_is_named_and_nothing_else(plans: list[PartitionRange], pausing: bool, tmp_path: Path) -> None:
    kept, steps = (ProgressFile(tmp_path / "p.json", {}), 7) if pausing else (None, 0)
    for plan, (name, _, wanted) in zip(plans, FAULTS, strict=False):
        reading = read(plan, kept, steps)
        assert not reading.error
        assert not reading.unconfirmed
        assert told(reading) == ([wanted] if wanted else []), name
        assert reading.equal + reading.differing >= COUNT - 1, name
        if not pausing:
            assert [one.record for one in reading.differences] == [wanted[1]] * bool(wanted) if wanted else True
    one, other = (read(plan, kept, steps) for plan in plans[MOVED : MOVED + 2])
    assert told(one) == [(("missing",), 300, 300, 1)]
    assert told(other) == [(("extra",), 100, 100, 1)]


def test_what_cannot_be_read_is_never_equal(plans: list[PartitionRange], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler_mirror.verify.own_client.UNREAD_S", 1.0)
    plan = plans[0]
    for side in ("source", "target"):
        gone = replace(getattr(plan, side), endpoint=replace(plan.source.endpoint, bootstrap_servers=("127.0.0.1:1",)))
        reading = read(replace(plan, **{side: gone}))
        assert reading.error
        assert not reading.equal


def test_what_is_kept_is_only_taken_up_where_all_is_as_it_was(plans: list[PartitionRange], tmp_path: Path) -> None:
    plan, kept = plans[2], ProgressFile(tmp_path / "p.json", {plans[2].flow: "now"})
    reading = read(plan)
    kept.keep([plan], {plan.index: reading})
    [again] = kept.earlier([plan]).values()
    assert again == replace(reading, done=False, stretches=())
    others = [
        replace(plan, ids=("a", "new")),
        replace(plan, ids=("", "")),
        replace(plan, source=replace(plan.source, start=plan.source.end)),
        replace(plan, target=replace(plan.target, end=reading.target_next - 1)),
        replace(plan, compacted=True),
        replace(plan, timestamps=False),
    ]
    for other in others[:2] + others[3:]:
        assert not kept.earlier([other]), other
    assert not ProgressFile(tmp_path / "p.json", {plan.flow: "changed"}).earlier([plan])
    document = json.loads((tmp_path / "p.json").read_text())
    document["kept"][0]["reading"]["differing"] = 0
    document["kept"][0]["reading"]["equal"] += 1
    for changed in (json.dumps(document), "{", "[" * 100_000):
        (tmp_path / "p.json").write_text(changed)
        assert not kept.earlier([plan]), "what another hand changed proves nothing"


@pytest.mark.parametrize("seed", range(2))
def test_a_sample_sees_what_lies_in_it_and_says_where_it_looked(plans: list[PartitionRange], seed: int) -> None:
    for plan, (name, _, wanted) in list(zip(plans, FAULTS, strict=False))[::3]:
        chosen = sampled(plan, Sample(0.3, 0, seed))
        assert chosen == sampled(plan, Sample(0.3, 0, seed))
        assert chosen.parts is not None
        [(start, end)] = chosen.parts
        assert end - start == 120
        reading = read(chosen)
        assert not reading.error, name
        inside = wanted is not None and start < wanted[1] - 1 < end - 2
        # A part begins behind the last records before it that both sides share: eight in a row.
        outside = wanted is None or not start - 8 <= wanted[1] < end + 2
        assert (bool(reading.differing) is inside) if inside or outside else True, name
        if inside:
            assert (told(reading), reading.unsure) == ([wanted], None), name


def test_a_part_whose_place_is_not_sure_says_where_its_first_difference_lies(plans: list[PartitionRange]) -> None:
    reading = read(replace(plans[MOVED + 2], parts=((200, 300),)))
    assert reading.differing
    assert reading.unsure == (136, 300)
    found = report.partition(plans[MOVED + 2], reading, tasks.KeyCounts(), None)
    assert found.state is Equality.DIFFERENT
    assert "the first one lies in source offsets 136 to 299" in found.reason


@pytest.mark.parametrize("before", [0, 5, 40])
def test_a_fault_near_the_beginning_of_a_part_is_named_as_it_is(plans: list[PartitionRange], before: int) -> None:
    for plan, (name, _, wanted) in list(zip(plans, FAULTS, strict=False))[before % 2 :: 2]:
        assert told(read(replace(plan, parts=((200 - before, 300),)))) == ([wanted] if wanted else []), name


def test_a_part_begins_where_both_logs_do(plans: list[PartitionRange]) -> None:
    missing_at_once = replace(plans[0], source=replace(plans[0].source, start=0), parts=((3, 100),))
    gone = replace(plans[0].target, start=2)
    assert told(read(missing_at_once)) == []
    assert told(read(replace(missing_at_once, target=gone))) == [(("missing",), 0, 2, 2)]
    # Where the first records of a log may be gone on one side, these are no difference.
    assert told(read(replace(missing_at_once, target=replace(gone, cut=True)))) == []
