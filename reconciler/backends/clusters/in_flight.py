"""Reads both logs of partitions that MirrorMaker 2 copied, to find what it had in flight when it was killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reconciler.backends.clusters.groups import Side, visited
from reconciler.errors import ClusterError
from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import UNKNOWN_TOPIC, BrokerError
from reconciler.replication.offsets.close_gaps import Log, NotPairedError, read_log
from reconciler.replication.offsets.in_flight import InFlight, pair

_AT_ONCE = 8
"""Partitions for which one pair of connections is opened, which has a limited time."""
WINDOWS = (1_000, 8_000, 64_000, 140_000)
"""How many offsets of the target's end are read: as many as it takes to see what lies before the position, too."""


def read_in_flight(
    sides: tuple[Side, Side], positions: Mapping[Key, int | None], remote: Callable[[str], str], *, committed: bool
) -> Mapping[Key, InFlight | str]:
    """``sides``: source and target. ``positions``: next source offsets, None where none was stored: then both logs are
    compared from their beginnings. ``committed``: the flow copies committed records only. Words where the logs could
    not be read."""
    known: dict[Key, InFlight | str] = {}
    for begin in range(0, len(positions), _AT_ONCE):
        keys = sorted(positions)[begin : begin + _AT_ONCE]

        async def ask(opened: Sequence[ClusterClient], keys: Sequence[Key] = keys) -> dict[Key, InFlight | str]:
            here, there = opened
            pairs = {key: (Log(here, key, committed), Log(there, (remote(key[0]), key[1]))) for key in keys}
            return {key: await _one(*both, positions[key]) for key, both in pairs.items()}

        try:
            known |= visited(sides, ask)
        except ClusterError as error:
            known |= dict.fromkeys(keys, error.what)
    return known


async def _one(source: Log, target: Log, stored: int | None) -> InFlight | str:
    try:
        return await _in_flight(source, target, stored)
    except NotPairedError as error:
        return InFlight(stored or 0, unknown=str(error))
    except BrokerError as error:
        return InFlight(stored or 0) if error.code == UNKNOWN_TOPIC else str(error)


async def _in_flight(source: Log, target: Log, stored: int | None) -> InFlight:
    """``stored``: the next source offset. Raises NotPairedError where the logs do not show it, BrokerError,
    ConnectionLostError."""
    low, end = await _bounds(target)
    lowest, highest = await _bounds(source)
    if stored is None and end and (low or end > WINDOWS[-1]):
        has = f"{target.cluster.name} begins at {low}" if low else f"{target.cluster.name} has {end:,} records"
        why = "what was copied before is not there to compare" if low else f"{WINDOWS[-1]:,} are compared at most"
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
        whole = last == highest or copied < len(behind)
        if whole and (first == low or _covers(before, there)):
            if entries and set(there).isdisjoint(record for _, record in entries):
                raise NotPairedError(f"{target.cluster.name} has no record around it as {source.cluster.name} has it")
            start = behind[copied - 1][0] + 1 if copied else position
            return InFlight(start, copied, again)
    raise NotPairedError(f"the last {WINDOWS[-1]:,} records on {target.cluster.name} are none from before the position")


def _covers(before: Sequence[int], there: Sequence[int]) -> bool:
    """Is the last record before the position in the older half of what was read? Then what was written behind it is
    whole, also where a copier was killed twice."""
    return bool(before) and before[-1] in there[: len(there) // 2]


async def _bounds(log: Log) -> tuple[int, int]:
    await logs.leaders(log.cluster, [log.key[0]])
    low = (await logs.begins(log.cluster, [log.key]))[log.key]
    return low, (await logs.ends(log.cluster, [log.key], committed=log.committed))[log.key]
