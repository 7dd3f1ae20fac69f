"""Reads and writes consumer groups at a failover: committed offsets, log ends, the offset map, checkpoints.

The default principal is ``mirror``, which has the rights for groups on both sides, because sync needs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from reconciler.backends.connections.credentials import speaker_of
from reconciler.backends.connections.errors import Speaker, authentication, unreachable
from reconciler.backends.connections.own import Visits
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.kafka.client import errors
from reconciler.kafka.client.cluster import EARLIEST, LATEST, NO_ID, ClusterClient, CommittedPosition, printed_id
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol.groups.describe_groups import GroupKind
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.model.environment.flow_settings import Isolation
from reconciler.model.environment.topology import Cluster as DeclaredCluster
from reconciler.model.environment.topology import Flow, Principal
from reconciler.model.reports.failover import GroupState, Key
from reconciler.replication.groups import GroupSelector, unsupported
from reconciler.replication.mirrormaker_records import Checkpoint, checkpoints_topic
from reconciler.replication.names import is_own_topic, position_group
from reconciler.replication.offsets import map_topic
from reconciler.replication.offsets.checkpoints import CheckpointLog
from reconciler.replication.offsets.codec import Ids
from reconciler.replication.offsets.map import PartitionMap, Translation, beyond_log
from reconciler.replication.offsets.position_metadata import PositionMark, is_ours, mark_of
from reconciler.replication.offsets.same import as_committed
from reconciler.replication.offsets.translate import ClusterSides, translate

ANSWERS_WITHIN = 15.0
UNDECIDED_WITHIN = 10.0

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """Groups of one cluster that the selector includes. ``unsupported``: group -> why it cannot move."""

    states: Mapping[str, GroupState]
    offsets: Mapping[str, Mapping[Key, CommittedPosition]]
    unsupported: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """``stable``: last stable offset, ``end``: high watermark."""

    begin: int
    stable: int
    end: int


class Side:
    """One cluster of a flow, asked by short visits. Raises ClusterError."""

    def __init__(
        self,
        declared: DeclaredCluster,
        principal: Principal = Principal.MIRROR,
        *,
        share_starts: bool = False,
        visits: Visits | None = None,
    ) -> None:
        """``share_starts``: also read and set start offsets of share groups, if the cluster supports them. ``visits``:
        keeps connections open; without it each visit opens and closes its own."""
        self.name = declared.name
        self.principal = principal
        self.visits = visits
        self.place = declared, principal
        self._share_starts = share_starts

    @property
    def speaker(self) -> Speaker:
        return speaker_of(*self.place)

    def groups(self, selector: GroupSelector) -> GroupsSeen:
        """Groups with members and committed offsets. Waits for undecided transactional commits."""

        async def read(cluster: ClusterClient) -> GroupsSeen:
            groups = GroupClient(cluster)
            listed = {name: group for name, group in (await groups.listed()).items() if selector.why_not(name) is None}
            # Share groups (KIP-932) move if the caller asks for start offsets and the cluster supports them.
            share = frozenset(name for name, group in listed.items() if group.kind is GroupKind.SHARE)
            carried = share if share and self._share_starts and await groups.has_share_offsets() else frozenset()
            # Groups of other types cannot move, so nothing else is asked about them.
            refused: dict[str, str] = {}
            for name, group in listed.items():
                if why := unsupported(group.kind, name, "", (), share_starts=name in carried):
                    refused[name] = why.value
            mine = {name: group for name, group in listed.items() if name not in refused or name in carried}
            described = await groups.described(group for group in mine.values() if group.state not in ("Empty", "Dead"))
            offsets = await _offsets(groups, mine, carried)
            # Members and topics of a group may prevent its move, too.
            states: dict[str, GroupState] = {}
            for name, group in mine.items():
                assignor = described[name].assignor if name in described else ""
                topics = {topic for topic, _ in offsets.get(name, {})}
                if why := unsupported(group.kind, name, assignor, topics, share_starts=name in carried):
                    refused[name] = why.value
                members = len(described[name].members) if name in described else 0
                states[name] = GroupState(group.kind.value, group.state, members)
            return GroupsSeen(states, offsets, refused)

        return self.ask(read)

    def offsets(self, groups: Iterable[str]) -> Mapping[str, Mapping[Key, CommittedPosition]]:
        return self.ask(lambda cluster: _offsets(GroupClient(cluster), groups))

    def committed(self, group: str) -> Mapping[Key, CommittedPosition]:
        return self.offsets([group]).get(group, {})

    def commit(
        self, wanted: Mapping[str, Mapping[Key, CommittedPosition]], share: Collection[str] = ()
    ) -> Mapping[str, Mapping[Key, str]]:
        """Commits offsets. Group -> partition -> the refusal; accepted offsets are left out. ``share``: share groups,
        which get start offsets."""

        async def commit(cluster: ClusterClient) -> dict[str, dict[Key, str]]:
            offsets = {
                group: {
                    key: CommittedOffset(group_position.offset, metadata=group_position.metadata)
                    for key, group_position in members.items()
                }
                for group, members in wanted.items()
            }
            answers = await GroupClient(cluster).commit(offsets, share=share)
            return {group: {k: words_of(k, c) for k, c in codes.items() if c} for group, codes in answers.items()}

        return self.ask(commit)

    def partitions(self) -> Mapping[str, int]:
        """Topic -> partition count, of topics that this principal may describe."""

        async def read(cluster: ClusterClient) -> dict[str, int]:
            await cluster.refresh(None)
            return {name: len(topic.leaders) for name, topic in cluster.topics.items() if not topic.error}

        return self.ask(read)

    def topic_ids(self) -> Mapping[str, str]:
        """Topic -> topic id as Kafka prints it, of topics that this principal may describe; empty before topic ids
        (KIP-516)."""

        async def read(cluster: ClusterClient) -> dict[str, str]:
            await cluster.refresh(None)
            return {name: printed_id(topic.topic_id.bytes) for name, topic in cluster.topics.items() if not topic.error}

        return self.ask(read)

    def denied_topics(self, names: Sequence[str]) -> list[str]:
        """Topics that this principal may not describe, whether they exist or not."""

        async def read(cluster: ClusterClient) -> list[str]:
            await cluster.refresh(set(names))
            return [name for name in names if name in cluster.topics and cluster.topics[name].error in errors.DENIED]

        return self.ask(read) if names else []

    def is_denied_group(self, group: str) -> bool:
        """Whether this principal may not describe the group, whether it exists or not."""
        try:
            self.offsets([group])
        except ClusterError as error:
            if error.kind != "denied":
                raise
            return True
        return False

    def bounds(self, keys: Iterable[Key]) -> Mapping[Key, PartitionBounds]:
        """Bounds of partitions; missing partitions, and those without an answering leader, are left out."""

        async def read(cluster: ClusterClient) -> dict[Key, PartitionBounds]:
            wanted = set(keys)
            if not wanted:
                return {}
            await cluster.refresh({topic for topic, _ in wanted})
            begin = await cluster.list_offsets(dict.fromkeys(wanted, EARLIEST), committed=False)
            stable = await cluster.list_offsets(dict.fromkeys(wanted, LATEST), committed=True)
            end = await cluster.list_offsets(dict.fromkeys(wanted, LATEST), committed=False)
            bounds: dict[Key, PartitionBounds] = {}
            for key in wanted:
                numbers = [each for each in (begin[key], stable[key], end[key]) if isinstance(each, int)]
                if len(numbers) == 3:
                    bounds[key] = PartitionBounds(*numbers)
            return bounds

        return self.ask(read)

    def positions(self, flow: str) -> Mapping[Key, int]:
        """Positions of a flow to this cluster, by remote topic and partition. Positions that another client committed
        are left out: they do not show how far the partition is copied. So is the mark of a flow's owner."""

        committed = self.committed(position_group(flow))
        copies = {key: at for key, at in committed.items() if not is_own_topic(key[0])}
        return {key: at.offset for key, at in copies.items() if is_ours(key, at.offset, at.metadata)}

    def marks(self, flow: str) -> Mapping[Key, PositionMark]:
        """Metadata of the positions of a flow to this cluster: their writer and source topic."""
        committed = self.committed(position_group(flow))
        return {key: mark_of(key, at.offset, at.metadata) for key, at in committed.items()}

    def maps(self, flow: str, source: Side | None, remote: Callable[[str], str]) -> Mapping[Key, PartitionMap]:
        """The offset map of a flow to this cluster, by source partition, for the present topic ids; empty if there is
        none. ``source``: None if it does not answer."""

        async def read(target: ClusterClient, here: ClusterClient | None) -> dict[Key, PartitionMap]:
            reader = map_topic.MapReader(target, flow)
            await reader.refresh()
            await target.refresh({remote(topic) for topic in reader.topics})
            if here is not None:
                await here.refresh(reader.topics)

            def ids(topic: str) -> Ids | None:
                there = target.topics[remote(topic)]
                # A deleted or hidden topic has no id here. Without the id, a map cannot be assigned to a copy, so it is
                # not read.
                known = [there, *([here.topics[topic]] if here is not None else [])]
                if any(each.error and each.topic_id == NO_ID for each in known):
                    return None
                return NO_ID if here is None else here.topics[topic].topic_id, there.topic_id

            return dict(reader.partitions(ids))

        def asked(opened: Sequence[ClusterClient]) -> Awaitable[Mapping[Key, PartitionMap]]:
            here, nothing = opened[0] if source is not None else None, dict[Key, PartitionMap]()
            return _unless_missing(lambda target: read(target, here), nothing)(opened[-1])

        return visited((source, self) if source is not None else (self,), asked)

    def checkpoints(self, source: str, separator: str) -> Mapping[tuple[str, str, int], Checkpoint]:
        """The last checkpoints of the flow's groups; empty if the topic does not exist."""
        return self.ask(
            _unless_missing(lambda cluster: CheckpointLog(cluster, checkpoints_topic(source, separator)).read(), {})
        )

    def ask(self, ask: Callable[[ClusterClient], Awaitable[Answer]]) -> Answer:
        return visited((self,), lambda opened: ask(opened[0]))


def translations(
    sides: tuple[Side | None, Side],
    flow: Flow,
    wanted: Mapping[Key, Iterable[int]],
    remote: Callable[[str], str],
    *,
    reverse: bool,
    within_s: float = ANSWERS_WITHIN * 2,
) -> Mapping[tuple[Key, int], Translation]:
    """Translates by the offset map, and by counting records in its gaps. ``sides``: source, None if it does not answer,
    and target of the flow; ``wanted``: offsets on the source, or with ``reverse`` on the target, by *source* topic and
    partition. Raises ClusterError, and ReconcilerError without an offset map."""
    source, target = sides
    if not wanted:
        return {}
    if flow.keeps_offsets:
        return _as_they_are(sides, wanted, remote, reverse=reverse)

    async def ask(opened: Sequence[ClusterClient]) -> dict[tuple[Key, int], Translation]:
        here, committed = opened[0] if source is not None else None, flow.isolation is Isolation.READ_COMMITTED
        both = ClusterSides(here, opened[-1], flow.state_name, position_group(flow.state_name), committed)
        try:
            return await translate(both, wanted, remote, reverse=reverse)
        except errors.BrokerError as error:
            if error.code != errors.UNKNOWN_TOPIC:
                raise
            problem = f"flow {flow.name} has no offset map: {flow.target} has no topic {map_topic.name_on(opened[-1])}"
            why = "Without it positions cannot be translated."
            todo = "Run reconciler apply ENV, which makes the topic, and let the mirror copy."
            raise ReconcilerError(problem, why, todo) from None

    return visited((source, target) if source is not None else (target,), ask, within_s)


def _as_they_are(
    sides: tuple[Side | None, Side], wanted: Mapping[Key, Iterable[int]], remote: Callable[[str], str], *, reverse: bool
) -> dict[tuple[Key, int], Translation]:
    """Of a flow that keeps offsets: each offset translates to itself, within the other side's log. An unknown end of
    its own log limits none."""
    own, copies = {key: key for key in wanted}, {key: (remote(key[0]), key[1]) for key in wanted}
    here, there = (copies, own) if reverse else (own, copies)
    near, far = reversed(sides) if reverse else sides
    mine, others = near.bounds(here.values()) if near else {}, far.bounds(there.values()) if far else {}
    translations: dict[tuple[Key, int], Translation] = {}
    for key, at in ((key, at) for key, offsets in wanted.items() for at in offsets):
        its, other, beyond = mine.get(here[key]), others.get(there[key]), ""
        if near is not None and its is not None and at > its.end:
            beyond = beyond_log(at, here[key], near.name, its.end)
        translations[key, at] = as_committed(at, None if other is None else other.end, beyond)
    return translations


def visited(
    sides: Sequence[Side],
    ask: Callable[[Sequence[ClusterClient]], Awaitable[Answer]],
    within_s: float = ANSWERS_WITHIN * 2,
) -> Answer:
    """Asks several sides in one visit. An error that names no side counts for the last one, the flow's target."""
    kept = sides[0].visits
    visits = kept or Visits()

    # Every failure becomes a ClusterError of one side. A broker's refusal names the principals of all sides, because it
    # does not say which one it refused.
    side = sides[-1]
    try:
        return visits.ask([each.place for each in sides], ask, within_s)
    except (errors.ConnectionLostError, TimeoutError) as error:
        why = str(error) or f"no answer within {within_s:.0f} s"
        raise unreachable(side.speaker, (why,)) from None
    except errors.AuthenticationFailedError as error:
        raise authentication(side.speaker, str(error)) from None
    except errors.BrokerError as error:
        raise refused([each.speaker for each in sides], error) from None
    except (errors.SettingError, errors.WireError) as error:
        raise ClusterError(side.name, "other", f"{side.name}: {error}") from None
    finally:
        if kept is None:
            visits.close()


def _unless_missing(
    ask: Callable[[ClusterClient], Awaitable[Answer]], otherwise: Answer
) -> Callable[[ClusterClient], Awaitable[Answer]]:
    """The answer, or ``otherwise`` if the topic does not exist; other errors are raised."""

    async def asked(cluster: ClusterClient) -> Answer:
        try:
            return await ask(cluster)
        except errors.BrokerError as error:
            if error.code != errors.UNKNOWN_TOPIC:
                raise
            return otherwise

    return asked


async def _offsets(
    groups: GroupClient, names: Iterable[str], share: Collection[str] = ()
) -> dict[str, dict[Key, CommittedPosition]]:
    """Committed offsets; an offset that stays undecided is returned with its last decided value."""
    wanted = list(names)
    group_offsets = await groups.offsets(wanted, stable=True, share=share)
    until = asyncio.get_running_loop().time() + UNDECIDED_WITHIN
    while undecided := [name for name, group in group_offsets.items() if group.unstable]:
        # An open transaction may hold an offset back for minutes; a failover during an outage cannot wait for it.
        stable = asyncio.get_running_loop().time() < until
        group_offsets |= await groups.offsets(undecided, stable=stable)
        if not stable:
            break
        await asyncio.sleep(0.2)
    for name, group in group_offsets.items():
        if group.error:
            raise errors.BrokerError(group.error, f"offsets of group {name}")
    return {
        name: {key: CommittedPosition(at.offset, at.metadata) for key, at in group.offsets.items()}
        for name, group in group_offsets.items()
    }


_LACKING = {29: ("Read", "--topic '*'"), 30: ("Read", "--group '*'"), 31: ("Describe", "--cluster")}
"""Error code -> missing right, for the same resources as in the role ``mirror``."""


def refused(speakers: Sequence[Speaker], error: errors.BrokerError) -> ClusterError:
    """Adds principal and missing right to a broker's refusal, which names a group or topic and mostly its cluster.
    ``speakers``: of all asked sides; the last one counts if the refusal names no cluster."""
    speaker = next((each for each in speakers if f" on {each.cluster}:" in str(error)), speakers[-1])
    name = speaker.cluster
    if error.code not in _LACKING:
        return ClusterError(name, "other", f"{name}: {error}")
    operation, resource = _LACKING[error.code]
    return ClusterError(
        name,
        "denied",
        f"principal {speaker.principal} may not do this on cluster {name}: {error}",
        f"It lacks operation {operation} on {resource.removeprefix('--')}",
        speaker.allow(operation, resource),
    )


def words_of(key: Key, code: int) -> str:
    """Words for the cluster's refusal of a partition's offset."""
    lacks = {29: f": it lacks Read on topic {key[0]}", 30: ": it lacks Read on the group"}
    return f"{errors.name_of(code)}{lacks.get(code, '')}"
