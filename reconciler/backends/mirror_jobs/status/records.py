"""Reads the status records of mirror jobs: the newest record of each key in the compacted status topic.

The topic has few keys but perhaps many records. A reader first reads the end of the topic, and the rest only for a
mirror without a record there. A reader that stays open reads only new records.
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
from reconciler.replication.names import status_key
from reconciler.replication.records.compacted_topic import Newest
from reconciler.replication.records.pauses import Pause, Scope, pauses_in
from reconciler.replication.status import FORMER_LAG_HEADER, StatusRecord

STALE_AT_LEAST_MS = 30_000
"""Least age of a stale record: a job is stale if its record is older than this and than ten of its intervals."""
STALE_INTERVALS = 10
LATE_INTERVALS = 2
_MOST_WORDS = 300
"""Limit of quoted characters of a malformed record."""
LISTEN_SECONDS, LISTEN_INTERVALS = 1.0, 2
TAIL_RECORDS = 500
"""Offsets before the end of each partition that are read first."""
LISTEN_AT_MOST_SECONDS = 10.0
"""Longest wait for a next record; of a job that writes less often, only clocks decide."""

_STATES = {
    "starting": JobState.STARTING,
    "running": JobState.RUNNING,
    "stopping": JobState.RUNNING,
    "stopped": JobState.STOPPED,
    "superseded": JobState.STOPPED,
    "failed": JobState.FAILED,
}

Lost = Callable[[LiveMirror], bool]


class MalformedStatusError(ValueError):
    """A status record that cannot be read."""


def mirror_from_record(value: bytes, now_ms: int, lag: bytes = b"") -> LiveMirror:
    """A record's value, and the last release's header, as a LiveMirror. Raises MalformedStatusError.

    A job whose last report says that it runs is STALE if the report is older than max(30 s, 10 status intervals).
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
    """A record as a live mirror. A job that reports to run is STALE if its record is too old: its process may have
    ended."""
    state = _STATES[record.state]
    silent_ms = now_ms - record.updated_at_ms
    if state.runs and silent_ms > _stale_after_ms(record):
        state = JobState.STALE
    words = (record.detail, "stopping" if record.state == "stopping" else "", f"host {record.host}")
    return LiveMirror(
        name=record.mirror,
        state=state,
        application_id=record.application_id,
        fingerprint=record.fingerprint,
        started_at_ms=record.started_at_ms,
        updated_at_ms=record.updated_at_ms,
        late_ms=max(0, silent_ms - LATE_INTERVALS * record.status_interval_ms) if state.runs else 0,
        pid=record.pid,
        host=record.host,
        run=record.run,
        detail="; ".join(word.rstrip(". ") for word in words if word),
        flows=MappingProxyType(dict(record.flows)),
    )


def _by_what_it_writes(record: StatusRecord, now_ms: int, speaks: bool) -> LiveMirror:
    """Judges by changes: with differing clocks the age of a record proves nothing, so a new record while we listened
    counts (``speaks``)."""
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
    """Seconds of our monotonic clock. ``came_within``: the record is at most this much older than ``since``."""

    place: tuple[int, int]
    since: float
    came_within: float


class Listening:
    """Judges by our own clock whether writers of records are alive, since their clocks may be wrong. Remembers the
    records of each key over all reads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, _Heard] = {}
        self._looked: dict[str, float] = {}

    def note(self, key: str, newest: Newest) -> None:
        """Notes the key's newest record, at the present time."""
        now, place, known = self._clock(), (newest.partition, newest.offset), self._heard.get(key)
        if known is None or known.place != place:
            self._heard[key] = _Heard(place, now, now - self._looked.get(key, float("-inf")))
        self._looked[key] = now

    def speaks(self, key: str, patience_s: float) -> bool | None:
        """Whether a noted key's record is younger than ``patience_s``. None: too early to know."""
        heard = self._heard[key]
        if self._clock() - heard.since > patience_s:
            return False
        return True if heard.came_within <= patience_s else None


class StatusRecords:
    """The status records of one environment on one cluster. Connects at the first read; safe for several threads.

    Raises ClusterError, or SecretError for an unresolvable reference.
    """

    def __init__(
        self,
        cluster: Cluster,
        environment: str,
        principal: Principal = Principal.PLAN,
        topic: str = "",
        moved_from: Sequence[str] = (),
    ) -> None:
        """``topic``: the cluster's status topic if empty. ``moved_from``: former names of the environment, the last one
        first."""
        self.cluster = cluster
        self.environment = environment
        self.moved_from = tuple(moved_from)
        self.topic = topic or cluster.own_topics.status
        self.topic_missing = False
        """Whether the topic was missing at the last read."""
        self._records = TopicRecords(cluster, principal, self.topic, tail=TAIL_RECORDS)
        self._listening = Listening()
        self._lock = threading.Lock()

    def read(self, mirror: str, now_ms: int, lost: Lost = lambda _: False) -> LiveMirror | None:
        """The newest report of a mirror; None if the topic or its record is missing.

        If clocks show a silent job, or a record from the future, this waits for the next record, because the clock of
        the job's machine may be wrong. ``lost``: whether the application is known to have ended, so that waiting is
        useless.
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
        """The mirror's state; None if its clock is in doubt, and it is too early to know whether it still writes."""
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

        # The record says that the job runs, but is overdue or from the future: the clock of its machine, or ours, may
        # be wrong.
        in_doubt = _STATES[record.state].runs and abs(now_ms - record.updated_at_ms) > _stale_after_ms(record)
        if not in_doubt or patience > LISTEN_AT_MOST_SECONDS or lost(mirror):
            return mirror
        speaks = self._listening.speaks(key, patience)
        return None if speaks is None else _by_what_it_writes(record, now_ms, speaks)

    def read_all(self, now_ms: int) -> Mapping[str, LiveMirror | Unknown]:
        """Every mirror of the environment with a record, even if git no longer declares it."""
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
        """All pauses of the environment's flows on this cluster."""
        with self._lock:
            newest = self._fresh(None)
        said = pauses_in((self.environment, *self.moved_from), {key: each.value for key, each in newest.items()})
        return {scope: pause for scope, pause in said.items() if pause is not None}

    def close(self) -> None:
        self._records.close()

    def _fresh(self, key: str | None) -> Mapping[str, Newest]:
        """Newest records; of all keys if ``key`` is None or not found at the topic's end."""
        newest = self._records.read(whole=key is None)
        if key is not None and newest is not None and key not in newest:
            newest = self._records.read()
        self.topic_missing = newest is None
        return newest or {}


def write_records(cluster: Cluster, principal: Principal, values: Mapping[str, bytes | None]) -> None:
    """Writes pauses, and orders to drivers in deploy mode cluster, which jobs read there. ``values``: by key, None
    deletes. Raises ClusterError, possibly after a part was written."""
    with closing(TopicRecords(cluster, principal, cluster.own_topics.status)) as records:
        records.append(values.items())
