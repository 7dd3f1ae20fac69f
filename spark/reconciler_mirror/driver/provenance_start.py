"""What a flow with provenance needs before it copies: cluster ids, and where unmarked copies lie.

A copy that was made before provenance was on carries no header and looks like a record written there. So a flow that
begins to mark notes, for each partition that it has copied before, where the target ended at that moment (``marked`` of
its positions), and a flow that begins to read there never begins below.
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
    """Raises NotReadyError, or what a cluster raises that does not answer."""
    with closing(cluster_of(flow.source)) as source:
        ids = await cluster_id(source), await cluster_id(target)
        if ids[0] == ids[1]:
            both = f"{flow.source.cluster} and {flow.target.cluster}"
            text = f"{flow.name} is not copied: {both} are the same cluster, {ids[0]}"
            raise NotReadyError(
                Condition("same_cluster", text, "Correct bootstrap_servers of one of them.", stops=True)
            )
        return ProvenanceSettings(short_id(ids[0]), short_id(ids[1]), *await _floors(flow, source))


async def ids_of(source: ClusterClient, target: ClusterClient) -> ProvenanceSettings:
    """Without floors."""
    return ProvenanceSettings(short_id(await cluster_id(source)), short_id(await cluster_id(target)))


async def cluster_id(cluster: ClusterClient) -> str:
    """As Kafka names it."""
    await cluster.refresh(())
    return cluster.cluster_id


async def marks(target: ClusterClient, positions: Mapping[Key, LanePosition]) -> dict[Key, LanePosition]:
    """From now on the flow marks what it copies: noted in positions without a note, to be written all at once. Beside
    one that another client committed nothing is noted.

    Every earlier holder is fenced already, so no unmarked copy comes behind the ends that are read here.
    """
    before = {key: position for key, position in positions.items() if position.proved and position.marked is None}
    await target.refresh({topic for topic, _ in before})
    ends = await logs.ends(target, list(before))
    return {key: replace(position, marked=(ends[key], position.offset)) for key, position in before.items()}


async def _floors(flow: FlowSettings, source: ClusterClient) -> tuple[dict[Key, int], dict[Key, str]]:
    """By source topic and partition: below it may lie what arriving flows copied before they marked. And those of which
    that is not known, with the flow that copied to them."""
    assert flow.provenance is not None
    floors: dict[Key, int] = {}
    unknown: dict[Key, str] = {}
    for name in flow.provenance.arriving:
        try:
            positions = await read_all(GroupClient(source), position_group(name))
        except BrokerError as error:
            if error.code in DENIED:
                raise NotReadyError(_denied(flow, name)) from None
            raise
        for key, position in positions.items():
            if not position.proved:
                unknown[key] = name
                continue
            if position.marked is None:
                raise NotReadyError(_not_marking(flow, name))
            floors[key] = max(floors.get(key, 0), position.marked[0])
    return {key: floor for key, floor in floors.items() if floor > 0}, unknown


def _not_marking(flow: FlowSettings, arriving: str) -> Condition:
    """``arriving``: a flow into this flow's source whose positions carry no beginning of marked copies."""
    return Condition(
        "provenance_not_yet_marked",
        f"{flow.name} waits: {arriving} has copied to {flow.source.cluster} without provenance and has not begun to "
        "mark its copies; they would return as if they had been written there",
        f"Start the mirror that carries {arriving} with its present definition; {flow.name} then resumes"
        " automatically.",
        stops=True,
    )


def _denied(flow: FlowSettings, arriving: str) -> Condition:
    """``arriving``: a flow into this flow's source, whose positions the mirror's principal may not read there."""
    group = position_group(arriving)
    return Condition(
        "permission_denied",
        f"{flow.name} waits: the mirror may not read the group {group} at {flow.source.cluster}, which says where "
        "marked copies begin",
        f"Give the mirror's principal DESCRIBE on the group {group} at {flow.source.cluster}: {GRANTS}.",
        stops=True,
    )
