"""MirrorMaker 2's records to the byte, and its rule of translation in its own test cases (OffsetSyncStoreTest)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.replication.mirrormaker_records import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    checkpoints_topic,
    no_heartbeat,
    offset_syncs_topic,
    read_checkpoint,
)
from reconciler.replication.offsets.map import CopiedRun, PartitionMap, Stretch
from tests.support.lanes.mirrormaker_records import read_heartbeat, read_offset_sync, translate

GOLDEN = [
    (OffsetSync("topic1", 0, 100, 200), "0006746f7069633100000000", "000000000000006400000000000000c8"),
    (
        Checkpoint("g1", "primary.topic1", 0, 100, 200),
        "00026731000e7072696d6172792e746f7069633100000000",
        "0000000000000000006400000000000000c80000",
    ),
    (Heartbeat("A", "B", 1_700_000_000_000), "000141000142", "00000000018bcfe56800"),
]
READ = {OffsetSync: read_offset_sync, Checkpoint: read_checkpoint, Heartbeat: read_heartbeat}


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_golden_bytes(record: OffsetSync | Checkpoint | Heartbeat, key: str, value: str) -> None:
    assert record.record() == (bytes.fromhex(key), bytes.fromhex(value))
    assert READ[type(record)](bytes.fromhex(key), bytes.fromhex(value)) == record


OFFSETS = st.integers(0, 2**63 - 1)


@given(st.text(max_size=20), st.text(max_size=20), st.integers(0, 2**31 - 1), OFFSETS, OFFSETS, st.text(max_size=50))
def test_checkpoints_come_back(group: str, topic: str, partition: int, up: int, down: int, metadata: str) -> None:
    one = Checkpoint(group, topic, partition, up, down, metadata)
    assert read_checkpoint(*one.record()) == one


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_rubbish_is_an_error_and_nothing_else(key: bytes, value: bytes) -> None:
    for read in READ.values():
        try:
            read(key, value)
        except ValueError:
            continue


def test_a_text_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="32767 is the limit"):
        Checkpoint("g", "t", 0, 1, 1, "x" * 40_000).record()


def test_names() -> None:
    assert checkpoints_topic("east") == "east.checkpoints.internal"
    assert offset_syncs_topic("west", "--") == "mm2-offset-syncs--west--internal"


def _syncs(*pairs: tuple[int, int]) -> list[OffsetSync]:
    return [OffsetSync("t", 0, up, down) for up, down in pairs]


def test_mirrormaker_2_s_own_cases() -> None:
    assert translate([], 5) is None
    assert translate(_syncs((100, 200)), 150) == 201
    assert translate(_syncs((100, 200), (150, 251)), 150) == 251
    assert translate(_syncs((100, 200), (150, 251)), 5) == -1
    assert translate(_syncs((100, 200), (150, 251), (200, 10)), 200) == 10
    assert translate(_syncs((100, 200), (200, 10), (20, 20)), 20) == 20


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 4)), min_size=1), st.data())
def test_who_applies_that_rule_to_our_syncs_is_never_ahead(
    steps: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """We write the last record of a commit; any of those may be missing."""
    source = target = 0
    runs, syncs = [], []
    for left_out, markers, records in steps:
        source, target = source + left_out, target + markers
        runs.append(CopiedRun(source, target, records))
        source, target = source + records, target + records
        syncs.append(OffsetSync("t", 0, source - 1, target - 1))
    kept = [sync for sync in syncs if data.draw(st.booleans())]
    exact = PartitionMap([Stretch(0, source, tuple(runs), first=True)])
    for position in range(source + 2):
        theirs, ours = translate(kept, position), exact.downstream(position).offset
        assert ours is not None
        assert theirs is None or theirs <= ours
    if kept and kept[-1] is syncs[-1]:
        assert translate(kept, source) == exact.downstream(source).offset  # caught up: exact for them, too


def test_what_an_application_writes_is_no_heartbeat() -> None:
    """Of any version, and with fields that a later one may add."""
    key, value = Heartbeat("east", "west", 1).record()
    for fine in (value, b"\x00\x01" + value[2:], value + b"more", None):
        assert no_heartbeat(key, fine) == ""
    assert no_heartbeat(None, value) == "it has no key"
    for other_key, other in ((b"device", value), (key + b"x", value), (key, b"alive"), (b"\x00\x01\xff" * 2, value)):
        assert no_heartbeat(other_key, other) == "its key and value are not two aliases and a time"
