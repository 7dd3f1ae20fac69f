"""Writes copied runs into the offset map, and into MirrorMaker 2's offset syncs.

It writes a moment after each commit, outside the transaction: all of it is committed by then, and nothing waits for it.
While the map's topic is missing or does not answer, copying continues, a condition reports it, and the map catches up
later.
"""

import asyncio
import random
import time
from collections.abc import Awaitable

from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, UNKNOWN_TOPIC, BrokerError, ConnectionLostError, WireError
from reconciler.kafka.client.small_topics import KeyValue, append
from reconciler.replication.mirrormaker_records import OffsetSync
from reconciler.replication.offsets import map_topic
from reconciler.replication.offsets.codec import MapPartition, OffsetChunk
from reconciler_mirror import log_lines as logs
from reconciler_mirror.conditions.flow import offset_map_missing
from reconciler_mirror.lane.copied_runs import Copied
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.state import Lane

WRITE_EVERY, LAST_WRITE_WITHIN = 1.0, 5.0
PAUSE_LAST, PRUNE_EVERY = 30.0, 3600.0
CHECK_EVERY = 30.0
"""Seconds without a write, after which the writer checks that the topic exists."""
REPORT_AFTER = 5.0
"""Seconds for which the topic may be missing: a broker that has just started may not know it yet."""
_log = logs.logger("offset map")


class MapWriter:
    """Writes changed chunks of all partitions of a lane."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._failed: dict[str, WireError] = {}
        self._looked = 0.0
        self._refused_since = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        pause, prune_at = WRITE_EVERY, time.monotonic() + PRUNE_EVERY * random.uniform(0.2, 1)  # noqa: S311
        while True:
            await asyncio.sleep(pause)
            pause = WRITE_EVERY if await self.write() else min(PAUSE_LAST, pause * 2)
            if time.monotonic() > prune_at:
                prune_at = time.monotonic() + PRUNE_EVERY
                lane = self._lane
                keys = {(p.spec.topic, p.spec.partition) for p in lane.partitions.values()}
                if keys:
                    await self._tried(map_topic.name_on(lane.target), _pruned(lane, keys))

    async def last(self) -> None:
        """Writes the runs of the last commits; gives up when the target does not answer."""
        try:
            async with asyncio.timeout(LAST_WRITE_WITHIN):
                await self.write()
        except TimeoutError:
            self._complain(map_topic.name_on(self._lane.target), ConnectionLostError("no answer"))

    async def write(self) -> bool:
        """False after a failure, which the next call repeats. Never raises a WireError."""
        lane = self._lane
        changed = [p for p in lane.partitions.values() if p.copied.changed]
        written = await self._mapped(changed)
        if lane.spec.offset_syncs is None:
            return written
        side, topic = lane.spec.offset_syncs
        moved = [p for p in lane.partitions.values() if p.copied.last != p.copied.synced]
        cluster = lane.source if side == "source" else lane.target
        return (await self._tried(topic, _sync(cluster, topic, moved)) if moved else True) and written

    async def _mapped(self, changed: list[Partition]) -> bool:
        lane, now = self._lane, time.monotonic()
        if not changed and now - self._looked < CHECK_EVERY and lane.unmapped is None:
            return True
        self._looked = now
        topic = map_topic.name_on(lane.target)
        written = await self._tried(topic, self._write(lane.target, changed) if changed else self._look())
        error = self._failed.get(topic)
        if written:
            lane.unmapped, self._refused_since = None, 0.0
        elif isinstance(error, BrokerError) and error.code in DENIED | {UNKNOWN_TOPIC}:
            self._refused_since = self._refused_since or now
            if now - self._refused_since >= REPORT_AFTER:
                lane.unmapped = offset_map_missing(lane.spec, error.code)
        return written

    async def _look(self) -> None:
        await self._lane.target.refresh([map_topic.name_on(self._lane.target)])
        await map_topic.partitions(self._lane.target)

    async def _tried(self, topic: str, work: Awaitable[None]) -> bool:
        """False if a cluster refused the write. Copying never waits for the map: only translators of offsets read it,
        and the next call writes the missing runs."""
        try:
            await work
        except WireError as error:
            self._complain(topic, error)
            return False
        self._failed.pop(topic, None)
        return True

    async def _write(self, target: ClusterClient, changed: list[Partition]) -> None:
        """Appends the chunks of all moved partitions at once. Marks them as written only after the broker's answer, by
        the versions from before the append: runs that were added meanwhile stay unwritten."""
        async with self._lane.mapping:
            chunks: dict[Key, list[KeyValue]] = {}
            written: list[tuple[Copied, int, int, OffsetChunk | None]] = []
            for partition in changed:
                spec, copied = partition.spec, partition.copied
                place = MapPartition(self._lane.spec.state, spec.topic, spec.partition, *copied.of)
                chunks[partition.source] = [chunk.encode(place) for chunk in copied.chunks()]
                written.append((copied, len(copied.full), copied.version, copied.newest))
            await map_topic.append(target, self._lane.spec.state, chunks)
            for copied, full, version, newest in written:
                copied.written(full, version, newest)

    def _complain(self, topic: str, error: WireError) -> None:
        """Logs each reason once, not every few seconds."""
        before, self._failed[topic] = self._failed.get(topic), error
        if str(error) != str(before):
            _log.warning(
                "offsets cannot be written; records are still copied",
                flow=self._lane.spec.flow,
                lane=self._lane.spec.lane,
                topic=topic,
                why=str(error),
                todo="run reconciler apply ENV, which creates the topic; check that the mirror's principal may write",
            )


async def _pruned(lane: Lane, keys: set[Key]) -> None:
    if gone := await map_topic.prune(lane.source, lane.target, lane.spec.state, keys):
        _log.info(
            "chunks of deleted records taken out of the map", flow=lane.spec.flow, lane=lane.spec.lane, chunks=gone
        )


async def _sync(cluster: ClusterClient, topic: str, moved: list[Partition]) -> None:
    """Writes the last record of each partition: by MirrorMaker 2's rule a translated offset is then never ahead, and
    exact when caught up."""
    pairs = [(p, p.copied.last) for p in moved]
    syncs = [OffsetSync(p.spec.topic, p.spec.partition, *last).record() for p, last in pairs if last is not None]
    await append(cluster, topic, {0: syncs})
    for partition, last in pairs:
        partition.copied.synced = last
