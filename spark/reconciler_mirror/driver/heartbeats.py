"""Writes MirrorMaker 2's heartbeats of a flow to both clusters while the job runs.

As its herders do for each ordered pair of clusters: (source, target) to the target, and (target, source) to the source,
from where the flow mirrors them to the target. So clients of the target find their upstream clusters.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from reconciler.replication.handover import Endpoint, FlowSettings
from reconciler.replication.mirrormaker_records import HEARTBEATS, Heartbeat
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients import librdkafka as clients

_FLUSH_S = 5.0
_TODO = "run reconciler apply, which creates the topic; check that the mirror's principal may write it"
_TODO_CLOCK = "compare the clocks of this machine and of the brokers; see message.timestamp.after.max.ms"
_REFUSED_TIME = KafkaError.INVALID_TIMESTAMP
_log = logs.logger("heartbeats")


class Heartbeats:
    """``start`` once the flow is taken over; it ends when ``end`` is set. Never raises; trouble is logged once."""

    def __init__(self, flow: FlowSettings, end: threading.Event) -> None:
        source, target = flow.source, flow.target
        self._places: Sequence[tuple[Endpoint, str, str]] = (
            (target, source.cluster, target.cluster),
            (source, target.cluster, source.cluster),
        )
        self._interval = (flow.mirrormaker.heartbeats_ms or 1_000) / 1000
        self._flow = flow.name
        self._end = end
        self._complained: dict[str, str] = {}

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
                self._complain(endpoint.cluster, str(error))

    def _beat(self, producer: Producer, cluster: str, beat: Heartbeat) -> bool:
        """True when it stands."""
        stood: list[bool] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            stood.append(error is None)
            if error is None:
                self._complained.pop(cluster, None)
            else:
                self._complain(cluster, error.str(), _TODO_CLOCK if error.code() == _REFUSED_TIME else _TODO)

        key, value = beat.record()
        producer.produce(HEARTBEATS, value, key, timestamp=beat.timestamp_ms, on_delivery=delivered)
        producer.flush(_FLUSH_S)
        return all(stood) and bool(stood)

    def _complain(self, cluster: str, why: str, todo: str = _TODO) -> None:
        if self._complained.get(cluster) != why:
            self._complained[cluster] = why
            _log.warning(
                "heartbeats cannot be written; records are copied all the same",
                flow=self._flow,
                topic=HEARTBEATS,
                cluster=cluster,
                why=why,
                todo=todo,
            )
