"""Reads the pauses of this environment from the status topic.

Nothing may be copied before the first reading is complete: a pause must survive a restart of the job. A topic that is
not there holds no pauses; a cluster that does not answer is asked again; without the right to read, flows run and say
so.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping

from reconciler.kafka.client.errors import DENIED, BrokerError
from reconciler.replication.handover import StatusPlace
from reconciler.replication.json_codec import parsed
from reconciler.replication.records.compacted_topic import AbsentTopicError, CompactedTopic
from reconciler.replication.records.pauses import Pause, Scope, loads, scope_of
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients.own import follow
from reconciler_mirror.model.lane import GRANTS, Condition

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
        asyncio.run(follow(self._place, end, self._heard, self._failed))

    def _heard(self, topic: CompactedTopic, moved: frozenset[str]) -> None:
        values = topic.values()
        if self._place.key in moved:
            try:
                self.writer = str(parsed(values.get(self._place.key) or b"{}")["application_id"])
            except (ValueError, LookupError, TypeError):
                self.writer = ""
        scopes = {key: scope for key in moved if (scope := scope_of(self._environment, key)) is not None}
        if scopes or self.trouble is not None or not self.known.is_set():
            pauses = ((scope_of(self._environment, key), value) for key, value in values.items())
            self._tell({scope: loads(scope, value) for scope, value in pauses if scope is not None})

    def _tell(self, pauses: dict[Scope, Pause]) -> None:
        self.trouble = None
        if pauses != self._pauses or not self.known.is_set():
            self._pauses = dict(pauses)
            self._changed(dict(pauses))
            self.known.set()

    def _failed(self, error: Exception) -> None:
        place, cluster = self._place, self._place.cluster.cluster
        if isinstance(error, AbsentTopicError):
            self._tell({})
        elif isinstance(error, BrokerError) and error.code in DENIED:
            self.trouble = Condition(
                "pauses_unreadable",
                f"pause and resume have no effect: the mirror's principal may not read {place.topic} at {cluster}",
                f"Give it READ on {place.topic}: {GRANTS}. It is retried automatically.",
            )
            self.known.set()
        elif not self.known.is_set():  # else what was read still holds, until the cluster answers again
            self.trouble = Condition(
                "pauses_unreadable",
                f"nothing is copied yet: {place.topic} at {cluster} could not be read ({error}), so what is paused is "
                "not known",
                f"Check {', '.join(place.cluster.bootstrap_servers)}; it is retried automatically.",
                stops=True,
            )
            _log.warning("pauses are not known yet", topic=place.topic, cluster=cluster, why=str(error))
