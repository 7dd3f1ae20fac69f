"""The consumer groups of a cluster: list them, describe them, read and commit their offsets, many in one request.

Each broker lists exactly the groups it coordinates, so a listing is also the map of coordinators.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from wire import group_members, group_offsets
from wire.cluster import GROUP, Cluster
from wire.connection import Connection
from wire.errors import COORDINATOR_MOVED, BrokerError, ConnectionLostError, check
from wire.group_members import DescribedGroup, Kind, ListedGroup
from wire.group_offsets import CommittedOffset, GroupOffsets, Key

AT_ONCE = 100
PATIENCE = 20.0
_PAUSE_FIRST, _PAUSE_LAST = 0.05, 1.0
_AGAIN = COORDINATOR_MOVED

Api = tuple[int, int, bool]
Asked = Callable[[Connection, Sequence[str]], Awaitable[dict[str, int]]]


class Groups:
    """Made inside a running loop. All methods raise ConnectionLostError, BrokerError, MalformedResponseError,
    UnsupportedBrokerError or AuthenticationFailedError for the whole call; what concerns one group is in its answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators: dict[str, int] = {}

    async def listed(self) -> dict[str, ListedGroup]:
        """Every group this principal may describe. A broker hides the others without a word."""
        until, pause = time.monotonic() + PATIENCE, _PAUSE_FIRST
        while True:
            try:
                await self._cluster.refresh(())
                parts = await asyncio.gather(*map(self._listed_by, self._cluster.brokers))
                break
            except (ConnectionLostError, BrokerError) as error:
                again = isinstance(error, ConnectionLostError) or error.code in _AGAIN
                if not again or time.monotonic() > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_LAST)
        found = {one.group: one for part in parts for one in part}
        self._coordinators = {name: one.coordinator for name, one in found.items()}
        return found

    async def described(self, groups: Iterable[ListedGroup]) -> dict[str, DescribedGroup]:
        """Members of classic and consumer groups; other kinds are left out."""
        found: dict[str, DescribedGroup] = {}
        wanted = {one.group: one.kind for one in groups if one.kind in (Kind.CLASSIC, Kind.CONSUMER)}

        async def ask(connection: Connection, names: Sequence[str]) -> dict[str, int]:
            answers = []
            for kind in (Kind.CLASSIC, Kind.CONSUMER):
                if mine := [name for name in names if wanted[name] is kind]:
                    answers += await _describe(connection, kind, mine)
            found.update((one.group, one) for one in answers)
            return {one.group: one.error for one in answers}

        await self._from_coordinators(wanted, ask)
        return found

    async def offsets(self, groups: Iterable[str], *, stable: bool = False) -> dict[str, GroupOffsets]:
        """All committed offsets of each group. ``stable``: partitions with an undecided transactional commit are named
        in ``unstable`` instead of being told with their last decided offset."""
        found: dict[str, GroupOffsets] = {}

        async def ask(connection: Connection, names: Sequence[str]) -> dict[str, int]:
            answers = await _fetch_offsets(connection, names, stable)
            found.update(answers)
            return {name: one.error for name, one in answers.items()}

        await self._from_coordinators(dict.fromkeys(groups), ask)
        return found

    async def commit(self, wanted: Mapping[str, Mapping[Key, CommittedOffset]]) -> dict[str, dict[Key, int]]:
        """Kafka's error code of each partition. 25 (UNKNOWN_MEMBER_ID): the group has active members, nothing was
        written, which the coordinator decides at that very moment."""
        found: dict[str, dict[Key, int]] = {}

        async def ask(connection: Connection, names: Sequence[str]) -> dict[str, int]:
            version = connection.negotiated(
                group_offsets.OFFSET_COMMIT, 8, group_offsets.COMMIT_VERSION, "OffsetCommit"
            )
            api = (group_offsets.OFFSET_COMMIT, version, True)
            with connection.gathered():
                asked = [connection.send(api, [group_offsets.pack_commit(name, wanted[name])]) for name in names]
            for name, future in zip(names, asked, strict=True):
                frame = await future
                try:
                    throttle, found[name] = group_offsets.unpack_commit(frame.body)
                finally:
                    frame.drop()
                connection.throttle(throttle)
            return {name: next((e for e in found[name].values() if e in _AGAIN), 0) for name in names}

        await self._from_coordinators({name: None for name, offsets in wanted.items() if offsets}, ask)
        return found

    async def _listed_by(self, node: int) -> list[ListedGroup]:
        connection = await self._cluster.control(node)
        lowest, newest = group_members.LIST_LOWEST, group_members.LIST_NEWEST
        version = connection.negotiated(group_members.LIST_GROUPS, lowest, newest, "ListGroups")
        body = await _call(connection, (group_members.LIST_GROUPS, version, True), group_members.pack_list(version))
        throttle, error, found = group_members.unpack_list(version, body, node)
        connection.throttle(throttle)
        check(error, f"groups of broker {node} of {self._cluster.name}")
        return found

    async def _from_coordinators(self, groups: Mapping[str, object], ask: Asked) -> None:
        """Asks each group's coordinator, ``AT_ONCE`` groups a request, until none says that it moved."""
        left, until, pause = list(groups), time.monotonic() + PATIENCE, _PAUSE_FIRST
        while left:
            lost: ConnectionLostError | None = None
            again: list[str] = []
            by_node: dict[int, list[str]] = {}
            for name in left:
                by_node.setdefault(await self._coordinator(name), []).append(name)
            for node, names in by_node.items():
                try:
                    errors = await self._ask_node(node, names, ask)
                except ConnectionLostError as error:
                    lost, errors = error, dict.fromkeys(names, min(_AGAIN))
                again += [name for name in names if errors.get(name, 0) in _AGAIN]
            if not again:
                return
            if time.monotonic() > until:
                if lost is not None:
                    raise lost
                return
            for name in again:
                self._coordinators.pop(name, None)
            left = again
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_LAST)

    async def _ask_node(self, node: int, names: Sequence[str], ask: Asked) -> dict[str, int]:
        connection = await self._cluster.control(node)
        errors: dict[str, int] = {}
        for first in range(0, len(names), AT_ONCE):
            errors |= await ask(connection, names[first : first + AT_ONCE])
        return errors

    async def _coordinator(self, group: str) -> int:
        """Asked once a group, and again after it moved."""
        node = self._coordinators.get(group)
        if node is None:
            until, pause = time.monotonic() + PATIENCE, _PAUSE_FIRST
            while True:
                try:
                    node = self._coordinators[group] = await self._cluster.coordinator(group, GROUP)
                    break
                except BrokerError as error:
                    if error.code not in _AGAIN or time.monotonic() > until:
                        raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, _PAUSE_LAST)
        return node


async def _call(connection: Connection, api: Api, body: bytes) -> memoryview:
    frame = await connection.send(api, [body])
    try:
        return memoryview(bytes(frame.body))
    finally:
        frame.drop()


async def _describe(connection: Connection, kind: Kind, names: Sequence[str]) -> list[DescribedGroup]:
    body = group_members.pack_describe(names)
    if kind is Kind.CLASSIC:
        key, version = group_members.DESCRIBE_GROUPS, group_members.DESCRIBE_VERSION
        version = connection.negotiated(key, version, version, "DescribeGroups")
        throttle, found = group_members.unpack_describe(await _call(connection, (key, version, True), body))
    else:
        key, version = group_members.CONSUMER_GROUP_DESCRIBE, group_members.CONSUMER_VERSION
        version = connection.negotiated(key, version, version, "ConsumerGroupDescribe")
        throttle, found = group_members.unpack_consumer_describe(await _call(connection, (key, version, True), body))
    connection.throttle(throttle)
    return found


async def _fetch_offsets(connection: Connection, names: Sequence[str], stable: bool) -> dict[str, GroupOffsets]:
    one, many = group_offsets.ONE_GROUP, group_offsets.MANY_GROUPS
    version = connection.negotiated(group_offsets.OFFSET_FETCH, one, many, "OffsetFetch")
    api = (group_offsets.OFFSET_FETCH, version, True)
    found: dict[str, GroupOffsets] = {}
    for part in [list(names)] if version == many else [[name] for name in names]:
        body = await _call(connection, api, group_offsets.pack_fetch(version, part, stable=stable))
        throttle, offsets = group_offsets.unpack_fetch(version, part, body)
        connection.throttle(throttle)
        found |= offsets
    return found
