"""What a lane notes of offsets when the target's log has lost what was acknowledged behind the last commit."""

from __future__ import annotations

from reconciler_mirror.lane.copied_runs import Copied

from reconciler.replication.offsets.codec import MapPartition, decode

PLACE = MapPartition("flow", "orders", 0)


def test_batches_acknowledged_during_a_commit_belong_to_the_next_one() -> None:
    copied = Copied()
    copied.begin(0)
    copied.acknowledged(((0, 10),), 0)
    copied.committed(7)
    assert _stretches(copied) == [(0, 7, [(0, 0, 7)])]
    copied.committed(10)
    assert _stretches(copied) == [(0, 10, [(0, 0, 10)])]


def test_a_log_that_lost_it_is_gone_on_with_from_the_commit() -> None:
    copied = Copied()
    copied.begin(0)
    copied.acknowledged(((0, 10),), 0)
    copied.committed(7)
    copied.begin(7)
    copied.acknowledged(((7, 1), (9, 2)), 7)
    copied.committed(11)
    assert _stretches(copied) == [(0, 11, [(0, 0, 8), (9, 8, 2)])]


def _stretches(copied: Copied) -> list[tuple[int, int, list[tuple[int, int, int]]]]:
    stretches = [decode(*chunk.encode(PLACE))[1] for chunk in copied.chunks()]
    return [(it.begin, it.end, [(run.source, run.target, run.records) for run in it.runs]) for it in stretches]
