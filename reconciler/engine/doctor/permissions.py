"""What each principal needs on each cluster, and the exact kafka-acls command for what it lacks."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.access import access_clusters
from reconciler.acls import Operation
from reconciler.checkups import Ask, Finding, Rights, Verdict
from reconciler.diagnosing.groups import group_needs
from reconciler.diagnosing.needs import FEW, Needed, keeps_lock, record_needs, topic_needs, wished
from reconciler.enrolling import user_clusters
from reconciler.errors import Unknown
from reconciler.limiting import quota_clusters
from reconciler.live import LiveCluster, LiveState
from reconciler.locks import transactional_id as lock_transactional_id
from reconciler.routing import Route
from reconciler.topology import Principal, Topology
from replication.names import transactional_id

MIRROR = "mirror."
CREATES_ASKED = 100
"""A validate-only create costs the mutation quota as a real one would, so not all of a thousand are tried."""

_WORDS = {"DESCRIBE": "Describe", "DESCRIBE_CONFIGS": "DescribeConfigs", "READ": "Read", "WRITE": "Write",
          "ALTER": "Alter", "ALTER_CONFIGS": "AlterConfigs", "CREATE": "Create", "DELETE": "Delete"}  # fmt: skip


def asks(topology: Topology, live: LiveState, routes: Sequence[Route]) -> dict[tuple[str, Principal], Ask]:
    """What to ask of whom. A mirror principal is asked only on clusters that are a side of a flow."""
    found: dict[tuple[str, Principal], Ask] = {}
    for name in topology.clusters:
        here = live.known(name)
        exist = tuple(here.topics) if here else ()
        wish = wished(topology, name, routes)
        missing = tuple(one for one in sorted(wish) if here is None or one not in here.topics)
        lock = (lock_transactional_id(topology.environment),) if keeps_lock(topology, name) else ()
        found[name, Principal.PLAN] = Ask(exist, described=_groups(topology, name, Principal.PLAN, Operation.DESCRIBE))
        found[name, Principal.APPLY] = Ask(
            tuple(sorted(wish & set(exist))), missing[:CREATES_ASKED], transactional_ids=lock
        )
        flows = [flow for flow in topology.flows.values() if name in (flow.source, flow.target)]
        if flows:
            targets = [flow for flow in flows if flow.target == name]
            needs = record_needs(topology, name, Principal.MIRROR, routes)
            found[name, Principal.MIRROR] = Ask(
                topics=tuple(sorted({one for need in needs for one in need.topics})),
                groups=_groups(topology, name, Principal.MIRROR, Operation.READ),
                transactional_ids=tuple(
                    transactional_id(flow.name, lane) for flow in targets for lane in range(flow.lanes)
                ),
                described=_groups(topology, name, Principal.MIRROR, Operation.DESCRIBE),
            )
    return {
        (name, principal): replace(
            ask,
            reads=_to_come(record_needs(topology, name, principal, routes), "READ", live.known(name)),
            writes=_to_come(record_needs(topology, name, principal, routes), "WRITE", live.known(name)),
        )
        for (name, principal), ask in found.items()
    }


def _to_come(needs: Iterable[Needed], operation: str, here: LiveCluster | None) -> tuple[str, ...]:
    """Of topics that are not there yet brokers tell no operations."""
    if here is None:
        return ()
    topics = {one for need in needs if need.operation == operation for one in need.topics}
    return tuple(sorted(topics - here.topics.keys()))


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
        parts = (one.creates, one.groups, one.transactional_ids, one.described, one.reads, one.writes)
        unknown = [part for part in parts if isinstance(part, Unknown)]
        for part in unknown:
            yield Finding(
                f"cluster {cluster}", check, Verdict.UNKNOWN, part.error, f"{part.subject} was not tried", (part.todo,)
            )
        if not lacks and not unknown:
            yield Finding(f"cluster {cluster}", check, Verdict.OK, "nothing is missing")


Lack = tuple[str, str, str]


def _lacks(topology: Topology, cluster: str, one: Rights, routes: Sequence[Route]) -> Iterator[Lack]:
    for need in topic_needs(topology, cluster, one, routes):
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
    tried = {"READ": one.reads, "WRITE": one.writes}.get(operation)
    if isinstance(tried, Mapping) and topic in tried:
        return tried[topic]
    return topic not in one.denied and (topic not in one.operations or operation in one.operations[topic])
