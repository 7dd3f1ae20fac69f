"""Lockout: whether a plan takes a right from the reconciler itself or from its mirror jobs.

Checks only what the topology needs today; a principal with fewer rights than its role is not an error.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

from reconciler.model.changes import About, AclChange, CreateAcl, DeleteAcl, Refused, Subject, Why
from reconciler.model.environment.topology import OURS, Flow, Principal, Topology
from reconciler.model.plan import Findings
from reconciler.model.principals import (
    ANYONE,
    AccessRole,
    AccessRule,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from reconciler.model.reports.probe import Needs
from reconciler.model.state.lock import lock_cluster, transactional_id
from reconciler.replication.names import transactional_id as lane_id
from reconciler.resources.acls.authorizer.decide import Rulebook
from reconciler.resources.acls.authorizer.gains_and_losses import locked_out, upheld_by
from reconciler.resources.acls.roles import bindings, clusters_of, expand_stable, flows_of, mirror_rights, own_rights
from reconciler.resources.flows.routes import Route
from reconciler.resources.topics.internal import internal_topics

SHOWN = 5
_SELDOM = (
    (ResourceType.TOPIC, Operation.DELETE),
    (ResourceType.CLUSTER, Operation.ALTER_CONFIGS),
    (ResourceType.CLUSTER, Operation.DESCRIBE_CONFIGS),
)
"""Rights of roles that only tombstones and throttles need: losing them locks no principal out."""
ANONYMOUS = "User:ANONYMOUS"
_ROLES = {
    Principal.PLAN: AccessRole.RECONCILER_PLAN,
    Principal.APPLY: AccessRole.RECONCILER_APPLY,
    Principal.MIRROR: AccessRole.MIRROR,
}
Books = tuple[Rulebook, Rulebook]
"""Before and after."""


def takes_away(change: AclChange) -> bool:
    return isinstance(change, DeleteAcl) is (change.acl.permission is Permission.ALLOW)


def carried_out(rules: frozenset[AclBinding], changes: Iterable[AclChange]) -> frozenset[AclBinding]:
    """``rules`` after ``changes``."""
    wanted = {change.acl: isinstance(change, CreateAcl) for change in changes}
    return (rules - wanted.keys()) | {acl for acl, there in wanted.items() if there}


def own_lockouts(
    topology: Topology, cluster: str, routes: Sequence[Route], books: Books, changes: Iterable[AclChange]
) -> tuple[Findings, Set[AclBinding]]:
    """Finds needed rights that the plan takes from this environment's own principals: a program that locks itself out
    cannot repair it. ``books``: rules before and after. The second part: rules that uphold needed rights, so that a
    plan is stale once one of them is deleted."""
    taking = [change.acl for change in changes if takes_away(change)]
    refused: list[Refused] = []
    notes: list[str] = []
    rests_on: set[AclBinding] = set()
    for needs in needs_of(topology, cluster, routes) if taking else ():
        kind = needs.kind
        if not needs.name:
            text = f"not checked whether the {kind} principal keeps its rights on {cluster}: its settings do not name"
            notes.append(f"{text} it; an access entry of role {_ROLES[kind]} would")
            continue
        # Only rules for the principal, or for everyone, can take a right from it, so most plans need no proof.
        relevant = [acl for acl in taking if acl.principal in (needs.name, ANYONE)]
        if not relevant:
            continue
        asked = reached(needs, relevant)
        rests_on |= upheld_by(books[1], asked)
        if lost := locked_out(*books, asked):
            # Each lost right with the rule at fault: the reader has to know which entry of git to change.
            proofs = []
            for out in lost[:SHOWN]:
                because = (
                    f"'{out.by}' denies it" if out.by else f"'{out.today}' goes and no rule that is left allows it"
                )
                proofs.append(f"{out.request.operation} on {out.request.where}: {because}")
            more = f"; and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
            who = "the job of its flows" if kind is Principal.MIRROR else f"its own {kind} principal"
            problem = f"this plan would lock {who}, {needs.name}, out of {cluster}: {'; '.join(proofs)}{more}"
            denied = any(out.by for out in lost)
            todo = "Leave the denial out or narrow it" if denied else "Keep the rule, or give the right by another one"
            by_hand = (
                f"make the rule with kafka-acls.sh where {needs.name} is"
                if denied
                else f"delete it with kafka-acls.sh where {needs.name} is"
            )
            advice = f"{todo}; brokers do not report who is a super user: {by_hand} one"
            refused.append(Refused.of(Subject(About.ACLS, cluster), Why.LOCKS_ITSELF_OUT, problem, advice))
    return Findings(refused=tuple(refused), notes=tuple(notes)), rests_on


def needs_of(topology: Topology, cluster: str, routes: Sequence[Route]) -> Iterator[Needs]:
    """Needs of each principal of the reconciler, and of mirror jobs, on ``cluster``."""
    for kind in OURS:
        flows = _carried(topology, cluster)
        if kind is Principal.MIRROR and not flows:
            continue
        topics, ids = _known(kind, topology, cluster, routes)
        for name, carried in (names_of(kind, topology, cluster) or {"": flows}).items():
            rights = (replace(acl, principal=name) for acl in _needed(kind, topology, carried, routes, cluster))
            yield Needs(kind, name, tuple(rights), topics, ids)


def reached(needs: Needs, rules: Sequence[AclBinding] | None, most: int | None = None) -> list[AclBinding]:
    """Needed requests, name by name, as far as ``rules`` cover them; None: all. ``most``: topics at most. A pattern on
    groups has no known names."""
    names = {ResourceType.TOPIC: sorted(needs.topics)[:most], ResourceType.TRANSACTIONAL_ID: needs.transactional_ids}
    affected: list[AclBinding] = []
    for acl in needs.rights:
        if acl.pattern is PatternType.LITERAL and not acl.wildcard:
            affected.append(acl)
            continue
        reaching = None if rules is None else [rule for rule in rules if rule.resource is acl.resource]
        for name in filter(acl.covers_name, names.get(acl.resource, ())):
            if reaching is None or any(rule.covers_name(name) for rule in reaching):
                affected.append(replace(acl, name=name, pattern=PatternType.LITERAL))
    return affected


def names_of(kind: Principal, topology: Topology, cluster: str) -> dict[str, tuple[Flow, ...]]:
    """Kafka principal -> its flows. From client settings; if they show no name, from entries of its role."""
    flows = _carried(topology, cluster)
    client = topology.clusters[cluster].client_for(kind)
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    login = client.get("sasl.username", "")
    if protocol == "PLAINTEXT":
        return {ANONYMOUS: flows}
    if protocol.startswith("SASL_") and login and "${" not in login:
        return {f"User:{login}": flows}
    entries = [rule for rule in topology.access if _is_for(rule, kind, topology, cluster)]
    return {rule.principal: tuple(flow for flow in flows if flow in flows_of(rule, topology)) for rule in entries}


def _is_for(rule: AccessRule, kind: Principal, topology: Topology, cluster: str) -> bool:
    where = clusters_of(rule, topology) if rule.role is AccessRole.MIRROR else rule.clusters
    return rule.role is _ROLES[kind] and not rule.absent and cluster in where


def _carried(topology: Topology, cluster: str) -> tuple[Flow, ...]:
    names = {name for mirror in topology.mirrors.values() for name in mirror.flows}
    flows = topology.flows.values()
    return tuple(flow for flow in flows if flow.name in names and cluster in (flow.source, flow.target))


def _needed(
    kind: Principal, topology: Topology, flows: Sequence[Flow], routes: Sequence[Route], cluster: str
) -> Iterator[AclBinding]:
    """Needs of a principal on this cluster, without rarely needed rights, whose loss locks no principal out."""
    role = AccessRule(0, "", (cluster,), _ROLES[kind])
    if kind is Principal.MIRROR:
        yield from bindings(role, mirror_rights(flows, topology, routes, cluster))
        return
    own = bindings(role, own_rights(role.role, topology.clusters[cluster].own_topics))
    for acl in (*expand_stable(role), *own):
        if (acl.resource, acl.operation) not in _SELDOM:
            yield acl


def _known(
    kind: Principal, topology: Topology, cluster: str, routes: Iterable[Route]
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Topics and transactional ids behind the wildcards and prefixes of a role."""
    if kind is Principal.MIRROR:
        targets = [flow for flow in topology.flows.values() if flow.target == cluster]
        lanes = tuple(lane_id(flow.state_name, lane) for flow in targets for lane in range(flow.lanes))
        return frozenset(route.remote.name for route in routes if route.remote.cluster == cluster), lanes
    lock = (transactional_id(topology.environment),) if lock_cluster(topology).name == cluster else ()
    own = topology.clusters[cluster].own_topics
    return frozenset({*planned_names(topology, cluster, routes), own.lock}), lock


def planned_names(topology: Topology, cluster: str, routes: Iterable[Route]) -> set[str]:
    """Topics that git declares on the cluster, that flows bring there, or that mirrors keep there."""
    declared = {topic.name for topic in topology.topics.values() if cluster in topic.clusters}
    remote = {route.remote.name for route in routes if route.remote.cluster == cluster}
    return declared | remote | {topic.ref.name for topic in internal_topics(topology) if topic.ref.cluster == cluster}
