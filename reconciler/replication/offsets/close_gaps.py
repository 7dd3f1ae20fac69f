"""Closes gaps of the offset map by reading both sides and pairing equal records.

A pairing counts only if all its records are equal on both sides (timestamp, key, value, headers), so it is proved, not
guessed. Filtered records, records with added headers, and compacted ones stay unpaired.
"""

from dataclasses import dataclass
from typing import NamedTuple

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.records.records import Record
from reconciler.replication.offsets.map import CopiedRun, Gap, Stretch

MOST = 300_000
Found = tuple[int, int]  # offset, and a hash of all that makes the record


class NotPairedError(Exception):
    """Why the gap stays a gap, in words."""


@dataclass(frozen=True, slots=True)
class Log:
    """One partition of one cluster. ``committed``: without aborted records."""

    cluster: ClusterClient
    key: Key
    committed: bool = True


class LogBounds(NamedTuple):
    """``begin``: log start; ``end``: where records of the log's isolation end."""

    begin: int
    end: int


async def close_gap(gap: Gap, source: Log, target: Log, position: int | None) -> Stretch:
    """All that is known of the gap after reading it. ``position``: the flow's next source offset, None if not known.

    Raises NotPairedError, BrokerError, ConnectionLostError.
    """
    if gap.source is not None and gap.source_end is None and position is not None and position <= gap.source:
        raise NotPairedError(f"the mirror has not copied more than up to source offset {position} yet")
    # the target first, so that records copied meanwhile are left out
    low, there = await read_log(target, gap.target, gap.target_end)
    end = gap.source_end if gap.source_end is not None else position
    _, here = await read_log(source, gap.source, end)
    count = min(len(here), len(there))
    closed = gap.source is not None and gap.source_end is not None
    if gap.source is not None and end is not None and not there and (closed or not here):
        return Stretch(gap.source, max(end, gap.source), ())  # nothing to read there: markers, aborted, left out
    if gap.source is None and end is not None and not there and low == 0:
        return Stretch(0, end, ())  # only what was aborted lies before the map, and none of the target's log is gone
    if closed and len(here) != len(there):
        raise NotPairedError(f"the gap has {len(here)} records on the source and {len(there)} on the target")
    if not count:
        raise NotPairedError("the gap has no records on one side")
    backwards = gap.source is None
    some = slice(-count, None) if backwards else slice(count)
    pairs = list(zip(here[some], there[some], strict=True))
    if any(pair[1] != other[1] for pair, other in pairs):
        raise NotPairedError("records in the gap differ on both sides: filtered, changed or compacted since")
    runs: list[CopiedRun] = []
    for (at, _), (there_at, _) in pairs:
        if runs and (at, there_at) == (runs[-1].source_end, runs[-1].target_end):
            runs[-1] = runs[-1]._replace(records=runs[-1].records + 1)
        else:
            runs.append(CopiedRun(at, there_at, 1))
    after = here[count][0] if not backwards and count < len(here) else max(end or 0, runs[-1].source_end)
    # all that the target's log ever had has its counterpart: no source record before was copied
    whole = backwards and low == 0 and count == len(there)
    begin = 0 if whole else runs[0].source if backwards else gap.source or 0
    return Stretch(begin, after, tuple(runs))


async def bounds_of(log: Log) -> LogBounds:
    """Raises BrokerError, ConnectionLostError."""
    await logs.leaders(log.cluster, [log.key[0]])
    low = (await logs.begins(log.cluster, [log.key]))[log.key]
    return LogBounds(low, (await logs.ends(log.cluster, [log.key], committed=log.committed))[log.key])


def hash_of(record: Record) -> int:
    """Of all that a record and its copy have in common."""
    return hash((record.timestamp, bytes(record.tail)))


async def read_log(log: Log, begin: int | None, end: int | None) -> tuple[int, list[Found]]:
    """The log start, and records in [``begin``, ``end``); None: up to the log's bounds."""
    low, high = await bounds_of(log)
    begin = low if begin is None else begin
    end = high if end is None else min(end, high)
    if begin < low:
        raise NotPairedError(f"{log.key[0]}-{log.key[1]} on {log.cluster.name} begins at {low}, after the gap")
    entries: list[Found] = []
    async for answer in logs.read(log.cluster, {log.key: begin}, {log.key: end}, committed=log.committed):
        for record in logs.delivered(answer, begin, end, committed=log.committed):
            entries.append((record.offset, hash_of(record)))
        if len(entries) > MOST:
            raise NotPairedError(f"more than {MOST} records would have to be read on {log.cluster.name}")
    return low, entries
