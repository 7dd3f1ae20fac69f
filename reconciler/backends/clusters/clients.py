"""Active producers of partitions, as their leaders report them, and members of groups. Raises ClusterError."""

from collections.abc import Collection, Iterable, Mapping

from reconciler.backends.clusters.groups import Side
from reconciler.errors import ClusterError
from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import NO_LEADER, ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, BrokerError
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol import transactions
from reconciler.kafka.protocol.producers import describe_producers
from reconciler.kafka.protocol.producers.describe_producers import Producers
from reconciler.model.reports.cutover import MemberSeen


def producers_of(side: Side, keys: Collection[Key]) -> Mapping[Key, Producers] | None:
    """Active producers by partition (DescribeProducers, KIP-664); None if the brokers do not report them. Partitions
    without a leader, or without the right to read their producers, are left out."""

    async def read(cluster: ClusterClient) -> dict[Key, Producers] | None:
        await cluster.refresh({topic for topic, _ in keys})
        by_node = cluster.by_leader(keys)
        by_node.pop(NO_LEADER, None)
        by_partition: dict[Key, Producers] = {}
        for node, led in by_node.items():
            answer = await describe_producers.ask(await cluster.control(node), led)
            if answer is None:
                return None
            for key, value in answer.items():
                if isinstance(value, tuple):
                    by_partition[key] = value
                elif value not in DENIED:
                    raise BrokerError(value, f"producers of {key[0]}-{key[1]} on {cluster.name}")
        return by_partition

    return side.ask(read) if keys else {}


def transactional_ids(side: Side, producer_ids: Iterable[int]) -> Mapping[int, str]:
    """Producer id -> transactional id, as far as the principal may describe them."""
    wanted = sorted(set(producer_ids))

    async def read(cluster: ClusterClient) -> dict[int, str]:
        await cluster.refresh(())
        names: dict[int, str] = {}
        for node in cluster.brokers:
            names |= await transactions.listed(await cluster.control(node), wanted)
        return names

    return side.ask(read) if wanted else {}


def members_of(side: Side, groups: Collection[str]) -> Mapping[str, tuple[MemberSeen, ...]]:
    """Members of classic and consumer groups."""

    async def read(cluster: ClusterClient) -> dict[str, tuple[MemberSeen, ...]]:
        client = GroupClient(cluster)
        listed = (await client.listed()).values()
        described = await client.described(group for group in listed if group.group in groups)
        return {
            name: tuple(MemberSeen(*each) for each in sorted((each.client_id, each.host) for each in group.members))
            for name, group in described.items()
        }

    return side.ask(read) if groups else {}


def let_write(side: Side, topics: Mapping[str, int]) -> frozenset[Key]:
    """Partitions that the side's login may write now. Writes no record. ``topics``: name -> partition count."""
    keys = [(topic, number) for topic, count in topics.items() for number in range(count)]
    return side.ask(lambda cluster: small_topics.let_write(cluster, keys)) if keys else frozenset()


def abort(side: Side, transactional_id: str) -> None:
    """Fences the producer with the transactional id by InitProducerId, which aborts its open transaction."""

    async def fence(cluster: ClusterClient) -> None:
        await cluster.refresh(())
        await Identity(cluster, transactional_id, "").start()

    try:
        side.ask(fence)
    except ClusterError as error:
        why = f"The transaction of {transactional_id} stays open, so what it wrote is not decided."
        todo = f"Let the principal apply write the transactional id {transactional_id} on {side.name}, or end it there"
        raise ClusterError(side.name, error.kind, error.what, why, todo) from None
