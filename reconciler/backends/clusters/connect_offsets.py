"""Kafka Connect's side of a MirrorMaker 2: the topic that keeps its positions, and whether its workers are there.

Border: gives records and names; what they mean is ``inheriting``.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.edges.kafka.errors import read_topic
from reconciler.edges.moving import Side
from reconciler.errors import ClusterError
from wire import logs
from wire.batches import CommittedFilter, CorruptBatchError, scan
from wire.cluster import Cluster
from wire.errors import DENIED, BrokerError, MalformedResponseError
from wire.groups import Groups
from wire.records import key_and_value, records_of

Pair = tuple[bytes | None, bytes | None]

_GONE = frozenset({"Empty", "Dead"})


def read_records(side: Side, topic: str) -> Sequence[Pair]:
    """Committed keys and values of all partitions, each in its order, up to the end as it is now. Raises ClusterError,
    also when the topic is not there."""

    async def read(cluster: Cluster) -> list[Pair]:
        await logs.leaders(cluster, [topic])
        keys = [(topic, partition) for partition in cluster.topics[topic].leaders]
        begins, ends = await logs.begins(cluster, keys), await logs.ends(cluster, keys, committed=True)
        at, found = dict(begins), list[Pair]()
        async for answer in logs.read(cluster, begins, ends, committed=True):
            view, key = answer.records, (answer.topic, answer.partition)
            committed = CommittedFilter(view, answer.aborted)
            for batch in scan(view):
                if committed.delivers(batch):
                    records = records_of(view, batch)
                    found += [key_and_value(one) for one in records if at[key] <= one.offset < ends[key]]
            at[key] = logs.next_offset(answer, at[key])
        return found

    async def sound(cluster: Cluster) -> list[Pair]:
        try:
            return await read(cluster)
        except CorruptBatchError as error:
            raise MalformedResponseError(f"{topic}: {error}") from None
        except BrokerError as error:
            if error.code not in DENIED:
                raise
            raise _denied(side, topic) from None

    return side.ask(sound)


def _denied(side: Side, topic: str) -> ClusterError:
    asked = read_topic(topic)
    return ClusterError(
        side.name,
        "denied",
        f"principal {side.principal} may not {asked.verb} on {side.name}",
        "The positions of MirrorMaker 2 are its records.",
        f"Grant it, or have it granted: {side.speaker.acl_command(asked.operation, asked.resource)}",
    )


def workers(side: Side, group: str) -> str | None:
    """The state of a group of Connect workers, such as Stable; None when nobody is in it. Raises ClusterError."""

    async def read(cluster: Cluster) -> str | None:
        found = (await Groups(cluster).listed()).get(group)
        return None if found is None or found.state in _GONE else found.state

    return side.ask(read)
