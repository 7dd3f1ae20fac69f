"""``offsets translate``: translates committed offsets of groups to the other cluster of a flow.

It logs in as the principal ``mirror``, which may read groups, topics and the map on both sides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial

from reconciler.backends.clusters.groups import Side, visited
from reconciler.backends.connections.own import Visits
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.kafka.client import errors
from reconciler.kafka.client.cluster import LATEST, ClusterClient
from reconciler.kafka.client.groups import GroupClient
from reconciler.model.environment.flow_settings import Isolation
from reconciler.model.environment.topology import Flow, Topology
from reconciler.model.reports.offsets import Key, TranslatedOffset, TranslateRequest, Translations
from reconciler.operations.failover.charts import as_they_are
from reconciler.replication.names import position_group
from reconciler.replication.offsets import map_topic
from reconciler.replication.offsets.map import Translation
from reconciler.replication.offsets.translate import ClusterSides, translate
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
        reached: list[Side] = []
        for side, needed in ((source, bool(request.groups) and not request.reverse), (target, True)):
            try:
                visited((side,), lambda opened: opened[0].refresh([]), CONNECT_WITHIN)
                reached.append(side)
            except ClusterError as error:
                if needed or error.kind != "unreachable":
                    raise
        rows, left_out = visited(reached, partial(_translated, flow, request, selector), TRANSLATED_WITHIN)
    ends = (flow.target, flow.source) if request.reverse else (flow.source, flow.target)
    return Translations(topology.environment, flow.name, *ends, rows, left_out)


async def _translated(
    flow: Flow, request: TranslateRequest, selector: TopicSelector, opened: Sequence[ClusterClient]
) -> tuple[tuple[TranslatedOffset, ...], tuple[str, ...]]:
    """Rows, and words for omitted positions. ``opened``: source and target, or the target alone."""
    source, target = opened[0] if len(opened) > 1 else None, opened[-1]
    asked, left_out = await _asked(target if request.reverse else source, flow, request, selector)

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
    committed = flow.isolation is Isolation.READ_COMMITTED
    sides = ClusterSides(source, target, flow.state_name, position_group(flow.state_name), committed)
    try:
        if flow.keeps_offsets:
            translations = await _as_they_are((source, target), wanted, selector.remote_name, reverse=request.reverse)
        else:
            translations = await translate(sides, wanted, selector.remote_name, reverse=request.reverse)
    except errors.BrokerError as error:
        if error.code != errors.UNKNOWN_TOPIC:
            raise
        problem = f"flow {flow.name} has no offset map: {flow.target} has no topic {map_topic.name_on(target)}"
        why = "Without it positions cannot be translated."
        todo = "Run reconciler apply ENV, which makes the topic, and let the mirror copy."
        raise ReconcilerError(problem, why, todo) from None
    rows = []
    for (group, key), offsets in sorted(asked.items()):
        if key in keys:
            twin = keys[key][0] if request.reverse else selector.remote_name(key[0])
            rows += [TranslatedOffset(group, *key, at, twin, translations[keys[key], at]) for at in offsets]
    return tuple(rows), tuple(left_out)


async def _as_they_are(
    sides: tuple[ClusterClient | None, ClusterClient],
    wanted: Mapping[Key, Iterable[int]],
    remote: Callable[[str], str],
    *,
    reverse: bool,
) -> dict[tuple[Key, int], Translation]:
    """Asks both sides for log ends. ``sides``: source and target; ``wanted``: by source partition."""
    places = [{key: key for key in wanted}, {key: (remote(key[0]), key[1]) for key in wanted}]
    ends: list[dict[Key, int]] = []
    for cluster, keys in zip(sides, places, strict=True):
        answers: Mapping[Key, int | errors.BrokerError] = {}
        if cluster is not None:
            await cluster.refresh({topic for topic, _ in keys.values()})
            answers = await cluster.list_offsets(dict.fromkeys(keys.values(), LATEST), committed=False)
        ends.append({key: end for key, its in keys.items() if isinstance(end := answers.get(its), int)})
    near, far = (1, 0) if reverse else (0, 1)
    here, cluster = {key: (places[near][key], end) for key, end in ends[near].items()}, sides[near]
    return as_they_are(wanted, here, cluster.name if cluster is not None else "", ends[far])


async def _asked(
    near: ClusterClient | None, flow: Flow, request: TranslateRequest, selector: TopicSelector
) -> tuple[_Asked, list[str]]:
    """Offsets to translate, by group and partition, and words for omitted ones. Given offsets belong to group
    ``""``."""
    if not request.groups:
        return {("", key): offsets for key, offsets in (request.given or {}).items()}, []
    assert near is not None
    groups = await GroupClient(near).offsets(request.groups)
    asked: _Asked = {}
    left_out: list[str] = []
    for group in request.groups:
        committed = groups[group].offsets if group in groups else {}
        if not committed:
            left_out.append(f"group {group}: it has no committed offset on {near.name}")
        for key, committed_offset in sorted(committed.items()):
            why = None if request.reverse else selector.why_not(key[0])
            if why is None and committed_offset.offset >= 0:
                asked[group, key] = (committed_offset.offset,)
            elif why is not None:
                left_out.append(f"group {group}, {key[0]}-{key[1]}: flow {flow.name} does not carry it ({why})")
    return asked, left_out
