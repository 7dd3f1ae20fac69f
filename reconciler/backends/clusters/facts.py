"""Reads facts of a cluster for ``doctor``: addresses, certificates, broker configs, features, clock, quotas.

A part that cannot be read is Unknown; the other parts are still reported.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from reconciler.backends.clusters.configs import broker_configs
from reconciler.backends.clusters.impact import read_nature
from reconciler.backends.clusters.quotas import QuotaRequests
from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import client_settings
from reconciler.backends.connections.dial import dial
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ReconcilerError, Unknown, or_unknown_why
from reconciler.kafka.address import host_port
from reconciler.kafka.client.auth.settings import kerberos_login
from reconciler.kafka.client.auth.supported_settings import by_kerberos
from reconciler.kafka.client.connection import Connection as WireConnection
from reconciler.kafka.client.errors import WireError
from reconciler.kafka.protocol import generated as protocol
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.reports.doctor import Address, ClusterFacts

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
