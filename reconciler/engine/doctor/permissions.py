"""Doctor checks of each principal's permissions, with a kafka-acls.sh command for missing ones."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.engine.doctor.rights import (
    FEW,
    HOSTS_NOT_ASKED,
    JOB_NOT_KEPT,
    NO_SUCH_GROUP,
    Needed,
    desired_names,
    doomed_names,
    group_needs,
    hosts,
    keeps_lock,
    record_needs,
    topic_needs,
)
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.live import LiveState
from reconciler.model.principals import Operation
from reconciler.model.reports.doctor import Ask, Check, Finding, Rights
from reconciler.model.state.lock import transactional_id as lock_transactional_id
from reconciler.replication.names import host_transactions, transactional_id
from reconciler.resources.acls.desired import access_clusters
from reconciler.resources.flows import same_offsets
from reconciler.resources.flows.routes import Route
from reconciler.resources.quotas.diff import quota_clusters
from reconciler.resources.users.diff import user_clusters
from reconciler.text import first_of, in_shell

CREATES_ASKED = 100
"""Most validate-only creates: each counts towards the mutation quota like a real one."""

_WORDS = {"DESCRIBE": "Describe", "DESCRIBE_CONFIGS": "DescribeConfigs", "READ": "Read", "WRITE": "Write",
          "ALTER": "Alter", "ALTER_CONFIGS": "AlterConfigs", "CREATE": "Create", "DELETE": "Delete"}  # fmt: skip


Lack = tuple[str, str, str]
"""The missing right, its consequence, and the command that grants it."""


def asks(topology: Topology, live: LiveState, routes: Sequence[Route]) -> dict[tuple[str, Principal], Ask]:
    """(cluster, principal) -> rights to check. Mirror principals are checked only on clusters of a flow."""
    all_asks: dict[tuple[str, Principal], Ask] = {}
    for name in topology.clusters:
        here = live.known(name)
        exist = tuple(here.topics) if here else ()
        declared = desired_names(topology, name, routes)
        missing = tuple(name for name in sorted(declared) if here is None or name not in here.topics)
        environment, hosted = topology.environment, hosts(topology, name)
        # Hosts and requests to them use ids with a suffix each; an unused one shows whether the right covers them all.
        ours = [lock_transactional_id(environment)] if keeps_lock(topology, name) else []
        ours += [f"{lock_transactional_id(environment)}.{NO_SUCH_GROUP}"] if hosted else []
        all_asks[name, Principal.PLAN] = Ask(
            (*exist, *missing), described=_groups(topology, name, Principal.PLAN, Operation.DESCRIBE)
        )
        changed = declared.union(doomed_names(topology, name)).intersection(exist)
        all_asks[name, Principal.APPLY] = Ask(
            tuple(sorted(changed)), missing[:CREATES_ASKED], transactional_ids=tuple(ours)
        )
        flows = [flow for flow in topology.flows.values() if name in (flow.source, flow.target)]
        if flows:
            targets = [flow for flow in flows if flow.target == name]
            needs = record_needs(topology, name, Principal.MIRROR, routes)
            ids = [transactional_id(flow.state_name, lane) for flow in targets for lane in range(flow.lanes)]
            ids += [f"{host_transactions(environment)}{NO_SUCH_GROUP}"] if hosted else []
            all_asks[name, Principal.MIRROR] = Ask(
                topics=tuple(sorted({topic for need in needs for topic in need.topics})),
                groups=_groups(topology, name, Principal.MIRROR, Operation.READ),
                transactional_ids=tuple(ids),
                described=_groups(topology, name, Principal.MIRROR, Operation.DESCRIBE),
                markers=bool(same_offsets.keeping_flows(topology, name)),
            )

    # Brokers report no authorized operations for missing topics, so Read and Write are tried on each.
    for (name, principal), ask in all_asks.items():
        if here := live.known(name):
            to_come: dict[str, set[str]] = {"READ": set(), "WRITE": set()}
            for need in record_needs(topology, name, principal, routes):
                to_come.get(need.operation, set()).update(set(need.topics) - here.topics.keys())
            reads, writes = tuple(sorted(to_come["READ"])), tuple(sorted(to_come["WRITE"]))
            all_asks[name, principal] = replace(ask, reads=reads, writes=writes)
    return all_asks


def _groups(topology: Topology, cluster: str, principal: Principal, operation: Operation) -> tuple[str, ...]:
    needs = group_needs(topology, cluster, principal)
    return tuple(dict.fromkeys(need.asked for need in needs if need.operation is operation))


_OF_PLAN = "with these rights the login of each pull request could change the cluster"


def permission_findings(
    topology: Topology, cluster: str, rights: Iterable[Rights], routes: Sequence[Route]
) -> Iterator[Finding]:
    """For each principal of the cluster: whether it can log in, and which rights its steps lack, with the commands that
    grant them."""
    subject, declared, rights = f"cluster {cluster}", topology.clusters[cluster].principals, list(rights)
    whose = {right.principal: right.kafka_principal for right in rights if right.failed is None}
    for right in rights:
        who = right.principal
        login, check = Check(subject, f"login of {who}"), Check(subject, f"permissions of {who}")
        if right.failed is not None:
            yield login.problem(right.failed.error, "", right.failed.todo)
            continue
        yield login.ok(f"accepted as {right.kafka_principal}")

        # An undeclared principal logs in as plan. More rights for plan's login would give every pull request power over
        # the cluster, so all its missing rights are one problem: the missing login.
        lacks = list(_lacks(topology, cluster, right, routes))
        plans = who is not Principal.PLAN and right.kafka_principal == whose.get(Principal.PLAN)
        if lacks and plans and who not in declared:
            named = first_of([*dict.fromkeys(lack.removeprefix("lacks ") for lack, _, _ in lacks)], FEW)
            text = f"{who} is not declared under principals, so it logs in as {right.kafka_principal}, which lacks"
            why = f"plan only reads: {_OF_PLAN}"
            todo = f"Declare principals: {who} under cluster {cluster}, with a login of its own"
            yield check.problem(f"{text} {named}", why, f"{todo}; doctor then gives the grants of that login")
        else:
            also = f"; it is plan's login, too: {_OF_PLAN}" if plans else ""
            yield from (check.problem(lack, f"{why}{also}", todo) for lack, why, todo in lacks)
        parts = (right.creates, right.groups, right.transactional_ids, right.described, right.reads, right.writes)
        unknown = [part for part in parts if isinstance(part, Unknown)]
        yield from (check.unread(part, f"{part.subject} was not tried") for part in unknown)
        if not lacks and not unknown:
            yield check.ok("nothing is missing")

        # A missing right to write transaction markers is no problem: flows copy without it, up to a limit that a user
        # may accept.
        if (held := right.markers) is not None:
            check, flows = Check(subject, f"markers of {who}"), same_offsets.flows_into(topology, cluster)
            todo = same_offsets.marker_todo(
                topology, cluster, right.kafka_principal, command(right, "ClusterAction", "--cluster")
            )
            if isinstance(held, Unknown):
                yield check.unknown(
                    held.error, f"{flows}: if it may not, {same_offsets.MARKER_LIMIT}", f"{held.todo}; {todo}"
                )
            elif held:
                yield check.ok(same_offsets.MARKERS_ALLOWED, f"{flows}: restarts of brokers cannot make a copy diverge")
            else:
                yield check.warning(same_offsets.MARKERS_NOT_ALLOWED, f"{flows}: {same_offsets.MARKER_LIMIT}", todo)


def _lacks(topology: Topology, cluster: str, rights: Rights, routes: Sequence[Route]) -> Iterator[Lack]:
    """Missing rights of one principal: topics and groups that it has to use, topics that it has to create, its
    transactional ids, and the cluster itself."""
    for need in topic_needs(topology, cluster, rights, routes):
        missing = [name for name in need.topics if not _may(rights, name, need.operation)]
        if need.pattern == "--topic '*'" and need.operation == "DESCRIBE" and not rights.sees_all:
            missing = missing or ["topics it cannot see"]
        if missing:
            yield from _lack(rights, need, missing)
    if isinstance(rights.creates, Mapping):
        refused = [name for name, allowed in rights.creates.items() if not allowed]
        if refused:
            why = "what git declares could not be made"
            yield from _lack(rights, Needed("CREATE", tuple(refused), "--topic '*'", why), refused)
    for group in group_needs(topology, cluster, rights.principal):
        groups = rights.groups if group.operation is Operation.READ else rights.described
        if isinstance(groups, Mapping) and not groups.get(group.asked, True):
            word = _WORDS[group.operation.name]
            yield f"lacks {word} on {group.words}", group.why, command(rights, word, group.resource)

    # Each lane has a transactional id of its own; one grant of the prefix covers all lanes of a flow.
    ids = rights.transactional_ids if isinstance(rights.transactional_ids, Mapping) else {}
    lacking: dict[tuple[str, str], list[str]] = {}
    lock = lock_transactional_id(topology.environment)
    for name in (name for name, allowed in ids.items() if not allowed):
        resource = f"--transactional-id {name.rpartition('.')[0]}. --resource-pattern-type prefixed"
        why = "the job could not copy exactly once"
        if name == lock:
            resource = f"--transactional-id {name}"
            why = "the lock of the environment could not be held, so nothing could be applied"
        elif name.endswith(f".{NO_SUCH_GROUP}"):
            why = HOSTS_NOT_ASKED if rights.principal is Principal.APPLY else JOB_NOT_KEPT
        lacking.setdefault((resource, why), []).append(name)
    for (resource, why), names in lacking.items():
        yield f"lacks Write on transactional-id {first_of(names, FEW)}", why, command(rights, "Write", resource)
    yield from _of_cluster(topology, cluster, rights)


def _of_cluster(topology: Topology, cluster: str, rights: Rights) -> Iterator[Lack]:
    """Missing rights on the cluster itself. Without Describe, brokers report no operations (KIP-430); of the others,
    only Alter, which implies Describe, is then surely missing."""
    needs: dict[str, str] = {}
    if rights.principal in (Principal.PLAN, Principal.APPLY):
        needs["DESCRIBE"] = "bytes at stake, running reassignments and access rules would not be known"
        if cluster in user_clusters(topology):
            needs["DESCRIBE"] = "bytes at stake, access rules and SCRAM users would not be known"
    # A declared replication factor may need a reassignment.
    moves = any(flow.replication_factor for flow in topology.flows.values() if flow.target == cluster)
    moves = moves or any(topic.replication_factor for topic in topology.topics.values() if cluster in topic.clusters)
    if rights.principal is Principal.APPLY and (access_clusters(topology) or moves):
        needs["ALTER"] = "access rules could not be set, nor replicas moved"
    elif rights.principal is Principal.APPLY and cluster in user_clusters(topology):
        needs["ALTER"] = "SCRAM users could not be made, nor their passwords set"
    if rights.principal is Principal.APPLY and moves:
        needs["ALTER_CONFIGS"] = "replicas could not be moved under a throttle"
    if cluster in quota_clusters(topology) and rights.principal in (Principal.PLAN, Principal.APPLY):
        needs["DESCRIBE_CONFIGS"] = "quotas could not be read"
        if rights.principal is Principal.APPLY:
            needs["ALTER_CONFIGS"] = "quotas could not be set" if not moves else needs["ALTER_CONFIGS"]
    texts = needs if rights.cluster else {key: why for key, why in needs.items() if key in ("DESCRIBE", "ALTER")}
    for operation, why in texts.items():
        if rights.cluster is not None and operation not in rights.cluster:
            word = _WORDS[operation]
            yield f"lacks {word} on the cluster", why, command(rights, word, "--cluster")


def _lack(rights: Rights, need: Needed, missing: Sequence[str]) -> Iterator[Lack]:
    """The missing right with topic names if there are few or no pattern, else with the pattern that grants all."""
    resources = [f"--topic {shlex.quote(name)}" for name in missing]
    if need.pattern and (
        len(missing) > FEW
        or not all(name in need.topics for name in missing)
        or "*" in need.pattern
        or ("prefixed" in need.pattern and len(missing) == len(need.topics))
    ):
        resources = [need.pattern]
    shown = first_of(missing, FEW)
    word = _WORDS[need.operation]
    for resource in resources:
        yield f"lacks {word} on {shown}", need.why, command(rights, word, resource)


def command(rights: Rights, operation: str, resource: str) -> str:
    if rights.granted:
        return f"Allow it {rights.granted}: {operation} on {resource.removeprefix('--')}"
    return (
        f"kafka-acls.sh --bootstrap-server {rights.server} --add --allow-principal {in_shell(rights.kafka_principal)}"
        f" --operation {operation} {resource}"
    )


def _may(rights: Rights, topic: str, operation: str) -> bool:
    tried = {"READ": rights.reads, "WRITE": rights.writes}.get(operation)
    if isinstance(tried, Mapping) and topic in tried:
        return tried[topic]
    return topic not in rights.denied and (topic not in rights.operations or operation in rights.operations[topic])
