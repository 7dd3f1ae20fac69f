"""Rights on topics and groups that doctor checks for each principal, for existing and planned resources.

Brokers list only groups that the principal may describe, and hide others silently. So a group that does not exist is
asked for by name: a refusal shows that others would be hidden, too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from reconciler.model.environment.topology import Flow, Mirror, Principal, Topology
from reconciler.model.principals import Operation
from reconciler.model.reports.doctor import Rights
from reconciler.model.state.lock import lock_cluster
from reconciler.replication.names import position_group
from reconciler.resources.acls.authorizer.lockout import planned_names
from reconciler.resources.acls.desired import access_clusters
from reconciler.resources.flows.routes import Route
from reconciler.resources.quotas.diff import quota_clusters
from reconciler.resources.topics.internal import written_by
from reconciler.resources.users.diff import user_clusters
from reconciler.text import in_shell

FEW = 3
NO_SUCH_GROUP = "reconciler-doctor"
"""Suffix of a group that does not exist."""
HOSTS_NOT_ASKED = "no mirror host could be asked to start, change or stop the job"
JOB_NOT_KEPT = "a mirror host could not keep the job running"
_PREFIX = re.compile(r"(?P<head>[^\\.^$*+?{}\[\]|()]*)\.\*")
_LITERAL = re.compile(r"[^\\.^$*+?{}\[\]|()]+")


@dataclass(frozen=True, slots=True)
class Needed:
    """``operation`` on each of ``topics``. ``pattern``: a resource option of kafka-acls.sh for all of them; or ""."""

    operation: str
    topics: tuple[str, ...]
    pattern: str
    why: str

    @classmethod
    def of(cls, operation: str, topic: str, why: str) -> Needed:
        return cls(operation, (topic,), f"--topic {in_shell(topic)}", why)


@dataclass(frozen=True, slots=True)
class GroupNeed:
    """An operation that a principal needs on a group, or on every group of a pattern."""

    operation: Operation
    asked: str
    """The group to ask for."""
    resource: str
    """The option of kafka-acls.sh that covers it."""
    words: str
    """Words that name the group, or all of the pattern."""
    why: str
    """What fails without it."""

    @classmethod
    def literal(cls, operation: Operation, group: str, why: str) -> GroupNeed:
        return cls(operation, group, f"--group {shlex.quote(group)}", f"group {group}", why)

    @classmethod
    def prefixed(cls, operation: Operation, head: str, why: str) -> GroupNeed:
        resource = f"--group {shlex.quote(head)} --resource-pattern-type prefixed" if head else "--group '*'"
        return cls(operation, f"{head}{NO_SUCH_GROUP}", resource, f"groups {head}*" if head else "groups", why)


def desired_names(topology: Topology, cluster: str, routes: Sequence[Route]) -> set[str]:
    recorded = keeps_lock(topology, cluster) or _keeps_ownership(topology, cluster)
    records = {topology.clusters[cluster].own_topics.lock} if recorded else set()
    return planned_names(topology, cluster, routes) | records | {*_audit(topology, cluster)}


def doomed_names(topology: Topology, cluster: str) -> tuple[str, ...]:
    return tuple(sorted(stone.topic for stone in topology.deletions if stone.cluster == cluster))


def topic_needs(topology: Topology, cluster: str, rights: Rights, routes: Sequence[Route]) -> tuple[Needed, ...]:
    """Needed rights on the topics that this principal was asked about."""
    records = tuple(record_needs(topology, cluster, rights.principal, routes))
    own = topology.clusters[cluster].own_topics
    match rights.principal:
        case Principal.PLAN:
            answered = tuple(sorted({*rights.operations, *rights.denied}))
            everything = "a topic that plan cannot see would look as if it were not there"
            values = "its values would be unknown, and what rests on them is not planned"
            # Plan must see topics that no file names, too: one that is hidden from it cannot be reported as unmanaged,
            # and the proof that a name is free fails.
            described = Needed("DESCRIBE", answered, "--topic '*'", everything)
            return (described, Needed("DESCRIBE_CONFIGS", answered, "--topic '*'", values), *records)
        case Principal.APPLY:
            doomed = doomed_names(topology, cluster)
            changed = tuple(sorted({*rights.operations, *rights.denied} - {own.lock, *doomed}))
            reasons = {
                "DESCRIBE": "what it changes it must see",
                "DESCRIBE_CONFIGS": "what it changes it must see",
                "ALTER": "partitions could not be added",
                "ALTER_CONFIGS": "configs could not be changed",
            }
            needs = [Needed(operation, changed, "--topic '*'", why) for operation, why in reasons.items()]
            # Without a pattern: Delete on every topic is more than a few tombstones are worth.
            return (*needs, *records, Needed("DELETE", doomed, "", "its tombstone could not be carried out"))
        case Principal.MIRROR:
            return records
        case Principal.PROBE:
            return ()
        case _:
            assert_never(rights.principal)


def record_needs(topology: Topology, cluster: str, principal: Principal, routes: Sequence[Route]) -> Iterator[Needed]:
    """Read and Write on topics with records, including planned topics. Each need says what fails without it: a user
    grants a right for a reason, not for a name."""
    status, hosted = bool(_kept(topology, cluster)), hosts(topology, cluster)
    own = topology.clusters[cluster].own_topics
    match principal:
        case Principal.PLAN:
            if status:
                why = "plan could not know which definition a mirror runs with"
                yield Needed.of("READ", own.status, why)
                if hosted:
                    yield Needed.of("READ", own.control, why)
            if keeps_lock(topology, cluster):
                why = "plan could not detect a shrunken topology, nor an unknown cluster"
                yield Needed.of("READ", own.lock, why)
            elif _keeps_ownership(topology, cluster):
                why = "plan could not know which access rules, quotas and users are ours"
                yield Needed.of("READ", own.lock, why)
            for topic in _audit(topology, cluster):
                why = "drift could not name causes where the applies ran on other machines"
                yield Needed.of("READ", topic, why)
        case Principal.APPLY:
            topics = {own.status: "mirror pause and resume could not be recorded"} if status else {}
            if hosted:
                topics[own.control] = HOSTS_NOT_ASKED
            if keeps_lock(topology, cluster):
                topics[own.lock] = "the lock of the environment is kept there; nothing could be applied"
            elif _keeps_ownership(topology, cluster):
                why = "no access rule, quota or user could be made, since it could not be written down as ours"
                topics[own.lock] = why
            # Read as well as Write: apply replaces these records by compare-and-set, so it reads them first.
            for topic, why in topics.items():
                yield from (Needed.of(each, topic, why) for each in ("READ", "WRITE"))
            for topic in _audit(topology, cluster):
                yield Needed.of("WRITE", topic, "nothing is begun without a record of who does what")
                why = "its chain would start again with each run, which audit verify calls broken"
                yield Needed.of("READ", topic, why)
        case Principal.MIRROR:
            for flow in topology.flows.values():
                yield from _of_flow(topology, flow, cluster, [route for route in routes if route.flow == flow.name])
            if status:
                yield Needed.of("WRITE", own.status, "status and metrics of the job could not be shown")
                yield Needed.of("READ", own.status, "pause and resume would have no effect")
            if hosted:
                yield from (Needed.of(each, own.control, JOB_NOT_KEPT) for each in ("READ", "WRITE"))
        case Principal.PROBE:
            pass
        case _:
            assert_never(principal)


def _of_flow(topology: Topology, flow: Flow, cluster: str, routes: Sequence[Route]) -> Iterator[Needed]:
    """Rights of the job on the flow's topics on one of its clusters."""
    if flow.source == cluster:
        topics = tuple(sorted({route.source.name for route in routes}))
        yield Needed("READ", topics, "--topic '*'" if len(topics) > FEW else "", f"flow {flow.name} reads them")
    if flow.target == cluster:
        topics = tuple(sorted({route.remote.name for route in routes}))
        pattern = "--topic '*'"
        if flow.naming.policy == "default":
            pattern = f"--topic {flow.source}{flow.naming.separator} --resource-pattern-type prefixed"
        yield Needed("WRITE", topics, pattern, f"flow {flow.name} writes them")
        keeps = f"flow {flow.name} keeps offsets"
        why = f"flow {flow.name} could not commit its positions, which are positions of these topics"
        if flow.keeps_offsets:
            why = f"{keeps}: it asks brokers what it has written (DescribeProducers)"
        yield Needed("READ", topics, pattern, why)
        if flow.keeps_offsets:
            why = f"{keeps}: empty records below the source's first one could not be deleted"
            yield Needed("DELETE", topics, pattern, why)
    for topic in written_by(topology, flow):
        if topic.ref.cluster == cluster:
            yield Needed.of("WRITE", topic.ref.name, f"the mirror of flow {flow.name} {topic.reason}")
            yield Needed.of("READ", topic.ref.name, f"the mirror of flow {flow.name} reads back what it wrote")


def _audit(topology: Topology, cluster: str) -> tuple[str, ...]:
    place = topology.audit_place()
    return (place.name,) if place is not None and place.cluster == cluster else ()


def _kept(topology: Topology, cluster: str) -> list[Mirror]:
    """Mirrors that keep their status on the cluster."""
    return [one for one in topology.mirrors.values() if topology.status_cluster(one) == cluster]


def hosts(topology: Topology, cluster: str) -> bool:
    """Whether the cluster has the control topic, by which apply and mirror hosts communicate."""
    return any(mirror.hosted for mirror in _kept(topology, cluster))


def keeps_lock(topology: Topology, cluster: str) -> bool:
    return lock_cluster(topology).name == cluster


def _keeps_ownership(topology: Topology, cluster: str) -> bool:
    """Whether the cluster needs ownership records: rules, quotas and users cannot carry a mark of their owner."""
    return cluster in access_clusters(topology) | quota_clusters(topology) | user_clusters(topology)


def group_needs(topology: Topology, cluster: str, principal: Principal) -> tuple[GroupNeed, ...]:
    """A principal's rights on groups of one cluster, with consequences of a lack. Prefixes if the flow chooses groups
    by an expression."""
    needs: list[GroupNeed] = []
    match principal:
        case Principal.PLAN:
            why = "who reads a topic at stake would be hidden from plan silently"
            needs.append(GroupNeed.prefixed(Operation.DESCRIBE, "", why))
        case Principal.APPLY | Principal.PROBE:
            pass
        case Principal.MIRROR:
            for flow in topology.flows.values():
                if flow.target == cluster:
                    why = "the job could not commit positions with the data"
                    needs.append(GroupNeed.literal(Operation.READ, position_group(flow.state_name), why))
                for other in topology.arriving(flow) if flow.source == cluster else ():
                    why = f"flow {flow.name} waits: it could not know where marked copies begin"
                    needs.append(GroupNeed.literal(Operation.DESCRIBE, position_group(other.state_name), why))
                if flow.groups.sync_offsets and flow.source == cluster:
                    why = f"their offsets would silently not be synced by flow {flow.name}"
                    needs += _chosen(Operation.READ if flow.groups.both_ways else Operation.DESCRIBE, flow, why)
                if flow.groups.sync_offsets and flow.target == cluster:
                    needs += _chosen(Operation.READ, flow, f"flow {flow.name} could not set their offsets")
        case _:
            assert_never(principal)
    return tuple(dict.fromkeys(needs))


def moved_groups(flow: Flow) -> tuple[GroupNeed, ...]:
    """Rights on groups of the origin that a failover of the flow needs."""
    return tuple(_chosen(Operation.DESCRIBE, flow, "a failover would leave them behind"))


def _chosen(operation: Operation, flow: Flow, why: str) -> Iterator[GroupNeed]:
    """Rights for a name, and for a prefix with ``.*``. Rights for other patterns may be granted name by name, so they
    are not checked."""
    for pattern in flow.groups.include:
        if (match := _PREFIX.fullmatch(pattern)) is not None:
            yield GroupNeed.prefixed(operation, match["head"], why)
        elif _LITERAL.fullmatch(pattern):
            yield GroupNeed.literal(operation, pattern, why)
