"""``offsets translate``: translates committed offsets of groups to the other cluster of a flow.

It logs in as the principal ``mirror``, which may read groups, topics and the map on both sides.
"""

from contextlib import closing

from reconciler.backends.clusters.groups import Side, translations, visited
from reconciler.backends.connections.own import Visits
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Flow, Topology
from reconciler.model.reports.offsets import Key, TranslatedOffset, TranslateRequest, Translations
from reconciler.replication.policy import TopicSelector

CONNECT_WITHIN = 10.0
TRANSLATED_WITHIN = 600.0
"""Counting records in gaps of the map takes time for many positions."""
_Asked = dict[tuple[str, Key], tuple[int, ...]]


def translated(topology: Topology, request: TranslateRequest, selector: TopicSelector) -> Translations:
    """Raises ReconcilerError. Reasons of inexact offsets name a source that does not answer."""
    flow = topology.flows[request.flow]
    with closing(Visits()) as visits:
        source, target = (Side(topology.clusters[name], visits=visits) for name in (flow.source, flow.target))
        # Groups are read on the side to translate from. Given offsets need no source: a silent one only makes them
        # inexact.
        answering: Side | None = source
        for side, needed in ((source, bool(request.groups) and not request.reverse), (target, True)):
            try:
                visited((side,), lambda opened: opened[0].refresh([]), CONNECT_WITHIN)
            except ClusterError as error:
                if needed or error.kind != "unreachable":
                    raise
                answering = None
        asked, left_out = _asked(target if request.reverse else source, flow, request, selector)

        # Partition of the side to translate from -> the flow's source partition.
        keys: dict[Key, Key] = {}
        for _, key in asked:
            upstream = selector.policy.upstream_topic(key[0]) if request.reverse else key[0]
            if upstream is not None and (not request.reverse or selector.remote_name(upstream) == key[0]):
                keys[key] = upstream, key[1]
        strange = sorted({key for _, key in asked if key not in keys})
        left_out += [f"{topic}-{number}: it is not a remote topic of the flow" for topic, number in strange]
        wanted: dict[Key, list[int]] = {}
        for (_, key), offsets in asked.items():
            if key in keys:
                wanted.setdefault(keys[key], []).extend(offsets)
        remote, reverse = selector.remote_name, request.reverse
        other_side = translations(
            (answering, target), flow, wanted, remote, reverse=reverse, within_s=TRANSLATED_WITHIN
        )
    rows = []
    for (group, key), offsets in sorted(asked.items()):
        if key in keys:
            twin = keys[key][0] if reverse else remote(key[0])
            rows += [TranslatedOffset(group, *key, at, twin, other_side[keys[key], at]) for at in offsets]
    ends = (flow.target, flow.source) if reverse else (flow.source, flow.target)
    return Translations(topology.environment, flow.name, *ends, tuple(rows), tuple(left_out))


def _asked(near: Side, flow: Flow, request: TranslateRequest, selector: TopicSelector) -> tuple[_Asked, list[str]]:
    """Offsets to translate, by group and partition, and words for omitted ones. Given offsets belong to group
    ``""``. Raises ClusterError, also for a group that the principal may not read: it would look as if it had none."""
    if not request.groups:
        return {("", key): offsets for key, offsets in (request.given or {}).items()}, []
    groups = near.offsets(request.groups)
    asked: _Asked = {}
    left_out: list[str] = []
    for group in request.groups:
        if not groups.get(group):
            left_out.append(f"group {group}: it has no committed offset on {near.name}")
        for key, committed in sorted(groups.get(group, {}).items()):
            why = None if request.reverse else selector.why_not(key[0])
            if why is None and committed.offset >= 0:
                asked[group, key] = (committed.offset,)
            elif why is not None:
                left_out.append(f"group {group}, {key[0]}-{key[1]}: flow {flow.name} does not carry it ({why})")
    return asked, left_out
