"""``offsets translate`` on the clusters: committed offsets of groups, the offset map, and both logs where it has a gap.

As the principal ``mirror``, which may read groups, topics and the map on both sides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from reconciler.edges.kafka.errors import authentication, unreachable
from reconciler.edges.kafka.identity import client_settings, speaker_of
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.topology import Cluster as ClusterWish
from reconciler.topology import Flow, Isolation, Principal, Topology
from reconciler.translations import Key, Translated, TranslateWish, Translations
from replication.names import OFFSETS_TOPIC, position_group
from replication.policy import TopicSelector
from translation.translating import Sides, translate
from wire.cluster import Cluster
from wire.errors import (
    DENIED,
    UNKNOWN_TOPIC,
    AuthenticationFailedError,
    BrokerError,
    ConnectionLostError,
    SettingError,
    WireError,
)
from wire.groups import Groups
from wire.settings import connection_settings

CONNECT_WITHIN = 10.0
_Asked = dict[tuple[str, Key], tuple[int, ...]]


def translated(topology: Topology, wish: TranslateWish, selector: TopicSelector) -> Translations:
    """Raises ReconcilerError. A source that does not answer is told in the reasons of what is not exact."""
    flow = topology.flows[wish.flow]
    return asyncio.run(_translated(topology, flow, wish, selector))


async def _translated(topology: Topology, flow: Flow, wish: TranslateWish, selector: TopicSelector) -> Translations:
    opened: list[Cluster] = []
    try:
        source = await _open(topology.clusters[flow.source], opened, needed=bool(wish.groups) and not wish.reverse)
        target = await _open(topology.clusters[flow.target], opened, needed=True)
        assert target is not None
        near = target if wish.reverse else source
        asked, left_out = await _asked(near, flow, wish, selector)
        keys = {key: upstream for _, key in asked if (upstream := _upstream(key, selector, wish.reverse)) is not None}
        left_out += [f"{topic}-{p}: it is no remote topic of the flow" for topic, p in _strangers(asked, keys)]
        wanted: dict[Key, list[int]] = {}
        for (_, key), offsets in asked.items():
            if key in keys:
                wanted.setdefault(keys[key], []).extend(offsets)
        committed = flow.isolation is Isolation.READ_COMMITTED
        sides = Sides(source, target, flow.name, position_group(flow.name), committed)
        found = await translate(sides, wanted, selector.remote_name, reverse=wish.reverse)
    except BrokerError as error:
        raise _broken(flow, error) from None
    except WireError as error:
        raise ClusterError(flow.target, "unreachable", str(error)) from None
    finally:
        for cluster in opened:
            cluster.close()
    rows = [
        Translated(
            group,
            *key,
            offset,
            keys[key][0] if wish.reverse else selector.remote_name(key[0]),
            found[keys[key], offset],
        )
        for (group, key), offsets in sorted(asked.items())
        if key in keys
        for offset in offsets
    ]
    ends = (flow.target, flow.source) if wish.reverse else (flow.source, flow.target)
    return Translations(topology.environment, flow.name, *ends, tuple(rows), tuple(left_out))


def _strangers(asked: _Asked, keys: Mapping[Key, Key]) -> list[Key]:
    return sorted({key for _, key in asked if key not in keys})


def _upstream(key: Key, selector: TopicSelector, reverse: bool) -> Key | None:
    """The flow's source partition for a partition of the side asked from; None when it is none of the flow's."""
    if not reverse:
        return key
    upstream = selector.policy.upstream_topic(key[0])
    if upstream is None or selector.remote_name(upstream) != key[0]:
        return None
    return upstream, key[1]


async def _asked(
    near: Cluster | None, flow: Flow, wish: TranslateWish, selector: TopicSelector
) -> tuple[_Asked, list[str]]:
    if not wish.groups:
        return {("", key): offsets for key, offsets in (wish.given or {}).items()}, []
    assert near is not None
    found = await Groups(near).offsets(wish.groups)
    asked: _Asked = {}
    left_out: list[str] = []
    for group in wish.groups:
        committed = found[group].offsets if group in found else {}
        if not committed:
            left_out.append(f"group {group}: it has no committed offset on {near.name}")
        for key, one in sorted(committed.items()):
            why = None if wish.reverse else selector.why_not(key[0])
            if why is None and one.offset >= 0:
                asked[group, key] = (one.offset,)
            elif why is not None:
                left_out.append(f"group {group}, {key[0]}-{key[1]}: flow {flow.name} does not carry it ({why})")
    return asked, left_out


async def _open(wish: ClusterWish, opened: list[Cluster], *, needed: bool) -> Cluster | None:
    """Connected; None when it does not answer and is not needed."""
    try:
        cluster = Cluster(
            wish.name, wish.bootstrap_servers, connection_settings(client_settings(wish, Principal.MIRROR))
        )
        opened.append(cluster)
        async with asyncio.timeout(CONNECT_WITHIN):
            await cluster.refresh([])
    except (ConnectionLostError, TimeoutError) as error:
        if needed:
            why = str(error) or f"no answer within {CONNECT_WITHIN:.0f} s"
            raise unreachable(speaker_of(wish, Principal.MIRROR), (why,)) from None
        return None
    except (AuthenticationFailedError, SettingError) as error:
        raise authentication(speaker_of(wish, Principal.MIRROR), str(error)) from None
    return cluster


def _broken(flow: Flow, error: BrokerError) -> ReconcilerError:
    if error.code == UNKNOWN_TOPIC:
        return ReconcilerError(
            f"flow {flow.name} has no offset map: {flow.target} has no topic {OFFSETS_TOPIC}",
            "Without it positions cannot be translated.",
            "Run reconciler apply, which makes the topic, and let the mirror copy.",
        )
    if error.code in DENIED:
        todo = "Run reconciler doctor: it names what is missing."
        return ClusterError(flow.target, "denied", str(error), "Positions are translated as the mirror.", todo)
    return ClusterError(flow.target, "other", str(error))
