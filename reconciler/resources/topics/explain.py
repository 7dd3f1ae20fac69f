"""Explains one topic on one cluster: the layer behind each value, its flows, its names on other clusters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from reconciler.errors import NOWHERE, Unknown, Where
from reconciler.model.changes import Role
from reconciler.model.config_values import human
from reconciler.model.environment.topology import Topic, TopicRef, Topology, Undeclared
from reconciler.model.live import LiveState, LiveTopic, Source
from reconciler.model.reports.explain import ExplainedValue, NextName, TopicAnswer
from reconciler.resources.flows.explain import flow_answer
from reconciler.resources.flows.routes import Routing, selector_of
from reconciler.resources.topics.defaults import COUNTS, DECLARED, Layer, Layers, given, layers_of
from reconciler.resources.topics.desired import DesiredTopic

BROKERS = "the brokers decide"
_UNDECLARED = {
    Undeclared.IGNORE: "not declared, left as it is",
    Undeclared.DRIFT: "in no file, which counts as drift (undeclared: drift)",
    Undeclared.REMOVE: "in no file: apply takes it off (undeclared: remove)",
}


class FieldLocations(Protocol):
    """The places of fields in the YAML files: ``environment.yaml.locations.Places``."""

    def find(self, section: str, name: str, *path: str | int, or_else: Where = NOWHERE) -> Where: ...


class _NotWritten:
    def find(self, *_: str | int, or_else: Where = NOWHERE) -> Where:
        return or_else


NO_PLACES: FieldLocations = _NotWritten()


@dataclass(frozen=True, slots=True)
class ExplainBasis:
    """``live`` has every cluster: those outside of ``answered`` as git alone describes them. ``places``: of the files'
    fields, so that each value comes with its own line, not with that of its topic or layer."""

    topology: Topology
    live: LiveState
    routing: Routing
    desired_topics: Mapping[TopicRef, DesiredTopic]
    answered: frozenset[str]
    places: FieldLocations = NO_PLACES

    @property
    def present(self) -> frozenset[TopicRef]:
        return frozenset(self.desired_topics) | frozenset(self.routing.prospects)

    def hidden(self, ref: TopicRef) -> Unknown | None:
        """Why the existence of the topic is unknown."""
        cluster = self.live.known(ref.cluster)
        return cluster.hidden.get(ref.name) if cluster else None


def topic_answer(basis: ExplainBasis, ref: TopicRef, key: str = "") -> TopicAnswer:
    """``key``: explain only this config, ``partitions`` or ``replication_factor``, even if it was never set."""
    desired, live = basis.desired_topics.get(ref), basis.live.topic(ref)
    declared = _declaration(basis, ref)
    values = [*_counts(basis, ref, desired, live), *_configs(basis, ref, desired, live, key)]
    if key:
        known = live is not None and not isinstance(live.configs, Unknown)
        unset = "neither declared nor set; without a cluster's answer its default is not known"
        because = "the cluster knows no topic config of this name; check its spelling" if known else unset
        values = [value for value in values if value.key == key] or [ExplainedValue(key, "", because)]
    flows = [flow for flow in basis.topology.flows.values() if flow.source == ref.cluster]
    presence = ""
    if ref.cluster in basis.answered:
        presence = f"on the cluster, topic id {live.topic_id}" if live else "not on the cluster"
        if (hidden := basis.hidden(ref)) is not None:
            presence = f"cannot be read: {hidden.error}"
    return TopicAnswer(
        ref,
        _reason(basis, ref, desired, live),
        declared.where.line_words if declared else "",
        presence,
        tuple(values),
        tuple(flow_answer(flow, selector_of(flow), ref) for flow in flows),
        tuple(_hops(basis.routing, ref)),
    )


def _declaration(basis: ExplainBasis, ref: TopicRef) -> Topic | None:
    topic = basis.topology.topics.get(ref.name)
    return topic if topic and ref.cluster in topic.clusters else None


def _reason(basis: ExplainBasis, ref: TopicRef, desired: DesiredTopic | None, live: LiveTopic | None) -> str:
    """Why the topic exists or would exist. A tombstone comes before the live topic, because it decides the topic's
    future."""
    if desired is not None:
        return desired.reason.text
    stone = next((tombstone for tombstone in basis.topology.deletions if tombstone.ref == ref), None)
    if stone is not None:
        tombstone = f"tombstone ({stone.where.line_words})"
        if basis.hidden(stone.ref) is not None:
            return f"cannot be read, so whether its {tombstone} is done is not known"
        if live is None and stone.cluster in basis.answered:
            return f"gone; its {tombstone} can be removed"
        if live is not None and live.topic_id != stone.topic_id:
            return (
                f"unmanaged, never changed: its {tombstone} is for an earlier topic of this name, id {stone.topic_id}"
            )
        if stone.expired:
            return f"unmanaged, never changed: its {tombstone} counted until {stone.expires}"
        return f"to be deleted: its {tombstone} counts until {stone.expires}: {stone.reason}"
    if live is not None:
        return "unmanaged: neither declared nor made by a flow, never changed"
    asked = "and not on the cluster" if ref.cluster in basis.answered else "and the cluster was not asked"
    if basis.hidden(ref) is not None:
        asked = "and it cannot be read"
    return f"neither declared nor made by a flow, {asked}"


def _counts(
    basis: ExplainBasis, ref: TopicRef, desired: DesiredTopic | None, live: LiveTopic | None
) -> Iterator[ExplainedValue]:
    """Number of partitions and replication factor, each with the layer that decides it, and the layers that it
    overrides."""
    if desired is None:
        if live is not None:
            yield ExplainedValue("partitions", "", "not declared", "", str(len(live.partitions)))
            yield ExplainedValue("replication_factor", "", "not declared", "", str(live.replication_factor or "mixed"))
        return
    topic = _declaration(basis, ref)
    # A copy has the partitions of its source unless its declaration gives another count.
    if desired.source and desired.partitions and not (topic and topic.partitions):
        why_partitions = f"as many as {desired.source}", _source_place(basis, desired.source)
    elif desired.role is Role.INTERNAL:
        why_partitions = "needed by the mirror job", ""
    else:
        why_partitions = _layer_from(basis, ref, "partitions") or (BROKERS, "")
    partitions, factor = (len(live.partitions), live.replication_factor or "mixed") if live else ("", "")
    for field, desired_words, because, live_words in (
        ("partitions", desired.new_partitions, why_partitions, partitions),
        ("replication_factor", desired.new_factor, _factor_from(basis, ref, desired), factor),
    ):
        overridden = _overridden(basis, ref, field, because[0])
        yield ExplainedValue(field, str(desired_words or ""), *because, str(live_words), overridden)


def _factor_from(basis: ExplainBasis, ref: TopicRef, desired: DesiredTopic) -> tuple[str, str]:
    topic = _declaration(basis, ref)
    route = next((route for route in basis.routing.routes if route.remote == ref), None)
    flow = basis.topology.flows[route.flow] if route else None
    if flow and flow.replication_factor and not (topic and topic.replication_factor):
        where = basis.places.find("flows", flow.name, "replication_factor", or_else=flow.where)
        return f"flow {flow.name}", where.line_words
    if desired.role is Role.INTERNAL:  # the mirror's own topics also follow a later change of the default
        layer_value = next(given(_layers(basis, ref), "replication_factor"), None)
        if layer_value is None:
            return "at most 3, as many as there are brokers", ""
        return layer_value.layer.name, _line(basis, ref, layer_value.layer, "replication_factor")
    return _layer_from(basis, ref, "replication_factor") or (BROKERS, "")


def _layers(basis: ExplainBasis, ref: TopicRef) -> Layers:
    return layers_of(basis.topology, ref.cluster, _declaration(basis, ref))


def _layer_from(basis: ExplainBasis, ref: TopicRef, field: str) -> tuple[str, str] | None:
    """The strongest layer of git that gives a count, and its place."""
    layer_value = next(given(_layers(basis, ref), field), None)
    if layer_value is None:
        return None
    only_new = "" if layer_value.layer.name == DECLARED else ", for a new topic"
    return f"{layer_value.layer.name}{only_new}", _line(basis, ref, layer_value.layer, field)


def _overridden(basis: ExplainBasis, ref: TopicRef, field: str, won: str) -> tuple[str, ...]:
    """Weaker layers with a value, such as ``3d by class critical, classes.yaml:4``."""
    return tuple(
        f"{human(field, lost.value)} by {lost.layer.name}, {_line(basis, ref, lost.layer, field)}"
        for lost in given(_layers(basis, ref), field)
        if not won.startswith(lost.layer.name)
    )


def _configs(
    basis: ExplainBasis, ref: TopicRef, desired: DesiredTopic | None, live: LiveTopic | None, key: str
) -> Iterator[ExplainedValue]:
    """Each config that is declared, set, or the subject: its value, origin, and overridden values."""
    wanted = desired.configs if desired else {}
    configs = live.configs if live is not None and not isinstance(live.configs, Unknown) else {}
    overrides = {name for name, entry in configs.items() if entry.source is Source.TOPIC}
    reset = desired.reset if desired else frozenset()
    # A topic has some forty configs at their defaults; one of them is shown only if it was asked for by name.
    for name in sorted({*wanted, *overrides, *({key} & configs.keys())}):
        entry = configs.get(name)
        live_words = (
            f"{human(name, entry.value) if not entry.sensitive else '(hidden)'} ({entry.source.value})" if entry else ""
        )
        if name in wanted:
            origin, place = wanted[name].origin, ""
            layer_value = next(given(_layers(basis, ref), name), None)
            if desired and desired.source and origin.startswith("source "):
                place = _source_place(basis, desired.source)
            elif layer_value and desired and desired.role is not Role.INTERNAL:
                place = _line(basis, ref, layer_value.layer, name)
            lost = _overridden(basis, ref, name, origin)
            yield ExplainedValue(name, human(name, wanted[name].value), origin, place, live_words, lost)
        elif name in reset:
            yield ExplainedValue(
                name, "", f"no override: at its default on {desired.source if desired else ''}", "", live_words
            )
        else:
            policy = desired.undeclared if desired else Undeclared.IGNORE
            because = _UNDECLARED[policy] if name in overrides else "not declared: no override is set"
            yield ExplainedValue(name, "", because, "", live_words)


def _source_place(basis: ExplainBasis, ref: TopicRef) -> str:
    topic = _declaration(basis, ref)
    return topic.where.line_words if topic else ""


def _hops(routing: Routing, ref: TopicRef) -> Iterator[NextName]:
    """All copies of a topic's first source, over every flow."""
    makers = {route.remote: route for route in routing.routes}
    root, climbed = ref, {ref}
    while root in makers and makers[root].source not in climbed:
        root = makers[root].source
        climbed.add(root)
    waiting, topics = [root], set[TopicRef]()
    while waiting:
        current = waiting.pop(0)
        topics.add(current)
        for route in routing.routes:
            if route.source == current:
                yield NextName(route.flow, route.source, route.remote, route.depth)
                waiting += [route.remote] if route.remote not in topics else []


def _line(basis: ExplainBasis, ref: TopicRef, layer: Layer, field: str) -> str:
    """Where this layer gives ``field`` its value."""
    topic = _declaration(basis, ref)
    section, name = "defaults", "defaults"
    inner: tuple[str, ...] = ()
    if layer.name == DECLARED:
        section, name = "topics", ref.name
    elif layer.values is basis.topology.clusters[ref.cluster].defaults:
        section, name, inner = "clusters", ref.cluster, ("defaults",)
    elif topic is not None and layer.values is basis.topology.rules.classes.get(topic.class_name):
        section, name = "classes", topic.class_name
    path = (field,) if field in COUNTS else ("configs", field)
    return basis.places.find(section, name, *inner, *path, or_else=layer.where).line_words
