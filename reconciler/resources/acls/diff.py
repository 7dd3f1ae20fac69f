"""Wished rules x the rules of each cluster -> changes, and everything that is unknown, ignored or not ours.

Only rules that an earlier run made, by the ownership record, or that are declared absent are ever deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reconciler.access.wishes import DECLARED, Wished, Wishes, wished
from reconciler.access_rules import AccessRule
from reconciler.acls import AclBinding, PatternType, ResourceType, Unsupported, redundant
from reconciler.changes import CreateAcl, DeleteAcl, Grant, Ignored, Reason, UnmanagedAcl
from reconciler.counts import counted
from reconciler.diffing.findings import Findings, Settled, merged
from reconciler.errors import Unknown
from reconciler.guarding.shrinking import LEFT, too_many_rules
from reconciler.live import LiveAccess, LiveState, Made
from reconciler.places import nearest
from reconciler.routing import Routing
from reconciler.topology import ShrinkLimit, Topology

NOTED = 10
NOT_PROBED = Reason("not-probed", "done by an earlier run that was cut off, or could not tell, before it was confirmed")


def compare_access(topology: Topology, live: LiveState, routing: Routing) -> Findings:
    """``live`` without clusters that are not the declared ones; what was not read of them is told elsewhere."""
    wishes = wished(topology, live, routing)
    limit = topology.rules.shrink_limit
    found = merged(_cluster(name, live, wishes, limit) for name in sorted(topology.clusters))
    return merged((found, Findings(notes=tuple(_unknown_topics(topology, live, routing)))))


def _cluster(name: str, live: LiveState, wishes: Wishes, limit: ShrinkLimit) -> Findings:
    cluster = live.known(name)
    if cluster is None or cluster.access is None:
        return Findings()
    rules, absent = wishes.rules[name], wishes.absent[name]
    acls = cluster.access.acls
    titles = tuple(dict.fromkeys(wish.grant.title for wish in rules.values()))
    if isinstance(acls, Unsupported):
        text = f"{acls.why}, so nothing can be allowed or denied; left out: {'; '.join(titles)}"
        return Findings(ignored=(Ignored(f"access {name}", "no-authorizer", text),)) if titles else Findings()
    if isinstance(acls, Unknown):
        if rules or absent or name in wishes.doubtful:
            todo = acls.todo or f"Let the principals of {name} describe the cluster."
            return Findings(unknown=(Unknown(f"access {name}", acls.error, todo, titles),))
        text = f"no rule names it, and its rules could not be read: {acls.error}"
        return Findings(ignored=(Ignored(f"access {name}", "access-not-looked-at", text),))
    found = _compared(name, acls, cluster.access, wishes)
    owned = 0 if isinstance(cluster.access.owned, Unknown) else len(acls & cluster.access.owned.keys())
    return merged((found, Findings(refused=tuple(too_many_rules(name, found.changes, owned, limit)))))


def _compared(name: str, acls: frozenset[AclBinding], access: LiveAccess, wishes: Wishes) -> Findings:
    rules = wishes.rules[name]
    owned: Mapping[AclBinding, Made] = {} if isinstance(access.owned, Unknown) else access.owned
    deleted = {**dict(_deletions(name, acls, owned, wishes)), **dict(_cut_off(name, acls, access, wishes))}
    kept = acls - deleted.keys()
    needed = frozenset(rules)
    creates, settled = [], []
    for acl, wish in sorted(rules.items()):
        if acl in acls and (cut := access.pending.get(acl)) is not None and not cut.there:
            creates.append(CreateAcl(name, acl, wish.grant, NOT_PROBED, wish.rests_on))
        elif acl in kept or redundant(acl, kept):
            settled.append(Settled(f"access {name} {acl}", "rule"))
        elif not redundant(acl, needed):
            creates.append(CreateAcl(name, acl, wish.grant, _reason(wish, owned), wish.rests_on))
    left = (acl for acl in kept - rules.keys() - owned.keys() if not redundant(acl, needed))
    strangers = sorted(left, key=lambda acl: (acl.principal, acl))
    unknown: tuple[Unknown, ...] = ()
    if isinstance(access.owned, Unknown):
        found = access.owned
        unknown = (Unknown(f"access {name}", found.error, found.todo, ("which rules earlier runs made",)),)
    return Findings(
        changes=(*creates, *(deleted[acl] for acl in sorted(deleted))),
        unknown=unknown,
        ignored=tuple(_left_alone(name, access, acls, owned, wishes)),
        unmanaged_acls=tuple(UnmanagedAcl(name, acl) for acl in strangers),
        settled=tuple(settled),
    )


def _deletions(
    name: str, acls: frozenset[AclBinding], owned: Mapping[AclBinding, Made], wishes: Wishes
) -> Iterator[tuple[AclBinding, DeleteAcl]]:
    rules = wishes.rules[name]
    needed = frozenset(rules)
    for acl, grant in wishes.absent[name].items():
        if acl in acls:
            yield acl, DeleteAcl(name, acl, grant, Reason("declared-absent", f"declared absent in {grant.where}"))
    if name in wishes.doubtful:
        return
    for acl, made in owned.items():
        if acl in acls and acl not in rules and acl not in wishes.absent[name] and not redundant(acl, needed):
            yield acl, DeleteAcl(name, acl, Grant(made.title, made.maker), _left_over(made))


def _cut_off(
    name: str, acls: frozenset[AclBinding], access: LiveAccess, wishes: Wishes
) -> Iterator[tuple[AclBinding, DeleteAcl]]:
    """Rules that an earlier run deleted, and that no probe has confirmed since."""
    for acl, before in access.pending.items():
        if before.there and acl not in acls and acl not in wishes.rules[name]:
            grant = wishes.absent[name].get(acl) or Grant(*_told(before.made))
            yield acl, DeleteAcl(name, acl, grant, NOT_PROBED)


def _told(made: Made | None) -> tuple[str, str]:
    return (made.title, made.maker) if made is not None else ("rules that were not ours", DECLARED)


def _left_over(made: Made) -> Reason:
    if made.maker == DECLARED:
        return Reason(LEFT[0], "made by an earlier run, declared no longer")
    return Reason(LEFT[1], f"made for {made.maker}, whose source has no such rule any more")


def _reason(wish: Wished, owned: Mapping[AclBinding, Made]) -> Reason:
    text = f"declared in {wish.grant.where}" if wish.grant.maker == DECLARED else f"derived by {wish.grant.maker}"
    if wish.acl in owned:
        return Reason("removed-outside", f"{text}; an earlier run made it, and someone has removed it since")
    return Reason("declared" if wish.grant.maker == DECLARED else "flow-derived", text)


def _left_alone(
    name: str, access: LiveAccess, acls: frozenset[AclBinding], owned: Mapping[AclBinding, Made], wishes: Wishes
) -> Iterator[Ignored]:
    if name in wishes.doubtful:
        held = sum(acl in acls and acl not in wishes.rules[name] for acl in owned)
        if held:
            why = "; ".join(wishes.doubtful[name])
            text = f"{counted(held, 'rule')} of earlier runs may be left over, which cannot be said now: {why}"
            yield Ignored(f"access {name}", "access-in-doubt", text)
    for text in access.not_understood:
        yield Ignored(f"access {name}", "rule-not-understood", text)


def _unknown_topics(topology: Topology, live: LiveState, routing: Routing) -> Iterator[str]:
    """Literal topic names in rules that nobody has: perhaps a slip."""
    told: set[tuple[str, str]] = set()
    for rule in topology.access:
        for cluster in rule.clusters:
            if (found := live.known(cluster)) is None or not found.sees_all:
                continue
            names = routing.prospects.names(cluster)
            for name in _literal_topics(rule):
                if name in names or (cluster, name) in told or len(told) >= NOTED:
                    continue
                told.add((cluster, name))
                near = nearest(name, names)
                perhaps = f"; perhaps {near} is meant" if near else ""
                yield f"the access rule at {rule.where} names topic {name}, which {cluster} does not have{perhaps}"


def _literal_topics(rule: AccessRule) -> Iterable[str]:
    patterns = [*rule.topics, *rule.reads, *rule.writes]
    if rule.exact is not None and rule.exact.resource is ResourceType.TOPIC:
        patterns += rule.exact.names
    return [one.name for one in patterns if one.pattern is PatternType.LITERAL and one.name != "*"]
