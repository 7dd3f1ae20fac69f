"""What an edit changes in flows: topics that begin or cease to be mirrored, remote topics that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.engine.edits.fields import words
from reconciler.model.config_values import same
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveCluster, LiveState
from reconciler.model.reports.edit import FieldChange, FlowImpact, ItemChange, Sign, TopicTravel
from reconciler.resources.flows.routes import Route, find_routes
from reconciler.resources.topics.config_sync import SyncedConfigs
from reconciler.resources.topics.expected import DesiredConfig
from reconciler.text import counted


def blank(topology: Topology) -> LiveState:
    """Clusters as if nothing stood on them: then only what is declared, and what flows make of it, can travel."""
    return LiveState({name: LiveCluster(name, "", (), {}) for name in topology.clusters}, {})


def declared_routes(topology: Topology) -> tuple[Route, ...]:
    return find_routes(topology, blank(topology)).routes


@dataclass(frozen=True, slots=True)
class RoutesOfBothSides:
    """The declared routes of both sides."""

    before: tuple[Route, ...]
    after: tuple[Route, ...]


def routes_of(before: Topology, after: Topology) -> RoutesOfBothSides:
    return RoutesOfBothSides(declared_routes(before), declared_routes(after))


def flow_impacts(routes: RoutesOfBothSides) -> Iterator[FlowImpact]:
    was, now = _travels(routes.before), _travels(routes.after)
    for flow in sorted(was.keys() | now.keys()):
        old, new = was.get(flow, set()), now.get(flow, set())
        if old != new:
            yield FlowImpact(flow, tuple(sorted(new - old)), tuple(sorted(old - new)))


def takeovers(impacts: Iterable[FlowImpact]) -> Mapping[str, str]:
    """Flow -> what it means that it copies from now on what another flow copied: a renamed flow above all."""
    losers: dict[TopicTravel, str] = {travel: impact.flow for impact in impacts for travel in impact.lost}
    by_name: dict[str, dict[str, int]] = {}
    for impact in impacts:
        for travel in impact.gained:
            if loser := losers.get(travel):
                counts = by_name.setdefault(impact.flow, {})
                counts[loser] = counts.get(loser, 0) + 1
    return {flow: "; ".join(_taken(loser, count) for loser, count in of.items()) for flow, of in by_name.items()}


def _taken(loser: str, count: int) -> str:
    topics = counted(count, "topic")
    return (
        f"it takes over {topics} of flow {loser}, whose positions do not come along: partitions that {loser} had"
        f" copied stop with position_missing until mirror seek --from-flow {loser}"
    )


def following(routes: RoutesOfBothSides) -> Iterator[ItemChange]:
    """Remote topics on both sides whose partitions, factor or synced configs follow an edit of their source or flow."""
    was = {route.remote: route for route in routes.before}
    for route in routes.after:
        if (old := was.get(route.remote)) and (fields := tuple(_fields(old, route))):
            yield ItemChange(Sign.CHANGED, "remote topic", str(route.remote), means=f"flow {route.flow}", fields=fields)


def _travels(routes: tuple[Route, ...]) -> Mapping[str, set[TopicTravel]]:
    travels: dict[str, set[TopicTravel]] = {}
    for route in routes:
        travels.setdefault(route.flow, set()).add(TopicTravel(route.source, route.remote))
    return travels


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


def _set(route: Route) -> Mapping[str, DesiredConfig]:
    return route.configs.set if isinstance(route.configs, SyncedConfigs) else {}


def _origin(wanted: DesiredConfig | None) -> str:
    return wanted.origin if wanted else ""
