"""``clusters``: addresses, client settings, and the layers of defaults; one cluster under one name.

Imports little, so that reads of clusters can begin before most of the program is imported.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import client_setting, has_reference, retention_step, topic_config
from reconciler.environment.yaml.locations import Places, locate
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.errors import Problem, Where
from reconciler.kafka.address import host_port
from reconciler.kafka.client.auth.supported_settings import Refusal, forbidden, refusals, useless
from reconciler.model.environment.services import AWS_ADDRESS, NO_SERVICE, SERVICES, guessed_service
from reconciler.model.environment.topology import Cluster, Principal, TopicDefaults, Topology, Undeclared
from reconciler.model.replicas import ReassignmentPace
from reconciler.resources.topics.defaults import configs, layers_of, replication_factor
from reconciler.resources.topics.limits import min_insync_above
from reconciler.text import size_bytes

_LEAST_IN_SYNC = "min.insync.replicas"
_UNUSABLE = "${env:UNUSABLE}"
_KEPT_BY_COMPACTION = {"cleanup.policy", "retention.ms", "retention.bytes"}


def build_cluster(reading: Reading) -> Cluster:
    """The cluster of one entry. References to secrets stay as they are written: only a connection resolves them."""
    at, usual = "reassignment", ReassignmentPace()
    return Cluster(
        name=reading.name,
        bootstrap_servers=reading.texts("bootstrap_servers"),
        cluster_id=reading.value("cluster_id", default=None),
        region=reading.value("region", default=None),
        service=reading.value("service", default=""),
        client=reading.mapping("client", each=client_setting),
        principals=MappingProxyType(
            {
                principal: reading.mapping("principals", principal.value, each=client_setting)
                for principal in Principal
                if reading.node("principals", principal.value) is not None
            }
        ),
        defaults=build_defaults(reading, "defaults"),
        prune_topics=reading.expressions("prune", "topics"),
        reassignment=ReassignmentPace(
            throttle=reading.quantity(at, "throttle_bytes_per_second", default=usual.throttle, read=size_bytes),
            bytes_in_flight=reading.quantity(at, "bytes_in_flight", default=usual.bytes_in_flight, read=size_bytes),
            partitions_in_flight=reading.value(at, "partitions_in_flight", default=usual.partitions_in_flight),
        ),
        topic_prefix=reading.value("internal_topics", "prefix", default=""),
        own_configs=reading.mapping("internal_topics", "configs", each=topic_config),
        where=reading.place.where,
    )


def half_read_cluster(reading: Reading) -> Cluster:
    """The addresses and logins of an entry with problems, so that their other problems are reported in the same run. An
    unusable setting counts as a reference with an unknown value."""

    def settings(*path: str) -> Mapping[str, str]:
        node = reading.node(*path)
        entries = node.entries.items() if isinstance(node, YamlMapping) else ()
        judged = {key: client_setting(key, entry.value) for key, entry in entries}
        return {key: value if isinstance(value, str) and value else _UNUSABLE for key, value in judged.items()}

    principals = {who: settings("principals", who.value) for who in Principal if reading.node("principals", who.value)}
    servers = reading.texts("bootstrap_servers")
    return Cluster(reading.name, servers, client=settings("client"), principals=principals, where=reading.place.where)


def build_defaults(reading: Reading, *path: str) -> TopicDefaults:
    """The layer at ``path`` of an entry; without a path the entry is the layer."""
    return TopicDefaults(
        partitions=reading.value(*path, "partitions", default=None),
        replication_factor=reading.value(*path, "replication_factor", default=None),
        configs=reading.mapping(*path, "configs", each=topic_config),
        lower_retention_by=reading.mapping(*path, "lower_retention_by", each=retention_step),
        undeclared=read_undeclared(reading, *path),
        where=reading.place.document.where(locate(reading.place.entry, path)),
    )


def read_undeclared(reading: Reading, *path: str) -> Undeclared | None:
    word = reading.value(*path, "undeclared", default=None)
    return None if word is None else Undeclared(word)


def check_own_topics(topology: Topology, places: Places) -> Iterator[Problem]:
    """Configs under which the program's own topics would lose records."""
    for cluster in topology.clusters.values():
        for key in sorted(cluster.own_configs.keys() & _KEPT_BY_COMPACTION):
            where = places.of(cluster, "internal_topics", "configs", key)
            problem = f"cluster {cluster.name}: {key} is chosen for the program's own topics"
            why = "They are compacted, and nothing in them expires: pauses, ownership and offset maps would be lost"
            yield Problem("bad-value", where, problem, why, "Remove it")


def check_clusters(topology: Topology, places: Places) -> Iterator[Problem]:
    """Finds two aliases of one cluster by a shared server or cluster id: the cluster would be mirrored onto itself."""
    by_identity: dict[str, Cluster] = {}
    for cluster in sorted(topology.clusters.values(), key=lambda cluster: cluster.name):
        identities = []
        for index, server in enumerate(cluster.bootstrap_servers):
            where = places.of(cluster, "bootstrap_servers", index)
            try:
                host_port(server)
            except ValueError as error:
                why = "Credentials would go there, wherever it is"
                yield Problem("bad-value", where, f"cluster {cluster.name}: {error}", why, "Write host:port")
            identities.append((server.lower(), where, f"the bootstrap server {server}"))
        if (key := cluster.cluster_id) is not None:
            identities.append((f"id {key}", places.of(cluster, "cluster_id"), f"the cluster_id {key}"))
        # One shared server is enough, since each server leads to the whole cluster.
        for key, where, shared in identities:
            other = by_identity.setdefault(key, cluster)
            if other is not cluster:
                problem = f"the clusters {other.name} and {cluster.name} both have {shared}"
                why = "One cluster under two aliases would be mirrored onto itself without the cycle rule seeing it"
                todo = "Keep one of the two, or correct the address"
                yield Problem("same-cluster-twice", where, problem, why, todo)
        yield from _durability(topology, places, cluster)


def _durability(topology: Topology, places: Places, cluster: Cluster) -> Iterator[Problem]:
    """min.insync.replicas above the replication factor, which no broker can keep."""
    layers = layers_of(topology, cluster.name)
    wanted, factor = configs(layers).get(_LEAST_IN_SYNC), replication_factor(layers)
    if wanted is not None and _too_few(wanted.value, factor):
        at_cluster = wanted.layer.values is cluster.defaults
        where = places.of(cluster, "defaults", "configs", _LEAST_IN_SYNC) if at_cluster else wanted.layer.where
        yield _too_few_replicas(f"cluster {cluster.name}: defaults", wanted.value, factor, where)
        return  # every topic would repeat it

    # Layers are put together for topics that can differ from the cluster only: there may be ten thousand others.
    classes = topology.rules.classes.values()
    shared = wanted is not None or any(_LEAST_IN_SYNC in defaults.configs for defaults in classes)
    for topic in topology.topics.values():
        if cluster.name not in topic.clusters or not (shared or _LEAST_IN_SYNC in topic.configs):
            continue
        layers = layers_of(topology, cluster.name, topic)
        least, factor = configs(layers).get(_LEAST_IN_SYNC), replication_factor(layers)
        if least is not None and _too_few(least.value, factor):
            where = places.of(topic, "configs" if _LEAST_IN_SYNC in topic.configs else "replication_factor")
            yield _too_few_replicas(f"topic {topic.name} on {cluster.name}", least.value, factor, where)


def _too_few(least: str, factor: int | None) -> bool:
    return factor is not None and bool(re.fullmatch("[0-9]+", least)) and float(least) > factor


def _too_few_replicas(subject: str, least: str, factor: int | None, where: Where) -> Problem:
    assert factor is not None
    problem = f"{subject}: {_LEAST_IN_SYNC} is {least}, replication_factor is {factor}"
    todo = f"Raise replication_factor or lower {_LEAST_IN_SYNC}"
    return Problem("too-few-replicas", where, problem, min_insync_above(factor), todo)


def check_connections(topology: Topology, places: Places) -> Iterator[Problem]:
    """Client settings that no client is given, that cannot log in, or that our own connections cannot honour."""
    mirrored = {name for flow in topology.flows.values() for name in (flow.source, flow.target)}
    for name in sorted(topology.clusters):
        cluster = topology.clusters[name]
        given = {("client",): cluster.client} | {("principals", who.value): s for who, s in cluster.principals.items()}
        for path, settings in given.items():
            code = "setting-not-allowed"
            for refusal in forbidden(settings):
                yield _refused(code, refusal, cluster, path, places)

        # Checks each distinct login once: the mirror's on both sides of a flow, each principal with its own settings,
        # and shared settings that no other login uses. A problem of two logins is reported for the mirror.
        logins = [Principal.MIRROR] if name in mirrored else []
        logins += [who for who in cluster.principals if who is not Principal.MIRROR]
        said: set[Refusal] = set()
        for who in logins or [Principal.PLAN]:
            client = {key: None if has_reference(value) else value for key, value in cluster.client_for(who).items()}
            no_login, unhonoured = (*useless(client), *service_refusals(cluster, client)), refusals(client)
            for refusal in dict.fromkeys((*no_login, *unhonoured)):
                if refusal in said or refusal in forbidden(client):
                    continue
                said.add(refusal)
                own = refusal.setting in cluster.principals.get(who, {})
                ours = refusal in unhonoured and (who is Principal.MIRROR or refusal not in no_login)
                code = "setting-not-mirrored" if ours else "login-impossible"
                yield _refused(code, refusal, cluster, ("principals", who.value) if own else ("client",), places)


def service_refusals(cluster: Cluster, client: Mapping[str, str | None]) -> Iterator[Refusal]:
    """Logins that a service refuses at its own addresses. At other addresses a proxy may log in for its clients."""
    offer = SERVICES.get(guessed_service(cluster.bootstrap_servers), NO_SERVICE)
    protocol = client.get("security.protocol", "PLAINTEXT")
    setting = "sasl.mechanisms" if "sasl.mechanisms" in client else "sasl.mechanism"
    mechanism, user = client.get(setting), client.get("sasl.username")
    if offer.mechanisms and protocol is not None and protocol.lower() not in ("ssl", "sasl_ssl"):
        problem = f"security.protocol is {protocol}"
        why = f"{offer.title} answers over TLS only"
        yield Refusal("security.protocol", problem, why, "Set security.protocol to SASL_SSL")
    if offer.mechanisms and mechanism is not None and mechanism.upper() not in offer.mechanisms:
        why = f"{offer.title} takes {' and '.join(offer.mechanisms)}"
        yield Refusal(setting, f"{setting} is {mechanism}", why, f"Set {setting} to {' or '.join(offer.mechanisms)}")
    if offer.plain_user and (mechanism or "").upper() == "PLAIN" and user not in (None, offer.plain_user):
        why = f"{offer.title} takes {offer.plain_user}, with the connection string as sasl.password"
        yield Refusal("sasl.username", f"sasl.username is {user}", why, f"Set sasl.username to {offer.plain_user}")
    name = "sasl.oauthbearer.aws.region"
    region = client.get(name)
    regions = {match[1] for match in map(AWS_ADDRESS.search, cluster.bootstrap_servers) if match}
    if regions and region not in (None, *regions) and client.get("sasl.oauthbearer.method") == "aws_msk_iam":
        here = " and ".join(sorted(regions))
        problem = f"{name} is {region}, and the brokers are in {here}"
        yield Refusal(name, problem, "MSK refuses what was signed for another region", f"Set {name} to {here}")
    name = "sasl.oauthbearer.scope"
    scope = (client.get(name) or "").lower()
    hosts = sorted({server.rpartition(":")[0].lower() for server in cluster.bootstrap_servers})
    if (
        offer.audience
        and scope.endswith(offer.audience)
        and scope not in (f"https://{host}/.default" for host in hosts)
    ):
        problem = f"{name} is {client[name]}, and the brokers are {' and '.join(hosts)}"
        why = f"{offer.title} takes tokens for its own namespace"
        yield Refusal(name, problem, why, f"Set {name} to https://{hosts[0]}/.default")


def _refused(code: str, refusal: Refusal, cluster: Cluster, path: tuple[str, ...], places: Places) -> Problem:
    where = places.of(cluster, *path, refusal.setting)
    return Problem(code, where, f"cluster {cluster.name}: {refusal.what}", refusal.why, refusal.todo)
