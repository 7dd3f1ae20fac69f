"""Compare-and-set of one record in a compacted topic, by Kafka's transactional fencing.

``fence`` ends every earlier writer; what ``read`` returns then stays true until ``write``, or ``write`` raises Fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from reconciler.backends.connections import errors
from reconciler.backends.connections.librdkafka import AdminConnection
from reconciler.backends.connections.requests import TopicRecords
from reconciler.backends.state import topic as lock_topic
from reconciler.backends.state.hanging_transactions import end_unmarked
from reconciler.backends.wait_lines import WaitLines
from reconciler.errors import BlockedError, ClusterError
from reconciler.kafka.client.cluster import NO_ID
from reconciler.kafka.client.errors import COORDINATOR_MOVED, BrokerError, MalformedResponseError
from reconciler.kafka.protocol import generated as protocol
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.replication.records.compacted_topic import PATIENCE_S, CompactedTopic

Record = TypeVar("Record")
LEADER_SECONDS = 60.0
"""Brokers that answer choose a leader, or a coordinator, for a topic that was just made; a busy cluster takes its time.
"""


class LockLog:
    """Raises ClusterError. One thread at a time."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        key: str,
        transactional_id: str,
        principal: Principal = Principal.APPLY,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """``progress`` gets what is waited for; with None waits are short."""
        self.cluster = cluster
        self.principal = principal
        self.topic = topic
        self.key = key
        self.transactional_id = transactional_id
        self._progress = progress or (lambda _: None)
        self._lines = WaitLines(self._progress)
        patience = LEADER_SECONDS if progress is not None else PATIENCE_S
        self._records = TopicRecords(
            cluster, principal, topic, committed=True, patience=patience, waits=self._tell, unstick=end_unmarked
        )

    def open(self) -> None:
        """Connects, and makes the topic where it is missing. Raises BlockedError for a cluster with a wrong id."""
        answered = self.identity()
        if self.cluster.cluster_id not in (None, answered):
            raise BlockedError(
                f"cluster {self.cluster.name} is declared with cluster_id {self.cluster.cluster_id}, but"
                f" {answered} answered",
                "The environment's lock is kept there, and nothing is written to another cluster.",
                f"Correct bootstrap_servers or cluster_id of {self.cluster.name}.",
            )
        if not self.exists():
            self._make()

    def exists(self) -> bool:
        return self._records.ask(errors.describe_topic(self.topic), CompactedTopic.exists)

    def identity(self) -> str:
        """The id of the cluster that answers."""

        async def read(topic: CompactedTopic) -> str:
            await topic.cluster.refresh(())
            return topic.cluster.cluster_id

        return self._records.ask(errors.DESCRIBE_CLUSTER, read)

    def fence(self) -> None:
        self._lines = WaitLines(self._progress)
        name = self.transactional_id
        asked = errors.Asked(f"use the transactional id {name}", "Write", f"--transactional-id {name}")
        try:
            self._records.ask(asked, lambda topic: topic.fence(name))
        except ClusterError as error:
            raise self._less_in_sync(error) from None

    def read(self) -> bytes | None:
        """The newest committed value, None when there is none. Waits for transactions that are still open; those that
        hang it ends."""
        return self.read_all().get(self.key)

    def read_all(self) -> Mapping[str, bytes]:
        """As ``read``, of all keys."""

        async def read(topic: CompactedTopic) -> Mapping[str, bytes]:
            await topic.read(required=True)
            for (partition, offset), problem in topic.unreadable.items():
                raise MalformedResponseError(f"{self.topic}-{partition}, offset {offset}: {problem}")
            return topic.values()

        self._lines = WaitLines(self._progress)
        return self._records.ask(errors.read_topic(self.topic), read)

    def write(self, value: bytes | None, key: str = "") -> None:
        """``key``: another one than ours. Raises RecordFencedError when another writer came since ``fence``."""
        asked, entries = errors.write_topic(self.topic), {key or self.key: value}
        try:
            self._records.ask(asked, lambda topic: topic.write(self.transactional_id, entries))
        except ClusterError as error:
            raise self._less_in_sync(error) from None

    def close(self) -> None:
        self._records.close()

    def _tell(self, error: BrokerError) -> None:
        awaited = (
            f"a coordinator of {self.transactional_id}"
            if error.code in COORDINATOR_MOVED
            else f"a leader of topic {self.topic}"
        )
        self._lines.show(f"cluster {self.cluster.name}: waiting for {awaited}")

    def _less_in_sync(self, error: ClusterError) -> ClusterError:
        """The error of a write that timed out; it names the cause where too few of the topic's brokers are in sync."""
        if error.kind not in ("unreachable", "other"):  # other: the transaction of such a write is still open
            return error
        try:
            part = self._records.ask(errors.describe_topic(self.topic), _first_partition)
        except ClusterError:
            return error
        if part is None or len(part.isr_nodes) == len(part.replica_nodes):
            return error
        in_sync, wanted = len(part.isr_nodes), len(part.replica_nodes)
        where = f"topic {self.topic} of cluster {self.cluster.name}"
        server = self.cluster.bootstrap_servers[0]
        away = ", ".join(sorted(map(str, {*part.replica_nodes} - {*part.isr_nodes})))
        return ClusterError(
            error.cluster,
            "unreachable",
            f"{where} takes no record: {in_sync} of its {wanted} replicas are in sync, without broker {away}",
            "It is not written with fewer than its min.insync.replicas.",
            f"Start broker {away}. Or lower it: kafka-configs.sh --bootstrap-server {server} --alter"
            f" --entity-type topics --entity-name {self.topic} --add-config min.insync.replicas={max(1, in_sync)}",
        )

    def _make(self) -> None:
        connection = AdminConnection(self.cluster, self.principal)
        try:
            brokers = len(connection.cluster().nodes)
            failed = lock_topic.make(connection, self.topic, brokers)
        finally:
            connection.close()
        if failed is None:
            return
        by_hand = lock_topic.by_hand(self.cluster.bootstrap_servers[0], self.topic, brokers)
        todo = f"{failed.todo} Or let somebody who may make it once: {by_hand}"
        if "POLICY_VIOLATION" in failed.what:
            todo = f"{failed.todo} The name {self.topic} is fixed, and what brokers refuse they refuse everybody."
        raise ClusterError(
            failed.cluster,
            failed.kind,
            f"the topic of the environment's lock cannot be made: {failed.what}",
            failed.why or "Without the lock two applies could work against each other.",
            todo,
        )


async def _first_partition(topic: CompactedTopic) -> Any:
    """None where the topic is not described."""
    connection = await topic.cluster.any_control()
    request = protocol.MetadataRequest
    named = request.MetadataRequestTopic(topic_id=NO_ID, name=topic.topic)
    answer = await connection.call(
        request(topics=[named], allow_auto_topic_creation=False, version=connection.version(request))
    )
    return next(iter(answer.topics[0].partitions), None)


def understood(
    value: bytes | None, loads: Callable[[bytes], Record], cluster: str, record: str, why: str, todo: str
) -> Record | None:
    """None where there is no value. Raises ClusterError for one that another version of this program wrote."""
    try:
        return loads(value) if value is not None else None
    except ValueError as error:
        raise ClusterError(cluster, "invalid", f"{record} cannot be understood: {error}", why, todo) from None
