"""Derives ACLs of a remote topic from those of its source topic, along flows. Pure functions.

Readers become readers, never writers; denials stay denials. A prefixed or wildcard rule becomes one prefixed rule only
if the flow provably carries all its names, else one literal rule for each carried topic.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from reconciler.model.changes import Grant
from reconciler.model.environment.topology import Flow, Principal, Topology
from reconciler.model.live import LiftedCopies, LiveState
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
from reconciler.replication.expressions.match import expressions
from reconciler.replication.expressions.unfit import unfit
from reconciler.replication.policy import EXCLUDED_TOPICS, TopicSelector
from reconciler.resources.acls.authorizer.decide import Rulebook
from reconciler.resources.acls.authorizer.lockout import names_of
from reconciler.resources.acls.roles import clusters_of, flows_of
from reconciler.resources.flows.names.automata import Complement, Language, UndecidedError, Union, both, shortest
from reconciler.resources.flows.names.policy_rules import Ending, Hops, internal
from reconciler.resources.flows.names.regex import pattern
from reconciler.resources.flows.routes import Route, selector_of

_PLAIN_BEGINNING = re.compile(r"((?:[A-Za-z0-9_-]|\\\.)*)\.\*")


@dataclass(frozen=True, slots=True)
class FlowTopics:
    """The topics of one flow, by which rules of its source follow to its target."""

    flow: Flow
    selector: TopicSelector
    topics: Mapping[str, str]
    """Source name -> remote name of every known topic of the flow."""
    proved: dict[str, bool] = field(default_factory=dict)
    """Prefix -> whether the flow carries every name with it; a proof may take long."""

    @property
    def custom(self) -> bool:
        return ":" in self.flow.naming.policy

    def remote_of(self, topic: str) -> str | None:
        """The remote name, even of a future topic; None if the flow would not carry it. With a custom policy only of
        known topics."""
        if self.custom:
            return self.topics.get(topic)
        return self.selector.remote_name(topic) if self.selector.why_not(topic) is None else None

    def remote_prefix(self, prefix: str) -> str | None:
        """The target's prefix for all names with ``prefix``; None if the flow does not carry all of them, or if that
        prefix also covers names on the target that are no copies."""
        match self.flow.naming.policy:
            case "default":
                begin = f"{self.flow.source}{self.flow.naming.separator}{prefix}"
            case "identity" if prefix and not _reaches_internal(prefix):
                begin = prefix
            case _:
                return None
        return begin if self.carries_all(prefix) else None

    def carries_all(self, prefix: str) -> bool:
        if prefix not in self.proved:
            self.proved[prefix] = _carries_all(self.flow, prefix)
        return self.proved[prefix]


def carriage_of(flow: Flow, routes: Iterable[Route], live: LiveState) -> FlowTopics:
    """Topics of a flow, including remote topics without a source, if the name alone shows their source."""
    selector = selector_of(flow)
    topics: dict[str, str] = {}
    target = live.known(flow.target)
    if flow.naming.policy == "default" and target is not None:
        for name in target.topics:
            upstream = selector.policy.upstream_topic(name)
            ours = upstream is not None and selector.policy.topic_source(name) == flow.source
            if upstream is not None and ours and selector.why_not(upstream) is None:
                topics[upstream] = name
    topics |= {route.source.name: route.remote.name for route in routes if route.flow == flow.name}
    return FlowTopics(flow, selector, dict(sorted(topics.items())))


def _carries_all(flow: Flow, prefix: str) -> bool:
    """Whether the flow carries every name with this prefix, apart from internal topics, MirrorMaker 2's exclusions, and
    copies on their way back."""
    # The usual expression, plain characters followed by ``.*``, needs no proof by automata.
    plain = (_PLAIN_BEGINNING.fullmatch(text) for text in flow.topics)
    if not flow.exclude_topics and prefix.startswith(tuple(match[1].replace("\\.", ".") for match in plain if match)):
        return True
    if any(unfit(text) for text in (*flow.topics, *flow.exclude_topics)):
        return False
    include = [pattern(text) for text in flow.topics]
    if not all(each_pattern.exact for each_pattern in include):
        return False
    exclude = [pattern(text).language for text in flow.exclude_topics]
    never: list[Language] = [pattern(text).language for text in EXCLUDED_TOPICS]
    never += [internal(flow.internal_separator), Hops(flow.target, flow.naming.separator)]
    chosen = both(Union(tuple(each_pattern.language for each_pattern in include)), Complement(Union(tuple(exclude))))
    carried_names = both(Ending("", prefix=prefix), Complement(chosen), Complement(Union(tuple(never))))
    try:
        return shortest(carried_names) is None
    except UndecidedError:
        return False


def _reaches_internal(prefix: str) -> bool:
    """Whether a prefix would cover internal topics of the target, as it may with identity naming."""
    return any(prefix.startswith(own) or own.startswith(prefix) for own in ("__", ".", "mm2"))


Derived = tuple[AclBinding, AclBinding]
"""A rule on the target, and its origin on the source."""

_LOOKING = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
_ON_TOPICS: Mapping[tuple[Permission, Operation], tuple[Operation, ...]] = {
    **{(permission, operation): (operation,) for permission in Permission for operation in _LOOKING},
    (Permission.ALLOW, Operation.ALL): (Operation.READ, Operation.DESCRIBE_CONFIGS),
    (Permission.DENY, Operation.ALL): _LOOKING,
}
_ON_GROUPS: Mapping[tuple[Permission, Operation], tuple[Operation, ...]] = {
    **{
        (permission, literal): (literal,)
        for permission in Permission
        for literal in (Operation.READ, Operation.DESCRIBE)
    },
    (Permission.ALLOW, Operation.ALL): (Operation.READ,),
    (Permission.DENY, Operation.ALL): (Operation.READ, Operation.DESCRIBE),
}
_META = re.compile(r"[\\.^$*+?{}\[\]|()]")


def derive(carriage: FlowTopics, rules: Iterable[AclBinding]) -> Iterator[Derived]:
    """Rules on the target that follow from rules on the source; none for rules of other topics."""
    rules = tuple(rules)
    readers: set[str] = set()
    for rule in rules:
        if rule.resource is ResourceType.TOPIC:
            operations = _ON_TOPICS.get((rule.permission, rule.operation), ())
            for name, pattern in _places(carriage, rule) if operations else ():
                for operation in operations:
                    acl = _rewritten(carriage.flow, rule, name, pattern, operation)
                    if acl.operation is Operation.READ and acl.permission is Permission.ALLOW:
                        readers.add(rule.principal)
                    yield acl, rule
    if carriage.flow.access.groups:
        for rule in rules:
            if (
                rule.resource is ResourceType.GROUP
                and rule.principal in readers
                and _groups_chosen(carriage.flow, rule)
            ):
                for operation in _ON_GROUPS.get((rule.permission, rule.operation), ()):
                    yield _rewritten(carriage.flow, rule, rule.name, rule.pattern, operation), rule


def _places(carriage: FlowTopics, rule: AclBinding) -> Iterator[tuple[str, PatternType]]:
    """Names and patterns on the target for a rule of the source: the remote name, a prefix if the flow carries every
    name with it, else topic by topic."""
    if rule.pattern is PatternType.LITERAL and not rule.wildcard:
        remote = carriage.remote_of(rule.name)
        if remote is not None:
            yield remote, PatternType.LITERAL
        return
    covering = carriage.remote_prefix("" if rule.wildcard else rule.name)
    if covering is not None:
        yield covering, PatternType.PREFIXED
    for topic, remote in carriage.topics.items():
        if rule.covers_name(topic) and not (covering is not None and remote.startswith(covering)):
            yield remote, PatternType.LITERAL


def _groups_chosen(flow: Flow, rule: AclBinding) -> bool:
    """Whether the flow syncs all groups of a rule; groups keep their names."""
    include, exclude = flow.groups.include, flow.groups.exclude
    if rule.pattern is PatternType.LITERAL and not rule.wildcard:
        return expressions(include).match(rule.name) and not expressions(exclude).match(rule.name)
    beginning = "" if rule.wildcard else rule.name
    heads = [_META.split(name, maxsplit=1)[0] for name in exclude]
    return ".*" in include and not any(head.startswith(beginning) or beginning.startswith(head) for head in heads)


def _rewritten(flow: Flow, rule: AclBinding, name: str, pattern: PatternType, operation: Operation) -> AclBinding:
    principal = flow.access.principals.get(rule.principal, rule.principal)
    return replace(rule, name=name, pattern=pattern, operation=operation, principal=principal)


# Deny rules that keep writers other than a mirror off remote topics (`copies: read_only`). Pure.
#
# A denial overrides every permission, so a denial for everyone would stop the mirror, too. Instead, each principal that
# the cluster's rules allow to write is denied.

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
