"""Prerequisites of a flow with provenance: cluster ids, and the ranges of unmarked copies.

A copy from before provenance was on has no header, so it looks like a record that was produced there. When a flow
begins to mark its copies, it therefore notes the target's end for each partition that it has copied before (``marked``
of its positions), and a flow that reads from that cluster never begins before that offset.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, BrokerError
from reconciler.kafka.client.groups import GroupClient
from reconciler.replication.handover import FlowSettings
from reconciler.replication.names import position_group
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.lane.positions import LanePosition, read_all
from reconciler_mirror.model.lane import GRANTS, Condition, ProvenanceSettings
from reconciler_mirror.record_work.provenance_header import short_id


class NotReadyError(Exception):
    """The flow cannot be taken over yet; ``condition`` says why."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(condition.text)
        self.condition = condition


async def resolve(flow: FlowSettings, target: ClusterClient) -> ProvenanceSettings:
    """Ids and floors. Raises NotReadyError, or the exception of a silent cluster."""
    with closing(cluster_of(flow.source)) as source:
        ids = await cluster_id(source), await cluster_id(target)
        if ids[0] == ids[1]:
            both = f"{flow.source.cluster} and {flow.target.cluster}"
            text = f"{flow.name} is not copied: {both} are the same cluster, {ids[0]}"
            raise NotReadyError(
                Condition("same_cluster", text, "Correct bootstrap_servers of one of them.", stops=True)
            )
        return ProvenanceSettings(short_id(ids[0]), short_id(ids[1]), *await _floors(flow, source, ids[1]))


async def ids_of(source: ClusterClient, target: ClusterClient) -> ProvenanceSettings:
    """Ids of both clusters, without floors."""
    return ProvenanceSettings(short_id(await cluster_id(source)), short_id(await cluster_id(target)))


async def cluster_id(cluster: ClusterClient) -> str:
    """Kafka's own id of the cluster."""
    await cluster.refresh(())
    return cluster.cluster_id


async def marks(target: ClusterClient, positions: Mapping[Key, LanePosition]) -> dict[Key, LanePosition]:
    """Positions with ``marked`` added if it is missing, for one common commit: from now on the flow marks its copies.
    Leaves out positions that another client committed.

    Every earlier holder is fenced by now, so no unmarked copy can follow the ends that are read here.
    """
    before = {key: position for key, position in positions.items() if position.proved and position.marked is None}
    await target.refresh({topic for topic, _ in before})
    ends = await logs.ends(target, list(before))
    return {key: replace(position, marked=(ends[key], position.offset)) for key, position in before.items()}


async def _floors(
    flow: FlowSettings, source: ClusterClient, target_id: str
) -> tuple[dict[Key, int], dict[Key, str], dict[Key, int]]:
    """By source partition: the offset before which unmarked copies of arriving flows may lie. The partitions for which
    it is unknown, with the arriving flow. And the first again, for flows from this flow's target alone."""
    assert flow.provenance is not None
    floors: dict[Key, int] = {}
    unknown: dict[Key, str] = {}
    returning: dict[Key, int] = {}
    for name in flow.provenance.arriving:
        try:
            positions = await read_all(GroupClient(source), position_group(name))
        except BrokerError as error:
            if error.code in DENIED:
                raise NotReadyError(_denied(flow, name)) from None
            raise
        for key, position in positions.items():
            # An offset of unknown origin proves no boundary between marked and unmarked copies.
            if not position.proved:
                unknown[key] = name
                continue
            if position.marked is None:
                raise NotReadyError(_not_marking(flow, name))
            floors[key] = max(floors.get(key, 0), position.marked[0])
            if position.claim.owner.source in ("", target_id):
                returning[key] = max(returning.get(key, 0), position.marked[0])
    return {key: floor for key, floor in floors.items() if floor > 0}, unknown, returning


def _not_marking(flow: FlowSettings, arriving: str) -> Condition:
    """``arriving``: a flow into this flow's source with positions that do not say where marked copies begin."""
    return Condition(
        "provenance_not_yet_marked",
        f"{flow.name} waits: {arriving} has copied to {flow.source.cluster} without provenance and has not begun to "
        "mark its copies; they would return as if they had been written there",
        f"Start the mirror that carries {arriving} with its present definition; {flow.name} then resumes"
        " automatically.",
        stops=True,
    )


def _denied(flow: FlowSettings, arriving: str) -> Condition:
    """``arriving``: a flow into this flow's source; the mirror's principal may not read its positions there."""
    group = position_group(arriving)
    return Condition(
        "permission_denied",
        f"{flow.name} waits: the mirror may not read the group {group} at {flow.source.cluster}, which says where "
        "marked copies begin",
        f"Give the mirror's principal DESCRIBE on the group {group} at {flow.source.cluster}: {GRANTS}.",
        stops=True,
    )
