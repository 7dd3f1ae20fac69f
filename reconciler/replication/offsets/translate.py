"""Translates offsets of a group along one flow, in either direction: by the offset map, and by counting gaps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import NO_ID, ClusterClient, Key
from reconciler.kafka.client.errors import UNSTABLE, BrokerError, ConnectionLostError
from reconciler.replication.offsets.close_gaps import Log, NotPairedError, close_gap
from reconciler.replication.offsets.map import Exactness, PartitionMap, Translation
from reconciler.replication.offsets.position_metadata import is_ours
from reconciler.replication.offsets.reader import MapReader

UNDECIDED_WITHIN = 2.0
"""Seconds in which a mirror that is not held up decides the transaction that carries its positions."""
ASKED_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class ClusterSides:
    """``source`` None: it does not answer; then gaps stay gaps. ``group``: holds the flow's positions on the target.
    ``committed``: the flow copies committed records only."""

    source: ClusterClient | None
    target: ClusterClient
    flow: str
    group: str
    committed: bool = True


async def translate(
    sides: ClusterSides, wanted: Mapping[Key, Iterable[int]], remote: Callable[[str], str], *, reverse: bool = False
) -> dict[tuple[Key, int], Translation]:
    """``wanted``: by *source* topic and partition, positions on the source, or on the target for ``reverse``.

    ``offset`` is None only when the other side's partition is not there, too. Raises BrokerError, ConnectionLostError
    of the target.
    """
    reader = MapReader(sides.target, sides.flow, frozenset(topic for topic, _ in wanted))
    await reader.refresh()
    translations: dict[tuple[Key, int], Translation] = {}
    for key, offsets in wanted.items():
        other = (remote(key[0]), key[1])
        ids = (await _id(sides.source, key[0]), await _id(sides.target, other[0]))
        ours = reader.partition(*key, ids)
        asked = sorted(set(offsets))
        all_translations = _all(ours, asked, reverse)
        if any(translation.gap is not None for translation in all_translations) and sides.source is not None:
            ours, why = await _closed(sides, (key, other), ours, all_translations)
            all_translations = [
                translation if translation.exact else replace(translation, reason=why or translation.reason)
                for translation in _all(ours, asked, reverse)
            ]
        if any(translation.offset is None for translation in all_translations):
            begin = await _begin(sides.source if reverse else sides.target, key if reverse else other)
            all_translations = [
                translation if translation.offset is not None else _from_start(translation, begin)
                for translation in all_translations
            ]
        translations.update(
            {(key, offset): translation for offset, translation in zip(asked, all_translations, strict=True)}
        )
    return translations


def _all(ours: PartitionMap, offsets: list[int], reverse: bool) -> list[Translation]:
    return [ours.upstream(offset) if reverse else ours.downstream(offset) for offset in offsets]


def _from_start(translation: Translation, begin: int | None) -> Translation:
    if begin is None:
        return translation
    return Translation(
        begin, Exactness.EARLIER, f"{translation.reason}; this is where the partition begins now", translation.gap
    )


async def _closed(
    sides: ClusterSides, keys: tuple[Key, Key], ours: PartitionMap, translations: list[Translation]
) -> tuple[PartitionMap, str]:
    """The map with its gaps closed as far as that can be proved, and why not further."""
    assert sides.source is not None
    position = await _position(sides, keys[1])
    here, there = Log(sides.source, keys[0], sides.committed), Log(sides.target, keys[1])
    stretches, why = list(ours.stretches), ""
    for gap in {translation.gap for translation in translations if translation.gap is not None}:
        try:
            stretches.append(await close_gap(gap, here, there, position))
        except NotPairedError as error:
            why = str(error)
        except (BrokerError, ConnectionLostError) as error:
            why = f"the gap could not be read: {error}"
    return PartitionMap(stretches), why


async def _position(sides: ClusterSides, key: Key) -> int | None:
    """The flow's next source offset. None when there is none, when another client committed it, or when it stays
    undecided (KIP-447): the mirror copies meanwhile, and what is proved without it is as true."""
    until = time.monotonic() + UNDECIDED_WITHIN
    while True:
        try:
            at = (await sides.target.positions(sides.group, [key]))[key]
        except BrokerError as error:
            if error.code != UNSTABLE:
                raise
            if time.monotonic() > until:
                return None
            await asyncio.sleep(ASKED_EVERY)
        else:
            return at.offset if at.offset >= 0 and is_ours(key, at.offset, at.metadata) else None


async def _id(cluster: ClusterClient | None, topic: str) -> UUID:
    if cluster is None:
        return NO_ID
    if topic not in cluster.topics:
        await cluster.refresh([topic])
    known = cluster.topics.get(topic)
    return known.topic_id if known is not None else NO_ID


async def _begin(cluster: ClusterClient | None, key: Key) -> int | None:
    if cluster is None:
        return None
    try:
        await logs.leaders(cluster, [key[0]])
        return (await logs.begins(cluster, [key]))[key]
    except (BrokerError, KeyError):
        return None
