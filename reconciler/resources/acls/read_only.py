"""Deny rules that keep writers other than a mirror off remote topics (``copies: read_only``). Pure.

A denial overrides every permission, so a denial for everyone would stop the mirror, too. Instead, each principal that
the cluster's rules allow to write is denied.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from reconciler.model.changes import Grant
from reconciler.model.environment.topology import Flow, Principal, Topology
from reconciler.model.live import LiftedCopies
from reconciler.model.principals import (
    ANYONE,
    WILDCARD,
    AccessRole,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    word,
)
from reconciler.resources.acls.authorizer.decide import Rulebook
from reconciler.resources.acls.authorizer.lockout import names_of
from reconciler.resources.acls.roles import clusters_of, flows_of

_WRITES = frozenset({Operation.WRITE, Operation.ALL})


def denial(topic: str, principal: str = ANYONE) -> AclBinding:
    where = (ResourceType.TOPIC, topic, PatternType.LITERAL)
    return AclBinding(*where, principal, WILDCARD, Operation.WRITE, Permission.DENY)


def lets_write(rule: AclBinding) -> bool:
    writes = rule.resource is ResourceType.TOPIC and rule.operation in _WRITES
    return writes and rule.permission is Permission.ALLOW


def denies_writing(rule: AclBinding) -> bool:
    """Whether the rule denies writing one literal topic."""
    topic = rule.resource is ResourceType.TOPIC and rule.pattern is PatternType.LITERAL and not rule.wildcard
    return topic and rule.operation in _WRITES and rule.permission is Permission.DENY


def write_rules(rules: Iterable[AclBinding], topic: str) -> list[AclBinding]:
    """Allow rules for writing the topic."""
    return [rule for rule in rules if lets_write(rule) and rule.covers_name(topic)]


@dataclass(frozen=True, slots=True)
class WriteDenials:
    """``because``: denial -> the rule that allows its principal to write. ``open``: rule for everyone -> topics that
    stay open by it, since denying everyone would stop the mirror."""

    because: Mapping[AclBinding, AclBinding]
    open: Mapping[AclBinding, tuple[str, ...]]


def write_denials(
    topics: Iterable[str], rules: Iterable[AclBinding], spared: Collection[str], known: Collection[str] = ()
) -> WriteDenials:
    """Denials that keep all but ``spared`` principals from writing ``topics``, as far as rules can. ``known``:
    principals that may use a rule for everyone."""
    book = Rulebook.of(rule for rule in rules if lets_write(rule))
    because: dict[AclBinding, AclBinding] = {}
    open_by: dict[AclBinding, tuple[str, ...]] = {}
    for topic in sorted(topics):
        for rule in book.on(ResourceType.TOPIC, topic):
            everyone = rule.principal == ANYONE
            for principal in known if everyone else (rule.principal,):
                if principal not in spared:
                    because.setdefault(denial(topic, principal), rule)
            if everyone:
                open_by[rule] = (*open_by.get(rule, ()), topic)
    return WriteDenials(because, open_by)


def declared_users(topology: Topology, cluster: str) -> frozenset[str]:
    return frozenset(f"User:{user.name}" for user in topology.users if cluster in user.clusters and not user.absent)


def mirror_principals(topology: Topology, cluster: str) -> frozenset[str]:
    """Principals of mirrors on the cluster, from its settings and entries of role mirror. Empty: unknown."""
    entries = (rule for rule in topology.access if rule.role is AccessRole.MIRROR and not rule.absent)
    into = (
        rule.principal
        for rule in entries
        if cluster in clusters_of(rule, topology) and any(flow.target == cluster for flow in flows_of(rule, topology))
    )
    return frozenset({*names_of(Principal.MIRROR, topology, cluster), *into})


def denial_grant(flow: Flow, principal: str) -> Grant:
    title = f"{word(principal)}: may not write what flow {flow.name} brings"
    return Grant(title, f"flow {flow.name}", str(flow.where))


def is_lifted(lifted: Collection[LiftedCopies], flow: Flow, topic: str) -> bool:
    """Whether a failover or cut-over of ``flow`` has let clients write ``topic``, a remote topic of it."""
    return LiftedCopies(flow.state_name) in lifted or LiftedCopies(flow.state_name, topic) in lifted
