"""Traces of a MirrorMaker 2: stored positions, running workers, and records that a killed one had in flight."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from reconciler.backends.clusters.groups import Side, visited
from reconciler.backends.connections.errors import read_topic
from reconciler.errors import ClusterError
from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, UNKNOWN_TOPIC, BrokerError, MalformedResponseError
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.records.batches import CorruptBatchError
from reconciler.kafka.records.records import key_and_value
from reconciler.replication.offsets.close_gaps import Log, NotPairedError, bounds_of, read_log
from reconciler.replication.offsets.in_flight import InFlight, pair

Pair = tuple[bytes | None, bytes | None]

DECIDED_WITHIN_S = 5.0
"""Seconds that a read waits for the end of a transaction. A running MirrorMaker 2 ends each within moments."""

_GONE = frozenset({"Empty", "Dead"})


class OpenTransactionError(ClusterError):
    """A transaction in the offsets topic stays undecided."""


def looks_like_offsets(topic: str) -> bool:
    """Whether the name is that of an offsets topic of a dedicated MirrorMaker 2 or of a Connect cluster."""
    return topic.startswith("mm2-offsets") or (topic.endswith("offsets") and "connect" in topic)


def read_records(side: Side, topic: str) -> Sequence[Pair]:
    """As ``records_in``. Raises ClusterError."""

    async def sound(cluster: ClusterClient) -> list[Pair]:
        """Raises ClusterError with the missing right, and MalformedResponseError for an unreadable record: a guessed
        position would copy records twice or not at all."""
        try:
            return await records_in(cluster, topic)
        except CorruptBatchError as error:
            raise MalformedResponseError(f"{topic}: {error}") from None
        except BrokerError as error:
            if error.code not in DENIED:
                raise
            asked = read_topic(topic)
            raise ClusterError(
                side.name,
                "denied",
                f"principal {side.principal} may not {asked.verb} on {side.name}",
                "The positions of MirrorMaker 2 are its records.",
                side.speaker.allow(asked.operation, asked.resource),
            ) from None

    return side.ask(sound)


async def records_in(cluster: ClusterClient, topic: str) -> list[Pair]:
    """Committed keys and values of all partitions, in log order, up to the present ends. Raises BrokerError, also if
    the topic does not exist, ConnectionLostError, CorruptBatchError, and OpenTransactionError."""
    await logs.leaders(cluster, [topic])
    keys = [(topic, partition) for partition in cluster.topics[topic].leaders]
    begins, ends = await logs.begins(cluster, keys), await _decided(cluster, keys)
    at, entries = dict(begins), list[Pair]()
    async for answer in logs.read(cluster, begins, ends, committed=True):
        key = answer.topic, answer.partition
        entries += map(key_and_value, logs.delivered(answer, at[key], ends[key], committed=True))
        at[key] = logs.next_offset(answer, at[key])
    return entries


async def _decided(cluster: ClusterClient, keys: Sequence[Key]) -> dict[Key, int]:
    """Last stable offsets, once they have reached the present log ends. Raises OpenTransactionError.

    A transaction that counts as committed for its producer has its markers in the log a moment later; until then
    readers see the positions before it.
    """
    written, until = await logs.ends(cluster, keys), time.monotonic() + DECIDED_WITHIN_S
    while True:
        ends = await logs.ends(cluster, keys, committed=True)
        undecided = sorted(key for key in keys if ends[key] < written[key])
        if not undecided:
            return ends
        if time.monotonic() > until:
            break
        await asyncio.sleep(0.05)
    # An undecided position may be the newest one; with the one before it, records would be copied twice.
    key = undecided[0]
    place = f"{cluster.name}/{key[0]}-{key[1]}"
    raise OpenTransactionError(
        cluster.name,
        "other",
        f"a transaction in {place} is undecided: committed up to {ends[key]} of {written[key]}",
        "It may hold newer positions of MirrorMaker 2: those before it would have records copied twice.",
        "Stop MirrorMaker 2 cleanly and run this again. A killed one's transaction is aborted after transaction.timeout"
        " (60 s unless set); one that stays: kafka-transactions.sh find-hanging, then abort",
    )


def workers(side: Side, group: str) -> str | None:
    """The state of a group of Connect workers, such as Stable; None if it has no members. Raises ClusterError."""

    async def read(cluster: ClusterClient) -> str | None:
        listed_group = (await GroupClient(cluster).listed()).get(group)
        return None if listed_group is None or listed_group.state in _GONE else listed_group.state

    return side.ask(read)


_AT_ONCE = 8
"""Partitions that share a pair of connections, which stays open for a limited time."""
WINDOWS = (1_000, 8_000, 64_000, 140_000)
"""Offsets to read at the target's end: each window is tried until it contains records from before the position."""


def read_in_flight(
    sides: tuple[Side, Side], positions: Mapping[Key, int | None], remote: Callable[[str], str], *, committed: bool
) -> Mapping[Key, InFlight | str]:
    """``sides``: source and target. ``positions``: next source offsets; None if none was stored, so that both logs are
    compared from their beginnings. ``committed``: the flow copies committed records only. Returns words for partitions
    with unreadable logs."""
    known: dict[Key, InFlight | str] = {}
    for begin in range(0, len(positions), _AT_ONCE):
        keys = sorted(positions)[begin : begin + _AT_ONCE]

        async def ask(opened: Sequence[ClusterClient], keys: Sequence[Key] = keys) -> dict[Key, InFlight | str]:
            here, there = opened
            answers: dict[Key, InFlight | str] = {}
            for key in keys:
                source, target = Log(here, key, committed), Log(there, (remote(key[0]), key[1]))
                stored = positions[key]
                try:
                    answers[key] = await _in_flight(source, target, stored)
                except NotPairedError as error:
                    answers[key] = InFlight(stored or 0, unknown=str(error))
                except BrokerError as error:
                    # Without its remote topic nothing was copied, so nothing was in flight either.
                    answers[key] = InFlight(stored or 0) if error.code == UNKNOWN_TOPIC else str(error)
            return answers

        try:
            known |= visited(sides, ask)
        except ClusterError as error:
            known |= dict.fromkeys(keys, error.what)
    return known


async def _in_flight(source: Log, target: Log, stored: int | None) -> InFlight:
    """``stored``: the next source offset. Raises NotPairedError if the logs do not prove the pairing, BrokerError,
    ConnectionLostError."""
    low, end = await bounds_of(target)
    lowest, highest = await bounds_of(source)
    if stored is None and end and (low or end > WINDOWS[-1]):
        has = f"{target.cluster.name} begins at {low}" if low else f"{target.cluster.name} has {end:,} records"
        why = "earlier copies no longer exist to compare" if low else f"{WINDOWS[-1]:,} are compared at most"
        raise NotPairedError(f"{has}, and {why}")
    position = lowest if stored is None else stored
    for window in WINDOWS:
        first = max(low, end - window)
        there = [record for _, record in (await read_log(target, first, end))[1]]
        if not there:
            return InFlight(position)
        last = min(highest, position + window)
        _, entries = await read_log(source, max(lowest, position - window), last)
        before = [record for offset, record in entries if offset < position]
        behind = [(offset, record) for offset, record in entries if offset >= position]
        copied, again = pair(before, [record for _, record in behind], there)
        # The window must contain every record that was copied after the position. It does if the source ends in it or
        # has uncopied records, and if the target begins in it or has the last record before the position in its older
        # half: so it holds for a MirrorMaker 2 that was killed twice, too.
        whole = last == highest or copied < len(behind)
        covers = first == low or (bool(before) and before[-1] in there[: len(there) // 2])
        if whole and covers:
            if entries and set(there).isdisjoint(record for _, record in entries):
                raise NotPairedError(f"{target.cluster.name} has no record around it as {source.cluster.name} has it")
            start = behind[copied - 1][0] + 1 if copied else position
            return InFlight(start, copied, again)
    raise NotPairedError(f"the last {WINDOWS[-1]:,} records on {target.cluster.name} are none from before the position")
