"""Placements for another factor, for any cluster and any standing assignment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.replicas import Placement
from reconciler.resources.replicas.placement import PartitionReplicas, PlacementBasis, place


@dataclass(frozen=True)
class Case:
    basis: PlacementBasis
    partitions: tuple[PartitionReplicas, ...]
    factor: int

    def placed(self, topic: str = "orders") -> tuple[Placement, ...]:
        return place(topic, self.partitions, self.factor, self.basis)

    def racks(self, brokers: tuple[int, ...]) -> Counter[str]:
        return Counter(self.basis.racks[broker] for broker in brokers)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    brokers = draw(st.integers(1, 8))
    racks = {b: draw(st.sampled_from("abcd")) for b in range(1, brokers + 1)}
    standing = []
    for index in range(draw(st.integers(1, 12))):
        replicas = draw(st.lists(st.sampled_from(sorted(racks)), unique=True, min_size=1, max_size=min(5, brokers)))
        standing.append(PartitionReplicas(index, tuple(replicas), draw(st.sampled_from(replicas))))
    counts = {b: draw(st.integers(0, 50)) for b in racks}
    return Case(PlacementBasis(racks, counts), tuple(standing), draw(st.integers(1, brokers)))


@given(cases())
def test_the_factor_is_right_and_no_broker_is_named_twice(case: Case) -> None:
    for one in case.placed():
        assert len(one.after) == len(set(one.after)) == case.factor
        assert set(one.after) <= case.basis.racks.keys()


@given(cases())
def test_a_partition_only_gains_or_only_loses_replicas_and_those_that_stay_keep_their_order(case: Case) -> None:
    for part, one in zip(case.partitions, case.placed(), strict=True):
        assert one.before == part.replicas
        assert len(one.added) == max(0, case.factor - len(part.replicas))
        assert len(one.removed) == max(0, len(part.replicas) - case.factor)
        kept = [broker for broker in part.replicas if broker in one.after]
        assert list(one.after[: len(kept)]) == kept


@given(cases())
def test_the_leader_stays_and_so_does_the_preferred_one_where_racks_allow(case: Case) -> None:
    for part, one in zip(case.partitions, case.placed(), strict=True):
        assert part.leader in one.after
        if part.replicas[0] == part.leader:
            assert one.after[0] == part.leader


@given(cases())
def test_racks_are_as_many_as_the_replicas_that_stay_allow(case: Case) -> None:
    every = len(set(case.basis.racks.values()))
    for part, one in zip(case.partitions, case.placed(), strict=True):
        before, after = len(case.racks(part.replicas)), len(case.racks(one.after))
        assert after == (min(every, before + len(one.added)) if one.added else min(before, case.factor))


@given(cases())
def test_the_same_input_gives_the_same_placement_in_whatever_order_brokers_are_listed(case: Case) -> None:
    racks, replicas = ([*found.items()] for found in (case.basis.racks, case.basis.replicas))
    turned = PlacementBasis(dict(reversed(racks)), dict(reversed(replicas)))
    assert replace(case, basis=turned).placed() == case.placed()


@given(cases())
def test_what_is_placed_is_left_alone(case: Case) -> None:
    settled = tuple(PartitionReplicas(p.partition, p.after, p.after[0]) for p in case.placed())
    assert all(one.before == one.after for one in replace(case, partitions=settled).placed())


def spread(held: Counter[int]) -> int:
    return max(held.values()) - min(held.values())


@given(brokers=st.integers(2, 9), partitions=st.integers(1, 40), old=st.integers(1, 3), new=st.integers(1, 3))
def test_no_broker_gets_further_ahead_without_racks(brokers: int, partitions: int, old: int, new: int) -> None:
    old, new = min(old, brokers), min(new, brokers)
    standing = tuple(
        PartitionReplicas(p, tuple((p + r) % brokers for r in range(old)), p % brokers) for p in range(partitions)
    )
    placed = place("orders", standing, new, PlacementBasis({b: f"rack {b}" for b in range(brokers)}, {}))
    held, had = Counter(dict.fromkeys(range(brokers), 0)), Counter(dict.fromkeys(range(brokers), 0))
    held.update(broker for one in placed for broker in one.after)
    had.update(broker for one in placed for broker in one.before)
    assert spread(held) <= max(1, spread(had))


@given(racks=st.integers(1, 4), each=st.integers(1, 3), partitions=st.integers(1, 30))
def test_growth_is_even_over_equal_racks(racks: int, each: int, partitions: int) -> None:
    brokers = {b: f"rack {b % racks}" for b in range(racks * each)}
    standing = tuple(PartitionReplicas(p, (p % len(brokers),), p % len(brokers)) for p in range(partitions))
    placed = place("orders", standing, min(3, len(brokers)), PlacementBasis(brokers, {}))
    held = Counter(dict.fromkeys(brokers, 0))
    held.update(broker for one in placed for broker in one.after)
    assert spread(held) <= 1


def test_topics_of_one_partition_go_where_least_is() -> None:
    basis = PlacementBasis({1: "a", 2: "b", 3: "c", 4: "d"}, {1: 10, 2: 9, 3: 1, 4: 2})
    (one,) = place("small", (PartitionReplicas(0, (1,), 1),), 3, basis)
    assert set(one.added) == {3, 4}


def test_names_settle_what_is_equal() -> None:
    basis = PlacementBasis({b: str(b) for b in range(1, 7)}, {})
    chosen = {place(f"topic-{n}", (PartitionReplicas(0, (1,), 1),), 2, basis)[0].after for n in range(30)}
    assert len(chosen) > 2
