"""Frames are what was sent, however the bytes come, and their memory is given back."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kafka.client.buffers import BufferPool, Spares
from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.client.frames import LARGEST_FRAME, POOLED_FROM, READ_AHEAD, Frame, Frames

_sizes = st.integers(4, 40) | st.sampled_from(
    [READ_AHEAD - 4, READ_AHEAD, POOLED_FROM - 1, POOLED_FROM, 3 * POOLED_FROM]
)
_reads = st.lists(st.integers(1, 9) | st.integers(1, 2 * POOLED_FROM), min_size=1, max_size=40)


def body(number: int, size: int) -> bytes:
    return struct.pack(">i", number) + bytes([number % 251]) * (size - 4)


def feed(frames: Frames, data: bytes, reads: list[int]) -> list[Frame]:
    """As a socket would give them: at most as many as there is room for, at most as many as came."""
    found: list[Frame] = []
    at = turn = 0
    while at < len(data):
        room = frames.room()
        assert len(room)
        count = min(len(room), reads[turn % len(reads)], len(data) - at)
        room[:count] = data[at : at + count]
        at, turn = at + count, turn + 1
        found += frames.received(count, float(turn))
    return found


@given(st.lists(_sizes, max_size=12), _reads)
def test_frames_are_what_was_sent_however_it_comes(sizes: list[int], reads: list[int]) -> None:
    pool = BufferPool(Spares())
    bodies = [body(number, size) for number, size in enumerate(sizes)]
    found = feed(Frames(pool, "b"), b"".join(struct.pack(">i", len(one)) + one for one in bodies), reads)
    assert [bytes(frame.body) for frame in found] == bodies
    for frame, size in zip(found, sizes, strict=True):
        assert (frame.buffer is not None) == (size >= POOLED_FROM)
        assert frame.seconds >= 0
        frame.drop()
        frame.drop()
    assert pool.held == 0


@pytest.mark.parametrize("size", [-1, 0, 3, LARGEST_FRAME + 1])
def test_a_size_that_no_answer_has_is_refused(size: int) -> None:
    with pytest.raises(MalformedResponseError, match=f"of {size} bytes"):
        feed(Frames(BufferPool(), "b"), struct.pack(">i", size), [4])


def test_a_frame_that_never_came_whole_gives_its_memory_back() -> None:
    pool = BufferPool(Spares())
    frames = Frames(pool, "b")
    assert not feed(frames, struct.pack(">i", POOLED_FROM) + bytes(100), [50])
    assert frames.within
    assert pool.held > 0
    frames.close()
    assert pool.held == 0
