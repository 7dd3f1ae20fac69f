"""Chunks as a reader takes them: the newest version counts, and a topic made anew has a map of its own."""

from __future__ import annotations

from uuid import UUID

import pytest

from reconciler.kafka.client.auth.settings import ConnectionSettings
from reconciler.kafka.client.cluster import NO_ID, ClusterClient
from reconciler.replication.offsets.codec import MapPartition, encode, end_of
from reconciler.replication.offsets.map import CopiedRun, Stretch
from reconciler.replication.offsets.map_topic import MapReader

OLD, NEW = UUID(int=1), UUID(int=2)


def _reader(*chunks: tuple[bytes, bytes | None], topics: frozenset[str] | None = None) -> MapReader:
    made = MapReader(ClusterClient("west", ["west:9092"], ConnectionSettings()), "f", topics)
    for chunk in chunks:
        made.take(*chunk)
    return made


def _chunk(begin: int, target: int, ids: tuple[UUID, UUID] = (OLD, OLD), records: int = 10) -> tuple[bytes, bytes]:
    stretch = Stretch(begin, begin + records, (CopiedRun(begin, target, records),))
    return encode(MapPartition("f", "orders", 0, *ids), stretch)


def test_a_chunk_written_again_counts_once() -> None:
    ours = _reader(_chunk(0, 5, records=3), _chunk(0, 5, records=30)).partition("orders", 0, (OLD, OLD))
    assert ours.downstream(29).offset == 34


def test_a_recreated_topic_has_a_map_again() -> None:
    ours = _reader(_chunk(0, 500), _chunk(100, 600), _chunk(0, 0, (OLD, NEW)), _chunk(10, 11, (OLD, NEW)))
    found = ours.partition("orders", 0, (OLD, NEW))
    assert [stretch.begin for stretch in found.stretches] == [0, 10]
    assert found.downstream(3).offset == 3
    assert ours.partition("orders", 0, (OLD, OLD)).downstream(103).offset == 603
    assert ours.partition("orders", 0, (OLD, NO_ID)).downstream(3).offset == 3, "what was written last counts"
    assert ours.partition("orders", 0, (OLD, NEW)) is ours.partition("orders", 0, (OLD, NEW))


@pytest.mark.parametrize("now", [(OLD, NEW), (NEW, OLD), (NEW, NEW), (NEW, NO_ID)])
def test_a_map_of_former_topics_says_nothing(now: tuple[UUID, UUID]) -> None:
    ours = _reader(_chunk(0, 500))
    assert ours.partition("orders", 0, now).downstream(3).offset is None
    assert ours.partitions(lambda _: now)["orders", 0].source_end is None
    assert ours.partitions(lambda _: None) == {}


def test_other_flows_topics_and_rubbish_are_left_out() -> None:
    assert _reader((b"f/orders/0", b"x"), (b"f/orders/0/1", b"\x07")).topics == frozenset()
    assert _reader(_chunk(0, 0), topics=frozenset({"pay"})).topics == frozenset()


def test_a_pruned_chunk_is_forgotten() -> None:
    old, new = _chunk(0, 5, records=10), _chunk(10, 15)
    found = _reader(old, new, (old[0], None)).partition("orders", 0, (OLD, OLD))
    assert [stretch.begin for stretch in found.stretches] == [10]
    assert not found.downstream(3).exact
    assert found.downstream(12).offset == 17


def test_where_a_chunk_ends_is_known_without_its_runs() -> None:
    for begin in (0, 127, 1 << 40):
        assert end_of(*_chunk(begin, 5, records=300)) == begin + 300
