"""Layers of a directed graph, after Sugiyama, Tagawa and Toda (1981): cycles cut, longest paths, barycentres.

The same graph always gives the same layers: ties are broken by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

SWEEPS = 8
"""Passes over all layers; orders rarely change after the fourth."""

Edge = tuple[str, str]


def ranks(names: Iterable[str], edges: Collection[Edge]) -> dict[str, int]:
    """Name -> number of its layer, from 0. An edge leads to a later layer, unless it closes a cycle."""
    order = sorted(names)
    forward = _without_cycles(order, edges)
    into: dict[str, list[str]] = defaultdict(list)
    for source, target in forward:
        into[target].append(source)
    layer: dict[str, int] = {}
    for name in _sources_first(order, forward):
        layer[name] = max((layer[source] + 1 for source in into[name]), default=0)
    return _pulled_right(layer, forward)


def ordered(layers: Sequence[Sequence[str]], edges: Collection[Edge]) -> list[list[str]]:
    """Each layer in the order in which few edges cross: by the mean place of neighbours, swept to and fro."""
    near: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        near[source].append(target)
        near[target].append(source)
    rows = [sorted(layer) for layer in layers]
    for sweep in range(SWEEPS):
        for index in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            beside = rows[index - 1 : index] if sweep % 2 == 0 else rows[index + 1 : index + 2]
            at = {name: place / max(1, len(row) - 1) for row in beside for place, name in enumerate(row)}
            rows[index] = _by_barycentre(rows[index], near, at)
    return rows


def _by_barycentre(row: list[str], near: Mapping[str, list[str]], at: Mapping[str, float]) -> list[str]:
    def centre(place: int) -> tuple[float, int]:
        places = [at[other] for other in near.get(row[place], ()) if other in at]
        middle = place / max(1, len(row) - 1)
        return (sum(places) / len(places) if places else middle), place

    return [row[place] for place in sorted(range(len(row)), key=centre)]


def _without_cycles(order: Sequence[str], edges: Collection[Edge]) -> set[Edge]:
    """Without the edges that lead back, by the greedy order of Eades, Lin and Smyth (1993): what sends more than it
    receives stands further left."""
    left, right, rest = [], [], dict.fromkeys(order)
    while rest:
        out = {name: sum(s == name and t in rest and t != s for s, t in edges) for name in rest}
        into = {name: sum(t == name and s in rest and t != s for s, t in edges) for name in rest}
        sinks = [name for name in rest if not out[name]]
        origins = [name for name in rest if not into[name]]
        if origins:
            left.append(origins[0])
        elif sinks:
            right.append(sinks[0])
        else:
            left.append(max(rest, key=lambda name: out[name] - into[name]))
        rest.pop((origins or sinks or [left[-1]])[0])
    place = {name: number for number, name in enumerate([*left, *reversed(right)])}
    return {(source, target) for source, target in edges if place[source] < place[target]}


def _sources_first(order: Sequence[str], edges: Collection[Edge]) -> list[str]:
    waits = {name: {source for source, target in edges if target == name} for name in order}
    done: list[str] = []
    while len(done) < len(order):
        done += [name for name in order if name not in done and waits[name] <= set(done)]
    return done


def _pulled_right(layer: dict[str, int], edges: Collection[Edge]) -> dict[str, int]:
    """A source stands right before what it feeds, not at the far left; a name without edges in the first layer."""
    for name in sorted(layer, key=lambda name: -layer[name]):
        later = [layer[target] for source, target in edges if source == name]
        if later:
            layer[name] = max(layer[name], min(later) - 1)
    return layer
