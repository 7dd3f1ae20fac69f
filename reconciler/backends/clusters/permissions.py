"""Asks the brokers which permissions a principal has, without changing anything.

Topics: brokers report authorized operations (KIP-430). Creation: validate-only requests. Groups and transactional ids:
requests that brokers authorize before they refuse an unknown member or producer id: Heartbeat needs Read on the group,
EndTxn Write on the transactional id; DescribeGroups needs Describe. Missing topics: Fetch, and Produce without a
record, which brokers authorize before they look up the topic.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from reconciler.backends.clusters.acls import OPERATIONS
from reconciler.backends.clusters.topics.batches import PlannedTopicChange
from reconciler.backends.clusters.topics.config_cache import VISIBILITY_PROBE
from reconciler.backends.clusters.topics.read import NAMES
from reconciler.backends.clusters.topics.write import send
from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import speaker_of
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ClusterError, ReconcilerError, Unknown, or_unknown
from reconciler.kafka.client.cluster import NO_ID
from reconciler.kafka.client.errors import DENIED, UNKNOWN_TOPIC
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol.producers.write_markers import DENIED as MARKERS_DENIED
from reconciler.kafka.protocol.producers.write_markers import UNSUPPORTED, Epochs, write_markers
from reconciler.model.changes import CreateTopic, Reason, Role, Why
from reconciler.model.environment.topology import Cluster, Principal, TopicRef
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.impact import MarkerRight
from reconciler.text import batched, one_line

NO_PRODUCER = 1 << 61
"""A producer id that no cluster has assigned."""
NO_PARTITION = "?", 0
"""An invalid topic name, so that no broker can write a marker there."""
_ANY = errors.Asked("ask what it may", "Describe", "--cluster")

Question = Callable[[Requests, Collection[str]], Mapping[str, int]]
"""Returns the error code of each name."""


def rights(cluster: Cluster, principal: Principal, ask: Ask) -> Rights:
    """Rights of a principal. A silent cluster raises nothing: ``failed`` has the error."""
    speaker, granted, server = f"<principal {principal}>", "", cluster.bootstrap_servers[0]
    operations: dict[str, frozenset[str]] = {}
    denied: set[str] = set()
    try:
        with Requests(cluster, principal) as requests:
            speaker, granted = requests.speaker.kafka_principal, requests.speaker.offer.rights
            described = requests.send(
                errors.DESCRIBE_CLUSTER, protocol.DescribeClusterRequest, include_cluster_authorized_operations=True
            )
            requests.check(described.error_code, errors.DESCRIBE_CLUSTER)
            # Asks for an unused name, too: if that is denied, missing and hidden topics cannot be told apart.
            for batch in batched([*ask.topics, VISIBILITY_PROBE], NAMES):
                for topic in _described(requests, batch):
                    if (kind := errors.kind_of(topic.error_code)) == "denied":
                        denied.add(topic.name)
                    elif not topic.error_code:
                        operations[topic.name] = _named(topic.authorized_operations)
                    elif kind not in ("missing", "invalid"):
                        requests.check(topic.error_code, errors.describe_topic(topic.name))
            because = Reason(Why.PROBE, "asked without being made")
            # Brokers authorize a creation even if it is validate-only, so these requests show the right and create
            # nothing.
            items = [
                PlannedTopicChange(name, CreateTopic(TopicRef(cluster.name, name), 1, None, (), Role.DECLARED, because))
                for name in ask.creates
            ]
            creates = or_unknown("creating topics", lambda: send(requests, items, validate_only=True))
    except ReconcilerError as error:
        return Rights(principal, speaker, server, Unknown.of(f"cluster {cluster.name}", error))

    def refused(error: ClusterError | None) -> bool:
        return error is not None and error.kind == "denied"

    allows = partial(tried, cluster, principal)
    return Rights(
        principal,
        speaker,
        server,
        operations=operations,
        denied=frozenset(denied - {VISIBILITY_PROBE}),
        sees_all=VISIBILITY_PROBE not in denied,
        creates=creates if isinstance(creates, Unknown) else {name: not refused(e) for name, e in creates.items()},
        groups=allows("groups", heartbeat, ask.groups),
        transactional_ids=allows("transactional ids", end_transaction, ask.transactional_ids),
        described=allows("groups", describe_groups, ask.described),
        reads=allows("reading", fetch_nothing, ask.reads),
        writes=allows("writing", produce_nothing, ask.writes),
        cluster=_named(described.authorized_operations),
        markers=may_write_markers(cluster, principal) if ask.markers else None,
        granted=granted,
    )


def _described(requests: Requests, names: Collection[str]) -> Any:
    """Topics of a Metadata response, with authorized operations (KIP-430)."""
    kind = protocol.MetadataRequest
    return requests.send(
        errors.DESCRIBE_CLUSTER,
        kind,
        topics=[kind.MetadataRequestTopic(topic_id=NO_ID, name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    ).topics


def _named(operations: Collection[int]) -> frozenset[str]:
    """Names of operations; brokers before KIP-430 return a number that is none of them."""
    return frozenset(operation.name for number, operation in OPERATIONS.items() if number in operations)


def tried(
    cluster: Cluster, principal: Principal, subject: str, question: Question, names: Collection[str]
) -> Mapping[str, bool] | Unknown:
    """Whether each of ``names`` is allowed. Each subject has its own connection, so that a lost one fails no other."""
    by_name: dict[str, bool] = {}
    if not names:
        return by_name
    try:
        with Requests(cluster, principal) as requests:
            for batch in batched(names, NAMES):
                by_name |= {name: code not in DENIED for name, code in question(requests, batch).items()}
    except ReconcilerError as error:
        return Unknown(subject, f"{subject} could not be asked for: {one_line(error)}", "Check kafka-acls.sh --list")
    return by_name


def may_write_markers(cluster: Cluster, principal: Principal) -> bool | Unknown:
    """Whether WriteTxnMarkers is allowed, which needs ClusterAction or Alter on the cluster. Sends a marker for an
    impossible partition, which brokers refuse only after authorization. Writes nothing."""
    subject = "transaction markers"
    markers = {NO_PARTITION: Epochs(0, 0)}
    try:
        with Requests(cluster, principal) as requests:
            answers = requests.ask(
                _ANY, lambda connection: write_markers(connection, NO_PRODUCER, markers, requests.patience)
            )
    except ReconcilerError as error:
        text = f"whether {principal} may write {subject} could not be asked for: {one_line(error)}"
        return Unknown(subject, text, "Check kafka-acls.sh --list --cluster")
    code = answers.get(NO_PARTITION, UNSUPPORTED)
    if code in (UNKNOWN_TOPIC, MARKERS_DENIED):
        return code == UNKNOWN_TOPIC
    text = f"whether {principal} may write {subject} is not known: brokers answered a WriteTxnMarkers with error {code}"
    return Unknown(subject, text, "Check kafka-acls.sh --list --cluster")


def read_marker_right(cluster: Cluster, principal: Principal) -> MarkerRight:
    """The right to write markers; a silent cluster raises nothing."""
    speaker = speaker_of(cluster, principal)
    command = speaker.acl_command("ClusterAction", "--cluster")
    return MarkerRight(may_write_markers(cluster, principal), speaker.kafka_principal, command)


def fetch_nothing(requests: Requests, topics: Collection[str]) -> Mapping[str, int]:
    """Error code by topic, existing or not: 29 (TOPIC_AUTHORIZATION_FAILED) without Read. Waits for no record."""
    kind = protocol.FetchRequest
    partition = kind.FetchTopic.FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1
    )
    answer = requests.send(
        _ANY,
        kind,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[kind.FetchTopic(topic=topic, partitions=[partition]) for topic in topics],
        forgotten_topics_data=[],
    )
    return {response.topic: int(response.partitions[0].error_code) for response in answer.responses}


def produce_nothing(requests: Requests, topics: Collection[str]) -> Mapping[str, int]:
    """Error code by topic, existing or not: 29 (TOPIC_AUTHORIZATION_FAILED) without Write. The request has no record,
    so an existing topic refuses it."""
    kind = protocol.ProduceRequest.TopicProduceData
    partition = kind.PartitionProduceData(index=0, records=b"")
    answer = requests.send(
        _ANY,
        protocol.ProduceRequest,
        transactional_id=None,
        acks=1,
        timeout_ms=round(requests.patience * 1000),
        topic_data=[kind(name=topic, partition_data=[partition]) for topic in topics],
    )
    return {response.name: int(response.partition_responses[0].error_code) for response in answer.responses}


def heartbeat(requests: Requests, names: Iterable[str]) -> Mapping[str, int]:
    """Error codes of Heartbeat for a member that does not exist."""
    no_member: dict[str, Any] = {"generation_id": -1, "member_id": "reconciler-doctor"}
    kind = protocol.HeartbeatRequest
    return {name: requests.send(_ANY, kind, group_id=name, **no_member).error_code for name in names}


def describe_groups(requests: Requests, names: Iterable[str]) -> Mapping[str, int]:
    kind = protocol.DescribeGroupsRequest
    answer = requests.send(_ANY, kind, groups=list(names), include_authorized_operations=False)
    return {group.group_id: group.error_code for group in answer.groups}


def end_transaction(requests: Requests, names: Iterable[str]) -> Mapping[str, int]:
    """Error codes of EndTxn for a producer that does not exist."""
    no_producer: dict[str, Any] = {"producer_id": NO_PRODUCER, "producer_epoch": 0, "committed": False}
    kind = protocol.EndTxnRequest
    return {
        name: requests.send(_ANY, kind, newest=3, transactional_id=name, **no_producer).error_code for name in names
    }
