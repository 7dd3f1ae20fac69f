"""Explains ACLs: each one that is about a topic or a principal, and who wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from reconciler.model.acls import AclBinding, Operation, ResourceType
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveAccess, Made
from reconciler.model.reports.explain import RuleAnswer
from reconciler.resources.acls.desired import DECLARED, DesiredRule, DesiredRules, access_clusters, desired_rules
from reconciler.resources.topics.explain import ExplainBasis


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
    def about(acl: AclBinding) -> bool:
        return acl.principal == principal

    return tuple(
        answer for cluster in basis.topology.clusters for answer in _answers(basis, rules_of_cluster, cluster, about)
    )


def _answers(
    basis: ExplainBasis, rules_of_cluster: DesiredRules, cluster: str, about: Callable[[AclBinding], bool]
) -> Iterator[RuleAnswer]:
    """Those that differ in nothing but their operation as one; what nobody declared comes last."""
    live_cluster = basis.live.known(cluster)
    access = live_cluster.access if live_cluster is not None and cluster in basis.answered else None
    live, owned, rules = _live(access), _owned(access), rules_of_cluster.rules.get(cluster, {})
    alike: dict[tuple[AclBinding, str, str, str], list[str]] = {}
    for acl in sorted(
        filter(about, {*rules, *(live or ())}), key=lambda entry: (entry not in rules, entry.principal, entry)
    ):
        because, where = _because(rules.get(acl), owned.get(acl))
        key = replace(acl, operation=Operation.ALL), because, where, _state(acl, rules, live)
        alike.setdefault(key, []).append(str(acl.operation))
    for (acl, because, where, state), operations in alike.items():
        text = str(acl).replace(f" {Operation.ALL} on ", f" {', '.join(operations)} on ", 1)
        yield RuleAnswer(cluster, text, because, where, state)


def _because(desired: DesiredRule | None, record: Made | None) -> tuple[str, str]:
    if desired is not None and desired.rests_on:
        return f"{desired.grant.maker} derived it from {desired.rests_on}", desired.grant.where
    if desired is not None:
        return f"declared: {desired.grant.title}", desired.grant.where
    if record is not None:
        for_whom = "declared then" if record.maker == DECLARED else f"for {record.maker}"
        return f"left over: an earlier run made it, {for_whom} ({record.title})", ""
    return "unmanaged: neither declared nor made by an earlier run", ""


def _state(acl: AclBinding, rules: Mapping[AclBinding, DesiredRule], live: frozenset[AclBinding] | None) -> str:
    if live is None:
        return ""
    if acl in live:
        return "there"
    return (
        "implied by another rule" if any(wider in live or wider in rules for wider in acl.implied_by()) else "missing"
    )


def _live(access: LiveAccess | None) -> frozenset[AclBinding] | None:
    return access.acls if access is not None and isinstance(access.acls, frozenset) else None


def _owned(access: LiveAccess | None) -> Mapping[AclBinding, Made]:
    return access.owned if access is not None and isinstance(access.owned, Mapping) else {}
