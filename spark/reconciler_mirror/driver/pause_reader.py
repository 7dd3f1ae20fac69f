"""Reads the pauses of this environment from the status topic.

Nothing is copied before the first reading is complete, so that a pause survives a restart of the job. Only a record
ends a pause: if the record is lost with a deleted or truncated topic, the pause holds, and is written again. A topic
that is missing when the job starts was deleted, since `apply` creates it first. The job waits for it, as for a silent
cluster, and then pauses every flow, because the former pauses are unknown. Without the right to read the topic, flows
run, with a condition.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from reconciler.kafka.client.errors import DENIED, BrokerError
from reconciler.replication.handover import StatusPlace
from reconciler.replication.json_codec import parsed
from reconciler.replication.records.compacted_topic import AbsentTopicError, CompactedTopic
from reconciler.replication.records.pauses import Pause, Scope, dumps, pause_key, pauses_in, scope_of
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients.own import FAILURES, cluster_of, follow
from reconciler_mirror.model.lane import GRANTS, Condition

WRITE_AGAIN_S, REFUSED_S = 5.0, 60.0
"""Seconds between writes of lost pauses, and after a refused write."""
_log = logs.logger("pauses")

Pauses = Mapping[Scope, Pause]


class PauseReader:
    """``changed`` gets all pauses after the first reading and at each change. ``trouble``: why they are unknown."""

    def __init__(
        self,
        place: StatusPlace,
        environment: str,
        changed: Callable[[Pauses], None],
        moved_from: Sequence[str] = (),
        flows: Iterable[str] = (),
    ) -> None:
        """``moved_from``: former names of the environment, the last one first. ``flows``: state names of the flows with
        pauses to restore when they are lost."""
        self._place = place
        self._environments = (environment, *moved_from)
        self._flows = frozenset(flows)
        self._was_absent = False
        self._writing: asyncio.Task[None] | None = None
        self._write_at = 0.0
        self._changed = changed
        self._topic: CompactedTopic | None = None
        self._pauses: dict[Scope, Pause] = {}
        self._gone: frozenset[Scope] = frozenset()
        """Scopes of ``_pauses`` without a record."""
        self.known = threading.Event()
        self.trouble: Condition | None = None
        self.writer = ""
        """The application that wrote the newest status record of this mirror; empty if unknown."""

    def run(self, end: threading.Event) -> None:
        """Blocks until ``end`` is set."""
        asyncio.run(follow(self._place, end, self._heard, self._failed))

    def _heard(self, topic: CompactedTopic, moved: frozenset[str]) -> None:
        """Takes the whole topic, and the keys that moved. Reads pauses under all former names of the environment, so
        that renaming it lifts none. When the deleted topic exists again, the mirror itself pauses all flows without a
        pause: the former pauses are unknown, and copying might be exactly what a user had stopped."""
        values = topic.values()
        if self._place.key in moved:
            try:
                self.writer = str(parsed(values.get(self._place.key) or b"{}")["application_id"])
            except (ValueError, LookupError, TypeError):
                self.writer = ""
        of_a_pause = any(scope_of(name, key) is not None for key in moved for name in self._environments)
        is_new, self._topic = topic is not self._topic, topic
        if of_a_pause or is_new or self.trouble is not None or not self.known.is_set():
            recorded = pauses_in(self._environments, {key: newest.value for key, newest in topic.newest.items()})
            if self._was_absent:
                self._was_absent = False
                reason = f"{self._place.topic} was deleted, so what was paused is not known"
                now_ms = int(time.time() * 1000)
                unknown = {Scope(flow) for flow in self._flows} - recorded.keys()
                self._pauses |= {scope: Pause(scope, now_ms, "its mirror", reason) for scope in unknown}
            self._hand_over(recorded)
        # Pauses without a record (lost by a wrong cleanup policy, or with a deleted topic) are written again; one write
        # at a time.
        lost = [self._pauses[scope] for scope in sorted(self._gone) if scope.flow in self._flows]
        if lost and self._writing is None and time.monotonic() >= self._write_at:
            self._writing = asyncio.get_running_loop().create_task(self._write_again(lost))

    async def _write_again(self, pauses: Iterable[Pause]) -> None:
        """Writes on a separate connection, so that a slow write does not delay reading. A refused write is repeated
        later: this job keeps the pause meanwhile; only a restarted one would not know it."""
        records = [(pause_key(self._environments[0], pause.scope), dumps(pause)) for pause in pauses]
        patience = WRITE_AGAIN_S
        try:
            with closing(cluster_of(self._place.cluster)) as cluster:
                await CompactedTopic(cluster, self._place.topic).append(records)
        except FAILURES as error:
            patience = REFUSED_S
            _log.warning("lost pauses cannot be written again yet", topic=self._place.topic, why=str(error))
        self._write_at, self._writing = time.monotonic() + patience, None

    def _hand_over(self, recorded: Mapping[Scope, Pause | None]) -> None:
        """Adopts the records. ``recorded`` has None for a pause that a tombstone has lifted; a missing scope has lost
        its record, and its pause holds (``_gone``). Calls ``changed`` only for news, and sets ``known`` once the pauses
        are known: lanes do not begin before."""
        gone = frozenset(self._pauses.keys() - recorded.keys())
        pauses = {scope: self._pauses[scope] for scope in gone}
        pauses |= {scope: pause for scope, pause in recorded.items() if pause is not None}
        news = (pauses, gone) != (self._pauses, self._gone) or self.trouble is not None or not self.known.is_set()
        self.trouble, self._pauses, self._gone = None, pauses, gone
        if news:
            self._changed(dict(pauses))
            self.known.set()

    def condition(self, flow: str) -> Condition | None:
        """The condition of a flow's pauses, by the flow's state name."""
        gone = sorted(scope for scope in self._gone if scope.flow == flow)
        if self.trouble is not None or not gone:
            return self.trouble
        place, cluster = self._place, self._place.cluster.cluster
        return Condition(
            "pauses_unreadable",
            f"{place.topic} on {cluster} has no record any more of {', '.join(map(str, gone))} being paused: it was "
            "deleted, recreated or truncated. The pause holds, and is written again",
            "Where the topic is missing, create it: reconciler apply ENV. To copy: reconciler mirror resume ENV FLOW.",
        )

    def _failed(self, error: Exception) -> None:
        """Sets ``trouble``. While pauses are unknown nothing is copied, since one of them may hold; known ones hold
        until the cluster answers again. A missing right is final: then copying without pauses, with a condition, is the
        lesser harm."""
        place, cluster = self._place, self._place.cluster.cluster
        # A missing topic lifts no pause (decision 272): all of them hold without a record, and are written again later.
        if isinstance(error, AbsentTopicError) and self.known.is_set():
            self._hand_over({})
        elif isinstance(error, AbsentTopicError):
            self._was_absent = True
            self.trouble = Condition(
                "pauses_unreadable",
                f"nothing is copied yet: {cluster} has no topic {place.topic}, so what is paused is not known. It was "
                "deleted: apply creates it before it starts a mirror",
                "Run reconciler apply ENV, which creates it. The flow is paused then, since it may have been; to copy: "
                "reconciler mirror resume ENV FLOW.",
                stops=True,
            )
        elif isinstance(error, BrokerError) and error.code in DENIED:
            self.trouble = Condition(
                "pauses_unreadable",
                f"pause and resume have no effect: the mirror's principal may not read {place.topic} at {cluster}",
                f"Give it READ on {place.topic}: {GRANTS}. It is retried automatically.",
            )
            self.known.set()
        elif not self.known.is_set():  # known pauses hold until the cluster answers again
            self.trouble = Condition(
                "pauses_unreadable",
                f"nothing is copied yet: {place.topic} at {cluster} could not be read ({error}), so what is paused is "
                "not known",
                f"Check {', '.join(place.cluster.bootstrap_servers)}; it is retried automatically.",
                stops=True,
            )
            _log.warning("pauses are not known yet", topic=place.topic, cluster=cluster, why=str(error))
