"""What to ask of a login around a wave, and how its answers read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.acls import WILDCARD, AclBinding, Operation, PatternType, ResourceType
from reconciler.authorizing.standing import reached
from reconciler.checkups import Ask, Rights
from reconciler.errors import Unknown
from reconciler.probes import Needs

MOST = 100
"""Topics of one login that brokers are asked about; those the wave touches come first."""
MOST_IDS = 3
"""Transactional ids: each is a request of its own."""


@dataclass(frozen=True, slots=True)
class Login:
    """``before``, ``after``: None where it was not asked, for ``why_not``. ``wanted``: name by name, what was asked."""

    before: Rights | None = None
    after: Rights | None = None
    wanted: tuple[AclBinding, ...] = ()
    why_not: str = ""

    @property
    def asked(self) -> int:
        """Resources that brokers told something about."""
        return len({(one.resource, one.name) for one in self.wanted if told(self.before, one) is not None})


def wanted(needs: Sequence[Needs], touched: Sequence[AclBinding]) -> tuple[AclBinding, ...]:
    """Name by name, bounded."""
    everything: dict[AclBinding, None] = {}
    for one in needs:
        everything |= dict.fromkeys(reached(one, touched))
        everything |= dict.fromkeys(_some(one))
    covers = _covering(touched)
    found = sorted(everything, key=lambda one: not covers(one))
    topics = _first((one.name for one in found if one.resource is ResourceType.TOPIC), MOST)
    ids = _first((one.name for one in found if one.resource is ResourceType.TRANSACTIONAL_ID), MOST_IDS)
    kept = {ResourceType.TOPIC: topics, ResourceType.TRANSACTIONAL_ID: ids}
    return tuple(one for one in found if one.name in kept.get(one.resource, (one.name,)))


def ask_for(some: Iterable[AclBinding]) -> Ask:
    """Nothing of it changes anything on the cluster."""
    names: dict[tuple[ResourceType, bool], dict[str, None]] = {}
    for one in some:
        names.setdefault((one.resource, one.operation is Operation.DESCRIBE), {})[one.name] = None

    def of(resource: ResourceType, *describing: bool) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in describing for name in names.get((resource, one), {})))

    return Ask(
        topics=of(ResourceType.TOPIC, True, False),
        groups=of(ResourceType.GROUP, False),
        described=of(ResourceType.GROUP, True),
        transactional_ids=of(ResourceType.TRANSACTIONAL_ID, False),
    )


def told(rights: Rights | None, one: AclBinding) -> bool | None:
    """Whether the brokers allow it; None where they were not asked or do not tell."""
    if rights is None or rights.failed is not None:
        return None
    match one.resource:
        case ResourceType.CLUSTER:
            return None if rights.cluster is None else one.operation.upper() in rights.cluster
        case ResourceType.TOPIC:
            operations = rights.operations.get(one.name)
            return one.operation.upper() in operations if operations is not None else _denied(rights, one.name)
        case ResourceType.GROUP:
            return _answer(rights.described if one.operation is Operation.DESCRIBE else rights.groups, one.name)
        case ResourceType.TRANSACTIONAL_ID if one.operation is Operation.WRITE:
            return _answer(rights.transactional_ids, one.name)
        case _:
            return None


def _denied(rights: Rights, topic: str) -> bool | None:
    return False if topic in rights.denied else None


def _answer(answers: Mapping[str, bool] | Unknown, name: str) -> bool | None:
    return None if isinstance(answers, Unknown) else answers.get(name)


def _covering(rules: Iterable[AclBinding]) -> Callable[[AclBinding], bool]:
    """Whether any of them is about a resource; quick for thousands of each."""
    plain = {(one.resource, one.name) for one in rules if one.pattern is PatternType.LITERAL}
    prefixes = {(one.resource, one.name) for one in rules if one.pattern is PatternType.PREFIXED}

    def covers(one: AclBinding) -> bool:
        if (one.resource, one.name) in plain or (one.resource, WILDCARD) in plain:
            return True
        return any(kind is one.resource and one.name.startswith(begin) for kind, begin in prefixes)

    return covers


def _some(needs: Needs) -> Iterator[AclBinding]:
    """Without regard to what the wave touches."""
    names = {ResourceType.TOPIC: sorted(needs.topics)[:MOST], ResourceType.TRANSACTIONAL_ID: needs.transactional_ids}
    for acl in needs.rights:
        if acl.pattern is PatternType.LITERAL and not acl.wildcard:
            yield acl
            continue
        for name in names.get(acl.resource, ()):
            if acl.covers_name(name):
                yield replace(acl, name=name, pattern=PatternType.LITERAL)


def _first(names: Iterable[str], most: int) -> frozenset[str]:
    return frozenset(list(dict.fromkeys(names))[:most])
