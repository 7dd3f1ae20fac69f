"""Chunks of the offset map: what is written is what is read, and a regular stream costs next to nothing."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.lane.copied_runs import CHUNK_RUNS, Copied

from reconciler.kafka.protocol.flexible import uvarint
from reconciler.replication.offsets.codec import MOST_RUNS, ChunkError, MapPartition, decode, encode
from reconciler.replication.offsets.map import CopiedRun, PartitionMap, Stretch

PLACE = MapPartition("east-to-west", "orders", 3, UUID(int=7), UUID(int=8))
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=60)


def _stretch(begin: int, target: int, steps: list[tuple[int, int, int]], rest: int) -> Stretch:
    runs: list[CopiedRun] = []
    source = begin
    for left_out, markers, records in steps:
        source, target = source + left_out, target + markers
        if runs and (source, target) == (runs[-1].source_end, runs[-1].target_end):
            runs[-1] = runs[-1]._replace(records=runs[-1].records + records)
        else:
            runs.append(CopiedRun(source, target, records))
        source, target = source + records, target + records
    return Stretch(begin, source + rest, tuple(runs))


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62), STEPS, st.integers(0, 500))
def test_a_stretch_comes_back_as_it_was(begin: int, target: int, steps: list[tuple[int, int, int]], rest: int) -> None:
    stretch = _stretch(begin, target, steps, rest)
    assert decode(*encode(PLACE, stretch)) == (PLACE, stretch)


@given(STEPS)
def test_what_a_lane_commits_in_any_portions_is_the_same_map(steps: list[tuple[int, int, int]]) -> None:
    whole = _stretch(10, 100, steps, 0)
    copied = Copied()
    copied.begin(10, first=True)
    for run in whole.runs:
        for at in range(run.records):  # one batch a record, two a transaction
            copied.acknowledged(((run.source + at, 1),), run.target + at)
            if at % 2:
                copied.committed(run.source + at + 1)
    copied.committed(whole.end)
    found = [decode(*chunk.encode(PLACE))[1] for chunk in copied.chunks()]
    ours, theirs = PartitionMap(found), PartitionMap([whole])
    for source in range(10, whole.end + 1):
        assert ours.downstream(source).offset == theirs.downstream(source).offset
    assert found[0].first
    assert copied.last == (whole.runs[-1].source_end - 1, whole.runs[-1].target_end - 1)


def test_what_was_aborted_never_gets_into_the_map() -> None:
    copied = Copied()
    copied.begin(0)
    copied.acknowledged(((0, 5),), 0)
    copied.committed(5)
    copied.acknowledged(((5, 5),), 6)  # its transaction is aborted, the session begins again
    copied.begin(5)
    copied.acknowledged(((5, 5),), 12)
    copied.committed(10)
    (chunk,) = copied.chunks()
    assert decode(*chunk.encode(PLACE))[1].runs == (CopiedRun(0, 0, 5), CopiedRun(5, 12, 5))


def test_a_flow_that_goes_back_begins_another_chunk_where_it_went_to() -> None:
    """Its source was truncated, and has other records at the offsets that were copied before. One commit holds both."""
    copied = Copied()
    copied.begin(0)
    copied.acknowledged(((0, 12),), 0)
    copied.committed(12)
    copied.acknowledged(((12, 3),), 13)
    copied.moved_back()
    copied.acknowledged(((6, 10),), 16)
    copied.committed(16)
    found = [decode(*chunk.encode(PLACE))[1] for chunk in copied.chunks()]
    assert found == [
        Stretch(0, 15, (CopiedRun(0, 0, 12), CopiedRun(12, 13, 3))),
        Stretch(6, 16, (CopiedRun(6, 16, 10),)),
    ]
    assert PartitionMap(found).downstream(7).offset == 17


def test_a_batch_without_an_offset_leaves_a_gap_and_no_guess() -> None:
    copied = Copied()
    copied.begin(0)
    copied.acknowledged(((0, 5),), 0)
    copied.committed(5)
    copied.acknowledged(((5, 5),), -1)
    copied.acknowledged(((10, 5),), 11)
    copied.committed(15)
    copied.acknowledged(((15, 5),), 17)
    copied.committed(20)
    found = [decode(*chunk.encode(PLACE))[1] for chunk in copied.chunks()]
    assert found == [Stretch(0, 5, (CopiedRun(0, 0, 5),)), Stretch(15, 20, (CopiedRun(15, 17, 5),))]


def test_a_regular_stream_of_small_transactions_costs_next_to_nothing() -> None:
    runs = tuple(CopiedRun(i * 3, i * 3 + i, 3) for i in range(10_000))
    key, value = encode(PLACE, Stretch(0, 30_000, runs))
    assert len(key) + len(value) < 90


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"flow/topic/0", b""),
        (b"flow/topic/0/x", b""),
        (b"flow/topic/0/1", b"\x02" + bytes(40)),
        (b"flow/topic/0/1", b"\x01" + bytes(38)),
        (b"flow/topic/0/1", b"\x01" + bytes(36) + b"\x80"),
    ],
)
def test_what_is_no_chunk_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(ChunkError):
        decode(key, value)


def test_a_few_bytes_do_not_become_a_billion_runs() -> None:
    """The fuzzer's: 40 bytes took 9 GB."""
    key, value = encode(PLACE, Stretch(0, 1 << 40, (CopiedRun(0, 0, 1),)))
    assert value.endswith(b"\x01\x00\x00\x01")
    for times in (MOST_RUNS + 1, 1 << 39):
        with pytest.raises(ChunkError, match=f"{times} runs"):
            decode(key, value[:-4] + uvarint(times) + b"\x00\x00\x01")
    short, beyond = encode(PLACE, Stretch(0, 10, (CopiedRun(0, 0, 10),)))
    with pytest.raises(ChunkError, match="11 offsets, but covers 10"):
        decode(short, beyond[:-1] + b"\x0b")


def test_a_chunk_ends_before_its_runs_are_too_many_to_read() -> None:
    copied = Copied()
    copied.begin(0)
    for number in range(CHUNK_RUNS + 10):
        copied.acknowledged(((2 * number, 1),), 2 * number)
        copied.committed(2 * number + 2)
    assert [chunk.runs for chunk in copied.chunks()] == [CHUNK_RUNS, 10]


@pytest.mark.parametrize("key", ["f/t/²/0", "f/t/0/" + "9" * 5000, "f/t/-1/0", "f/t/0"])
def test_a_key_whose_numbers_are_none_is_no_chunk(key: str) -> None:
    with pytest.raises(ChunkError, match="the key is not"):
        decode(key.encode(), encode(PLACE, Stretch(0, 1, ()))[1])
