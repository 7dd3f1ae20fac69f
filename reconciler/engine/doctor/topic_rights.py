"""Which rights on topics doctor checks for each principal: existing topics and those still to be created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from reconciler.model.environment.topology import Flow, Principal, Topology
from reconciler.model.reports.doctor import Rights
from reconciler.model.state.lock import LOCK_TOPIC, lock_cluster
from reconciler.replication.names import CONTROL_TOPIC, STATUS_TOPIC
from reconciler.resources.acls.desired import access_clusters
from reconciler.resources.flows.routes import Route
from reconciler.resources.quotas import quota_clusters
from reconciler.resources.topics.internal import internal_topics, written_by
from reconciler.resources.users import user_clusters
from reconciler.text import in_shell

FEW = 3


@dataclass(frozen=True, slots=True)
class Needed:
    """``operation`` on each of ``topics``; ``pattern`` is one resource, as kafka-acls writes it, for all of them."""

    operation: str
    topics: tuple[str, ...]
    pattern: str
    why: str

    @classmethod
    def of(cls, operation: str, topic: str, why: str) -> Needed:
        return cls(operation, (topic,), f"--topic {in_shell(topic)}", why)


def topic_needs(topology: Topology, cluster: str, rights: Rights, routes: Sequence[Route]) -> tuple[Needed, ...]:
    """All of them, for the topics that this principal was asked about."""
    records = tuple(record_needs(topology, cluster, rights.principal, routes))
    match rights.principal:
        case Principal.PLAN:
            answered = tuple(sorted({*rights.operations, *rights.denied}))
            everything = "a topic that plan cannot see would look as if it were not there"
            values = "its values would be unknown, and what rests on them is not planned"
            described = Needed("DESCRIBE", answered, "--topic '*'", everything)
            return (described, Needed("DESCRIBE_CONFIGS", answered, "--topic '*'", values), *records)
        case Principal.APPLY:
            changed = tuple(sorted({*rights.operations, *rights.denied} - {LOCK_TOPIC}))
            doomed = tuple(sorted(stone.topic for stone in topology.deletions if stone.cluster == cluster))
            reasons = {
                "DESCRIBE": "what it changes it must see",
                "DESCRIBE_CONFIGS": "what it changes it must see",
                "ALTER": "partitions could not be added",
                "ALTER_CONFIGS": "configs could not be changed",
            }
            needs = [Needed(operation, changed, "--topic '*'", why) for operation, why in reasons.items()]
            return (*needs, *records, Needed("DELETE", doomed, "", "its tombstone could not be carried out"))
        case Principal.MIRROR:
            return records
        case _:
            assert_never(rights.principal)


def record_needs(topology: Topology, cluster: str, principal: Principal, routes: Sequence[Route]) -> Iterator[Needed]:
    """To Read and Write records, also of topics that are not there yet."""
    match principal:
        case Principal.PLAN:
            if _carries_status(topology, cluster):
                why = "plan could not know which definition a mirror runs with"
                yield Needed.of("READ", STATUS_TOPIC, why)
            if keeps_lock(topology, cluster):
                why = "plan could not detect a shrunken topology, nor an unknown cluster (docs/change/guards.md)"
                yield Needed.of("READ", LOCK_TOPIC, why)
            elif cluster in _record_clusters(topology):
                why = "plan could not know which access rules, quotas and users are ours (docs/change/access.md)"
                yield Needed.of("READ", LOCK_TOPIC, why)
            for topic in _audit(topology, cluster):
                why = "drift could not name causes where the applies ran on other machines"
                yield Needed.of("READ", topic, why)
        case Principal.APPLY:
            why = "mirror pause and resume could not be recorded"
            topics = {STATUS_TOPIC: why} if _carries_status(topology, cluster) else {}
            if keeps_lock(topology, cluster):
                topics[LOCK_TOPIC] = "the lock of the environment is kept there; nothing could be applied"
            elif cluster in _record_clusters(topology):
                why = "no access rule, quota or user could be made, since it could not be written down as ours"
                topics[LOCK_TOPIC] = why
            for topic, why in topics.items():
                yield from (Needed.of(each, topic, why) for each in ("READ", "WRITE"))
            for topic in _audit(topology, cluster):
                yield Needed.of("WRITE", topic, "nothing is begun without a record of who does what")
                why = "its chain would begin anew with each run, which audit verify calls broken"
                yield Needed.of("READ", topic, why)
        case Principal.MIRROR:
            yield from _mirror(topology, cluster, routes)
        case _:
            assert_never(principal)


def desired_names(topology: Topology, cluster: str, routes: Sequence[Route]) -> set[str]:
    declared = {topic.name for topic in topology.topics.values() if cluster in topic.clusters}
    remote = {route.remote.name for route in routes if route.remote.cluster == cluster}
    internal = {topic.ref.name for topic in internal_topics(topology) if topic.ref.cluster == cluster}
    record = {LOCK_TOPIC} if _keeps_record(topology, cluster) else set()
    return declared | remote | internal | record | {*_audit(topology, cluster)}


def _audit(topology: Topology, cluster: str) -> tuple[str, ...]:
    place = topology.audit_place()
    return (place.name,) if place is not None and place.cluster == cluster else ()


def _mirror(topology: Topology, cluster: str, routes: Sequence[Route]) -> Iterator[Needed]:
    for flow in topology.flows.values():
        mine = [route for route in routes if route.flow == flow.name]
        if flow.source == cluster:
            topics = tuple(sorted({route.source.name for route in mine}))
            yield Needed("READ", topics, "--topic '*'" if len(topics) > FEW else "", f"flow {flow.name} reads them")
        if flow.target == cluster:
            topics = tuple(sorted({route.remote.name for route in mine}))
            yield Needed("WRITE", topics, _written(flow), f"flow {flow.name} writes them")
            if flow.keeps_offsets:
                why = f"flow {flow.name} keeps offsets: it asks brokers what it has written (DescribeProducers)"
                yield Needed("READ", topics, _written(flow), why)
                why = f"flow {flow.name} keeps offsets: empty records below the source's first one could not be deleted"
                yield Needed("DELETE", topics, _written(flow), why)
        for topic in written_by(flow):
            if topic.ref.cluster == cluster:
                yield Needed.of("WRITE", topic.ref.name, f"the mirror of flow {flow.name} {topic.reason}")
    if _carries_status(topology, cluster):
        yield Needed.of("WRITE", STATUS_TOPIC, "nobody could see what the job does")
        yield Needed.of("READ", STATUS_TOPIC, "pause and resume would have no effect")
    if any(mirror.hosted and topology.status_cluster(mirror) == cluster for mirror in topology.mirrors.values()):
        for operation in ("READ", "WRITE"):
            yield Needed.of(operation, CONTROL_TOPIC, "a mirror host could not keep the job running")


def _written(flow: Flow) -> str:
    if flow.naming.policy == "default":
        return f"--topic {flow.source}{flow.naming.separator} --resource-pattern-type prefixed"
    return "--topic '*'"


def _carries_status(topology: Topology, cluster: str) -> bool:
    return any(topology.status_cluster(mirror) == cluster for mirror in topology.mirrors.values() if mirror.flows)


def keeps_lock(topology: Topology, cluster: str) -> bool:
    return lock_cluster(topology).name == cluster


def _keeps_record(topology: Topology, cluster: str) -> bool:
    """Of the lock, or of what is ours."""
    return keeps_lock(topology, cluster) or cluster in _record_clusters(topology)


def _record_clusters(topology: Topology) -> frozenset[str]:
    return access_clusters(topology) | quota_clusters(topology) | user_clusters(topology)
