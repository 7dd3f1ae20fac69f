"""Consumer groups of a cluster: list, describe, read and commit offsets, many in one request.

Each broker lists exactly the groups it coordinates, so a listing is also the map of coordinators.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from reconciler.kafka.client.cluster import GROUP, ClusterClient
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import (
    COORDINATOR_MOVED,
    LEFT_OUT,
    BrokerError,
    ConnectionLostError,
    MalformedResponseError,
    WireError,
    check,
)
from reconciler.kafka.client.frames import Frame
from reconciler.kafka.protocol.groups import describe_groups as group_members
from reconciler.kafka.protocol.groups import group_offsets
from reconciler.kafka.protocol.groups.describe_groups import DescribedGroup, GroupKind, ListedGroup
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset, GroupOffsets, Key

AT_ONCE = 100
"""Groups of a request."""
COORDINATOR_WITHIN = 20.0
"""Seconds that a coordinator may take to move and to read its log."""
_PAUSE_FIRST, _PAUSE_LAST = 0.05, 1.0
_AGAIN = COORDINATOR_MOVED

T = TypeVar("T")
Asked = Callable[[Connection, Sequence[str]], Awaitable[dict[str, int]]]
"""Sends one request about groups to their coordinator; returns Kafka's error code of each group, 0 for none."""


class GroupClient:
    """Made inside a running loop. All methods raise ConnectionLostError, BrokerError, MalformedResponseError,
    UnsupportedBrokerError or AuthenticationFailedError for the whole call; what concerns one group is in its answer."""

    def __init__(self, cluster: ClusterClient) -> None:
        self.cluster = cluster
        self._coordinators: dict[str, int] = {}
        """Broker by group. ``listed`` replaces it; an answer that the coordinator has moved removes its group."""

    async def listed(self) -> dict[str, ListedGroup]:
        """Every group this principal may describe. A broker hides the others silently."""

        async def listed_by(node: int) -> list[ListedGroup]:
            """The groups that this broker coordinates (ListGroups names no others, so every broker is asked)."""
            connection = await self.cluster.control(node)
            lowest, newest = group_members.LIST_LOWEST, group_members.LIST_NEWEST
            version = connection.negotiated(group_members.LIST_GROUPS, lowest, newest, "ListGroups")
            body, read = group_members.pack_list(version), partial(group_members.unpack_list, version, node=node)
            error, groups = await connection.ask((group_members.LIST_GROUPS, version, True), body, read)
            check(error, f"groups of broker {node} of {self.cluster.name}")
            return groups

        async def ask() -> list[list[ListedGroup]]:
            await self.cluster.refresh(())
            return await asyncio.gather(*map(listed_by, self.cluster.brokers))

        # Asked again as a whole: the broker that was lost may have handed its groups to one that has answered already.
        parts = await _patiently(ask, ConnectionLostError)
        groups = {group.group: group for part in parts for group in part}
        self._coordinators = {name: group.coordinator for name, group in groups.items()}
        return groups

    async def described(self, groups: Iterable[ListedGroup]) -> dict[str, DescribedGroup]:
        """Members of classic and consumer groups; other types are left out."""
        described_groups: dict[str, DescribedGroup] = {}
        wanted = {group.group: group.kind for group in groups if group.kind in (GroupKind.CLASSIC, GroupKind.CONSUMER)}

        async def ask(connection: Connection, names: Sequence[str]) -> dict[str, int]:
            # Each protocol has a request of its own, which describes only its own groups (KIP-848).
            classic = [name for name in names if wanted[name] is GroupKind.CLASSIC]
            answers: list[DescribedGroup] = []
            if classic:
                key, version = group_members.DESCRIBE_GROUPS, group_members.DESCRIBE_VERSION
                connection.negotiated(key, version, version, "DescribeGroups")
                body, read = group_members.pack_describe(classic), group_members.unpack_describe
                answers += await connection.ask((key, version, True), body, read)
            if consumer := [name for name in names if wanted[name] is GroupKind.CONSUMER]:
                key, version = group_members.CONSUMER_GROUP_DESCRIBE, group_members.CONSUMER_VERSION
                connection.negotiated(key, version, version, "ConsumerGroupDescribe")
                body, read = group_members.pack_describe(consumer), group_members.unpack_consumer_describe
                answers += await connection.ask((key, version, True), body, read)
            described_groups.update((group.group, group) for group in answers)
            return {group.group: group.error for group in answers}

        await self._from_coordinators(wanted, ask)
        return described_groups

    async def has_share_offsets(self) -> bool:
        """Whether start offsets of share groups can be read and set on this cluster (KIP-932)."""
        connection = await self.cluster.control()
        keys = (group_offsets.DESCRIBE_SHARE_OFFSETS, group_offsets.ALTER_SHARE_OFFSETS)
        served = all(connection.versions.get(key, (1, 0))[0] == group_offsets.VERSION for key in keys)
        return served and connection.features.get(group_offsets.FEATURE, 0) >= 1

    async def offsets(
        self, groups: Iterable[str], *, stable: bool = False, share: Collection[str] = ()
    ) -> dict[str, GroupOffsets]:
        """All committed offsets of each group; for ``share`` groups their start offsets. ``stable``: list partitions
        with an undecided transactional commit in ``unstable`` (KIP-447), instead of their last decided offset."""
        offsets: dict[str, GroupOffsets] = {}

        async def ask(connection: Connection, names: Sequence[str]) -> dict[str, int]:
            answers: dict[str, GroupOffsets] = {}
            if others := [name for name in names if name not in share]:
                # Brokers before 3.0 take one group a request.
                key, one, many = group_offsets.OFFSET_FETCH, group_offsets.ONE_GROUP, group_offsets.MANY_GROUPS
                version = connection.negotiated(key, one, many, "OffsetFetch")
                for part in [others] if version == many else [[name] for name in others]:
                    body = group_offsets.pack_fetch(version, part, stable=stable)
                    read = partial(group_offsets.unpack_fetch, version, part)
                    answers |= await connection.ask((key, version, True), body, read)
            if shared := [name for name in names if name in share]:
                key, version = group_offsets.DESCRIBE_SHARE_OFFSETS, group_offsets.VERSION
                connection.negotiated(key, version, version, "DescribeShareGroupOffsets")
                body = group_offsets.pack_describe(shared)
                answers |= await connection.ask((key, version, True), body, group_offsets.unpack_describe)
            offsets.update(answers)
            return {name: group.error for name, group in answers.items()}

        await self._from_coordinators(dict.fromkeys(groups), ask)
        return offsets

    async def decided(self, group: str, within: float) -> dict[Key, CommittedOffset | None]:
        """Committed offsets of a group that commits in transactions. An undecided one is waited for; None: for longer
        than ``within`` seconds. Raises BrokerError."""
        decided: dict[Key, CommittedOffset | None] = {}
        until = time.monotonic() + within
        while True:
            answer = (await self.offsets([group], stable=True))[group]
            check(answer.error, f"positions of group {group} on {self.cluster.name}")
            # An offset that an earlier turn found decided stays: the group may have begun another transaction since.
            decided = {**answer.offsets, **{key: offset for key, offset in decided.items() if offset is not None}}
            waiting = [key for key in answer.unstable if key not in decided]
            if not waiting or time.monotonic() > until:
                return decided | dict.fromkeys(waiting)
            await asyncio.sleep(0.05)

    async def commit(
        self, wanted: Mapping[str, Mapping[Key, CommittedOffset]], *, share: Collection[str] = ()
    ) -> dict[str, dict[Key, int]]:
        """Commits offsets; returns the error code of each partition. 25 (UNKNOWN_MEMBER_ID), or 68 (NON_EMPTY_GROUP)
        for start offsets of ``share`` groups: the group has members, and the coordinator has written nothing. It
        decides at the moment of the write, so no member can join unnoticed."""
        by_name: dict[str, dict[Key, int]] = {}

        async def ask(connection: Connection, names: Sequence[str]) -> dict[str, int]:
            # All groups of a coordinator at once: one after the other, each would wait a round trip.
            asked: list[asyncio.Future[Frame]] = []
            with connection.gathered():
                for name in names:
                    if name in share:
                        key, version = group_offsets.ALTER_SHARE_OFFSETS, group_offsets.VERSION
                        connection.negotiated(key, version, version, "AlterShareGroupOffsets")
                        body = group_offsets.pack_alter(name, wanted[name])
                    else:
                        key, newest = group_offsets.OFFSET_COMMIT, group_offsets.COMMIT_VERSION
                        version = connection.negotiated(key, 8, newest, "OffsetCommit")
                        body = group_offsets.pack_commit(name, wanted[name])
                    asked.append(connection.send((key, version, True), [body]))
            for name, future in zip(names, asked, strict=True):
                frame = await future
                try:
                    if name in share:
                        throttle, by_name[name] = group_offsets.unpack_alter(frame.body, wanted[name])
                    else:
                        throttle, errors = group_offsets.unpack_commit(frame.body)
                        by_name[name] = {key: errors.get(key, LEFT_OUT) for key in wanted[name]}
                finally:
                    frame.drop()
                connection.throttle(throttle)
            return {name: next((e for e in by_name[name].values() if e in _AGAIN), 0) for name in names}

        await self._from_coordinators({name: None for name, offsets in wanted.items() if offsets}, ask)
        return by_name

    async def _from_coordinators(self, groups: Mapping[str, object], ask: Asked) -> None:
        """Asks each group's coordinator, ``AT_ONCE`` groups a request, until none says that it moved."""
        waiting, until, pause = list(groups), time.monotonic() + COORDINATOR_WITHIN, _PAUSE_FIRST
        while waiting:
            lost: ConnectionLostError | None = None
            again: list[str] = []
            by_node: dict[int, list[str]] = {}
            for name in waiting:
                # Looked up once for each group, and again after a move.
                node = self._coordinators.get(name)
                if node is None:
                    node = await _patiently(partial(self.cluster.coordinator, name, GROUP))
                    self._coordinators[name] = node
                by_node.setdefault(node, []).append(name)
            for node, names in by_node.items():
                errors: dict[str, int] = {}
                try:
                    connection = await self.cluster.control(node)
                    for batch in range(0, len(names), AT_ONCE):
                        errors |= await ask(connection, names[batch : batch + AT_ONCE])
                except ConnectionLostError as error:
                    # As if it had moved: its groups are looked up again, and get another coordinator if it is down.
                    lost, errors = error, dict.fromkeys(names, min(_AGAIN))
                if left_out := [name for name in names if name not in errors]:
                    raise MalformedResponseError(
                        f"broker {node} of {self.cluster.name} left group {left_out[0]} out of its answer"
                    )
                again += [name for name in names if errors[name] in _AGAIN]
            if not again:
                return
            # The last answer of each group stays in what ``ask`` has gathered, with its error; only silence raises.
            if time.monotonic() > until:
                if lost is not None:
                    raise lost
                return
            for name in again:
                self._coordinators.pop(name, None)
            waiting = again
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_LAST)


async def _patiently(ask: Callable[[], Awaitable[T]], *passing: type[WireError]) -> T:
    """Asks again, for ``COORDINATOR_WITHIN`` seconds, while a coordinator moves, or after an error of ``passing``."""
    until, pause = time.monotonic() + COORDINATOR_WITHIN, _PAUSE_FIRST
    while True:
        try:
            return await ask()
        except (ConnectionLostError, BrokerError) as error:
            again = isinstance(error, passing) or (isinstance(error, BrokerError) and error.code in _AGAIN)
            if not again or time.monotonic() > until:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, _PAUSE_LAST)
