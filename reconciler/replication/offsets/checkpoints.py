"""The checkpoints topic of a flow, on its target: MirrorMaker 2's name and bytes, one partition, compacted."""

from __future__ import annotations

from collections.abc import Sequence

from replication.mirrormaker import Checkpoint, read_checkpoint
from wire import logs
from wire.batches import CONTROL, scan
from wire.cluster import Cluster
from wire.fetch_answers import FetchedPartition
from wire.records import key_and_value, records_of

PARTITION = 0
_TOMBSTONE = Checkpoint("", "", 0, 0, 0).record()[1]


class CheckpointLog:
    """``target`` is an open ``wire.Cluster``; everything runs on its event loop."""

    def __init__(self, target: Cluster, topic: str) -> None:
        self._target = target
        self._topic = topic

    async def read(self) -> dict[tuple[str, str, int], Checkpoint]:
        """The last one of each group, target topic and partition.

        Raises BrokerError (also when the topic is not there) or ConnectionLostError.
        """
        key = (self._topic, PARTITION)
        await logs.leaders(self._target, [self._topic])
        begins, ends = await logs.begins(self._target, [key]), await logs.ends(self._target, [key])
        found: dict[tuple[str, str, int], Checkpoint] = {}
        async for answer in logs.read(self._target, begins, ends):
            _take(answer, found)
        return found

    async def write(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Raises BrokerError or ConnectionLostError; then some may stand, and writing them again does no harm."""
        if checkpoints:
            records = [one.record() for one in checkpoints]
            await logs.append(self._target, self._topic, {PARTITION: records})


def _take(answer: FetchedPartition, found: dict[tuple[str, str, int], Checkpoint]) -> None:
    view = answer.records
    for batch in scan(view):
        if batch.attributes & CONTROL:
            continue
        for record in records_of(view, batch):
            key, value = key_and_value(record)
            if key is None:
                continue
            try:
                one = read_checkpoint(key, value or _TOMBSTONE)
            except ValueError:
                continue  # somebody else's record
            where = (one.group, one.topic, one.partition)
            if value is None:
                found.pop(where, None)
            else:
                found[where] = one
