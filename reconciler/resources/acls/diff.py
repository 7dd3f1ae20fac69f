"""Desired ACLs against the live ones of each cluster: changes, and what is unknown, ignored or unmanaged.

Only rules that an earlier run made or found declared, by the ownership record, or that are declared absent are ever
deleted.
"""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.errors import Unknown
from reconciler.model.changes import (
    About,
    AdoptedAcl,
    CreateAcl,
    DeleteAcl,
    Grant,
    Ignored,
    Reason,
    Subject,
    UnmanagedAcl,
    Why,
)
from reconciler.model.environment.topology import ShrinkLimit, Topology
from reconciler.model.live import LiveAccess, LiveState, Made
from reconciler.model.plan import Findings, merged
from reconciler.model.principals import (
    ANYONE,
    AccessRule,
    AclBinding,
    PatternType,
    ResourceType,
    Unsupported,
    redundant,
)
from reconciler.replication.names import is_own_topic
from reconciler.resources.acls.derive_from_flows import denial
from reconciler.resources.acls.desired import DECLARED, DesiredRule, DesiredRules, desired_rules, left_over
from reconciler.resources.flows.routes import Routing
from reconciler.resources.shrink_limit import too_many_rules
from reconciler.text import counted, grouped, nearest

NOTED = 10
"""Topics of the program's own: apply makes them where something needs them."""
NOT_PROBED = Reason(
    Why.NOT_PROBED, "done by an earlier run that was interrupted before it was confirmed, or that could not confirm it"
)


def compare_access(topology: Topology, live: LiveState, routing: Routing) -> Findings:
    """``live``: without clusters whose id is not the declared one. What could not be read of them is reported
    elsewhere."""
    rules_of_cluster = desired_rules(topology, live, routing)
    limit = topology.rules.shrink_limit
    findings = merged(_cluster(name, live, rules_of_cluster, limit) for name in sorted(topology.clusters))
    # Literal topics in rules that no cluster has: perhaps a typing error.
    notes: list[str] = []
    value: set[tuple[str, str]] = set()
    for rule in topology.access:
        for cluster in rule.clusters:
            if (live_cluster := live.known(cluster)) is None:
                continue
            names = routing.prospects.names(cluster)
            for name in literal_topics(rule):
                known = name in names or name in live_cluster.hidden or is_own_topic(name)
                if known or (cluster, name) in value or len(value) >= NOTED:
                    continue
                value.add((cluster, name))
                near = nearest(name, names)
                perhaps = f"; perhaps you mean {near}" if near else ""
                notes.append(
                    f"the access rule at {rule.where} names topic {name}, which {cluster} does not have{perhaps}"
                )
    return merged((findings, Findings(notes=tuple(notes))))


def _cluster(name: str, live: LiveState, rules_of_cluster: DesiredRules, limit: ShrinkLimit) -> Findings:
    """Compares one cluster. Guards first: without an authorizer there are no rules, and unread rules cannot be
    compared. Unknown only if rules are declared or may be left over there."""
    cluster = live.known(name)
    if cluster is None or cluster.access is None:
        return Findings()
    rules, absent = rules_of_cluster.rules[name], rules_of_cluster.absent[name]
    acls = cluster.access.acls
    titles = tuple(dict.fromkeys(desired.grant.title for desired in rules.values()))
    if isinstance(acls, Unsupported):
        text = f"{acls.why}, so nothing can be allowed or denied; left out: {'; '.join(titles)}"
        bare = (Ignored(Subject(About.ACLS, name), "no-authorizer", text),) if titles else ()
        return Findings(ignored=(*bare, *rules_of_cluster.open.get(name, ())))
    if isinstance(acls, Unknown):
        # An unread cluster blocks the plan only if rules of it are declared or may be ours; others keep what they have.
        if rules or absent or name in rules_of_cluster.doubtful:
            todo = acls.todo or f"Let the principals of {name} describe the cluster."
            return Findings(unknown=(Unknown(f"access {name}", acls.error, todo, titles),))
        text = f"no rule names it, and its rules could not be read: {acls.error}"
        return Findings(ignored=(Ignored(Subject(About.ACLS, name), "access-not-looked-at", text),))
    findings = _compared(name, acls, cluster.access, rules_of_cluster)
    owned = len(acls & cluster.access.ours.keys())
    return merged((findings, Findings(refused=tuple(too_many_rules(name, findings.changes, owned, limit)))))


def _compared(name: str, acls: frozenset[AclBinding], access: LiveAccess, rules_of_cluster: DesiredRules) -> Findings:
    """Rules to make, to delete, to adopt and to leave alone on a cluster whose rules are known. If the ownership record
    is not, nothing is adopted or deleted."""
    rules, owned = rules_of_cluster.rules[name], access.ours
    deleted = dict(_deletions(name, acls, access, rules_of_cluster))
    kept = acls - deleted.keys()
    needed = frozenset(rules)
    # Rules by principal that will exist independently of flows: derived rules need not repeat them.
    there = [acl for acl in kept if acl not in owned or owned[acl].maker == DECLARED]
    declared = [acl for acl, desired in rules.items() if not desired.rests_on]
    standing = grouped((acl.principal, acl) for acl in dict.fromkeys((*there, *declared)))
    # Made is only what nothing else says already: no rule that exists or that a wider one covers, nor one that another
    # rule to be made covers. What an earlier run made and no probe has confirmed is made again.
    creates, settled = [], []
    for acl, desired in sorted(rules.items()):
        wider = (rule for who in (acl.principal, ANYONE) for rule in standing.get(who, ()))
        if acl in acls and (cut := access.pending.get(acl)) is not None and not cut.there:
            creates.append(CreateAcl(name, acl, desired.grant, NOT_PROBED, desired.rests_on))
        elif acl in kept or redundant(acl, kept) or (desired.rests_on and any(rule.covers(acl) for rule in wider)):
            settled.append(Subject(About.ACL, name, str(acl)))
        elif not redundant(acl, needed):
            creates.append(CreateAcl(name, acl, desired.grant, _reason(desired, owned), desired.rests_on))
    unmanaged = (acl for acl in kept - rules.keys() - owned.keys() if not redundant(acl, needed))
    strangers = sorted(unmanaged, key=lambda acl: (acl.principal, acl))
    adopted = tuple(
        AdoptedAcl(name, acl, desired.grant.title, desired.grant.maker)
        for acl, desired in sorted(rules.items())
        if acl in kept and acl not in owned and acl not in access.pending
        if desired.grant.maker == DECLARED or desired.keeps_copies
    )
    unknown: tuple[Unknown, ...] = ()
    if isinstance(access.owned, Unknown):
        this_unknown = access.owned
        unknown = (
            Unknown(f"access {name}", this_unknown.error, this_unknown.todo, ("which rules earlier runs made",)),
        )
    rules_adopted = f"{counted(len(adopted), 'declared access rule')} of {name}, there before any apply from here"
    taken_over = (
        f"{rules_adopted}: apply records as ours what it finds declared, and deletes it once it leaves the files"
    )
    notes = [taken_over] if adopted and not unknown else []
    if any(rules[change.acl].keeps_copies for change in creates):
        text = f"copies on {name} become read-only for principals that rules bind: brokers report neither super users,"
        notes.append(f"{text} who may still write, nor allow.everyone.if.no.acl.found")
    return Findings(
        changes=(*creates, *(deleted[acl] for acl in sorted(deleted))),
        unknown=unknown,
        ignored=(*_left_alone(name, access, acls, rules_of_cluster), *rules_of_cluster.open.get(name, ())),
        unmanaged_acls=tuple(UnmanagedAcl(name, acl) for acl in strangers),
        adopted_acls=() if unknown else adopted,
        notes=tuple(notes),
        settled=tuple(settled),
    )


def _deletions(
    name: str,
    acls: frozenset[AclBinding],
    access: LiveAccess,
    rules_of_cluster: DesiredRules,
) -> Iterator[tuple[AclBinding, DeleteAcl]]:
    """Deletions; of two reasons for one rule the later counts."""
    rules, absent = rules_of_cluster.rules[name], rules_of_cluster.absent[name]
    for acl, grant in absent.items():
        if acl in acls:
            yield acl, DeleteAcl(name, acl, grant, Reason(Why.DECLARED_ABSENT, f"declared absent in {grant.where}"))
    left = left_over(access, name, rules_of_cluster)
    for acl, record in access.ours.items():
        if acl in left:
            code, text = Why.SOURCE_RULE_GONE, f"made for {record.maker}, whose source has no such rule any more"
            if record.maker == DECLARED:
                code, text = Why.DECLARED_NO_LONGER, "made or taken over by an earlier run, declared no longer"
            elif acl == denial(acl.name, acl.principal):
                text = f"made for {record.maker}, which keeps this writer off its copies no longer"
            yield acl, DeleteAcl(name, acl, Grant(record.title, record.maker), Reason(code, text))
    # Deletions by an earlier run without a passed probe.
    for acl, before in access.pending.items():
        if before.there and acl not in acls and acl not in rules:
            made = before.made
            earlier = Grant("rules that were not ours", DECLARED) if made is None else Grant(made.title, made.maker)
            yield acl, DeleteAcl(name, acl, absent.get(acl) or earlier, NOT_PROBED)


def _reason(desired: DesiredRule, owned: Mapping[AclBinding, Made]) -> Reason:
    text = (
        f"declared in {desired.grant.where}" if desired.grant.maker == DECLARED else f"derived by {desired.grant.maker}"
    )
    if desired.acl in owned:
        return Reason(Why.REMOVED_OUTSIDE, f"{text}; an earlier run made it, and someone has removed it since")
    return Reason(Why.DECLARED if desired.grant.maker == DECLARED else Why.FLOW_DERIVED, text)


def _left_alone(
    name: str,
    access: LiveAccess,
    acls: frozenset[AclBinding],
    rules_of_cluster: DesiredRules,
) -> Iterator[Ignored]:
    """Rules that an apply ignores although a reader may expect a change, with reasons."""
    if name in rules_of_cluster.doubtful:
        held = sum(acl in acls and acl not in rules_of_cluster.rules[name] for acl in access.ours)
        if held:
            why = "; ".join(rules_of_cluster.doubtful[name])
            text = f"{counted(held, 'rule')} of earlier runs may be left over, which cannot be said now: {why}"
            yield Ignored(Subject(About.ACLS, name), "access-in-doubt", text)
    for text in access.not_understood:
        yield Ignored(Subject(About.ACLS, name), "rule-not-understood", text)


def literal_topics(rule: AccessRule) -> Iterable[str]:
    """Literal topics of a rule."""
    patterns = [*rule.topics, *rule.reads, *rule.writes]
    if rule.exact is not None and rule.exact.resource is ResourceType.TOPIC:
        patterns += rule.exact.names
    return [pattern.name for pattern in patterns if pattern.pattern is PatternType.LITERAL and pattern.name != "*"]
