"""Reads what mirror jobs report about themselves: the newest record of each key in the status topic.

The topic is compacted: few keys, but perhaps many records. Its end is read first, and the rest only for a mirror that
the end does not show. A reader that is kept open reads only what is new.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from jsonschema import Draft202012Validator

from reconciler.edges.kafka import errors
from reconciler.edges.kafka.connection import CONNECT_SECONDS, Connection, DebugLog, client_settings
from reconciler.errors import ClusterError, Unknown
from reconciler.live import FlowStatus, JobState, LiveMirror
from reconciler.topology import Cluster, Principal
from replication.names import STATUS_TOPIC, status_key

TAIL_RECORDS = 500
"""Offsets before the end of each partition that are read first."""
READ_SECONDS = 30.0
STALE_AT_LEAST_MS = 30_000
STALE_INTERVALS = 10

_STATES = {
    "starting": JobState.STARTING,
    "running": JobState.RUNNING,
    "stopping": JobState.RUNNING,
    "stopped": JobState.STOPPED,
    "superseded": JobState.STOPPED,
    "failed": JobState.FAILED,
}
_MOVING = (
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
_ALIVE = (JobState.STARTING, JobState.RUNNING)
_VALIDATOR = Draft202012Validator(json.loads(resources.files("schemas").joinpath("status.schema.json").read_text()))


class MalformedStatusError(ValueError):
    """A status record that does not follow its schema."""


def mirror_from_record(value: bytes, now_ms: int) -> LiveMirror:
    """A record's value as a LiveMirror. Raises MalformedStatusError.

    A job that says it is alive, but said so longer ago than max(30 s, 10 status intervals), is STALE.
    """
    try:
        record = json.loads(value)
    except ValueError as error:
        raise MalformedStatusError(f"no JSON: {error}") from None
    for problem in _VALIDATOR.iter_errors(record):
        raise MalformedStatusError(f"{problem.json_path}: {problem.message}")
    state = _STATES[record["state"]]
    silent_ms = now_ms - record["updated_at_ms"]
    if state in _ALIVE and silent_ms > max(STALE_AT_LEAST_MS, STALE_INTERVALS * record["status_interval_ms"]):
        state = JobState.STALE
    words = (record.get("detail", ""), "stopping" if record["state"] == "stopping" else "", f"host {record['host']}")
    return LiveMirror(
        name=record["mirror"],
        state=state,
        application_id=record["application_id"],
        fingerprint=record["fingerprint"],
        started_at_ms=record["started_at_ms"],
        updated_at_ms=record["updated_at_ms"],
        pid=record["pid"],
        detail="; ".join(word for word in words if word),
        flows=MappingProxyType({name: _flow(name, flow) for name, flow in record["flows"].items()}),
    )


def _flow(name: str, flow: Mapping[str, Any]) -> FlowStatus:
    return FlowStatus(
        name=name,
        fingerprint=flow["fingerprint"],
        state=flow["state"],
        topics=flow["topics"],
        partitions=flow["partitions"],
        records_total=flow["records_total"],
        records_per_second=flow["records_per_second"],
        bytes_per_second=flow["bytes_per_second"],
        records_lag=flow["records_lag"],
        seconds_lag=flow["seconds_lag"],
        conditions=tuple(MappingProxyType(condition) for condition in flow["conditions"]),
        transactions=flow.get("transactions"),
        retries=flow.get("retries"),
        filtered=flow.get("records_filtered"),
        returning=flow.get("records_returning"),
        paths=tuple(MappingProxyType(path) for path in flow.get("paths", ())),
        worst_partitions=tuple(MappingProxyType(one) for one in flow.get("worst_partitions", ())),
    )


@dataclass(frozen=True, slots=True)
class _Newest:
    """``value`` None: the key was deleted. ``age`` orders records, also over a change of the partition count."""

    age: tuple[int, int]
    value: bytes | None


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
    ) -> None:
        self.cluster = cluster
        self.environment = environment
        self.principal = principal
        self.topic = topic
        self._tail: _Tail | None = None
        self._lock = threading.Lock()

    def read(self, mirror: str, now_ms: int) -> LiveMirror | None:
        """None when the topic does not exist or has no record of this mirror."""
        key = status_key(self.environment, mirror)
        with self._lock:
            newest = self._fresh(key).get(key)
        if newest is None or newest.value is None:
            return None
        try:
            return mirror_from_record(newest.value, now_ms)
        except MalformedStatusError as error:
            raise ClusterError(
                self.cluster.name,
                "invalid",
                f"the status record {key} in {self.cluster.name}/{self.topic} cannot be read: {error}",
                "Without it nobody knows what the mirror job runs",
                "Use the version of this program that started the job, or stop the job and apply again.",
            ) from None

    def read_all(self, now_ms: int) -> Mapping[str, LiveMirror | Unknown]:
        """Every mirror of the environment that has a record, also one that is no longer in git."""
        prefix = status_key(self.environment, "")
        with self._lock:
            newest = self._fresh(None)
        found: dict[str, LiveMirror | Unknown] = {}
        for key in sorted(newest):
            value = newest[key].value
            if key.startswith(prefix) and value is not None:
                mirror = key.removeprefix(prefix)
                try:
                    found[mirror] = mirror_from_record(value, now_ms)
                except MalformedStatusError as error:
                    what = f"its status record in {self.cluster.name}/{self.topic} cannot be read: {error}"
                    found[mirror] = Unknown(f"mirror {mirror}", what, "Use the version that started the job.")
        return MappingProxyType(found)

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._tail is not None:
            self._tail.consumer.close()
            self._tail.connection.close()
            self._tail = None

    def _fresh(self, key: str | None) -> Mapping[str, _Newest]:
        """Up to date; complete when ``key`` is None or is not found at the topic's end."""
        try:
            if self._tail is None:
                self._tail = _open(self.cluster, self.principal, self.topic)
            if self._tail is None:
                return {}
            if not self._tail.advance():  # the topic was made anew
                self._let_go()
                return self._fresh(key)
            if key is None or key not in self._tail.newest:
                self._tail.complete()
            return self._tail.newest
        except ClusterError:
            self._let_go()
            raise


def _open(cluster: Cluster, principal: Principal, topic: str) -> _Tail | None:
    """None when the topic does not exist."""
    connection = Connection(cluster, principal)
    request = connection.admin.describe_cluster(request_timeout=CONNECT_SECONDS)
    connection.first(request, errors.DESCRIBE_CLUSTER)
    topics = connection.admin.describe_topics(TopicCollection([topic]), request_timeout=CONNECT_SECONDS)
    connection.settle(topics.values())
    failed = connection.failure(topics[topic], errors.describe_topic(topic))
    if failed is not None:
        if failed.kind == "missing":
            return None
        raise failed
    settings = {
        **client_settings(cluster, principal),
        "group.id": "reconciler-status",  # asked for by the client; no group is ever joined
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 50,
    }
    consumer = Consumer({**settings, "error_cb": lambda _error: None}, logger=DebugLog())
    partitions = [part.id for part in topics[topic].result().partitions]
    return _Tail(connection, consumer, topic, partitions)


class _Tail:
    """A consumer at the end of the status topic, and the newest record of each key it has seen."""

    def __init__(self, connection: Connection, consumer: Consumer, topic: str, partitions: list[int]) -> None:
        self.connection = connection
        self.topic = topic
        self._asked = errors.read_topic(topic)
        self.consumer = consumer
        self.newest: dict[str, _Newest] = {}
        self._next: dict[int, int] = {}
        self._unread: dict[int, tuple[int, int]] = {}
        for partition in partitions:
            low, high = self._bounds(partition)
            start = max(low, high - TAIL_RECORDS)
            self._next[partition] = start
            if low < start:
                self._unread[partition] = (low, start)

    def advance(self) -> bool:
        """Reads to the end. False when the topic ends before the place already read: it is another one."""
        ends = {partition: self._bounds(partition)[1] for partition in self._next}
        if any(end < self._next[partition] for partition, end in ends.items()):
            return False
        self._read({p: (self._next[p], end) for p, end in ends.items() if self._next[p] < end})
        self._next = ends
        return True

    def complete(self) -> None:
        """Reads what lies before the first tail, once."""
        self._read(self._unread)
        self._unread = {}

    def _bounds(self, partition: int) -> tuple[int, int]:
        """First offset and end. A partition that was just made or moved has no leader for a moment."""
        until = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                found = self.consumer.get_watermark_offsets(TopicPartition(self.topic, partition), CONNECT_SECONDS)
            except KafkaException as error:
                if error.args[0].code() not in _MOVING or time.monotonic() > until:
                    raise self.connection.error(error.args[0], self._asked) from None
                time.sleep(0.1)
            else:
                return int(found[0]), int(found[1])

    def _read(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        """Every record from start to end (not included) of each partition."""
        if not ranges:
            return
        until = time.monotonic() + READ_SECONDS
        self.consumer.assign([TopicPartition(self.topic, p, start) for p, (start, _) in ranges.items()])
        waiting = dict(ranges)
        while waiting:
            if time.monotonic() > until:
                raise errors.unreachable(
                    self.connection.speaker, (f"{self.topic} could not be read in {READ_SECONDS:.0f} s",)
                )
            for message in self.consumer.consume(500, timeout=0.2):
                if self._at(message) >= waiting.get(message.partition(), (0, 0))[1]:
                    waiting.pop(message.partition(), None)
        self.consumer.unassign()

    def _at(self, message: Message) -> int:
        """Takes a record in; the next offset of its partition, or -1 for what is no record."""
        error = message.error()
        if error is None:
            key = (message.key() or b"").decode(errors="replace")
            newest = _Newest((message.timestamp()[1], message.offset()), message.value())
            if key not in self.newest or self.newest[key].age <= newest.age:
                self.newest[key] = newest
            return int(message.offset()) + 1
        if error.code() == KafkaError._PARTITION_EOF:
            return int(message.offset())
        if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART):
            raise self.connection.error(error, self._asked)
        return -1  # the client goes on by itself; no permission on the group is needed
