"""What a flow with provenance must know before it copies: ids of both clusters, and where unmarked copies lie.

A copy that was made before provenance was on carries no header and looks like a record written there. So a flow that
begins to mark notes, for each partition that it has copied before, where the target ended at that moment (``marked`` of
its positions), and a flow that begins to read there never begins below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from mirror import clients, group_positions
from mirror.lanes import Condition, Endpoint
from mirror.positions import Position
from mirror.provenance import short_id
from mirror.record_work import ProvenanceGround
from mirror.settings import FlowSettings
from replication.names import position_group

Place = tuple[str, int]
_TIMEOUT_S = 30.0
_AT_ONCE = 1000


class NotReadyError(Exception):
    """The flow cannot be taken over yet; ``condition`` says why."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(condition.text)
        self.condition = condition


def resolve(flow: FlowSettings) -> ProvenanceGround:
    """Raises NotReadyError, or KafkaException when a cluster does not answer."""
    ids = cluster_id(flow.source), cluster_id(flow.target)
    if ids[0] == ids[1]:
        raise NotReadyError(_same_cluster(flow, ids[0]))
    return ProvenanceGround(short_id(ids[0]), short_id(ids[1]), _floors(flow))


def ids_of(flow: FlowSettings) -> ProvenanceGround:
    """Without floors. Raises KafkaException."""
    return ProvenanceGround(short_id(cluster_id(flow.source)), short_id(cluster_id(flow.target)))


def cluster_id(endpoint: Endpoint) -> str:
    """As Kafka names it. Raises KafkaException."""
    admin = clients.admin(endpoint)  # must outlive its answer
    return str(admin.describe_cluster(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S).cluster_id)


def unmarked(found: Mapping[Place, Position]) -> dict[Place, Position]:
    return {place: position for place, position in found.items() if position.marked is None}


def marks(flow: FlowSettings, before: Mapping[Place, Position]) -> dict[Place, Position]:
    """From now on the flow marks what it copies: noted in positions without a note, to be written all at once.

    Every earlier holder is fenced already, so no unmarked copy comes behind the ends that are read here.
    """
    ends = _ends(flow.target, list(before))
    return {place: replace(position, marked=(ends[place], position.offset)) for place, position in before.items()}


def _ends(target: Endpoint, places: Sequence[Place]) -> dict[Place, int]:
    admin = clients.admin(target)
    found: dict[Place, int] = {}
    for first in range(0, len(places), _AT_ONCE):
        asked = {TopicPartition(*place): OffsetSpec.latest() for place in places[first : first + _AT_ONCE]}
        written = IsolationLevel.READ_UNCOMMITTED
        answers = admin.list_offsets(asked, isolation_level=written, request_timeout=_TIMEOUT_S)
        found |= {(place.topic, place.partition): answer.result().offset for place, answer in answers.items()}
    return found


def _floors(flow: FlowSettings) -> dict[Place, int]:
    """By source topic and partition: below it may lie what arriving flows copied before they marked."""
    assert flow.work.provenance is not None
    floors: dict[Place, int] = {}
    for name in flow.work.provenance.arriving:
        try:
            found = group_positions.read_all(flow.source, position_group(name))
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise NotReadyError(_denied(flow, name)) from None
            raise
        if unmarked(found):
            raise NotReadyError(_not_marking(flow, name))
        for place, position in found.items():
            assert position.marked is not None
            floors[place] = max(floors.get(place, 0), position.marked[0])
    return {place: floor for place, floor in floors.items() if floor > 0}


def _same_cluster(flow: FlowSettings, found: str) -> Condition:
    return Condition(
        "same_cluster",
        f"{flow.name} is not copied: {flow.source.cluster} and {flow.target.cluster} are the same cluster, {found}",
        "Correct bootstrap_servers of one of them.",
        stops=True,
    )


def _not_marking(flow: FlowSettings, arriving: str) -> Condition:
    return Condition(
        "provenance_not_yet_marked",
        f"{flow.name} waits: {arriving} has copied to {flow.source.cluster} without provenance and has not begun to "
        "mark its copies; they would return as if they had been written there",
        f"Start the mirror that carries {arriving} with its present definition; {flow.name} then goes on by itself.",
        stops=True,
    )


def _denied(flow: FlowSettings, arriving: str) -> Condition:
    group = position_group(arriving)
    return Condition(
        "permission_denied",
        f"{flow.name} waits: the mirror may not read the group {group} at {flow.source.cluster}, which tells where "
        "marked copies begin",
        f"Give the mirror's principal DESCRIBE on the group {group} at {flow.source.cluster}.",
        stops=True,
    )
