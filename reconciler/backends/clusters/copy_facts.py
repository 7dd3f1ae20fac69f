"""Reads what the copies of flows depend on: positions, records of remote topics and their writers, heartbeats.

Nothing here raises: an unreadable part is unknown, and the rest is reported.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from reconciler.backends.clusters.impact import MOST_GROUPS, Offsets, offsets_at
from reconciler.backends.clusters.mirrormaker import OpenTransactionError, looks_like_offsets, records_in
from reconciler.backends.connections.credentials import speaker_of
from reconciler.backends.connections.errors import Speaker
from reconciler.backends.connections.own import FAILURES, WITHIN_SECONDS, or_why, reason_of, visited
from reconciler.errors import Unknown
from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import EARLIEST, LATEST, ClusterClient, Key, parsed_id
from reconciler.kafka.client.errors import DENIED, BrokerError, WireError
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol import transactions
from reconciler.kafka.protocol.producers import describe_producers
from reconciler.kafka.records.batches import CONTROL, scan
from reconciler.kafka.records.records import key_and_value, records_of
from reconciler.model.environment.topology import Cluster as DeclaredCluster
from reconciler.model.environment.topology import Principal
from reconciler.model.plan import CopyFacts, FlowCopies, RemoteFacts
from reconciler.replication.groups import POSITIONS
from reconciler.replication.mirrormaker_records import HEARTBEATS, no_heartbeat
from reconciler.replication.names import position_group
from reconciler.replication.offsets.map_topic import copied_before
from reconciler.replication.offsets.position_metadata import PositionMark, mark_of

SAMPLED = 20
"""Records read at each end of a partition of heartbeats."""
MOST_PRODUCERS = 1_000
MOST_OFFSETS_TOPICS = 20
REPORTS_WRITERS = frozenset({61, 65})
"""API keys of DescribeProducers and DescribeTransactions (KIP-664), both since 3.0."""
_WORKERS = re.compile(r"-mm2$")
"""Groups of the workers of a dedicated MirrorMaker 2."""
NO_FLOWS: Mapping[str, str] = MappingProxyType({})


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
            known, whys[0] = await or_why("where its topics begin", offsets_at(cluster, at))
        names = {position_group(state): flow for state, flow in flows.items()}
        if names:
            groups, whys[1] = await or_why("positions of flows", GroupClient(cluster).offsets(names))
        positions = {
            names[group]: {key: committed.metadata for key, committed in offsets.offsets.items()}
            for group, offsets in (groups or {}).items()
            if not offsets.error
        }
        # Brokers before 3.0 do not report producers, so an empty answer proves nothing there.
        reports_writers = connection.versions.keys() >= REPORTS_WRITERS
        return CopyFacts(reports_writers, known or {}, positions, "; ".join(filter(None, whys)))

    try:
        return visited(declared, principal, read)
    except FAILURES as error:
        return CopyFacts(unknown=reason_of("where its topics begin", error))


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
            facts = visited(declared, principal, partial(_remote_facts, speaker, flows), 3 * WITHIN_SECONDS)
        except FAILURES as error:
            why = reason_of("positions and ends of its remote topics", error)
            facts = unknown if unknown.positions else replace(unknown, unanswered={flow.state: why for flow in flows})
        if not facts.unanswered:
            break
    return facts


async def _remote_facts(speaker: Speaker, flows: Sequence[FlowCopies], cluster: ClusterClient) -> RemoteFacts:
    """The facts of one target. Most targets need only the first request: they have no partition without a position."""
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
    last, _ = await or_why("its last producers", _last_written(cluster, held))
    writers, _ = await or_why("their transactional ids", _transactional_ids(cluster, last or {}))
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
            unanswered[names[group]] = reason_of(
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
                subject, reason_of("its records", error), todo if denied else "Ask again once it answers"
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

    # Reading records takes Read on the topic, which a cluster may grant to only one of our principals.
    unread = Unknown("", "")
    for principal in principals:
        try:
            return visited(declared, principal, foreign, WITHIN_SECONDS)
        except FAILURES as error:
            subject = f"topic {HEARTBEATS} on {declared.name}"
            todo = "Plan again once it answers"
            if isinstance(error, BrokerError) and error.code in DENIED:
                todo = f"Grant it: {speaker_of(declared, principal).acl_command('Read', f'--topic {HEARTBEATS}')}"
            todo += "; or write mirrormaker_topics: {heartbeats: false} under the flow"
            unread = Unknown(subject, f"{reason_of('its records', error)}; whether they are an application's", todo)
    return unread
