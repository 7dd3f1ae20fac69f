"""Writes MirrorMaker 2's heartbeats of a flow to both clusters while the job runs.

As its herders do for each ordered pair of clusters: (source, target) to the target, and (target, source) to the source,
from where the flow mirrors them to the target. So clients of the target find their upstream clusters.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from reconciler.replication.handover import Endpoint, FlowSettings
from reconciler.replication.mirrormaker_records import HEARTBEATS, Heartbeat
from reconciler_mirror.clients import librdkafka as clients
from reconciler_mirror.model.lane import Condition

_FLUSH_S = 5.0
_TODO = "Run reconciler apply ENV, which creates the topic, and check that the mirror's principal may write it."
_TODO_CLOCK = "Compare the clocks of this machine and of the brokers; see message.timestamp.after.max.ms."
_REFUSED_TIME = KafkaError.INVALID_TIMESTAMP


class Heartbeats:
    """``start`` once the flow is taken over; it ends when ``end`` is set. Never raises. ``tell``: a condition
    of the flow while heartbeats of one cluster cannot be written at least, else None."""

    def __init__(
        self, flow: FlowSettings, end: threading.Event, tell: Callable[[Condition | None], None] = lambda _: None
    ) -> None:
        source, target = flow.source, flow.target
        self._places: Sequence[tuple[Endpoint, str, str]] = (
            (target, source.cluster, target.cluster),
            (source, target.cluster, source.cluster),
        )
        self._interval = (flow.mirrormaker.heartbeats_ms or 1_000) / 1000
        self._flow = flow.name
        self._end = end
        self._tell = tell
        self._troubles: dict[str, str] = {}
        self._guard = threading.Lock()

    def start(self) -> None:
        for endpoint, source, target in self._places:
            name = f"heartbeats {self._flow} {endpoint.cluster}"
            threading.Thread(target=self._run, args=(endpoint, source, target), name=name, daemon=True).start()

    def _run(self, endpoint: Endpoint, source: str, target: str) -> None:
        producer: Producer | None = None
        while not self._end.wait(self._interval):
            try:
                producer = producer or clients.plain_producer(endpoint)
                beat = Heartbeat(source, target, int(time.time() * 1000))
                if not self._beat(producer, endpoint.cluster, beat):
                    producer = None  # a password or a certificate may have been renewed
            except (KafkaException, LookupError, BufferError) as error:
                self._note(endpoint.cluster, str(error))

    def _beat(self, producer: Producer, cluster: str, beat: Heartbeat) -> bool:
        """Whether the broker has it."""
        written: list[bool] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            written.append(error is None)
            why = "" if error is None else error.str()
            self._note(cluster, why, _TODO_CLOCK if error is not None and error.code() == _REFUSED_TIME else _TODO)

        key, value = beat.record()
        producer.produce(HEARTBEATS, value, key, timestamp=beat.timestamp_ms, on_delivery=delivered)
        producer.flush(_FLUSH_S)
        if not written:
            self._note(cluster, "no answer")
        return all(written) and bool(written)

    def _note(self, cluster: str, why: str, todo: str = _TODO) -> None:
        """``why`` empty: one was written there."""
        with self._guard:
            if self._troubles.get(cluster, "") == why:
                return
            self._troubles[cluster] = why
            whole = "; ".join(f"{name}: {each}" for name, each in sorted(self._troubles.items()) if each)
            text = f"heartbeats of {self._flow} cannot be written; records are copied all the same: {whole}"
            self._tell(Condition("heartbeats_not_written", text, todo, HEARTBEATS) if whole else None)
