"""What each principal needs on each cluster, and the exact kafka-acls command for what it lacks."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.access import access_clusters
from reconciler.acls import Operation
from reconciler.checkups import Ask, Finding, Rights, Verdict
from reconciler.diagnosing.groups import group_needs
from reconciler.enrolling import user_clusters
from reconciler.errors import Unknown
from reconciler.internal_topics import internal_topics, written_by
from reconciler.limiting import quota_clusters
from reconciler.live import LiveState
from reconciler.locks import LOCK_TOPIC, lock_cluster
from reconciler.locks import transactional_id as lock_transactional_id
from reconciler.routing import Route
from reconciler.topology import Flow, Principal, Topology
from replication.names import STATUS_TOPIC, transactional_id

FEW = 3
MIRROR = "mirror."
CREATES_ASKED = 100
"""A validate-only create costs the mutation quota as a real one would, so not all of a thousand are tried."""

_WORDS = {"DESCRIBE": "Describe", "DESCRIBE_CONFIGS": "DescribeConfigs", "READ": "Read", "WRITE": "Write",
          "ALTER": "Alter", "ALTER_CONFIGS": "AlterConfigs", "CREATE": "Create", "DELETE": "Delete"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Needed:
    """``operation`` on each of ``topics``; ``pattern`` is one resource, as kafka-acls writes it, for all of them."""

    operation: str
    topics: tuple[str, ...]
    pattern: str
    why: str


def asks(topology: Topology, live: LiveState, routes: Sequence[Route]) -> dict[tuple[str, Principal], Ask]:
    """What to ask of whom. A mirror principal is asked only on clusters that are a side of a flow."""
    found: dict[tuple[str, Principal], Ask] = {}
    for name in topology.clusters:
        here = live.known(name)
        exist = tuple(here.topics) if here else ()
        wished = _wished(topology, name, routes)
        missing = tuple(one for one in sorted(wished) if here is None or one not in here.topics)
        found[name, Principal.PLAN] = Ask(exist, described=_groups(topology, name, Principal.PLAN, Operation.DESCRIBE))
        lock = (lock_transactional_id(topology.environment),) if _keeps_lock(topology, name) else ()
        found[name, Principal.APPLY] = Ask(
            tuple(sorted(wished & set(exist))), missing[:CREATES_ASKED], transactional_ids=lock
        )
        flows = [flow for flow in topology.flows.values() if name in (flow.source, flow.target)]
        if flows:
            targets = [flow for flow in flows if flow.target == name]
            found[name, Principal.MIRROR] = Ask(
                topics=tuple(sorted({one for need in _mirror(topology, name, routes) for one in need.topics})),
                groups=_groups(topology, name, Principal.MIRROR, Operation.READ),
                transactional_ids=tuple(
                    transactional_id(flow.name, lane) for flow in targets for lane in range(flow.lanes)
                ),
                described=_groups(topology, name, Principal.MIRROR, Operation.DESCRIBE),
            )
    return found


def _groups(topology: Topology, cluster: str, principal: Principal, operation: Operation) -> tuple[str, ...]:
    needs = group_needs(topology, cluster, principal)
    return tuple(dict.fromkeys(need.asked for need in needs if need.operation is operation))


def permission_findings(
    topology: Topology, cluster: str, rights: Iterable[Rights], routes: Sequence[Route]
) -> Iterator[Finding]:
    for one in rights:
        check = f"permissions of {one.principal}"
        if one.failed is not None:
            yield Finding(
                f"cluster {cluster}",
                f"login of {one.principal}",
                Verdict.PROBLEM,
                one.failed.error,
                "",
                (one.failed.todo,),
            )
            continue
        yield Finding(
            f"cluster {cluster}", f"login of {one.principal}", Verdict.OK, f"accepted as {one.kafka_principal}"
        )
        lacks = list(_lacks(topology, cluster, one, routes))
        yield from (
            Finding(f"cluster {cluster}", check, Verdict.PROBLEM, text, why, (command,)) for text, why, command in lacks
        )
        parts = (one.creates, one.groups, one.transactional_ids, one.described)
        unknown = [part for part in parts if isinstance(part, Unknown)]
        for part in unknown:
            yield Finding(
                f"cluster {cluster}", check, Verdict.UNKNOWN, part.error, f"{part.subject} was not tried", (part.todo,)
            )
        if not lacks and not unknown:
            yield Finding(f"cluster {cluster}", check, Verdict.OK, "nothing is missing")


Lack = tuple[str, str, str]


def _lacks(topology: Topology, cluster: str, one: Rights, routes: Sequence[Route]) -> Iterator[Lack]:
    for need in _needs(topology, cluster, one, routes):
        missing = [name for name in need.topics if not _may(one, name, need.operation)]
        if need.pattern == "--topic '*'" and need.operation == "DESCRIBE" and not one.sees_all:
            missing = missing or ["topics it cannot see"]
        if missing:
            yield from _lack(one, need, missing)
    if isinstance(one.creates, Mapping):
        refused = [name for name, allowed in one.creates.items() if not allowed]
        if refused:
            why = "what git declares could not be made"
            yield from _lack(one, Needed("CREATE", tuple(refused), "--topic '*'", why), refused)
    yield from _of_groups(topology, cluster, one)
    what = "the job could not copy exactly once"
    if one.principal is Principal.APPLY:
        what = "the lock of the environment could not be held, so nothing could be applied"
    yield from _of_transactions(one, what)
    yield from _of_cluster(topology, cluster, one)


def _of_cluster(topology: Topology, cluster: str, one: Rights) -> Iterator[Lack]:
    """Rights on the cluster itself. Brokers tell of none where Describe is missing (KIP-430): of the others only Alter,
    which contains it, is sure to be missing then."""
    needs: dict[str, str] = {}
    if one.principal in (Principal.PLAN, Principal.APPLY):
        needs["DESCRIBE"] = "bytes at stake, running reassignments and access rules would not be known"
        if cluster in user_clusters(topology):
            needs["DESCRIBE"] = "bytes at stake, access rules and SCRAM users would not be known"
    moves = _factors(topology, cluster)
    if one.principal is Principal.APPLY and (access_clusters(topology) or moves):
        needs["ALTER"] = "access rules could not be set, nor replicas moved"
    elif one.principal is Principal.APPLY and cluster in user_clusters(topology):
        needs["ALTER"] = "SCRAM users could not be made, nor their passwords set"
    if one.principal is Principal.APPLY and moves:
        needs["ALTER_CONFIGS"] = "replicas could not be moved under a throttle"
    if cluster in quota_clusters(topology) and one.principal in (Principal.PLAN, Principal.APPLY):
        needs["DESCRIBE_CONFIGS"] = "quotas could not be read"
        if one.principal is Principal.APPLY:
            needs["ALTER_CONFIGS"] = "quotas could not be set" if not moves else needs["ALTER_CONFIGS"]
    told = needs if one.cluster else {key: why for key, why in needs.items() if key in ("DESCRIBE", "ALTER")}
    for operation, why in told.items():
        if one.cluster is not None and operation not in one.cluster:
            word = _WORDS[operation]
            yield f"lacks {word} on the cluster", why, command(one, word, "--cluster")


def _factors(topology: Topology, cluster: str) -> bool:
    """Whether git declares a factor of a topic there, so that replicas may have to move."""
    flows = any(flow.replication_factor for flow in topology.flows.values() if flow.target == cluster)
    return flows or any(one.replication_factor for one in topology.topics.values() if cluster in one.clusters)


def _lack(one: Rights, need: Needed, missing: Sequence[str]) -> Iterator[Lack]:
    resources = [f"--topic {shlex.quote(name)}" for name in missing]
    if (
        len(missing) > FEW
        or not all(name in need.topics for name in missing)
        or "*" in need.pattern
        or ("prefixed" in need.pattern and len(missing) == len(need.topics))
    ):
        resources = [need.pattern]
    shown = ", ".join(missing[:FEW]) + (f" and {len(missing) - FEW} more" if len(missing) > FEW else "")
    word = _WORDS[need.operation]
    for resource in resources:
        yield f"lacks {word} on {shown}", need.why, command(one, word, resource)


def command(one: Rights, operation: str, resource: str) -> str:
    return (
        f"kafka-acls.sh --bootstrap-server {one.server} --add --allow-principal '{one.kafka_principal}'"
        f" --operation {operation} {resource}"
    )


def _of_groups(topology: Topology, cluster: str, one: Rights) -> Iterator[Lack]:
    for need in group_needs(topology, cluster, one.principal):
        told = one.groups if need.operation is Operation.READ else one.described
        if isinstance(told, Mapping) and not told.get(need.asked, True):
            word = _WORDS[need.operation.name]
            yield f"lacks {word} on {need.words}", need.why, command(one, word, need.resource)


def _of_transactions(one: Rights, what: str) -> Iterator[Lack]:
    """``what``: why it matters."""
    asked, kind = one.transactional_ids, "--transactional-id"
    lacking: dict[str, list[str]] = {}
    for name, allowed in asked.items() if isinstance(asked, Mapping) else ():
        resource = f"{kind} {name}"
        if name.startswith(MIRROR):  # one for each lane of the flow
            resource = f"{kind} {name.rpartition('.')[0]}. --resource-pattern-type prefixed"
        if not allowed:
            lacking.setdefault(resource, []).append(name)
    for resource, names in lacking.items():
        shown = ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
        yield f"lacks Write on transactional-id {shown}", what, command(one, "Write", resource)


def _may(one: Rights, topic: str, operation: str) -> bool:
    return topic not in one.denied and (topic not in one.operations or operation in one.operations[topic])


def _needs(topology: Topology, cluster: str, one: Rights, routes: Sequence[Route]) -> tuple[Needed, ...]:
    match one.principal:
        case Principal.PLAN:
            seen = tuple(sorted({*one.operations, *one.denied}))
            everything = "a topic that plan cannot see would look as if it were not there"
            values = "its values would be unknown, and what rests on them is not planned"
            needs = [
                Needed("DESCRIBE", seen, "--topic '*'", everything),
                Needed("DESCRIBE_CONFIGS", seen, "--topic '*'", values),
            ]
            if _carries_status(topology, cluster) and STATUS_TOPIC in one.operations:
                why = "plan could not tell which definition a mirror runs with"
                needs.append(Needed("READ", (STATUS_TOPIC,), f"--topic {STATUS_TOPIC}", why))
            if _keeps_lock(topology, cluster) and LOCK_TOPIC in one.operations:
                why = "plan could not tell a wish that shrank, nor a cluster nobody has met (docs/guards.md)"
                needs.append(Needed("READ", (LOCK_TOPIC,), f"--topic {LOCK_TOPIC}", why))
            elif cluster in _record_clusters(topology) and LOCK_TOPIC in one.operations:
                why = "plan could not tell which access rules, quotas and users are ours (docs/access.md)"
                needs.append(Needed("READ", (LOCK_TOPIC,), f"--topic {LOCK_TOPIC}", why))
            return tuple(needs)
        case Principal.APPLY:
            wished = tuple(sorted({*one.operations, *one.denied} - {LOCK_TOPIC}))
            doomed = tuple(sorted(stone.topic for stone in topology.deletions if stone.cluster == cluster))
            reasons = {
                "DESCRIBE": "what it changes it must see",
                "DESCRIBE_CONFIGS": "what it changes it must see",
                "ALTER": "partitions could not be added",
                "ALTER_CONFIGS": "configs could not be changed",
            }
            needs = [Needed(operation, wished, "--topic '*'", why) for operation, why in reasons.items()]
            if _carries_status(topology, cluster) and STATUS_TOPIC in one.operations:
                for operation in ("READ", "WRITE"):
                    why = "mirror pause and resume could not be recorded"
                    needs.append(Needed(operation, (STATUS_TOPIC,), f"--topic {STATUS_TOPIC}", why))
            if _keeps_lock(topology, cluster):
                why = "the lock of the environment is kept there; nothing could be applied"
                needs += [Needed(each, (LOCK_TOPIC,), f"--topic {LOCK_TOPIC}", why) for each in ("READ", "WRITE")]
            elif cluster in _record_clusters(topology) and LOCK_TOPIC in one.operations:
                why = "no access rule, quota or user could be made, since it could not be written down as ours"
                needs += [Needed(each, (LOCK_TOPIC,), f"--topic {LOCK_TOPIC}", why) for each in ("READ", "WRITE")]
            return (*needs, Needed("DELETE", doomed, "", "its tombstone could not be carried out"))
        case Principal.MIRROR:
            return tuple(_mirror(topology, cluster, routes))


def _mirror(topology: Topology, cluster: str, routes: Sequence[Route]) -> Iterator[Needed]:
    for flow in topology.flows.values():
        mine = [route for route in routes if route.flow == flow.name]
        if flow.source == cluster:
            topics = tuple(sorted({route.source.name for route in mine}))
            yield Needed("READ", topics, "--topic '*'" if len(topics) > FEW else "", f"flow {flow.name} reads them")
        if flow.target == cluster:
            topics = tuple(sorted({route.remote.name for route in mine}))
            yield Needed("WRITE", topics, _written(flow), f"flow {flow.name} writes them")
        for topic in written_by(flow):
            if topic.ref.cluster == cluster:
                name, why = topic.ref.name, f"the mirror of flow {flow.name} {topic.reason}"
                yield Needed("WRITE", (name,), f"--topic {name}", why)
    if _carries_status(topology, cluster):
        yield Needed("WRITE", (STATUS_TOPIC,), f"--topic {STATUS_TOPIC}", "nobody could see what the job does")
        yield Needed("READ", (STATUS_TOPIC,), f"--topic {STATUS_TOPIC}", "pause and resume would have no effect")


def _written(flow: Flow) -> str:
    if flow.naming.policy == "default":
        return f"--topic {flow.source}{flow.naming.separator} --resource-pattern-type prefixed"
    return "--topic '*'"


def _carries_status(topology: Topology, cluster: str) -> bool:
    return any(topology.status_cluster(mirror) == cluster for mirror in topology.mirrors.values() if mirror.flows)


def _keeps_lock(topology: Topology, cluster: str) -> bool:
    return lock_cluster(topology).name == cluster


def _keeps_record(topology: Topology, cluster: str) -> bool:
    """Of the lock, or of what is ours."""
    return _keeps_lock(topology, cluster) or cluster in _record_clusters(topology)


def _record_clusters(topology: Topology) -> frozenset[str]:
    return access_clusters(topology) | quota_clusters(topology) | user_clusters(topology)


def _wished(topology: Topology, cluster: str, routes: Sequence[Route]) -> set[str]:
    declared = {topic.name for topic in topology.topics.values() if cluster in topic.clusters}
    remote = {route.remote.name for route in routes if route.remote.cluster == cluster}
    internal = {topic.ref.name for topic in internal_topics(topology) if topic.ref.cluster == cluster}
    return declared | remote | internal | ({LOCK_TOPIC} if _keeps_record(topology, cluster) else set())
