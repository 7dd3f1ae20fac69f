"""Reads Kafka Connect's offsets topic of a MirrorMaker 2, and whether its workers still run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from reconciler.backends.clusters.groups import Side
from reconciler.backends.connections.errors import read_topic
from reconciler.errors import ClusterError
from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, BrokerError, MalformedResponseError
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.records.batches import CommittedFilter, CorruptBatchError, scan
from reconciler.kafka.records.records import key_and_value, records_of

Pair = tuple[bytes | None, bytes | None]

DECIDED_WITHIN_S = 5.0
"""So long the end of a transaction is waited for. A MirrorMaker 2 that runs ends each within moments."""

_GONE = frozenset({"Empty", "Dead"})


class OpenTransactionError(Exception):
    """Of a partition: its committed end, and its end."""


def looks_like_offsets(topic: str) -> bool:
    """Of a dedicated MirrorMaker 2, or of a Connect cluster."""
    return topic.startswith("mm2-offsets") or (topic.endswith("offsets") and "connect" in topic)


def read_records(side: Side, topic: str) -> Sequence[Pair]:
    """As ``records_in``. Raises ClusterError."""

    async def sound(cluster: ClusterClient) -> list[Pair]:
        try:
            return await records_in(cluster, topic)
        except OpenTransactionError as error:
            raise _undecided(side, error) from None
        except CorruptBatchError as error:
            raise MalformedResponseError(f"{topic}: {error}") from None
        except BrokerError as error:
            if error.code not in DENIED:
                raise
            raise _denied(side, topic) from None

    return side.ask(sound)


async def records_in(cluster: ClusterClient, topic: str) -> list[Pair]:
    """Committed keys and values of all partitions, each in its order, up to the end as it is now. Raises BrokerError,
    also when the topic is not there, ConnectionLostError, CorruptBatchError, and OpenTransactionError where a
    transaction stays undecided."""
    await logs.leaders(cluster, [topic])
    keys = [(topic, partition) for partition in cluster.topics[topic].leaders]
    begins, ends = await logs.begins(cluster, keys), await _decided(cluster, keys)
    at, entries = dict(begins), list[Pair]()
    async for answer in logs.read(cluster, begins, ends, committed=True):
        view, key = answer.records, (answer.topic, answer.partition)
        committed = CommittedFilter(view, answer.aborted)
        for batch in scan(view):
            if committed.delivers(batch):
                records = records_of(view, batch)
                entries += [key_and_value(record) for record in records if at[key] <= record.offset < ends[key]]
        at[key] = logs.next_offset(answer, at[key])
    return entries


async def _decided(cluster: ClusterClient, keys: Sequence[Key]) -> dict[Key, int]:
    """Ends for readers of committed records, once they include all that is written now. A transaction that counts as
    committed for its producer has its markers in the log a moment later; until then readers see the positions before.
    Raises OpenTransactionError."""
    written, until = await logs.ends(cluster, keys), time.monotonic() + DECIDED_WITHIN_S
    while True:
        ends = await logs.ends(cluster, keys, committed=True)
        open_ones = sorted(key for key in keys if ends[key] < written[key])
        if not open_ones:
            return ends
        if time.monotonic() > until:
            raise OpenTransactionError(open_ones[0], ends[open_ones[0]], written[open_ones[0]])
        await asyncio.sleep(0.05)


def _undecided(side: Side, error: OpenTransactionError) -> ClusterError:
    (topic, number), stable, end = error.args
    return ClusterError(
        side.name,
        "other",
        f"a transaction in {side.name}/{topic}-{number} is undecided: committed up to {stable} of {end}",
        "It may hold newer positions of MirrorMaker 2: those before it would have records copied twice.",
        "Stop MirrorMaker 2 cleanly and run this again. A killed one's transaction is aborted after transaction.timeout"
        " (60 s unless set); one that stays: kafka-transactions.sh find-hanging, then abort",
    )


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
    """The state of a group of Connect workers, such as Stable; None when it has no members. Raises ClusterError."""

    async def read(cluster: ClusterClient) -> str | None:
        listed_group = (await GroupClient(cluster).listed()).get(group)
        return None if listed_group is None or listed_group.state in _GONE else listed_group.state

    return side.ask(read)
