"""Why a principal may do something: each rule that is about a topic or a principal, and who wants it there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from reconciler.access import Wished, Wishes, access_clusters, wished
from reconciler.access.wishes import DECLARED
from reconciler.acls import AclBinding, Operation, ResourceType
from reconciler.explaining.topics import Ground
from reconciler.explanation import RuleAnswer
from reconciler.live import LiveAccess, Made
from reconciler.topology import TopicRef


def access_wishes(ground: Ground) -> Wishes | None:
    """None where access is neither declared nor derived."""
    if not access_clusters(ground.topology):
        return None
    return wished(ground.topology, ground.live, ground.routing)


def rules_about_topic(ground: Ground, wishes: Wishes, ref: TopicRef) -> tuple[RuleAnswer, ...]:
    def about(acl: AclBinding) -> bool:
        return acl.resource is ResourceType.TOPIC and acl.covers_name(ref.name)

    return tuple(_answers(ground, wishes, ref.cluster, about))


def rules_about_principal(ground: Ground, wishes: Wishes, principal: str) -> tuple[RuleAnswer, ...]:
    clusters = ground.topology.clusters
    return tuple(
        one for cluster in clusters for one in _answers(ground, wishes, cluster, lambda acl: acl.principal == principal)
    )


def _answers(ground: Ground, wishes: Wishes, cluster: str, about: Callable[[AclBinding], bool]) -> Iterator[RuleAnswer]:
    """Those that differ in nothing but their operation as one; what nobody wished comes last."""
    found = ground.live.known(cluster)
    access = found.access if found is not None and cluster in ground.answered else None
    live, owned, rules = _live(access), _owned(access), wishes.rules.get(cluster, {})
    alike: dict[tuple[AclBinding, str, str, str], list[str]] = {}
    for acl in sorted(filter(about, {*rules, *(live or ())}), key=lambda one: (one not in rules, one.principal, one)):
        because, where = _because(rules.get(acl), owned.get(acl))
        key = replace(acl, operation=Operation.ALL), because, where, _state(acl, rules, live)
        alike.setdefault(key, []).append(str(acl.operation))
    for (acl, because, where, state), operations in alike.items():
        text = str(acl).replace(f" {Operation.ALL} on ", f" {', '.join(operations)} on ", 1)
        yield RuleAnswer(cluster, text, because, where, state)


def _because(wish: Wished | None, made: Made | None) -> tuple[str, str]:
    if wish is not None and wish.rests_on:
        return f"{wish.grant.maker} derived it from {wish.rests_on}", wish.grant.where
    if wish is not None:
        return f"declared: {wish.grant.title}", wish.grant.where
    if made is not None:
        for_whom = "declared then" if made.maker == DECLARED else f"for {made.maker}"
        return f"left over: an earlier run made it, {for_whom} ({made.title})", ""
    return "unmanaged: neither declared nor made by an earlier run", ""


def _state(acl: AclBinding, rules: Mapping[AclBinding, Wished], live: frozenset[AclBinding] | None) -> str:
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
