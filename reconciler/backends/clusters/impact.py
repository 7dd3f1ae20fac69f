"""Reads the impact of dangerous changes from a cluster: bytes, records, readers; and the cluster's features.

Nothing here raises: an unreadable part is unknown, and the rest is reported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from reconciler.backends.connections.errors import SECURITY_DISABLED
from reconciler.backends.connections.own import FAILURES, WITHIN_SECONDS, or_why, reason_of, visited
from reconciler.kafka.client.cluster import EARLIEST, LATEST, ClusterClient, Key
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol import acls, log_dirs
from reconciler.kafka.protocol.groups.describe_groups import GroupKind
from reconciler.model.environment.topology import Cluster as DeclaredCluster
from reconciler.model.environment.topology import Principal, TopicRef
from reconciler.model.plan import ClusterFeatures, ImpactQuery, ReadingGroup, Stakes
from reconciler.replication.groups import POSITIONS
from reconciler.text import grouped

MOST_GROUPS = 2_000
UNUSED_ID = (5, "reconciler-probe")
"""An unused transactional id: DescribeAcls for it shows cheaply whether the cluster has an authorizer."""
IN_REMOTE_STORAGE = "its bytes: brokers do not say how much of it lies in remote storage (remote.storage.enable)"

Questions = Sequence[ImpactQuery]
Offsets = dict[Key, int]


def ask_stakes(
    pool: ThreadPoolExecutor,
    declared_clusters: Mapping[str, DeclaredCluster],
    principal: Principal,
    asked: Mapping[TopicRef, ImpactQuery],
) -> Callable[[], dict[TopicRef, Stakes]]:
    """Begins to ask all clusters at once; what it returns waits for the answers."""
    by_cluster = grouped((ref.cluster, query) for ref, query in asked.items())
    answers = {
        name: pool.submit(read_stakes, declared_clusters[name], principal, some) for name, some in by_cluster.items()
    }
    return lambda: {
        TopicRef(name, topic): impact for name, a in answers.items() for topic, impact in a.result().items()
    }


def read_stakes(declared: DeclaredCluster, principal: Principal, questions: Questions) -> Mapping[str, Stakes]:
    """Topic -> stakes; each question has an answer."""

    async def read(cluster: ClusterClient) -> dict[str, Stakes]:
        await asyncio.wait_for(cluster.refresh([query.topic for query in questions]), WITHIN_SECONDS)
        counts = {query.topic: query.partitions for query in questions}
        keys = [(query.topic, number) for query in questions for number in range(query.partitions)]
        # ListOffsets by timestamp: the first offset that the planned retention keeps; -1 if it keeps none.
        now = int(time.time() * 1000)
        cut_ms = {query.topic: now - query.keep_ms for query in questions if query.keep_ms is not None}
        sizes, ends, begins, cuts, readers = await asyncio.gather(
            or_why("its bytes", log_dirs.sizes(cluster, counts)),
            or_why("its records", offsets_at(cluster, dict.fromkeys(keys, LATEST))),
            or_why("its records", offsets_at(cluster, dict.fromkeys(keys, EARLIEST))),
            or_why("how much expires", offsets_at(cluster, {key: cut_ms[key[0]] for key in keys if key[0] in cut_ms})),
            or_why("who reads it", _readers(cluster, frozenset(counts))),
        )
        return {query.topic: _stakes(query, sizes, begins, ends, cuts, readers) for query in questions}

    try:
        return visited(declared, principal, read)
    except FAILURES as error:
        return {query.topic: Stakes(unknown=(reason_of("what is at stake", error),)) for query in questions}


def _stakes(
    query: ImpactQuery,
    sizes: tuple[Offsets | None, str],
    begins: tuple[Offsets | None, str],
    ends: tuple[Offsets | None, str],
    cuts: tuple[Offsets | None, str],
    readers: tuple[dict[str, dict[str, _Group]] | None, str],
) -> Stakes:
    """A sum over partitions is unknown as soon as one of them is."""
    keys = [(query.topic, number) for number in range(query.partitions)]
    size = records = expiring = mine = None
    if query.tiered:
        sizes = None, IN_REMOTE_STORAGE
    elif (known := sizes[0]) is not None and all(key in known for key in keys):  # not where all replicas are offline
        size = sum(known[key] for key in keys)
    first, end, cut = begins[0] or {}, ends[0] or {}, cuts[0] or {}
    # The difference of end offsets is an upper bound of records: compaction and transaction markers leave gaps. A cut
    # of -1 means that every record is older.
    if begins[0] is not None and ends[0] is not None and all(key in first and key in end for key in keys):
        records = sum(end[key] - first[key] for key in keys)
        if cuts[0] is not None and query.keep_ms is not None and all(key in cut for key in keys):
            expiring = sum(max(0, (end[key] if cut[key] < 0 else cut[key]) - first[key]) for key in keys)
    if readers[0] is not None:
        mine = tuple(
            ReadingGroup(name, group.state, group.members, group.lag(query.topic, end))
            for name, group in sorted(readers[0].get(query.topic, {}).items())
        )
    whys = [sizes[1], begins[1], ends[1], readers[1], cuts[1] if query.keep_ms is not None else ""]
    return Stakes(size, records, expiring, mine, (), tuple(dict.fromkeys(filter(None, whys))))


async def offsets_at(cluster: ClusterClient, wanted: Mapping[Key, int]) -> Offsets:
    offsets = await cluster.list_offsets(wanted, committed=False)
    return {key: entry for key, entry in offsets.items() if not isinstance(entry, BrokerError)}


class _Group:
    """One group with its committed offsets and the number of its members."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.members = 0
        self.committed: Offsets = {}

    def lag(self, topic: str, ends: Mapping[Key, int]) -> int | None:
        mine = {key: offset for key, offset in self.committed.items() if key[0] == topic}
        if not mine or any(key not in ends for key in mine):
            return None
        return sum(max(0, ends[key] - offset) for key, offset in mine.items())


async def _readers(cluster: ClusterClient, topics: frozenset[str]) -> dict[str, dict[str, _Group]]:
    """Topic -> groups that committed an offset on it, or have a member with a partition of it."""
    groups = GroupClient(cluster)
    listed = {
        name: group
        for name, group in (await groups.listed()).items()
        if group.kind in (GroupKind.CLASSIC, GroupKind.CONSUMER) and not name.startswith(POSITIONS)
    }
    if len(listed) > MOST_GROUPS:
        raise ValueError(f"{len(listed)} groups are too many to check, {MOST_GROUPS} are the most")
    known = {name: _Group(group.state) for name, group in listed.items()}
    read: dict[str, dict[str, _Group]] = {}
    for name, offsets in (await groups.offsets(listed)).items():
        if not offsets.error:
            known[name].committed = {key: at.offset for key, at in offsets.offsets.items() if key[0] in topics}
    # A group may read without committing, so members count, too; an empty one has none to ask for.
    described = await groups.described(group for group in listed.values() if group.state != "Empty")
    for name, group in known.items():
        members = described[name].members if name in described else ()
        group.members = len(members)
        assigned = {key[0] for member in members for key in member.assigned}
        for topic in (assigned & topics) | {topic for topic, _ in group.committed}:
            read.setdefault(topic, {})[name] = group
    return read


def read_nature(declared: DeclaredCluster, principal: Principal) -> ClusterFeatures:
    """Features of a cluster; a part is None if the cluster does not report it."""

    async def read(cluster: ClusterClient) -> ClusterFeatures:
        connection = await asyncio.wait_for(cluster.control(), WITHIN_SECONDS)
        try:
            await acls.described(connection, WITHIN_SECONDS, resource=UNUSED_ID)
            authorizer: bool | None = True
        except BrokerError as error:
            authorizer = {SECURITY_DISABLED: False, 31: True}.get(error.code)
        apis = {key: high for key, (_, high) in connection.versions.items()}
        return ClusterFeatures(connection.features.get("metadata.version"), authorizer, apis)

    try:
        return visited(declared, principal, read)
    except FAILURES:
        return ClusterFeatures()
