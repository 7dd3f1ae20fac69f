"""The desired ACLs of each cluster with reasons: declared, for mirror jobs, derived by flows, and for read-only copies.

Flows derive only from rules that no flow made, hop by hop, so that two opposite flows cannot keep an undeclared rule
alive.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from reconciler.errors import Unknown
from reconciler.model.changes import About, Grant, Ignored, Subject
from reconciler.model.environment.topology import OURS, Flow, Topology
from reconciler.model.live import LiveAccess, LiveCluster, LiveState
from reconciler.model.principals import AccessRole, AclBinding, Operation, Permission, Unsupported, redundant, word
from reconciler.resources.acls import derive_from_flows, roles
from reconciler.resources.flows.routes import Routing
from reconciler.text import ANY_FOLDER, counted, first_of

DECLARED = "declared"
_AT_HOME = (AccessRole.MIRROR, AccessRole.RECONCILER_PLAN, AccessRole.RECONCILER_APPLY)
"""Roles of programs with their own rules on each cluster: no flow derives from them."""

Rules = dict[AclBinding, "DesiredRule"]


@dataclass(frozen=True, slots=True)
class DesiredRule:
    """A rule that a cluster should have."""

    acl: AclBinding
    grant: Grant
    rests_on: str = ""
    """The rule behind this one, as ``cluster/rule``: on a flow's source, or, for a denial of ``copies: read_only``, the
    allow rule on the same cluster."""
    travels: bool = True
    """Flows may derive a rule on their target from it."""

    @property
    def keeps_copies(self) -> bool:
        """Whether this is a denial of ``copies: read_only``: rules derived from a source never concern writing."""
        return bool(self.rests_on) and self.acl.operation is Operation.WRITE


@dataclass(frozen=True, slots=True)
class DesiredRules:
    """Rules by cluster."""

    rules: Mapping[str, Mapping[AclBinding, DesiredRule]]
    absent: Mapping[str, Mapping[AclBinding, Grant]]
    """Rules that must not exist."""
    doubtful: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Why desired rules are incomplete, so that no rule may count as left over."""
    open: Mapping[str, tuple[Ignored, ...]] = field(default_factory=dict)
    """Read-only copies that others may still write, and why."""


def access_clusters(topology: Topology) -> frozenset[str]:
    """Clusters whose rules are read: none if access is neither declared nor derived."""
    derives = any(flow.access.enabled or flow.copies is not None for flow in topology.flows.values())
    return frozenset(topology.clusters) if topology.access_declared or derives else frozenset()


def desired_rules(topology: Topology, live: LiveState, routing: Routing) -> DesiredRules:
    """The rules that each cluster should have: of entries of ``access``, derived from flows, and denials on read-only
    copies. Complete only with all topics known: where one is not, ``doubtful`` keeps anything from being deleted."""
    rules: dict[str, Rules] = {name: {} for name in topology.clusters}
    absent: dict[str, dict[AclBinding, Grant]] = {name: {} for name in topology.clusters}
    doubtful: dict[str, list[str]] = {name: [] for name in topology.clusters}
    for rule in topology.access:
        grant = Grant(roles.title_of(rule), DECLARED, str(rule.where))
        for cluster in roles.clusters_of(rule, topology):
            if rule.role is AccessRole.MIRROR:
                rights = roles.mirror_rights(roles.flows_of(rule, topology), topology, routing.routes, cluster)
                acls = roles.bindings(rule, rights)
            else:
                acls = (
                    *roles.expand_stable(rule),
                    *roles.bindings(rule, roles.record_rights(rule.role, topology, cluster)),
                )
            for acl in acls:
                if rule.absent:
                    absent[cluster].setdefault(acl, grant)
                else:
                    # The first one names the rule; one that may travel makes it travel.
                    here = rules[cluster]
                    desired = DesiredRule(acl, grant, travels=rule.role not in _AT_HOME)
                    before = here.get(desired.acl)
                    if before is None or (desired.travels and not before.travels):
                        here[desired.acl] = desired
        if rule.role is AccessRole.MIRROR:
            _doubt(roles.flows_of(rule, topology), live, doubtful)
    # Rules derived from what cannot be read now are incomplete: nothing is deleted while that is so.
    flows = [flow for flow in topology.flows.values() if flow.access.enabled]
    _doubt(flows, live, doubtful)
    _doubt((flow for flow in topology.flows.values() if flow.read_only), live, doubtful)
    _derive(topology, flows, live, routing, (rules, absent))
    said = {name: tuple(dict.fromkeys(why)) for name, why in doubtful.items() if why}
    all_rules, open_ones = DesiredRules(rules, absent, said), dict[str, tuple[Ignored, ...]]()
    # Last, since denials on copies depend on all rules that allow someone to write there.
    for name in topology.clusters:
        if (known := live.known(name)) is not None:
            denied, open_ones[name] = _read_only(topology, live, routing, known, all_rules)
            rules[name] |= denied
    return replace(all_rules, open=open_ones)


def left_over(access: LiveAccess, name: str, desired: DesiredRules) -> frozenset[AclBinding]:
    """Rules of earlier runs that are no longer desired; none while desired rules are incomplete."""
    if name in desired.doubtful or isinstance(access.acls, Unknown | Unsupported) or isinstance(access.owned, Unknown):
        return frozenset()
    rules, absent = desired.rules[name], desired.absent[name]
    needed = frozenset(rules)
    mine = (acl for acl in access.owned if acl in access.acls and acl not in rules and acl not in absent)
    return frozenset(acl for acl in mine if not redundant(acl, needed))


def _doubt(flows: Iterable[Flow], live: LiveState, doubtful: dict[str, list[str]]) -> None:
    """Notes why desired rules of a cluster are incomplete: a flow's other side was not read, so its derived rules are
    unknown."""
    for flow in flows:
        for side in (flow.source, flow.target):
            cluster = live.known(side)
            why = ""
            if cluster is None:
                why = f"cluster {side} could not be used"
            elif not cluster.sees_all:
                why = f"not every topic of {side} is visible"
            elif (flow.access.enabled or (flow.read_only and side == flow.target)) and (
                cluster.access is None
                or isinstance(cluster.access.acls, Unknown)
                or isinstance(cluster.access.owned, Unknown)
            ):
                why = f"the access rules of {side} could not be read"
            if why:
                # Both sides, since rules derived from one are made on the other, and a missing one must not look
                # superfluous there.
                doubtful[flow.source].append(f"flow {flow.name}: {why}")
                doubtful[flow.target].append(f"flow {flow.name}: {why}")


def _derive(
    topology: Topology,
    flows: Iterable[Flow],
    live: LiveState,
    routing: Routing,
    declared: tuple[dict[str, Rules], Mapping[str, Mapping[AclBinding, Grant]]],
) -> None:
    """Adds derived rules to ``declared``, over as many hops as there are clusters. The second part: rules that must not
    exist."""
    rules, absent = declared
    # Principals of plan, apply and mirror are left out: they have their own rules on each cluster.
    logins = (
        cluster.client_for(kind).get("sasl.username", "") for cluster in topology.clusters.values() for kind in OURS
    )
    own = frozenset(f"User:{login}" for login in logins if login and "${" not in login)
    carriages = [
        derive_from_flows.carriage_of(f, routing.routes, live)
        for f in flows
        if live.known(f.source) and live.known(f.target)
    ]
    fresh = {name: _roots(live.known(name), rules[name], absent[name]) for name in rules}
    for _ in rules:
        acls: dict[str, set[AclBinding]] = {name: set() for name in rules}
        for carriage in carriages:
            target = carriage.flow.target
            # Rules of earlier runs stay: a mirror may depend on one.
            cluster = live.known(target)
            access = cluster.access if cluster is not None else None
            made = access.ours if access is not None else {}
            for desired in _follows(carriage, fresh[carriage.flow.source]):
                if desired.acl.principal in own and desired.acl not in made:
                    continue
                if desired.acl not in absent[target] and desired.acl not in rules[target]:
                    rules[target][desired.acl] = desired
                    acls[target].add(desired.acl)
        fresh = acls
        if not any(fresh.values()):
            return


def _roots(cluster: LiveCluster | None, declared: Rules, absent: Mapping[AclBinding, Grant]) -> set[AclBinding]:
    """Rules of a cluster after this plan, without derived ones."""
    acls = {acl for acl, desired in declared.items() if desired.travels}
    access = cluster.access if cluster is not None else None
    if access is None or isinstance(access.acls, Unknown | Unsupported) or isinstance(access.owned, Unknown):
        return acls
    at_home = {acl for acl, desired in declared.items() if not desired.travels}
    return acls | {acl for acl in access.acls if acl not in access.owned and acl not in absent and acl not in at_home}


def _follows(carriage: derive_from_flows.FlowTopics, rules: Iterable[AclBinding]) -> Iterator[DesiredRule]:
    """Rules that a flow derives on its target, each with its origin."""
    flow = carriage.flow
    for acl, source in derive_from_flows.derive(carriage, sorted(rules)):
        denied = acl.permission is Permission.DENY
        does = "may not read" if denied else "reads"
        grant = Grant(
            f"{word(acl.principal)}: {does} what flow {flow.name} brings", f"flow {flow.name}", str(flow.where)
        )
        yield DesiredRule(acl, grant, f"{flow.source}/{source}")


def _read_only(
    topology: Topology, live: LiveState, routing: Routing, cluster: LiveCluster, desired: DesiredRules
) -> tuple[Rules, tuple[Ignored, ...]]:
    """Denials for read-only copies that ``desired`` lacks; and copies that stay open, because a denial is impossible or
    lifted."""
    name, access = cluster.name, cluster.access
    arriving = [flow for flow in topology.flows.values() if flow.target == name]
    kept = [flow for flow in arriving if flow.read_only]
    if not kept or access is None or isinstance(access.acls, Unknown) or isinstance(access.owned, Unknown):
        return {}, ()  # no read-only copies, or incomplete rules
    if isinstance(access.acls, Unsupported):
        bare = f"{access.acls.why}, so nothing keeps other writers off its copies"
        return {}, tuple(_open(flow, "no-authorizer", bare) for flow in kept)
    rules, absent, gone = desired.rules[name], desired.absent[name], left_over(access, name, desired)
    standing = [*rules, *(acl for acl in access.acls if acl not in gone and acl not in absent)]
    spared, users = (
        derive_from_flows.mirror_principals(topology, name),
        derive_from_flows.declared_users(topology, name),
    )

    # After a failover or cut-over clients write these topics, so denials stay lifted for every flow.
    said: list[Ignored] = []
    written: set[str] = set()
    topics: dict[str, frozenset[str]] = {}
    for flow in arriving:
        topics[flow.name] = frozenset(derive_from_flows.carriage_of(flow, routing.routes, live).topics.values())
        lifted = {topic for topic in topics[flow.name] if derive_from_flows.is_lifted(access.lifted, flow, topic)}
        written |= lifted
        if lifted and flow.read_only:
            text = f"{counted(len(lifted), 'remote topic')} may be written by others since a failover or cut-over of it"
            back = f"reconciler failback {ANY_FOLDER} {flow.name} denies that again"
            said.append(_open(flow, "copies-lifted", f"{text}; {back}"))

    denied: Rules = {}
    for flow in kept:
        denials = derive_from_flows.write_denials(topics[flow.name] - written, standing, spared, users)
        for acl, rule in denials.because.items():
            if acl not in absent and acl not in rules:
                grant = derive_from_flows.denial_grant(flow, acl.principal)
                denied.setdefault(acl, DesiredRule(acl, grant, f"{name}/{rule}", travels=False))
        for rule, names in denials.open.items():
            who = "anyone but declared users" if users else "anyone"
            text = f"{who} may write {first_of(names)}, since '{rule}' names no principal, and to deny everyone"
            said.append(_open(flow, "copies-open", f"{text} would stop the mirror, too: name the writers in that rule"))
    return denied, tuple(said)


def _open(flow: Flow, rule: str, text: str) -> Ignored:
    return Ignored(Subject(About.ACLS, flow.target), rule, f"flow {flow.name}, copies: read_only: {text}")
