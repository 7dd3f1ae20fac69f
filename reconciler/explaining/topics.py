"""One topic on one cluster: each value with the layer that decided it, its flows, and its names on other clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.changes import Role
from reconciler.diffing.wishes import TopicWish
from reconciler.errors import Unknown, Where
from reconciler.explaining.matching import flow_answer
from reconciler.explanation import Hop, TopicAnswer, Value
from reconciler.layers import DECLARED, Layer, Layers, given, layers_of
from reconciler.live import LiveState, LiveTopic, Source
from reconciler.places import Places
from reconciler.prospects import Wanted
from reconciler.routing import Routing
from reconciler.topic_configs import human
from reconciler.topology import Flow, Tombstone, Topic, TopicRef, Topology

BROKERS = "the brokers decide"
COUNTS = ("partitions", "replication_factor")
NO_PLACES = Places()


@dataclass(frozen=True, slots=True)
class Ground:
    """``live`` holds every cluster: those not in ``answered`` as git alone has them. ``places``: of the texts, so that
    a value is told with its own line; else it is told with that of its topic or layer."""

    topology: Topology
    live: LiveState
    routing: Routing
    wishes: Mapping[TopicRef, TopicWish]
    answered: frozenset[str]
    places: Places = NO_PLACES

    @property
    def present(self) -> frozenset[TopicRef]:
        return frozenset(self.wishes) | frozenset(self.routing.prospects)

    def topic(self, ref: TopicRef) -> LiveTopic | None:
        cluster = self.live.known(ref.cluster)
        return cluster.topics.get(ref.name) if cluster else None


def topic_answer(ground: Ground, ref: TopicRef, key: str = "") -> TopicAnswer:
    """``key``: only this one config, ``partitions`` or ``replication_factor``; then also when nobody set it."""
    wish, live = ground.wishes.get(ref), ground.topic(ref)
    declared = _declaration(ground, ref)
    values = [*_counts(ground, ref, wish, live), *_configs(ground, ref, wish, live, key)]
    if key:
        values = [value for value in values if value.key == key] or [_nobody(key, live)]
    flows = [flow for flow in ground.topology.flows.values() if flow.source == ref.cluster]
    return TopicAnswer(
        ref,
        _reason(ground, ref, wish, live),
        _place(declared.where) if declared else "",
        _seen(ground, ref, live),
        tuple(values),
        tuple(flow_answer(flow, ref) for flow in flows),
        tuple(_hops(ground.routing, ref)),
    )


def _declaration(ground: Ground, ref: TopicRef) -> Topic | None:
    found = ground.topology.topics.get(ref.name)
    return found if found and ref.cluster in found.clusters else None


def _reason(ground: Ground, ref: TopicRef, wish: TopicWish | None, live: LiveTopic | None) -> str:
    if wish is not None:
        return wish.reason.text
    stone = next((one for one in ground.topology.deletions if one.ref == ref), None)
    if stone is not None:
        return _tombstone(ground, stone, live)
    if live is not None:
        return "unmanaged: neither declared nor made by a flow, never touched"
    asked = "and not on the cluster" if ref.cluster in ground.answered else "and the cluster was not asked"
    return f"neither declared nor made by a flow, {asked}"


def _tombstone(ground: Ground, stone: Tombstone, live: LiveTopic | None) -> str:
    told = f"tombstone ({_place(stone.where)})"
    if live is None and stone.cluster in ground.answered:
        return f"gone; its {told} can be removed"
    if live is not None and live.topic_id != stone.topic_id:
        return f"unmanaged, never touched: its {told} is for an earlier topic of this name, id {stone.topic_id}"
    if stone.expired:
        return f"unmanaged, never touched: its {told} counted until {stone.expires}"
    return f"to be deleted: its {told} counts until {stone.expires}: {stone.reason}"


def _seen(ground: Ground, ref: TopicRef, live: LiveTopic | None) -> str:
    if ref.cluster not in ground.answered:
        return ""
    return f"on the cluster, topic id {live.topic_id}" if live else "not on the cluster"


def _counts(ground: Ground, ref: TopicRef, wish: TopicWish | None, live: LiveTopic | None) -> Iterator[Value]:
    if wish is None:
        if live is not None:
            yield Value("partitions", "", "not declared", "", str(len(live.partitions)))
            yield Value("replication_factor", "", "not declared", "", str(live.replication_factor or "mixed"))
        return
    partitions = str(wish.new_partitions) if wish.new_partitions else ""
    seen = str(len(live.partitions)) if live else ""
    told = _partitions_from(ground, ref, wish)
    yield Value("partitions", partitions, *told, seen, _overridden(ground, ref, "partitions", told[0]))
    factor = str(wish.new_factor) if wish.new_factor else ""
    seen = str(live.replication_factor or "mixed") if live else ""
    told = _factor_from(ground, ref, wish)
    yield Value("replication_factor", factor, *told, seen, _overridden(ground, ref, "replication_factor", told[0]))


def _partitions_from(ground: Ground, ref: TopicRef, wish: TopicWish) -> tuple[str, str]:
    topic = _declaration(ground, ref)
    if wish.source and wish.partitions and not (topic and topic.partitions):
        return f"as many as {wish.source}", _source_place(ground, wish.source)
    if wish.role is Role.INTERNAL:
        return "needed by the mirror job", ""
    return _layer_from(ground, ref, "partitions") or (BROKERS, "")


def _factor_from(ground: Ground, ref: TopicRef, wish: TopicWish) -> tuple[str, str]:
    topic = _declaration(ground, ref)
    flow = _maker(ground, ref)
    if flow and flow.replication_factor and not (topic and topic.replication_factor):
        where = ground.places.find("flows", flow.name, "replication_factor", or_else=flow.where)
        return f"flow {flow.name}", _place(where)
    if wish.role is Role.INTERNAL:  # the mirror's own topics follow a default also later
        found = next(given(_layers(ground, ref), "replication_factor"), None)
        undecided = ("at most 3, as many as there are brokers", "")
        return undecided if found is None else (found.layer.name, _line(ground, ref, found.layer, "replication_factor"))
    return _layer_from(ground, ref, "replication_factor") or (BROKERS, "")


def _maker(ground: Ground, ref: TopicRef) -> Flow | None:
    route = next((one for one in ground.routing.routes if one.remote == ref), None)
    return ground.topology.flows[route.flow] if route else None


def _layers(ground: Ground, ref: TopicRef) -> Layers:
    return layers_of(ground.topology, ref.cluster, _declaration(ground, ref))


def _layer_from(ground: Ground, ref: TopicRef, field: str) -> tuple[str, str] | None:
    """The strongest layer of git that has a count to give."""
    found = next(given(_layers(ground, ref), field), None)
    if found is None:
        return None
    only_new = "" if found.layer.name == DECLARED else ", for a new topic"
    return f"{found.layer.name}{only_new}", _line(ground, ref, found.layer, field)


def _overridden(ground: Ground, ref: TopicRef, field: str, won: str) -> tuple[str, ...]:
    """Layers that had something to say and lost: ``3d by class critical, classes.yaml:4``."""
    lost = [one for one in given(_layers(ground, ref), field) if not won.startswith(one.layer.name)]
    return tuple(
        f"{human(field, one.value)} by {one.layer.name}, {_line(ground, ref, one.layer, field)}" for one in lost
    )


def _configs(
    ground: Ground, ref: TopicRef, wish: TopicWish | None, live: LiveTopic | None, key: str
) -> Iterator[Value]:
    wanted = wish.configs if wish else {}
    configs = live.configs if live is not None and not isinstance(live.configs, Unknown) else {}
    overrides = {name for name, entry in configs.items() if entry.source is Source.TOPIC}
    reset = wish.reset if wish else frozenset()
    for name in sorted({*wanted, *overrides, *({key} & configs.keys())}):
        entry = configs.get(name)
        seen = (
            f"{human(name, entry.value) if not entry.sensitive else '(hidden)'} ({entry.source.value})" if entry else ""
        )
        if name in wanted:
            told = _config_from(ground, ref, wish, name, wanted[name])
            lost = _overridden(ground, ref, name, told[0])
            yield Value(name, human(name, wanted[name].value), *told, seen, lost)
        elif name in reset:
            yield Value(name, "", f"no override: at its default on {wish.source if wish else ''}", "", seen)
        else:
            because = "not declared, left as it is" if name in overrides else "not declared: nobody overrides it"
            yield Value(name, "", because, "", seen)


def _config_from(ground: Ground, ref: TopicRef, wish: TopicWish | None, key: str, wanted: Wanted) -> tuple[str, str]:
    if wish and wish.source and wanted.origin.startswith("source "):
        return wanted.origin, _source_place(ground, wish.source)
    found = next(given(_layers(ground, ref), key), None)
    if found and wish and wish.role is not Role.INTERNAL:
        return wanted.origin, _line(ground, ref, found.layer, key)
    return wanted.origin, ""


def _source_place(ground: Ground, ref: TopicRef) -> str:
    topic = _declaration(ground, ref)
    return _place(topic.where) if topic else ""


def _nobody(key: str, live: LiveTopic | None) -> Value:
    if live is not None and not isinstance(live.configs, Unknown):
        return Value(key, "", "the cluster knows no topic config of this name; look for a slip in it")
    return Value(key, "", "neither declared nor set; without a cluster's answer its default is not known")


def _hops(routing: Routing, ref: TopicRef) -> Iterator[Hop]:
    """The whole family of a topic: from the one no flow makes, over every flow."""
    makers = {route.remote: route for route in routing.routes}
    root, climbed = ref, {ref}
    while root in makers and makers[root].source not in climbed:
        root = makers[root].source
        climbed.add(root)
    waiting, told = [root], set[TopicRef]()
    while waiting:
        current = waiting.pop(0)
        told.add(current)
        for route in routing.routes:
            if route.source == current:
                yield Hop(route.flow, route.source, route.remote, route.depth)
                waiting += [route.remote] if route.remote not in told else []


def _line(ground: Ground, ref: TopicRef, layer: Layer, field: str) -> str:
    """Where the value of ``field`` stands in this layer."""
    topic = _declaration(ground, ref)
    section, name = "defaults", "defaults"
    inner: tuple[str, ...] = ()
    if layer.name == DECLARED:
        section, name = "topics", ref.name
    elif layer.values is ground.topology.clusters[ref.cluster].defaults:
        section, name, inner = "clusters", ref.cluster, ("defaults",)
    elif topic is not None and layer.values is ground.topology.rules.classes.get(topic.class_name):
        section, name = "classes", topic.class_name
    path = (field,) if field in COUNTS else ("configs", field)
    return _place(ground.places.find(section, name, *inner, *path, or_else=layer.where))


def _place(where: Where) -> str:
    return f"{where.file}:{where.line}" if where.line else ""
