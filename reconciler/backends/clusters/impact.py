"""Reads what dangerous changes put at stake, in one short visit to a cluster; and what kind of cluster it is.

Never raises: a part that cannot be read is named as not known, and the rest is told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from reconciler.edges.kafka.identity import client_settings
from reconciler.errors import ReconcilerError
from reconciler.stakes import Nature, Question, Reader, Stakes
from reconciler.topology import Cluster as ClusterWish
from reconciler.topology import Principal, TopicRef
from wire import acls, log_dirs
from wire.cluster import EARLIEST, LATEST, Cluster, Key
from wire.errors import BrokerError, WireError, name_of
from wire.group_members import Kind
from wire.groups import Groups
from wire.settings import connection_settings

WITHIN_SECONDS = 10.0
MOST_GROUPS = 2_000
DENIED = (29, 30, 31)
SECURITY_DISABLED = 54
NOBODYS = (5, "reconciler-probe")
"""A transactional id that nobody uses: asking for its rules tells whether there is an authorizer, and costs nothing."""
POSITIONS = "mirror."
"""Groups of this prefix hold positions of a mirror and read nothing."""

Questions = Sequence[Question]
Answer = TypeVar("Answer")
Told = tuple[Answer | None, str]


def read_stakes(wish: ClusterWish, principal: Principal, questions: Questions) -> Mapping[str, Stakes]:
    """By topic; each question has an answer."""
    try:
        return asyncio.run(_read(wish, principal, questions))
    except (ReconcilerError, WireError, OSError, TimeoutError, ValueError) as error:
        return {one.topic: Stakes(unknown=(_words("what is at stake", error),)) for one in questions}


def ask_stakes(
    pool: ThreadPoolExecutor, wishes: Mapping[str, ClusterWish], principal: Principal, asked: Mapping[str, Questions]
) -> Callable[[], dict[TopicRef, Stakes]]:
    """Begins to ask all clusters at once; what it returns waits for the answers."""
    answers = {name: pool.submit(read_stakes, wishes[name], principal, some) for name, some in asked.items()}
    return lambda: {TopicRef(name, topic): one for name, a in answers.items() for topic, one in a.result().items()}


def read_nature(wish: ClusterWish, principal: Principal) -> Nature:
    try:
        return asyncio.run(_nature(wish, principal))
    except (ReconcilerError, WireError, OSError, TimeoutError, ValueError):
        return Nature()


async def _nature(wish: ClusterWish, principal: Principal) -> Nature:
    cluster = Cluster(wish.name, wish.bootstrap_servers, connection_settings(client_settings(wish, principal)))
    try:
        connection = await asyncio.wait_for(cluster.control(), WITHIN_SECONDS)
        level = connection.features.get("metadata.version")
        try:
            await acls.described(connection, WITHIN_SECONDS, resource=NOBODYS)
            authorizer: bool | None = True
        except BrokerError as error:
            authorizer = {SECURITY_DISABLED: False, 31: True}.get(error.code)
        return Nature(level, authorizer)
    finally:
        cluster.close()


async def _read(wish: ClusterWish, principal: Principal, questions: Questions) -> dict[str, Stakes]:
    cluster = Cluster(wish.name, wish.bootstrap_servers, connection_settings(client_settings(wish, principal)))
    try:
        await asyncio.wait_for(cluster.refresh([one.topic for one in questions]), WITHIN_SECONDS)
        counts = {one.topic: one.partitions for one in questions}
        sizes, ends, begins, cuts, readers = await asyncio.gather(
            _told("its bytes", log_dirs.sizes(cluster, counts)),
            _told("its records", _offsets(cluster, counts, LATEST)),
            _told("its records", _offsets(cluster, counts, EARLIEST)),
            _told("how much expires", _cuts(cluster, questions)),
            _told("who reads it", _readers(cluster, frozenset(counts))),
        )
        return {one.topic: _stakes(one, sizes, (begins, ends, cuts), readers) for one in questions}
    finally:
        cluster.close()


def _stakes(
    one: Question,
    sizes: Told[dict[Key, int]],
    offsets: tuple[Told[dict[Key, int]], Told[dict[Key, int]], Told[dict[Key, int]]],
    readers: Told[dict[str, dict[str, _Group]]],
) -> Stakes:
    keys = [(one.topic, number) for number in range(one.partitions)]
    (begins, _), (ends, _), (cuts, _) = offsets
    records = expiring = None
    if begins is not None and ends is not None and all(key in begins and key in ends for key in keys):
        records = sum(ends[key] - begins[key] for key in keys)
        if cuts is not None and one.keep_ms is not None and all(key in cuts for key in keys):
            expiring = sum(max(0, (ends[key] if cuts[key] < 0 else cuts[key]) - begins[key]) for key in keys)
    mine = None
    if readers[0] is not None:
        mine = tuple(
            Reader(name, group.state, group.members, group.lag(one.topic, ends or {}))
            for name, group in sorted(readers[0].get(one.topic, {}).items())
        )
    asked = [sizes, offsets[0], offsets[1], readers, *([offsets[2]] if one.keep_ms is not None else [])]
    size = None if sizes[0] is None else sum(sizes[0].get(key, 0) for key in keys)
    return Stakes(size, records, expiring, mine, (), tuple(dict.fromkeys(why for _, why in asked if why)))


async def _told(what: str, asked: Awaitable[Answer]) -> Told[Answer]:
    try:
        return await asyncio.wait_for(asked, WITHIN_SECONDS), ""
    except (WireError, OSError, TimeoutError, ValueError) as error:
        return None, _words(what, error)


def _words(what: str, error: BaseException) -> str:
    match error:
        case BrokerError(code=code) if code in DENIED:
            return f"{what}: this principal may not ask ({name_of(code)})"
        case TimeoutError():
            return f"{what}: no answer within {WITHIN_SECONDS:.0f} s"
        case ReconcilerError():
            return f"{what}: {error.what}"
    return f"{what}: {error}"


async def _offsets(cluster: Cluster, counts: Mapping[str, int], at: int) -> dict[Key, int]:
    wanted = {(topic, number): at for topic, count in counts.items() for number in range(count)}
    found = await cluster.list_offsets(wanted, committed=False)
    return {key: one for key, one in found.items() if not isinstance(one, BrokerError)}


async def _cuts(cluster: Cluster, questions: Sequence[Question]) -> dict[Key, int]:
    """The first offset that stays, by partition; -1 where none does."""
    now = int(time.time() * 1000)
    wanted = {
        (one.topic, number): now - one.keep_ms
        for one in questions
        if one.keep_ms is not None
        for number in range(one.partitions)
    }
    found = await cluster.list_offsets(wanted, committed=False) if wanted else {}
    return {key: one for key, one in found.items() if not isinstance(one, BrokerError)}


class _Group:
    """One group with what it committed and who is in it."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.members = 0
        self.committed: dict[Key, int] = {}

    def lag(self, topic: str, ends: Mapping[Key, int]) -> int | None:
        mine = {key: offset for key, offset in self.committed.items() if key[0] == topic}
        if not mine or any(key not in ends for key in mine):
            return None
        return sum(max(0, ends[key] - offset) for key, offset in mine.items())


async def _readers(cluster: Cluster, topics: frozenset[str]) -> dict[str, dict[str, _Group]]:
    """Topic -> group; those that committed an offset of it, or have a member that is assigned a partition of it."""
    groups = Groups(cluster)
    listed = {
        name: one
        for name, one in (await groups.listed()).items()
        if one.kind in (Kind.CLASSIC, Kind.CONSUMER) and not name.startswith(POSITIONS)
    }
    if len(listed) > MOST_GROUPS:
        raise ValueError(f"{len(listed)} groups are too many to look at, {MOST_GROUPS} are the most")
    found = {name: _Group(one.state) for name, one in listed.items()}
    for name, offsets in (await groups.offsets(listed)).items():
        if not offsets.error:
            found[name].committed = {key: one.offset for key, one in offsets.offsets.items() if key[0] in topics}
    read: dict[str, dict[str, _Group]] = {}
    for name, told in (await groups.described(one for one in listed.values() if one.state != "Empty")).items():
        assigned = {key[0] for member in told.members for key in member.assigned}
        found[name].members = len(told.members)
        for topic in assigned & topics:
            read.setdefault(topic, {})[name] = found[name]
    for name, group in found.items():
        for topic, _ in group.committed:
            read.setdefault(topic, {})[name] = group
    return read
