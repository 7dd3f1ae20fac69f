"""The proof must see every way in which a copy can be wrong, and say where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from reconciler_sandbox.demo.digests import (
    FingerprintBuilder,
    ProvedRecord,
    RecordDifference,
    encoded,
    first_difference,
    last_common_mark,
)
from reconciler_sandbox.demo.proof import Proof, prove, table
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.handles import Sandbox

data = st.none() | st.binary(max_size=4)
headers = st.lists(st.tuples(st.text(max_size=2), data), max_size=3).map(tuple)
contents = st.builds(ProvedRecord, st.just(0), data, data, headers, st.integers(0, 3))


def numbered(count: int) -> list[ProvedRecord]:
    return [ProvedRecord(2 * i, b"k%d" % i, b"v%d" % i, (("h", b"%d" % i),), 1_000 + i) for i in range(count)]


def fingerprint(records: Sequence[ProvedRecord]) -> FingerprintBuilder:
    builder = FingerprintBuilder(0)
    for record in records:
        builder.add(record.offset, record.content)
    return builder


@given(contents, contents)
def test_only_equal_records_have_equal_bytes(one: ProvedRecord, other: ProvedRecord) -> None:
    assert (encoded(one.content) == encoded(other.content)) == (one.content == other.content)


@given(st.lists(contents, max_size=6), st.lists(contents, max_size=6))
def test_digests_agree_exactly_when_the_records_do(ours: list[ProvedRecord], theirs: list[ProvedRecord]) -> None:
    equal = [record.content for record in ours] == [record.content for record in theirs]
    assert (fingerprint(ours).done().digest == fingerprint(theirs).done().digest) == equal
    assert (first_difference(ours, theirs) is None) == equal


def test_offsets_do_not_count() -> None:
    moved = [replace(record, offset=record.offset + 7) for record in numbered(10)]
    assert fingerprint(moved).done().digest == fingerprint(numbered(10)).done().digest


def test_the_search_begins_at_the_last_common_mark() -> None:
    ours, theirs = numbered(10_000), numbered(10_000)
    theirs[5_000] = replace(theirs[5_000], value=b"other")
    mark, copied = last_common_mark(fingerprint(ours).done(), fingerprint(theirs).done())
    assert mark == copied
    assert 5_000 - 2_048 <= mark.records <= 5_000
    assert mark.offset == ours[mark.records - 1].offset + 1


Damage = Callable[[list[ProvedRecord]], list[ProvedRecord]]

DAMAGES: dict[str, tuple[Damage, int, str]] = {
    "value": (lambda r: [*r[:3], replace(r[3], value=b"x"), *r[4:]], 3, "value: 'v3' at the source, 'x' at the target"),
    "key to null": (lambda r: [replace(r[0], key=None), *r[1:]], 0, "key: 'k0' at the source, null at the target"),
    "header": (lambda r: [*r[:9], replace(r[9], headers=())], 9, "headers: {h='9'} at the source, {} at the target"),
    "timestamp": (lambda r: [*r[:1], replace(r[1], timestamp_ms=5), *r[2:]], 1, "timestamp: 1001 ms at the source, 5"),
    "missing": (lambda r: [*r[:4], *r[5:]], 4, "missing at the target"),
    "missing last": (lambda r: r[:-1], 9, "missing at the target"),
    "doubled": (lambda r: [*r[:4], r[3], *r[4:]], 4, "the target has a record here that the source does not have"),
    "one too many": (lambda r: [*r, r[0]], 10, "the target has a record more than the source"),
    "swapped": (lambda r: [*r[:6], r[7], r[6], *r[8:]], 6, "swapped"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_named_at_its_place(damage: str) -> None:
    harm, place, words = DAMAGES[damage]
    found = first_difference(numbered(10), harm(numbered(10)))
    assert found is not None
    assert found.record == place
    assert words in found.what


def write(settings: dict[str, str], topic: str, records: Sequence[ProvedRecord], partition: int = 0) -> None:
    producer = Producer({**settings, "linger.ms": 5, "enable.idempotence": True})  # a retry must not swap them
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            headers=list(record.headers),
            timestamp=record.timestamp_ms,
        )
    assert producer.flush(30) == 0


class Mirrored:
    """A topic of two partitions on both clusters; what ``ours`` and ``theirs`` are given goes to partition 1."""

    def __init__(self, plain: Sandbox, create_topic: Callable[..., str], topic: str) -> None:
        self.east, self.west = plain["east"].client(), plain["west"].client()
        self.topic = create_topic(plain["east"], topic, partitions=2, retention_ms="-1")
        create_topic(plain["west"], f"east.{topic}", partitions=2, retention_ms="-1")

    def proof(self, ours: Sequence[ProvedRecord], theirs: Sequence[ProvedRecord]) -> Proof:
        write(self.east, self.topic, ours, 1)
        write(self.west, f"east.{self.topic}", theirs, 1)
        return prove(self.east, self.west, [(self.topic, f"east.{self.topic}")])


@pytest.fixture
def mirrored(plain: Sandbox, create_topic: Callable[..., str], unique: str) -> Mirrored:
    return Mirrored(plain, create_topic, unique)


def on_broker(count: int) -> list[ProvedRecord]:
    """Contiguous offsets, as a broker gives them."""
    return [replace(record, offset=index) for index, record in enumerate(numbered(count))]


def test_equal_sides_are_proved_with_counts_and_digests(mirrored: Mirrored) -> None:
    odd = [
        ProvedRecord(0, None, None, (), 1),
        ProvedRecord(1, b"", b"", (("h", None), ("h", b"")), 2),
        *on_broker(3_000),
    ]
    proof = mirrored.proof(odd, odd)
    assert proof.equal
    assert proof.differences() == ()
    assert proof.records == 3_002
    assert [p.source and p.source.records for p in proof.partitions] == [0, 3_002]
    assert table(proof).row_count == 2


@pytest.mark.parametrize("damage", ["value", "missing", "swapped", "doubled"])
def test_a_wrong_copy_on_real_brokers_is_found_with_both_offsets(mirrored: Mirrored, damage: str) -> None:
    """Far behind the first mark, so that the search does not begin at the start."""
    before = on_broker(5_000)
    harm, place, words = DAMAGES[damage]
    proof = mirrored.proof([*before, *numbered(10)], [*before, *harm(numbered(10))])
    assert not proof.equal
    (sentence,) = proof.differences()
    assert words in sentence
    assert f"(offset {5_000 + place})" in sentence
    difference = proof.partitions[1].difference
    assert difference is not None
    assert (difference.record, difference.source_offset, difference.target_offset) == (5_000 + place,) * 3


def test_null_and_empty_differ(mirrored: Mirrored) -> None:
    null = ProvedRecord(0, b"k", None, (("h", None),), 1)
    proof = mirrored.proof([null], [replace(null, value=b"", headers=(("h", b""),))])
    assert proof.partitions[1].difference == RecordDifference(
        0,
        0,
        0,
        "value: null at the source, empty at the target; headers: {h=null} at the source, {h=empty} at the target",
    )


def test_the_same_records_in_another_partition_are_not_equal(mirrored: Mirrored) -> None:
    write(mirrored.east, mirrored.topic, on_broker(2), 0)
    write(mirrored.west, f"east.{mirrored.topic}", on_broker(2), 1)
    proof = mirrored.proof([], [])
    assert [partition.equal for partition in proof.partitions] == [False, False]


def test_aborted_records_do_not_count(mirrored: Mirrored) -> None:
    producer = Producer({**mirrored.west, "transactional.id": mirrored.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(f"east.{mirrored.topic}", b"never", partition=1)
    producer.flush(30)
    producer.abort_transaction(30)
    proof = mirrored.proof(on_broker(5), on_broker(5))
    assert proof.equal
    assert proof.records == 5


def test_a_missing_partition_and_a_missing_topic_are_reported(
    plain: Sandbox, create_topic: Callable[..., str], unique: str
) -> None:
    east, west = plain["east"].client(), plain["west"].client()
    create_topic(plain["east"], unique, partitions=2)
    create_topic(plain["west"], f"east.{unique}", partitions=1)
    (sentence,) = prove(east, west, [(unique, f"east.{unique}")]).differences()
    assert "the target has no such partition" in sentence
    with pytest.raises(SandboxError, match=f"east.{unique}-not cannot be read"):
        prove(east, west, [(unique, f"east.{unique}-not")])
