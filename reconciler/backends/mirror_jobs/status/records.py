"""Reads the status records of mirror jobs: the newest record of each key in the status topic.

The topic is compacted: few keys, but perhaps many records. Its end is read first, and the rest only for a mirror that
the end does not show. A reader that is kept open reads only what is new.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from types import MappingProxyType

from reconciler.backends.connections.requests import TopicRecords
from reconciler.errors import ClusterError, Unknown
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import JobState, LiveMirror
from reconciler.replication import status
from reconciler.replication.names import STATUS_TOPIC, status_key
from reconciler.replication.records.compacted_topic import Newest
from reconciler.replication.records.pauses import Pause, Scope, pauses_in
from reconciler.replication.status import FORMER_LAG_HEADER, StatusRecord

STALE_AT_LEAST_MS = 30_000
"""A job is stale when its record is older than ten of its intervals, and than half a minute in any case."""
STALE_INTERVALS = 10
LATE_INTERVALS = 2
_MOST_WORDS = 300
"""Of a record that is malformed, however long it is."""
LISTEN_SECONDS, LISTEN_INTERVALS = 1.0, 2
TAIL_RECORDS = 500
"""Offsets before the end of each partition that are read first."""
LISTEN_AT_MOST_SECONDS = 10.0
"""Where a job writes so seldom that this is too short, clocks alone decide."""

_STATES = {
    "starting": JobState.STARTING,
    "running": JobState.RUNNING,
    "stopping": JobState.RUNNING,
    "stopped": JobState.STOPPED,
    "superseded": JobState.STOPPED,
    "failed": JobState.FAILED,
}
_ALIVE = (JobState.STARTING, JobState.RUNNING)

Lost = Callable[[LiveMirror], bool]


class MalformedStatusError(ValueError):
    """A status record that cannot be read."""


def mirror_from_record(value: bytes, now_ms: int, lag: bytes = b"") -> LiveMirror:
    """A record's value, and its header in the last release, as a LiveMirror. Raises MalformedStatusError.

    A job that says it is alive, but said so longer ago than max(30 s, 10 status intervals), is STALE.
    """
    return _mirror(_record(value, lag), now_ms)


def _record(value: bytes, lag: bytes) -> StatusRecord:
    try:
        return status.loads(value, lag)
    except ValueError as error:
        raise MalformedStatusError(str(error)[:_MOST_WORDS]) from None


def _stale_after_ms(record: StatusRecord) -> int:
    return max(STALE_AT_LEAST_MS, STALE_INTERVALS * record.status_interval_ms)


def _mirror(record: StatusRecord, now_ms: int) -> LiveMirror:
    """A record as a live mirror. One that says it runs, but is older than it would leave it, is STALE: its process may
    be gone. By how much it is late is known in any case."""
    state = _STATES[record.state]
    silent_ms = now_ms - record.updated_at_ms
    if state in _ALIVE and silent_ms > _stale_after_ms(record):
        state = JobState.STALE
    words = (record.detail, "stopping" if record.state == "stopping" else "", f"host {record.host}")
    return LiveMirror(
        name=record.mirror,
        state=state,
        application_id=record.application_id,
        fingerprint=record.fingerprint,
        started_at_ms=record.started_at_ms,
        updated_at_ms=record.updated_at_ms,
        late_ms=max(0, silent_ms - LATE_INTERVALS * record.status_interval_ms) if state in _ALIVE else 0,
        pid=record.pid,
        host=record.host,
        run=record.run,
        detail="; ".join(word.rstrip(". ") for word in words if word),
        flows=MappingProxyType(dict(record.flows)),
    )


def _by_what_it_writes(record: StatusRecord, now_ms: int, speaks: bool) -> LiveMirror:
    """Where clocks differ, the age of a record says nothing. What counts then is whether it changed while we looked
    (``speaks``)."""
    ahead_ms = record.updated_at_ms - now_ms
    mirror = _mirror(record, record.updated_at_ms if speaks else now_ms)
    if not speaks and ahead_ms < 0:
        return mirror
    side = "ahead of" if ahead_ms > 0 else "behind"
    clock = f"its clock is {abs(ahead_ms) // 1000:,} s {side} this machine's"
    if speaks:
        return replace(mirror, detail=f"{mirror.detail}; {clock}")
    return replace(
        mirror, state=JobState.STALE, late_ms=0, detail=f"{mirror.detail}; {clock}, and it has stopped writing"
    )


@dataclass(frozen=True, slots=True)
class _Heard:
    """Seconds of our monotonic clock. ``came_within``: at most so long before ``since`` it was another record."""

    place: tuple[int, int]
    since: float
    came_within: float


class Listening:
    """Whether the writers of records are still alive, judged by our own clock: theirs may be wrong. What was seen of
    each key, over all reads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, _Heard] = {}
        self._looked: dict[str, float] = {}

    def note(self, key: str, newest: Newest) -> None:
        """``newest``: the key's newest record as of now."""
        now, place, known = self._clock(), (newest.partition, newest.offset), self._heard.get(key)
        if known is None or known.place != place:
            self._heard[key] = _Heard(place, now, now - self._looked.get(key, float("-inf")))
        self._looked[key] = now

    def speaks(self, key: str, patience_s: float) -> bool | None:
        """Whether the record of a noted key is younger than ``patience_s``. None: too early to know."""
        heard = self._heard[key]
        if self._clock() - heard.since > patience_s:
            return False
        return True if heard.came_within <= patience_s else None


class StatusRecords:
    """The status records of one environment on one cluster. Connects at the first read; safe for several threads.

    Raises ClusterError, or SecretError for a reference that cannot be resolved.
    """

    def __init__(
        self,
        cluster: Cluster,
        environment: str,
        principal: Principal = Principal.PLAN,
        topic: str = STATUS_TOPIC,
        moved_from: Sequence[str] = (),
    ) -> None:
        """``moved_from``: names that the environment had, the last one first."""
        self.cluster = cluster
        self.environment = environment
        self.moved_from = tuple(moved_from)
        self.topic = topic
        self.topic_missing = False
        """As of the last read."""
        self._records = TopicRecords(cluster, principal, topic, tail=TAIL_RECORDS)
        self._listening = Listening()
        self._lock = threading.Lock()

    def read(self, mirror: str, now_ms: int, lost: Lost = lambda _: False) -> LiveMirror | None:
        """None when the topic does not exist or has no record of this mirror.

        Where clocks say that a job is silent, or that it wrote in the future, its next record is waited for: the clock
        of its machine may be wrong. ``lost``: whether its application is known to be gone, so that there is no wait.
        """
        key = status_key(self.environment, mirror)
        while True:
            with self._lock:
                newest = self._fresh(key).get(key)
                if newest is None or newest.value is None:
                    return None
                self._listening.note(key, newest)
            live_mirror = self._judged(key, newest, now_ms, lost)
            if live_mirror is not None:
                return live_mirror
            time.sleep(LISTEN_SECONDS / 5)

    def _judged(self, key: str, newest: Newest, now_ms: int, lost: Lost) -> LiveMirror | None:
        """None: its clock is in doubt, and it is too early to know whether it still writes."""
        try:
            record = _record(newest.value or b"", newest.headers.get(FORMER_LAG_HEADER, b""))
        except MalformedStatusError as error:
            raise ClusterError(
                self.cluster.name,
                "invalid",
                f"the status record {key} in {self.cluster.name}/{self.topic} cannot be read: {error}",
                "Without it what the mirror job runs is unknown",
                "Use the version of this program that started the job, or stop the job and apply again.",
            ) from None
        patience = LISTEN_SECONDS + LISTEN_INTERVALS * record.status_interval_ms / 1000
        mirror = _mirror(record, now_ms)

        # It says that it is alive, at a time at which it should have said so again, or that is yet to come: the clock
        # of its machine, or ours, may be wrong.
        in_doubt = _STATES[record.state] in _ALIVE and abs(now_ms - record.updated_at_ms) > _stale_after_ms(record)
        if not in_doubt or patience > LISTEN_AT_MOST_SECONDS or lost(mirror):
            return mirror
        speaks = self._listening.speaks(key, patience)
        return None if speaks is None else _by_what_it_writes(record, now_ms, speaks)

    def read_all(self, now_ms: int) -> Mapping[str, LiveMirror | Unknown]:
        """Every mirror of the environment that has a record, also one that is no longer in git."""
        prefix = status_key(self.environment, "")
        with self._lock:
            newest = self._fresh(None)
        mirrors: dict[str, LiveMirror | Unknown] = {}
        for key in sorted(newest):
            value, lag = newest[key].value, newest[key].headers.get(FORMER_LAG_HEADER, b"")
            if key.startswith(prefix) and value is not None:
                mirror = key.removeprefix(prefix)
                try:
                    mirrors[mirror] = mirror_from_record(value, now_ms, lag)
                except MalformedStatusError as error:
                    description = f"its status record in {self.cluster.name}/{self.topic} cannot be read: {error}"
                    mirrors[mirror] = Unknown(f"mirror {mirror}", description, "Use the version that started the job.")
        return MappingProxyType(mirrors)

    def pauses(self) -> Mapping[Scope, Pause]:
        """Every pause of the environment's flows that is written on this cluster."""
        with self._lock:
            newest = self._fresh(None)
        said = pauses_in((self.environment, *self.moved_from), {key: each.value for key, each in newest.items()})
        return {scope: pause for scope, pause in said.items() if pause is not None}

    def close(self) -> None:
        self._records.close()

    def _fresh(self, key: str | None) -> Mapping[str, Newest]:
        """Up to date; complete when ``key`` is None or is not found at the topic's end."""
        newest = self._records.read(whole=key is None)
        if key is not None and newest is not None and key not in newest:
            newest = self._records.read()
        self.topic_missing = newest is None
        return newest or {}


def write_records(cluster: Cluster, principal: Principal, values: Mapping[str, bytes | None]) -> None:
    """Pauses, and orders to a driver in deploy mode cluster, which jobs read there. ``values`` by key, None deletes.
    Raises ClusterError; then some may have been written."""
    with closing(TopicRecords(cluster, principal, STATUS_TOPIC)) as records:
        records.append(values.items())
