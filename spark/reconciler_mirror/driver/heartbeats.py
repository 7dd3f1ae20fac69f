"""Writes MirrorMaker 2's heartbeats of a flow to both clusters while the job runs.

Like MirrorMaker 2's herders, one per ordered pair of clusters, it writes (source, target) to the target, and (target,
source) to the source, from where the flow copies it to the target. By these, clients of the target find its upstream
clusters.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.client.small_topics import INVALID_TIMESTAMP
from reconciler.replication.handover import Endpoint, FlowSettings
from reconciler.replication.mirrormaker_records import HEARTBEATS, Heartbeat
from reconciler.replication.records.compacted_topic import CompactedTopic
from reconciler_mirror.clients.own import FAILURES, KeptCluster
from reconciler_mirror.model.lane import Condition

_PATIENCE_S, _ANSWER_S = 5.0, 10.0
"""Seconds for one append, and for the whole beat with its connection."""
_TODO = "Run reconciler apply ENV, which creates the topic, and check that the mirror's principal may write it."
_TODO_CLOCK = "Compare the clocks of this machine and of the brokers; see message.timestamp.after.max.ms."


class Heartbeats:
    """``start`` it after the flow's takeover; it ends when ``end`` is set. Never raises. ``tell`` gets a condition
    while heartbeats cannot be written to a cluster, else None."""

    def __init__(
        self, flow: FlowSettings, end: threading.Event, tell: Callable[[Condition | None], None] = lambda _: None
    ) -> None:
        source, target = flow.source, flow.target
        # The cluster to write to, and source and target in the record.
        self._places: Sequence[tuple[Endpoint, str, str]] = (
            (target, source.cluster, target.cluster),
            (source, target.cluster, source.cluster),
        )
        self._interval = (flow.mirrormaker.heartbeats_ms or 1_000) / 1000
        self._flow = flow.name
        self._end = end
        self._report = tell
        self._troubles: dict[str, str] = {}

    def start(self) -> None:
        threading.Thread(target=self.run, name=f"heartbeats {self._flow}", daemon=True).start()

    def run(self) -> None:
        """Blocks until ``end`` is set, for up to one interval longer."""
        asyncio.run(self._beat_everywhere())

    async def _beat_everywhere(self) -> None:
        await asyncio.gather(*(self._beat(*place) for place in self._places))

    async def _beat(self, endpoint: Endpoint, source: str, target: str) -> None:
        """Writes one record per interval to one cluster, on a kept connection. A failure becomes a condition, and the
        next beat follows at its time: a late heartbeat is worthless, so none is queued. INVALID_TIMESTAMP means that
        the clocks differ by more than the topic allows."""
        kept = KeptCluster(endpoint)
        while not self._end.is_set():
            try:
                beat = Heartbeat(source, target, int(time.time() * 1000))
                async with kept.use() as cluster, asyncio.timeout(_ANSWER_S):
                    topic = CompactedTopic(cluster, HEARTBEATS, patience=_PATIENCE_S)
                    await topic.append([beat.record()], at_ms=beat.timestamp_ms)
                self._note(endpoint.cluster, "")
            except FAILURES as error:
                refused = isinstance(error, BrokerError) and error.code == INVALID_TIMESTAMP
                self._note(endpoint.cluster, str(error) or "no answer", _TODO_CLOCK if refused else _TODO)
            await asyncio.sleep(self._interval)
        kept.close()

    def _note(self, cluster: str, why: str, todo: str = _TODO) -> None:
        """Reports a change of a cluster's state. ``why`` empty: a heartbeat was written."""
        if self._troubles.get(cluster, "") == why:
            return
        self._troubles[cluster] = why
        whole = "; ".join(f"{name}: {each}" for name, each in sorted(self._troubles.items()) if each)
        text = f"heartbeats of {self._flow} cannot be written, which stops no records: {whole}"
        self._report(Condition("heartbeats_not_written", text, todo, HEARTBEATS) if whole else None)
