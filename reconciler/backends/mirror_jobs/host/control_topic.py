"""Reads the records of the control topic, and writes one of them by compare-and-set (decision 122)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from reconciler.backends.mirror_jobs.status.tail import Tail, open_tail
from reconciler.backends.state.compare_and_set import LockLog, RecordFencedError
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.replication.names import CONTROL_TOPIC, host_transactions

ATTEMPTS = 5
"""Writers that come at the same moment fence each other; one of them comes through."""
OURS = "reconciler."
"""How the transactional ids begin that the role reconciler-apply may use."""


class ControlStore(Protocol):
    """The control topic of one cluster and environment. Raises ClusterError."""

    @property
    def missing(self) -> bool:
        """Whether the topic did not exist at the last read."""
        ...

    def read(self) -> Mapping[str, bytes]:
        """The newest value of each key; nothing where the topic does not exist."""
        ...

    def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        """Writes ``after`` if ``before`` is still the value; False when it is not. None deletes."""
        ...

    def close(self) -> None: ...


class ControlTopic:
    """``ControlStore`` over Kafka; safe for several threads. A key that is written again costs one transaction, as
    long as no other process wants to write it."""

    def __init__(self, cluster: Cluster, environment: str, principal: Principal, topic: str = CONTROL_TOPIC) -> None:
        self.cluster = cluster
        self.topic = topic
        self.principal = principal
        self._prefix = host_transactions(environment) if principal is Principal.MIRROR else f"{OURS}{environment}."
        self._tail: Tail | None = None
        self._missing = False
        self._mutex = threading.RLock()
        self._logs: dict[str, LockLog] = {}
        self._known: dict[str, bytes | None] = {}
        """What a key holds, as long as our producer has not been fenced."""

    @property
    def missing(self) -> bool:
        return self._missing

    def read(self) -> Mapping[str, bytes]:
        with self._mutex:
            return self._read()

    def _read(self) -> Mapping[str, bytes]:
        try:
            if self._tail is None:
                self._tail = open_tail(self.cluster, self.principal, self.topic, Tail)
                self._require_declared()
            self._missing = self._tail is None
            if self._tail is None:
                return {}
            if not self._tail.advance():  # the topic was recreated
                self._let_go()
                return self._read()
            self._tail.complete()
            return {key: newest.value for key, newest in self._tail.newest.items() if newest.value is not None}
        except ClusterError:
            self._let_go()
            raise

    def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        with self._mutex:
            return self._swap(key, before, after)

    def _swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        log = self._logs.get(key)
        if log is None:
            writer = f"{self._prefix}{key}"
            log = self._logs[key] = LockLog(self.cluster, self.topic, key, writer, self.principal)
        for _ in range(ATTEMPTS):
            if key not in self._known:
                if not log.exists():
                    return False
                log.fence()
                self._known[key] = log.read()
            if self._known[key] != before:
                del self._known[key]  # a caller that asks again has read again
                return False
            del self._known[key]
            try:
                log.write(after)
            except RecordFencedError:
                continue
            self._known[key] = after
            return True
        return False

    def close(self) -> None:
        with self._mutex:
            self._let_go()
            for log in self._logs.values():
                log.close()
            self._logs.clear()
            self._known.clear()

    def _require_declared(self) -> None:
        """Raises ClusterError where another cluster than the declared one answers."""
        if self._tail is None or self.cluster.cluster_id is None:
            return
        answered = self._tail.cluster_id
        if answered != self.cluster.cluster_id:
            raise ClusterError(
                self.cluster.name,
                "invalid",
                f"cluster {self.cluster.name} is declared with cluster_id {self.cluster.cluster_id}, but {answered}"
                " answered",
                "What is desired of mirrors is read there, and no other cluster may say it",
                f"Correct bootstrap_servers or cluster_id of {self.cluster.name}.",
            )

    def _let_go(self) -> None:
        if self._tail is not None:
            self._tail.consumer.close()
            self._tail = None
