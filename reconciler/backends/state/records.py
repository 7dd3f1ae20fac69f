"""Records in the compacted topic ``__reconciler``: plain ones, and the lock's, which is compared and set under a
fence."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar

from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import Requests, TopicRecords
from reconciler.backends.wait_lines import WaitLines
from reconciler.errors import BlockedError, ClusterError
from reconciler.kafka.client.cluster import NO_ID, ClusterClient, Key
from reconciler.kafka.client.errors import COORDINATOR_MOVED, BrokerError, MalformedResponseError, WireError
from reconciler.kafka.client.hanging_transactions import HangingTransactionError, look, settle
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol import generated as protocol
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.state.lock import (
    journal_key,
    journal_transactional_id,
    lock_key,
    lock_topic_configs,
    lock_topic_factors,
    lock_topic_shapes,
    transactional_id,
)
from reconciler.replication.names import OwnTopics
from reconciler.replication.records.compacted_topic import PATIENCE_S, CompactedTopic

Record = TypeVar("Record")
LEADER_SECONDS = 60.0
"""Seconds in which a busy cluster elects a leader or coordinator for a new topic."""
UNSTICK_SECONDS = 10.0
"""Seconds for ending a hanging transaction, which holds back the last stable offset."""
_WRITE_SECONDS, _PAUSE_SECONDS = 15.0, 0.2
_log = logging.getLogger("reconciler.kafka")


def make_topic(requests: Requests, topic: str, chosen: Mapping[str, str]) -> ClusterError | None:
    """Creates the topic, with ``chosen`` configs over the usual ones. Returns the error, None also if another run has
    created it meanwhile."""
    failed: ClusterError | None = None
    for factor, configs in lock_topic_shapes(len(requests.brokers()), chosen):
        failed = _failure_to_make(requests, topic, factor, configs)
        if failed is None or failed.kind == "exists":
            return None
        if failed.kind != "invalid":
            break
    return failed


def _failure_to_make(requests: Requests, topic: str, factor: int, configs: Mapping[str, str]) -> ClusterError | None:
    """The broker's refusal to create the topic, None if it is created. Asks again while no controller answers."""
    request, asked = protocol.CreateTopicsRequest, errors.create_topic(topic)
    sent = [request.CreatableTopic.CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
    new = request.CreatableTopic(name=topic, num_partitions=1, replication_factor=factor, assignments=[], configs=sent)
    until = time.monotonic() + _WRITE_SECONDS
    while True:
        try:
            requests.brokers()  # reads the present controller
            broker, within_ms = requests.wire.controller, int(_WRITE_SECONDS * 1000)
            answer = requests.send(asked, request, broker, topics=[new], timeout_ms=within_ms, validate_only=False)
            made = answer.topics[0]
        except ClusterError as error:  # a repeated request finds a topic that was created without a response
            if error.kind != "unreachable" or time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)
            continue
        return requests.refused(made.error_code, asked, made.error_message) if made.error_code else None


def command_to_make(server: str, topic: str, brokers: int) -> str:
    factor = lock_topic_factors(brokers)[-1]
    configs = " ".join(f"--config {key}={value}" for key, value in lock_topic_configs(factor).items())
    return (
        f"kafka-topics.sh --bootstrap-server {server} --create --topic {topic}"
        f" --partitions 1 --replication-factor {factor} {configs}"
    )


class RecordLog:
    """Plain records of one environment, on the cluster that they concern; ``environment_records`` has their contents.

    Writers hold the environment's lock. Opens and closes a connection for each call. Raises ClusterError.
    """

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self.cluster = cluster
        self.principal = principal

    def read(self, *prefixes: str) -> Mapping[str, bytes]:
        """Key -> newest value, of keys with one of ``prefixes``. Empty if the topic does not exist."""
        # read_uncommitted: only the lock is written in transactions.
        with closing(TopicRecords(self.cluster, self.principal, self.cluster.own_topics.lock)) as records:
            return records.values(*prefixes) or {}

    def write(self, entries: Mapping[str, bytes | None]) -> None:
        """All of them, or an error; None strikes an entry. Makes the topic where it is missing."""
        if not entries:
            return
        with closing(TopicRecords(self.cluster, self.principal, self.cluster.own_topics.lock)) as records:
            topic = self.cluster.own_topics.lock
            if not records.ask(errors.describe_topic(topic), CompactedTopic.exists):
                with Requests(self.cluster, self.principal) as requests:
                    if failed := make_topic(requests, topic, self.cluster.own_configs):
                        raise failed
            records.append(entries.items(), 0, required=True)


class LockLog:
    """Compare-and-set of one record, by Kafka's transactional fencing: ``fence`` ends every earlier writer; what
    ``read`` returns then stays true until ``write``, or ``write`` raises RecordFencedError.

    One thread at a time. Raises ClusterError.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        key: str,
        transactional_id: str,
        principal: Principal = Principal.APPLY,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """``progress``: takes words about waits; None: short waits."""
        self.cluster = cluster
        self.principal = principal
        self.topic = topic
        self.key = key
        self.transactional_id = transactional_id
        self._progress = progress or (lambda _: None)
        self._lines = WaitLines(self._progress)
        patience = LEADER_SECONDS if progress is not None else PATIENCE_S
        self._records = TopicRecords(
            cluster, principal, topic, committed=True, patience=patience, waits=self._report_wait, unstick=end_unmarked
        )

    def open(self) -> None:
        """Connects, and creates a missing topic. Raises BlockedError for a cluster with another id than declared."""
        # The id is checked before the topic is created: through a tunnel to a wrong cluster, a run would otherwise take
        # a second lock there, beside the real one.
        answered = self.identity()
        if self.cluster.cluster_id not in (None, answered):
            raise BlockedError(
                f"cluster {self.cluster.name} is declared with cluster_id {self.cluster.cluster_id}, but"
                f" {answered} answered",
                "The environment's lock is kept there, and nothing is written to another cluster.",
                f"Correct bootstrap_servers or cluster_id of {self.cluster.name}.",
            )
        if self.exists():
            return
        # The first apply creates the topic; a plan cannot, because applying a plan needs the lock.
        with Requests(self.cluster, self.principal) as requests:
            brokers = len(requests.brokers())
            failed = make_topic(requests, self.topic, self.cluster.own_configs)
        if failed is None:
            return
        command = command_to_make(self.cluster.bootstrap_servers[0], self.topic, brokers)
        todo = f"{failed.todo}; or have it made once by a principal that may: {command}"
        if "POLICY_VIOLATION" in failed.what:
            choice = f"clusters.{self.cluster.name}.internal_topics.prefix"
            todo = f"{failed.todo} What brokers refuse they refuse everyone; another name is chosen by {choice}."
        raise ClusterError(
            failed.cluster,
            failed.kind,
            f"the topic of the environment's lock cannot be made: {failed.what}",
            failed.why or "Without the lock two applies could work against each other.",
            todo,
        )

    def exists(self) -> bool:
        return self._records.ask(errors.describe_topic(self.topic), CompactedTopic.exists)

    def topics(self, end: str) -> frozenset[str]:
        """Topics of the cluster whose names end so, as far as this principal sees them."""

        async def read(topic: CompactedTopic) -> frozenset[str]:
            await topic.cluster.refresh(None)
            return frozenset(name for name in topic.cluster.topics if name.endswith(end))

        return self._records.ask(errors.DESCRIBE_CLUSTER, read)

    def identity(self) -> str:
        """The id of the answering cluster."""

        async def read(topic: CompactedTopic) -> str:
            await topic.cluster.refresh(())
            return topic.cluster.cluster_id

        return self._records.ask(errors.DESCRIBE_CLUSTER, read)

    def fence(self) -> None:
        """Fences earlier writers of this key: InitProducerId bumps the epoch, aborts their transaction, and brokers
        refuse their writes from now on."""
        self._lines = WaitLines(self._progress)
        name = self.transactional_id
        asked = errors.Asked(f"use the transactional id {name}", "Write", f"--transactional-id {name}")
        try:
            self._records.ask(asked, lambda topic: topic.fence(name))
        except ClusterError as error:
            raise self._less_in_sync(error) from None

    def read(self) -> bytes | None:
        """The newest committed value, None if there is none. Waits for open transactions, and ends hanging ones."""
        return self.read_all().get(self.key)

    def read_all(self) -> Mapping[str, bytes]:
        """Like ``read``, for all keys."""

        async def read(topic: CompactedTopic) -> Mapping[str, bytes]:
            await topic.read(required=True)
            for (partition, offset), problem in topic.unreadable.items():
                raise MalformedResponseError(f"{self.topic}-{partition}, offset {offset}: {problem}")
            return topic.values()

        self._lines = WaitLines(self._progress)
        return self._records.ask(errors.read_topic(self.topic), read)

    def write(self, value: bytes | None, key: str = "") -> None:
        """Writes a value. ``key``: of another record than the lock. Raises RecordFencedError if another writer has
        fenced since ``fence``."""
        asked, entries = errors.write_topic(self.topic), {key or self.key: value}
        try:
            self._records.ask(asked, lambda topic: topic.write(self.transactional_id, entries))
        except ClusterError as error:
            raise self._less_in_sync(error) from None

    def close(self) -> None:
        self._records.close()

    def _report_wait(self, error: BrokerError) -> None:
        awaited = (
            f"a coordinator of {self.transactional_id}"
            if error.code in COORDINATOR_MOVED
            else f"a leader of topic {self.topic}"
        )
        self._lines.show(f"cluster {self.cluster.name}: waiting for {awaited}")

    def _less_in_sync(self, error: ClusterError) -> ClusterError:
        """The error of a timed-out write; it names the cause if the topic has too few in-sync replicas."""
        if error.kind not in ("unreachable", "other"):  # other: the transaction of such a write is still open
            return error

        async def first_partition(topic: CompactedTopic) -> Any:
            """A separate request without auto-creation of the topic."""
            connection = await topic.cluster.any_control()
            request = protocol.MetadataRequest
            named = request.MetadataRequestTopic(topic_id=NO_ID, name=topic.topic)
            answer = await connection.call(
                request(topics=[named], allow_auto_topic_creation=False, version=connection.version(request))
            )
            return next(iter(answer.topics[0].partitions), None)

        try:
            part = self._records.ask(errors.describe_topic(self.topic), first_partition)
        except ClusterError:
            return error
        if part is None or len(part.isr_nodes) == len(part.replica_nodes):
            return error
        # The broker itself only reports a timeout.
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


async def end_unmarked(cluster: ClusterClient) -> None:
    """Ends hanging transactions in the lock topic in the way their coordinator decided: readers of the lock would
    otherwise wait for them for ever. Writers with a hanging transaction are fenced, and need one more attempt.

    Only an attempt: without the right, or with an old broker, the reader keeps waiting, and reports the transaction.
    """
    place = (topic := OwnTopics(cluster.topic_prefix).lock, 0)
    try:
        async with asyncio.timeout(UNSTICK_SECONDS):
            records = CompactedTopic(cluster, topic)
            await records.read()
            # Keys, even uncommitted ones, name environments, from which the transactional ids of all writers follow.
            environments = {key.partition("/")[2] for key in records.values(lock_key(""), journal_key(""))}
            for environment in sorted(environments):
                for writer in (transactional_id(environment), journal_transactional_id(environment)):
                    # Usually another environment's transactional id, for which this principal has no rights.
                    with contextlib.suppress(BrokerError):
                        await _end_if_hanging(cluster, Identity(cluster, writer, ""), place)
    except (WireError, TimeoutError) as error:
        _log.debug("hanging transactions of %s on %s are left: %s", topic, cluster.name, type(error).__name__)


async def _end_if_hanging(target: ClusterClient, identity: Identity, place: Key) -> None:
    """Ends our own transaction on ``place`` if its coordinator has decided it and the marker never arrived: no reader
    of committed records would get past it."""
    transaction = await identity.state()
    if transaction is None or transaction.open:  # the coordinator itself ends an open transaction
        return
    if place not in (await look(target, [place])).of(transaction.producer_id):
        return
    await identity.start()
    try:
        await settle(target, [place], identity)
    except HangingTransactionError:
        # The result is not known. Committing is the safe choice: a lock that may be held then counts as held until its
        # lease expires.
        await identity.finish([place], committed=True)


def understood(
    value: bytes | None, loads: Callable[[bytes], Record], cluster: str, record: str, why: str, todo: str
) -> Record | None:
    """A decoded value, None without one. Raises ClusterError for a value of another version of this program."""
    try:
        return loads(value) if value is not None else None
    except ValueError as error:
        raise ClusterError(cluster, "invalid", f"{record} cannot be understood: {error}", why, todo) from None
