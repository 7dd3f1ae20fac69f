"""Balances placed replicas over brokers by exchanges, where greedy choices left them uneven. Pure.

No exchange touches a fixed replica or spreads a partition over fewer racks.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Candidate:
    """The chosen replicas of one partition. ``fixed`` stay; the others may be exchanged for any of ``options``."""

    chosen: tuple[int, ...]
    fixed: frozenset[int]
    options: frozenset[int]


Exchange = tuple[int, int, int]
"""Position of the partition, broker that gives the replica up, broker that takes it."""


def level(candidates: Sequence[Candidate], racks: Mapping[int, str], held: Mapping[int, int]) -> tuple[Candidate, ...]:
    """``held``: how many replicas of the topic each broker has with ``candidates``."""
    counts = Counter({broker: held.get(broker, 0) for broker in racks})
    current = list(candidates)
    for _ in range(2 * len(candidates)):
        chain = _chain(current, racks, counts)
        moved = _followed(current, chain, racks) if chain else None
        if moved is None:
            break
        current = moved
        counts[chain[0][1]] -= 1
        counts[chain[-1][2]] += 1
    return tuple(current)


def _chain(current: Sequence[Candidate], racks: Mapping[int, str], counts: Mapping[int, int]) -> list[Exchange]:
    """The shortest one from the fullest broker that can give to one that holds at least two less."""
    if max(counts.values()) - min(counts.values()) < 2:
        return []
    edges: dict[int, dict[int, Exchange]] = {}
    for position, candidate in enumerate(current):
        for giver, taker in _exchanges(candidate, racks):
            edges.setdefault(giver, {}).setdefault(taker, (position, giver, taker))
    for start in sorted(counts, key=lambda broker: (-counts[broker], broker)):
        came: dict[int, Exchange | None] = {start: None}
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            if counts[start] - counts[here] >= 2:
                chain: list[Exchange] = []
                while (step := came[here]) is not None:
                    chain.insert(0, step)
                    here = step[1]
                return chain
            for taker in sorted(edges.get(here, {}), key=lambda broker: (counts[broker], broker)):
                if taker not in came:
                    came[taker] = edges[here][taker]
                    waiting.append(taker)
    return []


def _exchanges(candidate: Candidate, racks: Mapping[int, str]) -> Iterator[tuple[int, int]]:
    for giver in candidate.chosen:
        if giver in candidate.fixed:
            continue
        for taker in sorted(candidate.options):
            if taker not in candidate.chosen and taker in racks and _as_wide(candidate.chosen, giver, taker, racks):
                yield giver, taker


def _as_wide(chosen: Sequence[int], giver: int, taker: int, racks: Mapping[int, str]) -> bool:
    before = Counter(racks.get(broker, str(broker)) for broker in chosen)
    after = Counter(before)
    after[racks.get(giver, str(giver))] -= 1
    after[racks[taker]] += 1
    return sum(n * n for n in after.values()) <= sum(n * n for n in before.values())


def _followed(current: Sequence[Candidate], chain: list[Exchange], racks: Mapping[int, str]) -> list[Candidate] | None:
    """All exchanges of the chain, or None where one of them no longer holds after another of the same partition."""
    moved = list(current)
    for position, giver, taker in chain:
        candidate = moved[position]
        if (
            giver not in candidate.chosen
            or taker in candidate.chosen
            or not _as_wide(candidate.chosen, giver, taker, racks)
        ):
            return None
        chosen = tuple(taker if broker == giver else broker for broker in candidate.chosen)
        moved[position] = replace(candidate, chosen=chosen)
    return moved
