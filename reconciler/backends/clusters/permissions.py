"""Asks the brokers for ``doctor`` and the guards which permissions a principal has, and for facts of the cluster
(addresses, certificates, broker configs, features, clock, quotas), without changing anything.

Topics: brokers report authorized operations (KIP-430). Creation: validate-only requests. Groups and transactional ids:
requests that brokers authorize before they refuse an unknown member or producer id: Heartbeat needs Read on the group,
EndTxn Write on the transactional id; DescribeGroups needs Describe. Missing topics: Fetch, and Produce without a
record, which brokers authorize before they look up the topic. A fact that cannot be read is Unknown; the others are
still reported.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from reconciler.backends.clusters.acls_and_quotas import OPERATIONS, QuotaRequests
from reconciler.backends.clusters.configs import broker_configs
from reconciler.backends.clusters.impact import read_nature
from reconciler.backends.clusters.topics.batches import PlannedTopicChange
from reconciler.backends.clusters.topics.read import NAMES, VISIBILITY_PROBE
from reconciler.backends.clusters.topics.write import send
from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import client_settings, speaker_of
from reconciler.backends.connections.dial import dial
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ClusterError, ReconcilerError, Unknown, or_unknown, or_unknown_why
from reconciler.kafka.address import host_port
from reconciler.kafka.client.auth.settings import kerberos_login
from reconciler.kafka.client.auth.supported_settings import by_kerberos
from reconciler.kafka.client.cluster import NO_ID
from reconciler.kafka.client.connection import Connection as WireConnection
from reconciler.kafka.client.errors import DENIED, UNKNOWN_TOPIC, WireError
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol.producers.write_markers import DENIED as MARKERS_DENIED
from reconciler.kafka.protocol.producers.write_markers import UNSUPPORTED, Epochs, write_markers
from reconciler.model.changes import CreateTopic, Reason, Role, Why
from reconciler.model.environment.topology import Cluster, Principal, TopicRef
from reconciler.model.plan import MarkerRight
from reconciler.model.reports.doctor import Address, Ask, ClusterFacts, Rights
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


_NO_CLOCK = "the controllers do not report their time (Kafka's do from 3.3 on)"
_NO_WORD = Unknown(
    "authorizer", "the brokers do not report whether they have one", "Look for authorizer.class.name on the brokers."
)
_QUORUM = errors.Asked("ask for the controllers' clock", "Describe", "--cluster")


def cluster_facts(cluster: Cluster, principal: Principal) -> ClusterFacts:
    """Facts of a cluster; a silent cluster raises nothing. ``cluster_id`` None: no address answered as a broker."""

    def address(server: str) -> Address:
        try:
            settings = client_settings(cluster, principal)
        except ReconcilerError as error:
            return Address(server, error.what)
        reached = dial(server, settings, cluster.client_for(principal))
        if reached.error or not by_kerberos(settings):
            return reached
        return replace(reached, error=_no_ticket(settings, host_port(server).host))

    # Each bootstrap address is dialled: clients use the first that answers, so a wrong one stays unnoticed until then.
    with ThreadPoolExecutor(len(cluster.bootstrap_servers)) as pool:
        addresses = tuple(pool.map(address, cluster.bootstrap_servers))
    subject = f"cluster {cluster.name}"

    async def finalized(connection: WireConnection) -> Mapping[str, int]:
        """Features (KIP-584) with their level."""
        return dict(sorted(connection.features.items()))

    # A fact that one principal or release cannot get is unknown by itself; only silence makes all of them unknown.
    try:
        with QuotaRequests(cluster, principal) as requests:
            ids, authorizer = requests.brokers(), read_nature(cluster, principal).authorizer
            skew = or_unknown_why(subject, partial(skew_ms, requests))
            return ClusterFacts(
                cluster.name,
                addresses,
                requests.cluster_id,
                _brokers(requests, ids),
                _NO_WORD if authorizer is None else authorizer,
                features=requests.ask(errors.DESCRIBE_CLUSTER, finalized),
                apis={protocol.api_name(key): high for key, (_, high) in requests.versions().items()},
                skew_ms=skew if isinstance(skew, Unknown) else skew[0],
                skew_error_ms=0 if isinstance(skew, Unknown) else skew[1],
                quotas=or_unknown_why(subject, partial(mutation_quotas, requests)),
                tickets=tickets(requests, client_settings(cluster, principal)),
            )
    except ReconcilerError as error:
        silent = Unknown.of(subject, error)
        return ClusterFacts(cluster.name, addresses, None, silent, silent, silent, {}, silent, 0, silent)


def tickets(requests: Requests, settings: Mapping[str, str]) -> Mapping[str, str]:
    """Broker -> why it has no Kerberos ticket (see ClusterFacts). Tickets are for host names, so one for a bootstrap
    server proves nothing for the other brokers. Raises ReconcilerError."""
    if not by_kerberos(settings):
        return {}
    places = sorted(map(requests.wire.address_of, requests.brokers()))
    return {f"{host}:{port}": _no_ticket(settings, host) for host, port in places}


def _no_ticket(settings: Mapping[str, str], host: str) -> str:
    """Why there is no Kerberos ticket for a broker; empty if there is one."""
    from reconciler.kafka.client.auth import gssapi  # loads MIT's library, which only Kerberos needs

    try:
        gssapi.ticket(kerberos_login(settings), host)
    except WireError as error:
        return str(error)
    return ""


def skew_ms(requests: Requests) -> tuple[int, int]:
    """The active controller's clock minus ours, and the uncertainty: half the round trip.

    By DescribeQuorum (KIP-836): the quorum's leader reports its own time as its lastCaughtUpTimestamp. Raises
    ReconcilerError.
    """
    kind = protocol.DescribeQuorumRequest
    if kind.API_KEY not in requests.versions():
        raise ReconcilerError(_NO_CLOCK)
    place = kind.TopicData(
        topic_name="__cluster_metadata", partitions=[kind.TopicData.PartitionData(partition_index=0)]
    )
    # The controller took its time somewhere within the round trip, so the difference is off by half of it at most.
    before = time.time()
    answer = requests.send(_QUORUM, kind, topics=[place])
    after = time.time()
    requests.check(answer.error_code, _QUORUM)
    [topic] = answer.topics
    [partition] = topic.partitions
    requests.check(partition.error_code, _QUORUM)
    voters = {voter.replica_id: voter.last_caught_up_timestamp for voter in partition.current_voters}
    caught_up_ms = int(voters.get(partition.leader_id) or 0)
    if caught_up_ms <= 0:
        raise ReconcilerError(_NO_CLOCK)
    return round(caught_up_ms - (before + after) / 2 * 1000), round((after - before) / 2 * 1000) + 1


def mutation_quotas(requests: QuotaRequests) -> Mapping[str, float]:
    """Entity -> controller_mutation_rate (KIP-599); empty if no such quota is set."""
    key = "controller_mutation_rate"
    return {str(whom): limits[key] for whom, limits in requests.described().items() if key in limits}


def _brokers(requests: Requests, ids: Sequence[int]) -> Mapping[int, Mapping[str, str | None]] | Unknown:
    """Broker -> configs; Unknown if those of one broker cannot be read."""
    brokers: dict[int, Mapping[str, str | None]] = {}
    for number in ids:
        try:
            brokers[number] = {key: entry.value for key, entry in broker_configs(requests, number).items()}
        except ReconcilerError as error:
            return Unknown(f"configs of broker {number}", error.what, error.todo)
    return brokers
