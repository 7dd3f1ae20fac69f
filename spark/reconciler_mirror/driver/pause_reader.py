"""Reads the pauses of this environment from the status topic.

Nothing may be copied before the first reading is complete: a pause must survive a restart of the job. A topic that is
not there holds no pauses; a cluster that does not answer is asked again; without the right to read, flows run and say
so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from reconciler.replication.handover import StatusPlace
from reconciler.replication.pauses import Pause, Scope, loads, scope_of
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients import librdkafka as clients
from reconciler_mirror.model import Condition

_AGAIN_S, _ANSWER_S, _WAIT_S = 2.0, 10.0, 1.0
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
# A client made anew reads a password or a certificate that was renewed.
_LOST = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN)
_log = logs.logger("pauses")

Pauses = Mapping[Scope, Pause]


class PauseReader:
    """``changed`` gets all pauses after the first reading and at each change; ``trouble`` what keeps them unknown."""

    def __init__(self, place: StatusPlace, environment: str, changed: Callable[[Pauses], None]) -> None:
        self._place = place
        self._environment = environment
        self._changed = changed
        self._pauses: dict[Scope, Pause] = {}
        self.known = threading.Event()
        self.trouble: Condition | None = None

    def run(self, end: threading.Event) -> None:
        """Blocks until ``end`` is set."""
        while not end.is_set():
            try:
                troubles: list[KafkaError] = []
                with closing(clients.control_reader(self._place.cluster, troubles.append)) as consumer:
                    self._follow(consumer, end, troubles)
            except KafkaException as error:
                self._failed(error.args[0])
            except LookupError as error:  # a secret reference
                self._unknown(str(error))
            end.wait(_AGAIN_S)

    def _follow(self, consumer: Consumer, end: threading.Event, troubles: Sequence[KafkaError]) -> None:
        topic = self._place.topic
        follow = consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic]
        if follow.error is not None:
            raise KafkaException(follow.error)
        waiting = dict.fromkeys(follow.partitions, 0)
        for partition in waiting:
            waiting[partition] = consumer.get_watermark_offsets(TopicPartition(topic, partition), _ANSWER_S)[1]
        fresh: dict[Scope, Pause] = {}
        consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
        complete = False
        while not end.is_set():
            message = consumer.poll(_WAIT_S)
            if lost := [trouble for trouble in troubles if trouble.code() in _LOST]:
                raise KafkaException(lost[0])
            moved = message is not None and self._take(message, fresh, waiting)
            if not complete and not waiting:
                complete = True
                self._tell(fresh)
            elif complete and moved:
                self._tell(fresh)

    def _take(self, message: Message, into: dict[Scope, Pause], waiting: dict[int, int]) -> bool:
        """True when a pause came or went. ``waiting``: partition -> end, until it was read that far."""
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            if error.code() in (*_DENIED, *_MISSING) or error.fatal():
                raise KafkaException(error)
            return False
        partition, offset = message.partition(), message.offset() + (error is None)
        if offset >= waiting.get(partition, offset + 1):
            del waiting[partition]
        key = (message.key() or b"").decode(errors="replace")
        scope = None if error is not None else scope_of(self._environment, key)
        if scope is None:
            return False
        value = message.value()
        if value is None:
            return into.pop(scope, None) is not None
        into[scope] = loads(scope, value)
        return True

    def _tell(self, pauses: dict[Scope, Pause]) -> None:
        self.trouble = None
        if pauses != self._pauses or not self.known.is_set():
            self._pauses = dict(pauses)
            self._changed(dict(pauses))
            self.known.set()

    def _failed(self, error: KafkaError) -> None:
        if error.code() in _MISSING:
            self._tell({})
        elif error.code() in _DENIED:
            topic, cluster = self._place.topic, self._place.cluster.cluster
            self.trouble = Condition(
                "pauses_unreadable",
                f"pause and resume have no effect: the mirror's principal may not read {topic} at {cluster}",
                f"Give it READ on {topic}; it is retried automatically.",
            )
            self.known.set()
        else:
            self._unknown(error.str())

    def _unknown(self, why: str) -> None:
        if self.known.is_set():
            return  # what was read still holds; a change is heard when the cluster answers again
        place = self._place
        self.trouble = Condition(
            "pauses_unreadable",
            f"nothing is copied yet: {place.topic} at {place.cluster.cluster} could not be read ({why}), so what is "
            "paused is not known",
            f"Check {', '.join(place.cluster.bootstrap_servers)}; it is retried automatically.",
            stops=True,
        )
        _log.warning("pauses are not known yet", topic=place.topic, cluster=place.cluster.cluster, why=why)
