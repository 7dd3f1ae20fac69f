"""What a principal may do, asked of the brokers without changing anything there.

Topics: the operations brokers themselves say are allowed (KIP-430). Creates: validate-only requests. Groups and
transactional ids: requests that are authorized first and then refused, because nobody has the member or producer id
they name: Heartbeat needs Read on the group, EndTxn needs Write on the transactional id. DescribeGroups needs Describe.
Topics that are not there: a Fetch and a Produce without a record, which are authorized before anybody looks for the
topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from confluent_kafka import TopicCollection

from reconciler.changes import CreateTopic, Reason, Role
from reconciler.checkups import Ask, Rights
from reconciler.edges.kafka import errors
from reconciler.edges.kafka.asked_names import VISIBILITY_PROBE, batched
from reconciler.edges.kafka.batches import Item
from reconciler.edges.kafka.connection import CONNECT_SECONDS, REQUEST_SECONDS, Connection
from reconciler.edges.kafka.protocol import Wire
from reconciler.edges.kafka.reading import DESCRIBE_TOPICS_BATCH
from reconciler.edges.kafka.requests import send
from reconciler.errors import ReconcilerError, Unknown
from reconciler.topology import Cluster, Principal, TopicRef

TOPIC_DENIED = 29
GROUP_DENIED = 30
TRANSACTIONAL_ID_DENIED = 53

Answer = TypeVar("Answer")


def rights(cluster: Cluster, principal: Principal, ask: Ask) -> Rights:
    """Never raises for a cluster that does not answer: then ``failed`` says why."""
    speaker, server = f"<principal {principal}>", cluster.bootstrap_servers[0]
    try:
        connection = Connection(cluster, principal)
        speaker = connection.speaker.kafka_principal
        asked = connection.admin.describe_cluster(include_authorized_operations=True, request_timeout=CONNECT_SECONDS)
        allowed = connection.first(asked, errors.DESCRIBE_CLUSTER).authorized_operations
        operations, denied, sees_all = _topics(connection, ask.topics)
        creates = _creates(connection, ask.creates)
        connection.close()
    except ReconcilerError as error:
        failed = Unknown(f"cluster {cluster.name}", ". ".join(filter(None, (error.what, error.why))), error.todo)
        return Rights(principal, speaker, server, failed)
    groups: Mapping[str, bool] | Unknown = {}
    transactional_ids: Mapping[str, bool] | Unknown = {}
    described: Mapping[str, bool] | Unknown = {}
    reads: Mapping[str, bool] | Unknown = {}
    writes: Mapping[str, bool] | Unknown = {}
    if ask.reads:
        reads = _tried(cluster, principal, "reading", lambda wire: _allowed(wire.fetch_nothing, ask.reads))
    if ask.writes:
        writes = _tried(cluster, principal, "writing", lambda wire: _allowed(wire.produce_nothing, ask.writes))
    if ask.described:
        described = _tried(cluster, principal, "groups", lambda wire: _described(wire, ask.described))
    if ask.groups or ask.transactional_ids:
        groups = _tried(cluster, principal, "groups", lambda wire: _groups(wire, ask.groups))
        transactional_ids = _tried(
            cluster, principal, "transactional ids", lambda wire: _transactional_ids(wire, ask.transactional_ids)
        )
    return Rights(
        principal,
        speaker,
        server,
        operations=operations,
        denied=denied,
        sees_all=sees_all,
        creates=creates,
        groups=groups,
        transactional_ids=transactional_ids,
        described=described,
        reads=reads,
        writes=writes,
        cluster=frozenset(operation.name for operation in allowed or ()),  # librdkafka: None for none at all
    )


def _topics(connection: Connection, names: Iterable[str]) -> tuple[dict[str, frozenset[str]], frozenset[str], bool]:
    operations: dict[str, frozenset[str]] = {}
    denied: set[str] = set()
    sees_all = True
    for batch in batched([*names, VISIBILITY_PROBE], DESCRIBE_TOPICS_BATCH):
        futures = connection.admin.describe_topics(
            TopicCollection(batch), include_authorized_operations=True, request_timeout=REQUEST_SECONDS
        )
        connection.settle(futures.values())
        for topic, future in futures.items():
            failed = connection.failure(future, errors.describe_topic(topic))
            if failed is None:
                allowed = future.result().authorized_operations or ()
                operations[topic] = frozenset(operation.name for operation in allowed)
            elif failed.kind == "denied":
                sees_all = sees_all and topic != VISIBILITY_PROBE
                denied.update({topic} - {VISIBILITY_PROBE})
            elif failed.kind not in ("missing", "invalid"):
                raise failed
    return operations, frozenset(denied), sees_all


def _creates(connection: Connection, names: Iterable[str]) -> dict[str, bool] | Unknown:
    because = Reason("probe", "asked without being made")
    cluster = connection.speaker.cluster
    items = [Item(name, CreateTopic(TopicRef(cluster, name), 1, None, (), Role.DECLARED, because)) for name in names]
    try:
        answers = send(connection, items, validate_only=True)
    except ReconcilerError as error:
        return Unknown("creating topics", error.what, error.todo)
    return {name: error is None or error.kind != "denied" for name, error in answers.items()}


def _tried(cluster: Cluster, principal: Principal, what: str, ask: Callable[[Wire], Answer]) -> Answer | Unknown:
    try:
        with Wire(cluster, principal) as wire:
            return ask(wire)
    except ReconcilerError as error:
        return Unknown(what, f"{what} could not be asked for: {error}", "Look at kafka-acls.sh --list")


def _allowed(tell: Callable[[Collection[str]], Mapping[str, int]], topics: Iterable[str]) -> dict[str, bool]:
    codes: dict[str, int] = {}
    for batch in batched(topics, DESCRIBE_TOPICS_BATCH):
        codes |= tell(batch)
    return {topic: code != TOPIC_DENIED for topic, code in codes.items()}


def _groups(wire: Wire, names: Iterable[str]) -> dict[str, bool]:
    return {name: wire.heartbeat(name) != GROUP_DENIED for name in names}


def _described(wire: Wire, names: Iterable[str]) -> dict[str, bool]:
    return {name: wire.describe_group(name) != GROUP_DENIED for name in names}


def _transactional_ids(wire: Wire, names: Iterable[str]) -> dict[str, bool]:
    return {name: wire.end_transaction(name) != TRANSACTIONAL_ID_DENIED for name in names}
