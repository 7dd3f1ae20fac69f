"""Group offsets of a flow that keeps offsets, without brokers: as they are, never beyond the copy, never backwards."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from reconciler_mirror.groups import round as rounds_module
from reconciler_mirror.groups.round import GroupRounds, RoundResult
from reconciler_mirror.groups.sync import returning_routes, together
from reconciler_mirror.groups.translators import AsCommitted
from reconciler_mirror.model.lane import PartitionSpec

from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.protocol.groups.describe_groups import GroupKind, ListedGroup
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset, GroupOffsets
from reconciler.kafka.protocol.metadata_and_configs import TopicOf
from reconciler.replication.handover import GroupSettings
from reconciler.replication.mirrormaker_records import Checkpoint
from reconciler.replication.offsets.map_topic import MapReader

REMOTE = "east.orders"
ROUTES = {("orders", 0): REMOTE, ("orders", 1): REMOTE}
BACK = {(REMOTE, 0): "orders", (REMOTE, 1): "orders"}


@dataclass
class Side:
    """A cluster as group sync sees it: what groups committed, who has members, where logs end."""

    groups: dict[str, dict[Key, CommittedOffset]] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    ends: dict[Key, int] = field(default_factory=dict)
    made: int = 1
    """How often its topics were made: their id."""

    async def refresh(self, _: Iterable[str]) -> None:
        return None

    async def list_offsets(self, wanted: Mapping[Key, int], *, committed: bool) -> dict[Key, int]:
        assert not committed, "a hole that is being filled ends below an open transaction"
        return {key: self.ends[key] for key in wanted if key in self.ends}


class Groups:
    """``GroupClient`` over a ``Side``."""

    def __init__(self, side: Side) -> None:
        self._side = side

    async def listed(self) -> dict[str, ListedGroup]:
        busy, kind = self._side.members, GroupKind.CONSUMER
        return {
            name: ListedGroup(name, kind, "Stable" if name in busy else "Empty", "consumer", 0)
            for name in self._side.groups
        }

    async def offsets(self, names: Iterable[str], *, share: Collection[str]) -> dict[str, GroupOffsets]:
        assert not share
        return {name: GroupOffsets(dict(self._side.groups[name]), 0) for name in names}

    async def commit(
        self, wanted: Mapping[str, Mapping[Key, CommittedOffset]], *, share: Collection[str]
    ) -> dict[str, dict[Key, int]]:
        assert not share
        for name, offsets in wanted.items():
            self._side.groups.setdefault(name, {}).update(offsets)
        return {name: dict.fromkeys(offsets, 0) for name, offsets in wanted.items()}


class Topics:
    """``TopicListing`` over a ``Side``."""

    def __init__(self, side: Side) -> None:
        self._side = side

    async def of(self, names: Sequence[str]) -> Sequence[TopicOf]:
        return [TopicOf(name, 0, bytes(15) + bytes([self._side.made]), internal=False, partitions=()) for name in names]


@pytest.fixture(autouse=True)
def sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "GroupClient", Groups)
    monkeypatch.setattr(rounds_module, "TopicListing", Topics)


def at(**offsets: int) -> dict[Key, CommittedOffset]:
    return {("orders", int(name[1:])): CommittedOffset(offset, metadata="m") for name, offset in offsets.items()}


class Synced:
    def __init__(self, source: Side, target: Side, *, back: bool = False, **settings: Any) -> None:
        self.told: list[Checkpoint] = []
        self._routes = BACK if back else ROUTES
        clusters = (cast("ClusterClient", source), cast("ClusterClient", target))
        chosen = GroupSettings((".*",), (), 1000, **{"follow_rewinds": False, **settings})
        self._rounds = GroupRounds(chosen, *clusters, {}, AsCommitted(clusters[1]))

    def round(self) -> RoundResult:
        async def tell(checkpoints: Iterable[Checkpoint]) -> None:
            self.told += checkpoints

        return asyncio.run(self._rounds.run(self._routes, cast("MapReader", None), tell))


def test_an_offset_travels_as_it_is_with_its_metadata() -> None:
    source, target = Side({"g": at(p0=4711)}), Side(ends={(REMOTE, 0): 5000})
    synced = Synced(source, target)
    assert (synced.round().written, synced.round().written) == (1, 0)
    assert target.groups == {"g": {(REMOTE, 0): CommittedOffset(4711, metadata="m")}}
    assert synced.told == [Checkpoint("g", REMOTE, 0, 4711, 4711, "m")]


def test_a_group_ahead_of_the_copy_waits_at_its_end_and_comes_to_its_own_offset() -> None:
    source, target = Side({"g": at(p0=100)}), Side(ends={(REMOTE, 0): 60})
    synced = Synced(source, target)
    assert synced.round().inexact == 1
    assert target.groups["g"][REMOTE, 0].offset == 60
    target.ends[REMOTE, 0] = 130
    assert synced.round().inexact == 0
    assert target.groups["g"][REMOTE, 0].offset == 100
    assert [(told.upstream, told.downstream) for told in synced.told] == [(60, 60), (100, 100)]


def test_a_recreated_copy_is_asked_where_it_ends_before_a_group_is_set_in_it() -> None:
    """Kafka deletes offsets with their topic. What was exact in the former copy lies beyond the new one's end."""
    source, target = Side({"g": at(p0=100)}), Side(ends={(REMOTE, 0): 130})
    synced = Synced(source, target)
    synced.round()
    target.groups, target.ends, target.made = {"g": {}}, {(REMOTE, 0): 60}, 2
    assert synced.round().written == 0
    assert synced.round().written == 1
    assert target.groups["g"][REMOTE, 0].offset == 60


def test_where_the_copy_ends_is_not_known_nothing_is_set() -> None:
    target = Side()
    assert Synced(Side({"g": at(p0=5)}), target).round().written == 0
    assert target.groups == {}


def test_a_partition_without_a_record_has_its_offset_too() -> None:
    target = Side(ends={(REMOTE, 1): 0})
    Synced(Side({"g": at(p1=0)}), target).round()
    assert target.groups["g"][REMOTE, 1].offset == 0


def test_never_backwards_and_never_under_members() -> None:
    target = Side({"g": {(REMOTE, 0): CommittedOffset(90)}, "busy": {}}, {"busy"}, {(REMOTE, 0): 200})
    found = Synced(Side({"g": at(p0=50), "busy": at(p0=50)}), target).round()
    assert (found.written, found.active) == (0, ("busy",))
    assert target.groups["g"][REMOTE, 0].offset == 90


def test_a_rewind_is_followed_only_where_the_flow_says_so() -> None:
    for follows, expected in ((False, 100), (True, 40)):
        source, target = Side({"g": at(p0=100)}), Side(ends={(REMOTE, 0): 200})
        synced = Synced(source, target, follow_rewinds=follows)
        synced.round()
        source.groups["g"] = at(p0=40)
        synced.round()
        assert target.groups["g"][REMOTE, 0].offset == expected


def test_both_ways_settle_at_the_furthest_and_stay_there() -> None:
    """A group that moves to the target and reads on there is at the same place on the source; no round undoes it."""
    source = Side({"g": at(p0=100)}, ends={("orders", 0): 200})
    target = Side(ends={(REMOTE, 0): 200})
    out, back = Synced(source, target), Synced(target, source, back=True)
    out.round()
    target.groups["g"][REMOTE, 0] = CommittedOffset(150, metadata="there")
    for _ in range(3):
        back.round()
        out.round()
    assert source.groups["g"]["orders", 0] == CommittedOffset(150, metadata="there")
    assert target.groups["g"][REMOTE, 0].offset == 150


def test_the_way_back_never_passes_the_source_s_end() -> None:
    source = Side({}, ends={("orders", 0): 120})
    target = Side({"g": {(REMOTE, 0): CommittedOffset(150)}})
    Synced(target, source, back=True).round()
    assert source.groups["g"]["orders", 0].offset == 120


def test_partitions_of_the_way_back_are_those_it_is_given() -> None:
    assert returning_routes((PartitionSpec("orders", 1, REMOTE, ""),)) == {(REMOTE, 1): "orders"}


def test_refusals_of_both_directions_are_reported() -> None:
    both = together(RoundResult(groups=2, written=1, refused={"a": 30}), RoundResult(written=2, refused={"b": 30}))
    assert (both.groups, both.written, set(both.refused)) == (2, 3, {"a", "b"})
