"""The checkpoints topic of a flow, on its target: MirrorMaker 2's name and bytes."""

from collections.abc import Sequence

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.replication.mirrormaker_records import Checkpoint, read_checkpoint

PARTITION = 0
_TOMBSTONE = Checkpoint("", "", 0, 0, 0).record()[1]


class CheckpointLog:
    """``target`` is an open ``wire.Cluster``; everything runs on its event loop."""

    def __init__(self, target: ClusterClient, topic: str) -> None:
        self._target = target
        self._topic = topic

    async def read(self) -> dict[tuple[str, str, int], Checkpoint]:
        """The last one of each group, target topic and partition.

        Raises BrokerError (also when the topic is missing) or ConnectionLostError.
        """
        key = (self._topic, PARTITION)
        await logs.leaders(self._target, [self._topic])
        checkpoints: dict[tuple[str, str, int], Checkpoint] = {}
        async for name, value in logs.read_whole(self._target, [key]):
            try:
                checkpoint = read_checkpoint(name, value or _TOMBSTONE)
            except ValueError:
                continue  # another writer's record
            where = (checkpoint.group, checkpoint.topic, checkpoint.partition)
            if value is None:
                checkpoints.pop(where, None)
            else:
                checkpoints[where] = checkpoint
        return checkpoints

    async def write(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Raises BrokerError or ConnectionLostError; then some may be written, and writing them again does no harm."""
        if checkpoints:
            records = [checkpoint.record() for checkpoint in checkpoints]
            await logs.append(self._target, self._topic, {PARTITION: records})
