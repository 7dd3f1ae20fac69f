"""Copies that end before what the target had acknowledged: after an unclean election there, or on a restored disk.

Retention moves the beginning of a log, compaction moves neither end, so a log that is shorter has lost records.
"""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.kafka.client.cluster import LATEST, NO_ID, Key
from reconciler.kafka.client.errors import BrokerError
from reconciler.replication.offsets.map_topic import MapReader, Record, copied_to, cut
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.model.lane import TargetLoss


def seen_before(partition: Partition) -> bool:
    """Whether a session has seen the loss already. The first time, a broker may have answered that did not know yet
    that it leads no more."""
    before = partition.hold.condition
    return partition.copied.lost is not None or (before is not None and before.code == "target_truncated")


class TargetLosses:
    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def acknowledged(
        self, begun: Mapping[Partition, LanePosition], chunks: Mapping[Key, Record]
    ) -> Mapping[Partition, int]:
        """The target offset behind what had been committed, by the lane itself, else by the offset map. None after a
        seek, until something has been copied: its user has decided."""
        acknowledged: dict[Partition, int] = {}
        for partition, known in begun.items():
            copied, ids = partition.copied, self._lane.ids(partition)
            if known.topic_id == "" or NO_ID in ids:
                continue
            if copied.of == ids and copied.target_end >= 0:
                acknowledged[partition] = copied.target_end
            elif (chunk := chunks.get(partition.source)) is not None:
                acknowledged[partition] = copied_to(chunk)
        return acknowledged

    async def of(
        self, begun: Mapping[Partition, LanePosition], acknowledged: Mapping[Partition, int]
    ) -> Mapping[Partition, TargetLoss]:
        """Raises BrokerError for an end that a broker refuses to give. A copy without a leader holds up no other: the
        first answer to what is copied there, or a look while it is idle, shows the loss as well."""
        remembered = {p: known.lost or self._lost_before(p) for p, known in begun.items() if known.topic_id}
        losses = {p: loss for p, loss in remembered.items() if loss is not None}
        asked = {p.target: LATEST for p in acknowledged}
        ends = await self._lane.target.list_offsets(asked, committed=False) if asked else {}
        for partition, end in acknowledged.items():
            now = ends[partition.target]
            if isinstance(now, BrokerError):
                if not now.retriable:
                    raise now
            elif now < end and partition not in losses:
                losses[partition] = TargetLoss(now, end)

        losses = {p: await self._placed(p, loss) for p, loss in losses.items()}
        for partition, loss in losses.items():
            if begun[partition].lost is None and seen_before(partition):
                partition.copied.lose()
                await cut(self._lane.target, self._lane.spec.state, partition.source, loss.end)
        return losses

    def _lost_before(self, partition: Partition) -> TargetLoss | None:
        """What an earlier session of this lane has seen."""
        return partition.copied.lost if partition.copied.of == self._lane.ids(partition) else None

    async def _placed(self, partition: Partition, loss: TargetLoss) -> TargetLoss:
        """With the source offset of the first record that is gone, where the offset map says it exactly."""
        if loss.source >= 0:
            return loss
        spec, topic = self._lane.spec, partition.spec.topic
        reader = MapReader(self._lane.target, spec.state, frozenset({topic}))
        try:
            await reader.refresh()
        except BrokerError as error:
            if error.retriable:
                raise
            return loss  # no map, or none that may be read
        first = reader.partition(topic, partition.spec.partition, self._lane.ids(partition)).upstream(loss.end)
        return replace(loss, source=first.offset) if first.exact and first.offset is not None else loss
