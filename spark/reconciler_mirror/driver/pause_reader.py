"""Reads the pauses of this environment from the status topic.

Nothing may be copied before the first reading is complete: a pause must survive a restart of the job. A topic that is
not there holds no pauses; a cluster that does not answer is asked again; without the right to read, flows run and say
so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from reconciler.replication.handover import StatusPlace
from reconciler.replication.json_codec import parsed
from reconciler.replication.pauses import Pause, Scope, loads, scope_of
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients import librdkafka as clients
from reconciler_mirror.clients.status_topic import DENIED, MISSING, followed
from reconciler_mirror.model.lane import GRANTS, Condition

_AGAIN_S = 2.0
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
        self.writer = ""
        """The application that wrote the newest status record of this mirror; empty: not known."""

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
        fresh: dict[Scope, Pause] = {}
        was_complete = False
        for message, complete in followed(consumer, self._place.topic, troubles):
            if end.is_set():
                return
            moved = message is not None and self._take(message, fresh)
            if complete and (moved or not was_complete):
                self._tell(fresh)
            was_complete = complete

    def _take(self, message: Message, into: dict[Scope, Pause]) -> bool:
        """True when a pause came or went."""
        name = (message.key() or b"").decode(errors="replace")
        if name == self._place.key:
            self.writer = _writer(message.value())
        scope = scope_of(self._environment, name)
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
        if error.code() in MISSING:
            self._tell({})
        elif error.code() in DENIED:
            topic, cluster = self._place.topic, self._place.cluster.cluster
            self.trouble = Condition(
                "pauses_unreadable",
                f"pause and resume have no effect: the mirror's principal may not read {topic} at {cluster}",
                f"Give it READ on {topic}: {GRANTS}. It is retried automatically.",
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


def _writer(record: bytes | None) -> str:
    try:
        return str(parsed(record or b"{}")["application_id"])
    except (ValueError, LookupError, TypeError):
        return ""
