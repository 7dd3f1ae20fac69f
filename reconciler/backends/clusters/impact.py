"""Reads the impact of dangerous changes from a cluster: bytes, records, readers; and the cluster's features.

Nothing here raises: an unreadable part is unknown, and the rest is reported.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from reconciler.backends.clusters.mirrormaker import OpenTransactionError, looks_like_offsets, records_in
from reconciler.backends.connections.credentials import speaker_of
from reconciler.backends.connections.errors import SECURITY_DISABLED, Speaker
from reconciler.backends.connections.own import cluster_of
from reconciler.errors import ReconcilerError, Unknown
from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import EARLIEST, LATEST, ClusterClient, Key, parsed_id
from reconciler.kafka.client.errors import BrokerError, WireError, name_of
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol import acls, log_dirs, transactions
from reconciler.kafka.protocol.groups.describe_groups import GroupKind
from reconciler.kafka.protocol.producers import describe_producers
from reconciler.kafka.records.batches import CONTROL, scan
from reconciler.kafka.records.records import key_and_value, records_of
from reconciler.model.environment.topology import Cluster as DeclaredCluster
from reconciler.model.environment.topology import Principal, TopicRef
from reconciler.model.reports.impact import (
    ClusterFeatures,
    CopyFacts,
    FlowCopies,
    ImpactQuery,
    ReadingGroup,
    RemoteFacts,
    Stakes,
)
from reconciler.replication.mirrormaker_records import HEARTBEATS, no_heartbeat
from reconciler.replication.names import position_group
from reconciler.replication.offsets.map_topic import copied_before
from reconciler.replication.offsets.position_metadata import PositionMark, mark_of

WITHIN_SECONDS = 10.0
SAMPLED = 20
"""Records read at each end of a partition of heartbeats."""
MOST_GROUPS = 2_000
MOST_PRODUCERS = 1_000
MOST_OFFSETS_TOPICS = 20
DENIED = (29, 30, 31)
REPORTS_WRITERS = frozenset({61, 65})
"""API keys of DescribeProducers and DescribeTransactions (KIP-664), both since 3.0."""
UNUSED_ID = (5, "reconciler-probe")
"""An unused transactional id: DescribeAcls for it shows cheaply whether the cluster has an authorizer."""
POSITIONS = "mirror."
"""Prefix of groups that hold positions of a mirror and have no consumers."""
_WORKERS = re.compile(r"-mm2$")
"""Groups of the workers of a dedicated MirrorMaker 2."""
IN_REMOTE_STORAGE = "its bytes: brokers do not say how much of it lies in remote storage (remote.storage.enable)"
NO_FLOWS: Mapping[str, str] = MappingProxyType({})
_FAILURES = (ReconcilerError, WireError, OSError, TimeoutError, ValueError)

Questions = Sequence[ImpactQuery]
Answer = TypeVar("Answer")
Offsets = dict[Key, int]


def _visited(
    declared: DeclaredCluster,
    principal: Principal,
    ask: Callable[[ClusterClient], Awaitable[Answer]],
    within_s: float | None = None,
) -> Answer:
    """Opens connections to a cluster, asks, and closes them. Raises ``_FAILURES``."""

    async def visit() -> Answer:
        cluster = cluster_of(declared, principal)
        try:
            async with asyncio.timeout(within_s):
                return await ask(cluster)
        finally:
            cluster.close()

    return asyncio.run(visit())


async def _or_why(subject: str, asked: Awaitable[Answer]) -> tuple[Answer | None, str]:
    """One of several answers: None, with the reason, if it fails. The others are still reported."""
    try:
        return await asyncio.wait_for(asked, WITHIN_SECONDS), ""
    except (WireError, OSError, TimeoutError, ValueError) as error:
        return None, _words(subject, error)


def _words(subject: str, error: BaseException) -> str:
    """A short reason for a missing answer: a note beside a plan that does not depend on it."""
    match error:
        case BrokerError(code=code) if code in DENIED:
            return f"{subject}: this principal may not ask ({name_of(code)})"
        case TimeoutError():
            return f"{subject}: no answer within {WITHIN_SECONDS:.0f} s"
        case ReconcilerError():
            return f"{subject}: {error.what}"
    return f"{subject}: {error}"


def ask_stakes(
    pool: ThreadPoolExecutor,
    declared_clusters: Mapping[str, DeclaredCluster],
    principal: Principal,
    asked: Mapping[str, Questions],
) -> Callable[[], dict[TopicRef, Stakes]]:
    """Begins to ask all clusters at once; what it returns waits for the answers."""
    answers = {name: pool.submit(read_stakes, declared_clusters[name], principal, some) for name, some in asked.items()}
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
            _or_why("its bytes", log_dirs.sizes(cluster, counts)),
            _or_why("its records", _offsets(cluster, dict.fromkeys(keys, LATEST))),
            _or_why("its records", _offsets(cluster, dict.fromkeys(keys, EARLIEST))),
            _or_why("how much expires", _offsets(cluster, {key: cut_ms[key[0]] for key in keys if key[0] in cut_ms})),
            _or_why("who reads it", _readers(cluster, frozenset(counts))),
        )
        return {query.topic: _stakes(query, sizes, begins, ends, cuts, readers) for query in questions}

    try:
        return _visited(declared, principal, read)
    except _FAILURES as error:
        return {query.topic: Stakes(unknown=(_words("what is at stake", error),)) for query in questions}


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


async def _offsets(cluster: ClusterClient, wanted: Mapping[Key, int]) -> Offsets:
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
        return _visited(declared, principal, read)
    except _FAILURES:
        return ClusterFeatures()


def read_copy_facts(
    declared: DeclaredCluster, principal: Principal, at: Mapping[Key, int], flows: Mapping[str, str] = NO_FLOWS
) -> CopyFacts:
    """``at``: EARLIEST, LATEST or a time in ms, by topic and partition. ``flows``: flows whose positions this cluster
    keeps, by the names of their states."""

    async def read(cluster: ClusterClient) -> CopyFacts:
        connection = await asyncio.wait_for(cluster.control(), WITHIN_SECONDS)
        known: Offsets | None = None
        groups, whys = None, ["", ""]
        if at:
            await asyncio.wait_for(cluster.refresh({topic for topic, _ in at}), WITHIN_SECONDS)
            known, whys[0] = await _or_why("where its topics begin", _offsets(cluster, at))
        names = {position_group(state): flow for state, flow in flows.items()}
        if names:
            groups, whys[1] = await _or_why("positions of flows", GroupClient(cluster).offsets(names))
        positions = {
            names[group]: {key: committed.metadata for key, committed in offsets.offsets.items()}
            for group, offsets in (groups or {}).items()
            if not offsets.error
        }
        # Brokers before 3.0 do not report producers, so an empty answer proves nothing there.
        reports_writers = connection.versions.keys() >= REPORTS_WRITERS
        return CopyFacts(reports_writers, known or {}, positions, "; ".join(filter(None, whys)))

    try:
        return _visited(declared, principal, read)
    except _FAILURES as error:
        return CopyFacts(unknown=_words("where its topics begin", error))


def read_remote_facts(
    declared: DeclaredCluster, principals: Sequence[Principal], flows: Sequence[FlowCopies]
) -> RemoteFacts:
    """Facts of the topics that ``flows`` to this cluster would write. Reads only positions if each partition has one.
    ``principals``: the next one asks if one may not see the positions."""
    facts = RemoteFacts(unanswered={flow.state: "it was not asked" for flow in flows})
    for principal in principals:
        unknown = replace(facts, unknown="")
        try:
            speaker = speaker_of(declared, principal)
            facts = _visited(declared, principal, partial(_remote_facts, speaker, flows), 3 * WITHIN_SECONDS)
        except _FAILURES as error:
            why = _words("positions and ends of its remote topics", error)
            facts = unknown if unknown.positions else replace(unknown, unanswered={flow.state: why for flow in flows})
        if not facts.unanswered:
            break
    return facts


async def _remote_facts(speaker: Speaker, flows: Sequence[FlowCopies], cluster: ClusterClient) -> RemoteFacts:
    groups = GroupClient(cluster)
    states = [flow.state for flow in flows]
    positions, unanswered = await _positions(groups, states)
    fresh = {key for flow in flows for key in flow.partitions.keys() - positions.get(flow.state, {}).keys()}
    if not fresh:
        return RemoteFacts(positions, unanswered)
    # A partition with records and without a position needs an explanation: who wrote them, and up to which source
    # offset?
    await cluster.refresh({topic for topic, _ in fresh})
    begins, ends = await asyncio.gather(
        cluster.list_offsets(dict.fromkeys(fresh, EARLIEST), committed=False),
        cluster.list_offsets(dict.fromkeys(fresh, LATEST), committed=False),
    )
    why, held = "", dict[Key, tuple[int, int]]()
    for key in sorted(fresh):
        begin, end = begins[key], ends[key]
        if isinstance(begin, BrokerError) or isinstance(end, BrokerError):
            why = why or f"where {key[0]}-{key[1]} ends: {max(map(str, (begin, end)))}"
        elif end > 0:
            held[key] = begin, end
    # Other writers: other flows with a position there, and running workers of a MirrorMaker 2. Brokers hide groups that
    # this principal may not describe.
    listed = await groups.listed()
    ours = {position_group(state) for state in states}
    named = [name for name in listed if name.startswith(POSITIONS) and name not in ours]
    others: dict[Key, tuple[str, PositionMark]] = {}
    for group, answer in (await groups.offsets(named[:MOST_GROUPS]) if named else {}).items():
        for key, at in answer.offsets.items():
            if key in fresh:
                others.setdefault(key, (group, mark_of(key, at.offset, at.metadata or "")))
    workers = {name: group.state for name, group in listed.items() if _WORKERS.search(name) and group.state != "Dead"}
    if not held:
        return RemoteFacts(positions, unanswered, held, others, {}, workers, unknown=why)
    # Positions are read again after the ends: a job that starts meanwhile commits a position before its first record,
    # so records without a position are really not ours.
    positions, unanswered = await _positions(groups, states)
    copied: dict[str, dict[Key, tuple[str, int]]] = {}
    for flow in flows:
        wanted = {key: tuple(map(parsed_id, flow.ids[key])) for key in flow.partitions.keys() & held}
        sources = {flow.partitions[key]: (ids[0], ids[1]) for key, ids in wanted.items()}
        before = await copied_before(cluster, sources)
        copied[flow.state] = {key: before[flow.partitions[key]] for key in wanted if flow.partitions[key] in before}
    last, _ = await _or_why("its last producers", _last_written(cluster, held))
    writers, _ = await _or_why("their transactional ids", _transactional_ids(cluster, last or {}))
    connect = await _connect_offsets(cluster, speaker)
    written = {topic: max(producers.values()) for topic, producers in (last or {}).items()}
    return RemoteFacts(positions, unanswered, held, others, copied, workers, written, writers or {}, connect, why)


async def _positions(
    groups: GroupClient, states: Sequence[str]
) -> tuple[dict[str, Mapping[Key, PositionMark]], dict[str, str]]:
    """Flow -> positions, and for other flows the reason why they are unknown."""
    names = {position_group(state): state for state in states}
    positions: dict[str, Mapping[Key, PositionMark]] = {}
    unanswered: dict[str, str] = {}
    for group, answer in (await groups.offsets(names)).items():
        if answer.error:
            unanswered[names[group]] = _words(
                f"group {group}", BrokerError(answer.error, f"positions of group {group}")
            )
        else:
            positions[names[group]] = {
                key: mark_of(key, at.offset, at.metadata or "") for key, at in answer.offsets.items()
            }
    return positions, unanswered


async def _connect_offsets(
    cluster: ClusterClient, speaker: Speaker
) -> dict[str, Sequence[tuple[bytes | None, bytes | None]] | Unknown]:
    """MirrorMaker 2's stored positions, if it stores them on the target."""
    await cluster.refresh(None)
    answers: dict[str, Sequence[tuple[bytes | None, bytes | None]] | Unknown] = {}
    for topic in sorted(filter(looks_like_offsets, cluster.topics))[:MOST_OFFSETS_TOPICS]:
        subject = f"positions of MirrorMaker 2 in {topic} on {speaker.cluster}"
        todo = f"Grant it: {speaker.acl_command('Read', f'--topic {topic}')}"
        try:
            answers[topic] = await asyncio.wait_for(records_in(cluster, topic), WITHIN_SECONDS)
        except OpenTransactionError:
            answers[topic] = Unknown(subject, "a transaction there is undecided", "Stop MirrorMaker 2 cleanly")
        except (WireError, OSError, TimeoutError, ValueError) as error:
            denied = isinstance(error, BrokerError) and error.code in DENIED
            answers[topic] = Unknown(
                subject, _words("its records", error), todo if denied else "Ask again once it answers"
            )
    return answers


async def _last_written(cluster: ClusterClient, keys: Iterable[Key]) -> dict[str, dict[int, int]]:
    """Topic -> producer ids and times of their last records, from the leaders, which forget a producer after a day
    (``producer.id.expiration.ms``)."""
    last: dict[str, dict[int, int]] = {}
    for node, led in cluster.by_leader(keys).items():
        if node >= 0:
            answer = await describe_producers.ask(await cluster.control(node), led) or {}
            for (topic, _), producers in answer.items():
                for producer in producers if isinstance(producers, tuple) else ():
                    known = last.setdefault(topic, {})
                    known[producer.producer_id] = max(known.get(producer.producer_id, 0), producer.last_ms)
    return last


async def _transactional_ids(
    cluster: ClusterClient, last: Mapping[str, Mapping[int, int]]
) -> dict[str, tuple[str, ...]]:
    """Topic -> transactional ids of its producers. Each coordinator knows some of them, and hides ids that this
    principal may not describe; producers without a transactional id are left out."""
    asked = sorted({producer_id for producers in last.values() for producer_id in producers})[:MOST_PRODUCERS]
    answers = [await transactions.listed(await cluster.control(node), asked) for node in cluster.brokers]
    known = {producer_id: name for ids in answers for producer_id, name in ids.items()}
    return {topic: tuple(sorted({known[each] for each in some if each in known})) for topic, some in last.items()}


def read_heartbeats(declared: DeclaredCluster, principals: Sequence[Principal]) -> str | Unknown:
    """Words for a record of the topic ``heartbeats`` that is no heartbeat of MirrorMaker 2; empty if the first and last
    records of each partition are all heartbeats. ``principals``: the next one reads if one may not."""

    async def foreign(cluster: ClusterClient) -> str:
        # The oldest records show the topic's use before a mirror wrote there, the newest its present writers.
        await small_topics.leaders(cluster, [HEARTBEATS])
        keys = [(HEARTBEATS, number) for number in cluster.topics[HEARTBEATS].leaders]
        begins, ends = await small_topics.begins(cluster, keys), await small_topics.ends(cluster, keys)
        late = {key: max(begins[key], ends[key] - SAMPLED) for key in keys}
        early = {key: min(late[key], begins[key] + SAMPLED) for key in keys}
        for first, until in ((begins, early), (late, ends)):
            strangers = [
                f"the record at {record.offset} of partition {answer.partition}: {why}"
                async for answer in small_topics.read(cluster, first, until)
                for batch in scan(answer.records)
                if not batch.attributes & CONTROL
                for record in records_of(answer.records, batch)
                if (why := no_heartbeat(*key_and_value(record)))
            ]
            if strangers:
                return strangers[0]
        return ""

    unread = Unknown("", "")
    for principal in principals:
        try:
            return _visited(declared, principal, foreign, WITHIN_SECONDS)
        except _FAILURES as error:
            subject = f"topic {HEARTBEATS} on {declared.name}"
            todo = "Plan again once it answers"
            if isinstance(error, BrokerError) and error.code in DENIED:
                todo = f"Grant it: {speaker_of(declared, principal).acl_command('Read', f'--topic {HEARTBEATS}')}"
            todo += "; or write mirrormaker_topics: {heartbeats: false} under the flow"
            unread = Unknown(subject, f"{_words('its records', error)}; whether they are an application's", todo)
    return unread
