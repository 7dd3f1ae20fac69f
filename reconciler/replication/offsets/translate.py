"""Positions of one flow translated in either direction: by the offset map, and by counting where it has a gap."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from replication.offset_map import Exactness, PartitionMap, Translation
from translation.counting import Log, NotPairedError, close_gap
from translation.reading import MapReader
from wire import logs
from wire.cluster import NO_ID, Cluster, Key
from wire.errors import UNSTABLE, BrokerError, ConnectionLostError

UNDECIDED_WITHIN = 2.0
"""Seconds in which a mirror that is not held up decides the transaction that carries its positions."""
ASKED_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Sides:
    """``source`` None: it does not answer; then gaps stay gaps. ``group``: holds the flow's positions on the target.
    ``committed``: the flow copies committed records only."""

    source: Cluster | None
    target: Cluster
    flow: str
    group: str
    committed: bool = True


async def translate(
    sides: Sides, wanted: Mapping[Key, Iterable[int]], remote: Callable[[str], str], *, reverse: bool = False
) -> dict[tuple[Key, int], Translation]:
    """``wanted``: by *source* topic and partition, positions on the source, or on the target for ``reverse``.

    ``offset`` is None only when the other side's partition is not there, too. Raises BrokerError, ConnectionLostError
    of the target.
    """
    reader = MapReader(sides.target, sides.flow, frozenset(topic for topic, _ in wanted))
    await reader.refresh()
    found: dict[tuple[Key, int], Translation] = {}
    for key, offsets in wanted.items():
        other = (remote(key[0]), key[1])
        ours = reader.partition(*key, ids=await _ids(sides, key[0], other[0]))
        asked = sorted(set(offsets))
        told = _all(ours, asked, reverse)
        if any(one.gap is not None for one in told) and sides.source is not None:
            ours, why = await _closed(sides, (key, other), ours, told)
            told = [one if one.exact else replace(one, reason=why or one.reason) for one in _all(ours, asked, reverse)]
        if any(one.offset is None for one in told):
            begin = await _begin(sides.source if reverse else sides.target, key if reverse else other)
            told = [one if one.offset is not None else _from_start(one, begin) for one in told]
        found.update({(key, offset): one for offset, one in zip(asked, told, strict=True)})
    return found


def _all(ours: PartitionMap, offsets: list[int], reverse: bool) -> list[Translation]:
    return [ours.upstream(offset) if reverse else ours.downstream(offset) for offset in offsets]


def _from_start(one: Translation, begin: int | None) -> Translation:
    if begin is None:
        return one
    return Translation(begin, Exactness.EARLIER, f"{one.reason}; this is where the partition begins now", one.gap)


async def _closed(
    sides: Sides, keys: tuple[Key, Key], ours: PartitionMap, told: list[Translation]
) -> tuple[PartitionMap, str]:
    """The map with its gaps closed as far as that can be proved, and why not further."""
    assert sides.source is not None
    position = await _position(sides, keys[1])
    here, there = Log(sides.source, keys[0], sides.committed), Log(sides.target, keys[1])
    stretches, why = list(ours.stretches), ""
    for gap in {one.gap for one in told if one.gap is not None}:
        try:
            stretches.append(await close_gap(gap, here, there, position))
        except NotPairedError as error:
            why = str(error)
        except (BrokerError, ConnectionLostError) as error:
            why = f"the gap could not be read: {error}"
    return PartitionMap(stretches), why


async def _position(sides: Sides, key: Key) -> int | None:
    """The flow's next source offset. None when there is none, or when it stays undecided (KIP-447): the mirror copies
    meanwhile, and what is proved without it is as true."""
    until = time.monotonic() + UNDECIDED_WITHIN
    while True:
        try:
            found = (await sides.target.positions(sides.group, [key]))[key].offset
        except BrokerError as error:
            if error.code != UNSTABLE:
                raise
            if time.monotonic() > until:
                return None
            await asyncio.sleep(ASKED_EVERY)
        else:
            return found if found >= 0 else None


async def _ids(sides: Sides, topic: str, remote: str) -> tuple[UUID, UUID]:
    return await _id(sides.source, topic), await _id(sides.target, remote)


async def _id(cluster: Cluster | None, topic: str) -> UUID:
    if cluster is None:
        return NO_ID
    if topic not in cluster.topics:
        await cluster.refresh([topic])
    known = cluster.topics.get(topic)
    return known.topic_id if known is not None else NO_ID


async def _begin(cluster: Cluster | None, key: Key) -> int | None:
    if cluster is None:
        return None
    try:
        await logs.leaders(cluster, [key[0]])
        return (await logs.begins(cluster, [key]))[key]
    except (BrokerError, KeyError):
        return None
