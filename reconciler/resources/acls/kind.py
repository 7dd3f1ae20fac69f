"""The kind of access rules: risk, order and origin of each rule."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from reconciler.errors import Unknown
from reconciler.model import changes
from reconciler.model.environment.topology import Mirror, TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveState, Made
from reconciler.model.plan import Planned
from reconciler.model.principals import ANYONE, AccessRole, AclBinding, Operation, Permission, ResourceType
from reconciler.model.reports.drift import Cause, Deviation, FoundCause, History
from reconciler.model.reports.explain import RuleAnswer
from reconciler.resources.acls.desired import DECLARED, DesiredRule, DesiredRules, access_clusters, desired_rules
from reconciler.resources.acls.roles import flows_of, title_of
from reconciler.resources.kind import ABSENT, UNKNOWN, Assessment, Kind, World, tally
from reconciler.resources.topics.explain import ExplainBasis
from reconciler.text import grouped

AFTER_TOPICS = 1_000
"""Place among the removals; no chain of flows is as long."""


def assess(change: changes.AclChange, _: World) -> Assessment:
    """Risk of a rule by itself; the outlook names principals that are affected today."""
    allows = change.acl.permission is Permission.ALLOW
    if isinstance(change, changes.DeleteAcl):
        if allows:
            return Assessment(changes.Risk.MEDIUM, "clients that still use this right are refused from then on")
        return Assessment(changes.Risk.MEDIUM, "what was denied may be allowed by other rules from then on")
    if not allows:
        return Assessment(changes.Risk.MEDIUM, "a deny rule wins over every rule that allows")
    if change.acl.principal == ANYONE:
        return Assessment(changes.Risk.HIGH, "everyone who can connect is allowed")
    return Assessment(changes.Risk.LOW)


def rests_on(change: changes.AclChange, _: Mapping[TopicRef, TopicRef]) -> Iterator[changes.Subject]:
    yield changes.Subject(changes.About.ACL, change.cluster, str(change.acl))
    yield changes.Subject(changes.About.CLUSTER, change.cluster)
    if isinstance(change, changes.CreateAcl) and change.rests_on:
        cluster, _sign, rule = change.rests_on.partition("/")
        yield changes.Subject(changes.About.ACL, cluster, rule)


def states(live: LiveState) -> Callable[[changes.Subject], str]:
    """States of rules; each cluster's rules are rendered once for all subjects."""
    rules = {name: _rules(cluster) for name, cluster in live.clusters.items() if isinstance(cluster, LiveCluster)}

    def state(subject: changes.Subject) -> str:
        known = rules.get(subject.cluster)
        return UNKNOWN if known is None else known.get(subject.name, ABSENT)

    return state


def _rules(cluster: LiveCluster) -> Mapping[str, str] | None:
    """Text of each rule -> whether the cluster shows it; None if rules could not be read."""
    access = cluster.access
    if access is None or not isinstance(access.acls, frozenset):
        return None
    shown = {str(acl): "there, made by an earlier run" if acl in access.ours else "there" for acl in access.acls}
    return {**shown, **{str(acl): f"{shown.get(str(acl), ABSENT)}, not probed yet" for acl in access.pending}}


def is_safe(change: changes.AclChange, risk: changes.Risk) -> bool:
    """Whether the change is a rule that a flow derives for readers."""
    return isinstance(change, changes.CreateAcl) and bool(change.rests_on) and risk != changes.Risk.HIGH


def deviations(change: changes.AclChange) -> Iterator[Deviation]:
    """A missing or superfluous rule, for ``drift``."""
    subject = f"{change.cluster}: {change.acl}"
    match change:
        case changes.CreateAcl():
            yield Deviation(subject, "access-missing", f"a rule ({change.reason.text})", "no such rule")
        case changes.DeleteAcl():
            yield Deviation(subject, "access-left-over", "no such rule", f"the rule ({change.reason.text})")
        case _:
            assert_never(change)


def cause(planned: Planned, _: History, __: changes.ConfigChange | None) -> FoundCause:
    """From the cluster's ownership record, which runs on all machines read."""
    match planned.change:
        case changes.CreateAcl(reason=changes.Reason(code=changes.Why.REMOVED_OUTSIDE)):
            return FoundCause(Cause.EDITED_OUTSIDE, "an earlier run made the rule, and someone has removed it since")
        case (
            changes.CreateAcl(reason=changes.Reason(code=changes.Why.NOT_PROBED))
            | changes.DeleteAcl(reason=changes.Reason(code=changes.Why.NOT_PROBED))
        ):
            return FoundCause(Cause.HALF_FINISHED, "an earlier run did it, and no probe has confirmed it")
        case changes.CreateAcl(rests_on=""):
            return FoundCause(Cause.UNDETERMINED, "no earlier run made the rule: new in git")
        case changes.CreateAcl(rests_on=rule):
            return FoundCause(Cause.UNDETERMINED, f"no earlier run made the rule: new in git, or {rule} is new")
        case changes.DeleteAcl(reason=changes.Reason(code=changes.Why.DECLARED_ABSENT)):
            return FoundCause(Cause.UNDETERMINED, "declared absent, and still or again there")
        case _:
            return FoundCause(Cause.UNDETERMINED, "an earlier run made the rule, and nothing asks for it any more")


Denial = tuple[str, AclBinding]
"""Id of a planned denial, and the rule."""


@dataclass(frozen=True, slots=True)
class AccessLinks:
    """``denials`` by cluster; ``rights``: principal of a mirror job, and cluster -> ids of its new rules."""

    denials: Mapping[str, Sequence[Denial]]
    rights: Mapping[tuple[str, str], Sequence[str]]

    def before_topic(self, change: changes.CreateTopic) -> tuple[str, ...]:
        """Denials that precede a remote topic, since it may hold records as soon as it exists."""
        denials = self.denials.get(change.ref.cluster, ())
        return tuple(
            name
            for name, acl in denials
            if acl.resource is ResourceType.TOPIC and acl.covers_name(change.ref.name) and change.depth
        )

    def before_grant(self, change: changes.CreateAcl) -> tuple[str, ...]:
        """Denials that precede a grant to the same principal, since the grant may be wider."""
        if change.acl.permission is Permission.DENY or not change.rests_on:
            return ()
        denials = self.denials.get(change.cluster, ())
        return tuple(name for name, acl in denials if acl.principal in (change.acl.principal, ANYONE))

    def before_job(self, mirror: Mirror, topology: Topology) -> tuple[str, ...]:
        """Ids of changes that give the mirror's principal rights on one of its clusters."""
        flows = [topology.flows[name] for name in mirror.flows]
        sides = sorted({side for flow in flows for side in (flow.source, flow.target)})
        by_name: dict[str, None] = {}
        for rule in topology.access:
            if rule.role is AccessRole.MIRROR and {flow.name for flow in flows_of(rule, topology)} & set(mirror.flows):
                for side in sides:
                    by_name |= dict.fromkeys(self.rights.get((rule.principal, side), ()))
        return tuple(by_name)


def access_links(planned: Iterable[changes.Change], topology: Topology) -> AccessLinks:
    """Access changes on which topics, grants and mirror jobs depend."""
    carriers = {rule.principal: title_of(rule) for rule in topology.access if rule.role is AccessRole.MIRROR}
    created = [change for change in planned if isinstance(change, changes.CreateAcl)]
    denied = [change for change in created if change.acl.permission is Permission.DENY]
    carrying = (
        each
        for each in created
        if each.acl.permission is Permission.ALLOW and carriers.get(each.acl.principal) == each.grant.title
    )
    return AccessLinks(
        grouped((change.cluster, (change.id, change.acl)) for change in denied),
        grouped(((change.acl.principal, change.cluster), change.id) for change in carrying),
    )


def used_by_a_job(change: changes.DeleteAcl) -> bool:
    """Whether a mirror job may still work with the right."""
    return change.grant.title.endswith(f": {AccessRole.MIRROR}")


def desired_access(basis: ExplainBasis) -> DesiredRules | None:
    """None where access is neither declared nor derived."""
    if not access_clusters(basis.topology):
        return None
    return desired_rules(basis.topology, basis.live, basis.routing)


def rules_about_topic(basis: ExplainBasis, rules_of_cluster: DesiredRules, ref: TopicRef) -> tuple[RuleAnswer, ...]:
    def about(acl: AclBinding) -> bool:
        return acl.resource is ResourceType.TOPIC and acl.covers_name(ref.name)

    return tuple(_answers(basis, rules_of_cluster, ref.cluster, about))


def rules_about_principal(
    basis: ExplainBasis, rules_of_cluster: DesiredRules, principal: str
) -> tuple[RuleAnswer, ...]:
    """Rules about a principal, including rules of earlier runs and of other tools."""

    def about(acl: AclBinding) -> bool:
        return acl.principal == principal

    return tuple(
        answer for cluster in basis.topology.clusters for answer in _answers(basis, rules_of_cluster, cluster, about)
    )


def _answers(
    basis: ExplainBasis, rules_of_cluster: DesiredRules, cluster: str, about: Callable[[AclBinding], bool]
) -> Iterator[RuleAnswer]:
    """Answers; rules that differ only in their operation are merged, undeclared ones come last."""
    live_cluster = basis.live.known(cluster)
    access = live_cluster.access if live_cluster is not None and cluster in basis.answered else None
    live = access.acls if access is not None and isinstance(access.acls, frozenset) else None
    owned = access.owned if access is not None else {}
    rules = rules_of_cluster.rules.get(cluster, {})
    alike: dict[tuple[AclBinding, str, str, str], list[str]] = {}
    for acl in sorted(
        filter(about, {*rules, *(live or ())}), key=lambda entry: (entry not in rules, entry.principal, entry)
    ):
        because, where = _because(rules.get(acl), owned if isinstance(owned, Unknown) else owned.get(acl))
        key = replace(acl, operation=Operation.ALL), because, where, _state(acl, rules, live)
        alike.setdefault(key, []).append(str(acl.operation))
    for (acl, because, where, state), operations in alike.items():
        text = str(acl).replace(f" {Operation.ALL} on ", f" {', '.join(operations)} on ", 1)
        yield RuleAnswer(cluster, text, because, where, state)


def _because(desired: DesiredRule | None, record: Made | Unknown | None) -> tuple[str, str]:
    """Why the rule is desired or exists, and its place in the files. ``record``: Unknown if it could not be read."""
    if desired is not None and desired.rests_on:
        return f"{desired.grant.maker} derived it from {desired.rests_on}", desired.grant.where
    if desired is not None:
        return f"declared: {desired.grant.title}", desired.grant.where
    if isinstance(record, Unknown):
        return "not declared; whether an earlier run made it is not known", ""
    if record is not None:
        for_whom = "declared then" if record.maker == DECLARED else f"for {record.maker}"
        return f"left over: an earlier run made it, {for_whom} ({record.title})", ""
    return "unmanaged: neither declared nor made by an earlier run", ""


def _state(acl: AclBinding, rules: Mapping[AclBinding, DesiredRule], live: frozenset[AclBinding] | None) -> str:
    """State of a rule; empty if the cluster was not read. A rule that a wider one covers is not missing."""
    if live is None:
        return ""
    if acl in live:
        return "there"
    return (
        "implied by another rule" if any(wider in live or wider in rules for wider in acl.implied_by()) else "missing"
    )


KIND: Kind[changes.AclChange] = Kind(
    name=changes.KindName.ACLS,
    changes=(changes.CreateAcl, changes.DeleteAcl),
    assess=assess,
    place=lambda change: (AFTER_TOPICS * isinstance(change, changes.DeleteAcl), f"{change.grant.title} {change.acl}"),
    rests_on=rests_on,
    states={changes.About.ACL: states},
    is_safe=is_safe,
    takes_away=(changes.DeleteAcl,),
    deviations=deviations,
    cause=cause,
    counts=lambda planned: tally(planned, dict.fromkeys((changes.CreateAcl, changes.DeleteAcl), "access rule")),
)
