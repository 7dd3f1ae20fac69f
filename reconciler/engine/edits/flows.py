"""Which declared topics each flow begins or ceases to mirror, over all hops, and how remote topics follow an edit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.comparing.fields import words
from reconciler.comparison import FieldChange, FlowImpact, ItemChange, Sign, Travel
from reconciler.counts import counted
from reconciler.live import LiveCluster, LiveState
from reconciler.prospects import Wanted
from reconciler.routing import Route, find_routes
from reconciler.syncing import SyncedConfigs
from reconciler.topic_configs import same
from reconciler.topology import Topology


def blank(topology: Topology) -> LiveState:
    """Clusters as if nothing stood on them: then only what is declared, and what flows make of it, can travel."""
    return LiveState({name: LiveCluster(name, "", (), {}) for name in topology.clusters}, {})


def declared_routes(topology: Topology) -> tuple[Route, ...]:
    return find_routes(topology, blank(topology)).routes


@dataclass(frozen=True, slots=True)
class Routes:
    """The declared routes of both sides."""

    before: tuple[Route, ...]
    after: tuple[Route, ...]


def routes_of(before: Topology, after: Topology) -> Routes:
    return Routes(declared_routes(before), declared_routes(after))


def flow_impacts(routes: Routes) -> Iterator[FlowImpact]:
    was, now = _travels(routes.before), _travels(routes.after)
    for flow in sorted(was.keys() | now.keys()):
        old, new = was.get(flow, set()), now.get(flow, set())
        if old != new:
            yield FlowImpact(flow, tuple(sorted(new - old)), tuple(sorted(old - new)))


def takeovers(impacts: Iterable[FlowImpact]) -> Mapping[str, str]:
    """Flow -> what it means that it copies from now on what another flow copied: a renamed flow above all."""
    losers: dict[Travel, str] = {travel: one.flow for one in impacts for travel in one.lost}
    found: dict[str, dict[str, int]] = {}
    for one in impacts:
        for travel in one.gained:
            if loser := losers.get(travel):
                counts = found.setdefault(one.flow, {})
                counts[loser] = counts.get(loser, 0) + 1
    return {flow: "; ".join(_taken(loser, count) for loser, count in of.items()) for flow, of in found.items()}


def _taken(loser: str, count: int) -> str:
    topics = counted(count, "topic")
    return (
        f"it takes over {topics} of flow {loser}, whose positions do not come along: partitions that {loser} had"
        f" copied stop with position_missing until mirror seek --from-flow {loser}"
    )


def following(routes: Routes) -> Iterator[ItemChange]:
    """Remote topics on both sides whose partitions, factor or synced configs follow an edit of their source or flow."""
    was = {route.remote: route for route in routes.before}
    for route in routes.after:
        if (old := was.get(route.remote)) and (fields := tuple(_fields(old, route))):
            yield ItemChange(Sign.CHANGED, "remote topic", str(route.remote), means=f"flow {route.flow}", fields=fields)


def _travels(routes: tuple[Route, ...]) -> Mapping[str, set[Travel]]:
    found: dict[str, set[Travel]] = {}
    for route in routes:
        found.setdefault(route.flow, set()).add(Travel(route.source, route.remote))
    return found


def _fields(old: Route, new: Route) -> Iterator[FieldChange]:
    for name in ("partitions", "replication_factor"):
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            yield FieldChange(name, words((name,), was), words((name,), now))
    was_set, now_set = _set(old), _set(new)
    for key in sorted(was_set.keys() | now_set.keys()):
        was_value, now_value = was_set.get(key), now_set.get(key)
        values = was_value.value if was_value else None, now_value.value if now_value else None
        if not same(key, *values):
            path = ("configs", key)
            yield FieldChange(".".join(path), words(path, values[0]), words(path, values[1]), _origin(now_value))


def _set(route: Route) -> Mapping[str, Wanted]:
    return route.configs.set if isinstance(route.configs, SyncedConfigs) else {}


def _origin(wanted: Wanted | None) -> str:
    return wanted.origin if wanted else ""
