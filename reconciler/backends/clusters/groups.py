"""What a failover reads and writes on both clusters of a flow: groups, positions, ends, the offset map, checkpoints.

As the principal ``mirror``, where none is named: it has the rights for groups on both sides, as sync needs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from reconciler.edges.kafka.errors import Speaker, authentication, unreachable
from reconciler.edges.kafka.identity import client_settings, speaker_of
from reconciler.errors import ClusterError, ReconcilerError, Unknown
from reconciler.failovers import GroupState, Key
from reconciler.topology import Cluster as ClusterWish
from reconciler.topology import Principal
from replication.groups import GroupSelector, unsupported
from replication.mirrormaker import Checkpoint, checkpoints_topic
from replication.names import position_group
from replication.offset_map import PartitionMap, Translation
from translation.checkpoints import CheckpointLog
from translation.reading import MapReader
from translation.translating import Sides, translate
from wire.cluster import EARLIEST, LATEST, Cluster
from wire.errors import AuthenticationFailedError, BrokerError, ConnectionLostError, SettingError, WireError, name_of
from wire.group_offsets import CommittedOffset
from wire.groups import Groups
from wire.settings import connection_settings

ANSWERS_WITHIN = 15.0
UNDECIDED_WITHIN = 10.0
UNKNOWN_TOPIC = 3

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """Groups of one cluster that the filter lets through. ``unsupported``: group -> why it cannot be moved."""

    states: Mapping[str, GroupState]
    offsets: Mapping[str, Mapping[Key, Committed]]
    unsupported: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bounds:
    """``stable``: last stable offset, ``end``: high watermark."""

    begin: int
    stable: int
    end: int


class Side:
    """One cluster, asked in short visits: each opens its connections and closes them. Raises ClusterError."""

    def __init__(self, wish: ClusterWish, principal: Principal = Principal.MIRROR) -> None:
        self.name = wish.name
        self.principal = principal
        self._wish = wish

    @property
    def speaker(self) -> Speaker:
        return speaker_of(self._wish, self.principal)

    def groups(self, selector: GroupSelector) -> GroupsSeen:
        """With members and all committed offsets; transactional commits that are undecided are waited for."""
        return self.ask(lambda cluster: _groups(cluster, selector))

    def offsets(self, groups: Iterable[str]) -> Mapping[str, Mapping[Key, Committed]]:
        return self.ask(lambda cluster: _offsets(Groups(cluster), groups))

    def commit(self, wanted: Mapping[str, Mapping[Key, Committed]]) -> Mapping[str, Mapping[Key, str]]:
        """group -> partition -> why the cluster did not take its offset; those it took are left out."""

        async def commit(cluster: Cluster) -> dict[str, dict[Key, str]]:
            offsets = {
                group: {key: CommittedOffset(one.offset, metadata=one.metadata) for key, one in members.items()}
                for group, members in wanted.items()
            }
            answers = await Groups(cluster).commit(offsets)
            return {group: {k: name_of(c) for k, c in codes.items() if c} for group, codes in answers.items()}

        return self.ask(commit)

    def partitions(self) -> Mapping[str, int]:
        """Every topic this principal may see, and how many partitions it has."""

        async def read(cluster: Cluster) -> dict[str, int]:
            await cluster.refresh(None)
            return {name: len(topic.leaders) for name, topic in cluster.topics.items() if not topic.error}

        return self.ask(read)

    def bounds(self, keys: Iterable[Key]) -> Mapping[Key, Bounds]:
        """Those that do not exist, or whose leader does not answer, are left out."""
        return self.ask(lambda cluster: _bounds(cluster, set(keys)))

    def positions(self, flow: str) -> Mapping[Key, int]:
        """Positions of a flow whose target this is, by remote topic and partition."""

        async def read(cluster: Cluster) -> dict[Key, int]:
            found = await _offsets(Groups(cluster), [position_group(flow)])
            return {key: one.offset for key, one in found.get(position_group(flow), {}).items()}

        return self.ask(read)

    def maps(self, flow: str) -> Mapping[Key, PartitionMap]:
        """The offset map of a flow whose target this is, by source topic and partition; empty when there is none."""

        async def read(cluster: Cluster) -> Mapping[Key, PartitionMap]:
            reader = MapReader(cluster, flow)
            await reader.refresh()
            return reader.partitions()

        return self.ask(_unless_missing(read, {}))

    def checkpoints(self, source: str, separator: str) -> Mapping[tuple[str, str, int], Checkpoint]:
        """The last ones of the flow's groups; empty when there is no such topic."""
        return self.ask(
            _unless_missing(lambda cluster: CheckpointLog(cluster, checkpoints_topic(source, separator)).read(), {})
        )

    def answers(self) -> Unknown | None:
        """None when the cluster answers."""
        try:
            self.partitions()
        except ReconcilerError as error:
            return Unknown(f"cluster {self.name}", error.what, error.todo)
        return None

    def ask(self, ask: Callable[[Cluster], Awaitable[Answer]]) -> Answer:
        return _visited((self,), lambda opened: ask(opened[0]))

    def open(self) -> Cluster:
        """Inside a running loop. Raises SettingError, SecretError."""
        settings = connection_settings(client_settings(self._wish, self.principal))
        return Cluster(self.name, self._wish.bootstrap_servers, settings)


@dataclass(frozen=True, slots=True)
class Question:
    """Positions of a flow to translate, by *source* topic and partition; ``reverse``: they are positions on its target.

    ``committed``: the flow copies committed records only.
    """

    flow: str
    wanted: Mapping[Key, Iterable[int]]
    remote: Callable[[str], str]
    reverse: bool
    committed: bool


def translations(source: Side, target: Side, question: Question) -> Mapping[tuple[Key, int], Translation]:
    """By the offset map, and by counting where it has a gap. Raises ClusterError."""

    async def ask(opened: Sequence[Cluster]) -> dict[tuple[Key, int], Translation]:
        here, there = opened
        sides = Sides(here, there, question.flow, position_group(question.flow), question.committed)
        return await translate(sides, question.wanted, question.remote, reverse=question.reverse)

    return _visited((source, target), ask) if question.wanted else {}


def _visited(sides: Sequence[Side], ask: Callable[[Sequence[Cluster]], Awaitable[Answer]]) -> Answer:
    """Connections opened, asked and closed. The error names the last side, which is the flow's target."""

    async def visit() -> Answer:
        opened: list[Cluster] = []
        try:
            opened += [side.open() for side in sides]
            async with asyncio.timeout(ANSWERS_WITHIN * 2):
                return await ask(opened)
        finally:
            for cluster in opened:
                cluster.close()

    side = sides[-1]
    try:
        return asyncio.run(visit())
    except (ConnectionLostError, TimeoutError) as error:
        why = str(error) or f"no answer within {ANSWERS_WITHIN * 2:.0f} s"
        raise unreachable(side.speaker, (why,)) from None
    except AuthenticationFailedError as error:
        raise authentication(side.speaker, str(error)) from None
    except (SettingError, WireError) as error:
        raise ClusterError(side.name, "other", f"{side.name}: {error}") from None


def _unless_missing(
    ask: Callable[[Cluster], Awaitable[Answer]], otherwise: Answer
) -> Callable[[Cluster], Awaitable[Answer]]:
    async def asked(cluster: Cluster) -> Answer:
        try:
            return await ask(cluster)
        except BrokerError as error:
            if error.code != UNKNOWN_TOPIC:
                raise
            return otherwise

    return asked


async def _groups(cluster: Cluster, selector: GroupSelector) -> GroupsSeen:
    groups = Groups(cluster)
    listed = {name: one for name, one in (await groups.listed()).items() if selector.why_not(name) is None}
    kinds = {name: found for name, one in listed.items() if (found := unsupported(one.kind, name, "", ()))}
    mine = {name: one for name, one in listed.items() if name not in kinds}
    described = await groups.described(one for one in mine.values() if one.state not in ("Empty", "Dead"))
    offsets = await _offsets(groups, mine)
    told = {name: why.value for name, why in kinds.items()}
    for name, one in mine.items():
        assignor = described[name].assignor if name in described else ""
        if why := unsupported(one.kind, name, assignor, {topic for topic, _ in offsets.get(name, {})}):
            told[name] = why.value
    states = {
        name: GroupState(one.kind.value, one.state, len(described[name].members) if name in described else 0)
        for name, one in mine.items()
    }
    return GroupsSeen(states, offsets, told)


async def _offsets(groups: Groups, names: Iterable[str]) -> dict[str, dict[Key, Committed]]:
    """Decided offsets; an undecided one that stays so is told with its last decided value."""
    wanted = list(names)
    found = await groups.offsets(wanted, stable=True)
    until = asyncio.get_running_loop().time() + UNDECIDED_WITHIN
    while undecided := [name for name, one in found.items() if one.unstable]:
        stable = asyncio.get_running_loop().time() < until
        found |= await groups.offsets(undecided, stable=stable)
        if not stable:
            break
        await asyncio.sleep(0.2)
    for name, one in found.items():
        if one.error:
            raise BrokerError(one.error, f"offsets of group {name}")
    return {
        name: {key: Committed(at.offset, at.metadata) for key, at in one.offsets.items()} for name, one in found.items()
    }


async def _bounds(cluster: Cluster, keys: set[Key]) -> dict[Key, Bounds]:
    if not keys:
        return {}
    await cluster.refresh({topic for topic, _ in keys})
    begin = await cluster.list_offsets(dict.fromkeys(keys, EARLIEST), committed=False)
    stable = await cluster.list_offsets(dict.fromkeys(keys, LATEST), committed=True)
    end = await cluster.list_offsets(dict.fromkeys(keys, LATEST), committed=False)
    found: dict[Key, Bounds] = {}
    for key in keys:
        three = (begin[key], stable[key], end[key])
        numbers = [number for number in three if isinstance(number, int)]
        if len(numbers) == 3:
            found[key] = Bounds(*numbers)
    return found
