"""Asks brokers for the rights of each login, before and after an ACL batch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from reconciler.errors import Unknown
from reconciler.model.environment.topology import Principal
from reconciler.model.ports import Prober
from reconciler.model.principals import WILDCARD, AclBinding, Operation, PatternType, ResourceType
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.probe import Needs
from reconciler.resources.acls.authorizer.lockout import reached

MOST = 100
"""Most topics to ask about for one login; topics of the wave come first."""
MOST_IDS = 3
"""Most transactional ids: each needs a separate request."""


@dataclass(frozen=True, slots=True)
class ProbedLogin:
    """``before``, ``after``: None if not asked, with the reason in ``why_not``. ``wanted``: requested operations by
    name."""

    before: Rights | None = None
    after: Rights | None = None
    wanted: tuple[AclBinding, ...] = ()
    why_not: str = ""

    @property
    def asked(self) -> int:
        """Number of resources with an answer."""
        return len({(acl.resource, acl.name) for acl in self.wanted if is_allowed(self.before, acl) is not None})


def wanted(needs: Sequence[Needs], touched: Sequence[AclBinding]) -> tuple[AclBinding, ...]:
    """Requests to ask about, name by name, up to the limits."""
    everything: dict[AclBinding, None] = {}
    for need in needs:
        everything |= dict.fromkeys(reached(need, touched))
        everything |= dict.fromkeys(reached(need, None, MOST))
    covers = _covering(touched)
    acls = sorted(everything, key=lambda acl: not covers(acl))
    topics = _first((acl.name for acl in acls if acl.resource is ResourceType.TOPIC), MOST)
    ids = _first((acl.name for acl in acls if acl.resource is ResourceType.TRANSACTIONAL_ID), MOST_IDS)
    kept = {ResourceType.TOPIC: topics, ResourceType.TRANSACTIONAL_ID: ids}
    return tuple(acl for acl in acls if acl.name in kept.get(acl.resource, (acl.name,)))


def ask_for(some: Iterable[AclBinding]) -> Ask:
    """The question for brokers, which changes nothing."""
    names: dict[tuple[ResourceType, bool], dict[str, None]] = {}
    for acl in some:
        names.setdefault((acl.resource, acl.operation is Operation.DESCRIBE), {})[acl.name] = None

    def of(resource: ResourceType, *describing: bool) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for item in describing for name in names.get((resource, item), {})))

    return Ask(
        topics=of(ResourceType.TOPIC, True, False),
        groups=of(ResourceType.GROUP, False),
        described=of(ResourceType.GROUP, True),
        transactional_ids=of(ResourceType.TRANSACTIONAL_ID, False),
    )


def is_allowed(rights: Rights | None, acl: AclBinding) -> bool | None:
    """Whether brokers allow a request; None without an answer."""
    if rights is None or rights.failed is not None:
        return None
    match acl.resource:
        case ResourceType.CLUSTER:
            return None if rights.cluster is None else acl.operation.upper() in rights.cluster
        case ResourceType.TOPIC:
            operations = rights.operations.get(acl.name)
            if operations is not None:
                return acl.operation.upper() in operations
            return False if acl.name in rights.denied else None
        case ResourceType.GROUP:
            return _answer(rights.described if acl.operation is Operation.DESCRIBE else rights.groups, acl.name)
        case ResourceType.TRANSACTIONAL_ID if acl.operation is Operation.WRITE:
            return _answer(rights.transactional_ids, acl.name)
        case _:
            return None


def _answer(answers: Mapping[str, bool] | Unknown, name: str) -> bool | None:
    return None if isinstance(answers, Unknown) else answers.get(name)


def _covering(rules: Iterable[AclBinding]) -> Callable[[AclBinding], bool]:
    """A fast test whether any rule covers a resource."""
    plain = {(acl.resource, acl.name) for acl in rules if acl.pattern is PatternType.LITERAL}
    prefixes = {(acl.resource, acl.name) for acl in rules if acl.pattern is PatternType.PREFIXED}

    def covers(acl: AclBinding) -> bool:
        if (acl.resource, acl.name) in plain or (acl.resource, WILDCARD) in plain:
            return True
        return any(kind is acl.resource and acl.name.startswith(begin) for kind, begin in prefixes)

    return covers


def _first(names: Iterable[str], most: int) -> frozenset[str]:
    return frozenset(list(dict.fromkeys(names))[:most])


Logins = Mapping[Principal, ProbedLogin]


class RulesAlone:
    """A ``Prober`` without principals: checks only that brokers show the changes, and their effect."""

    def needs(self, _cluster: str) -> Sequence[Needs]:
        return ()

    def why_not(self, _cluster: str, _kind: Principal) -> str:
        return "no principal is known"

    def rights(self, _cluster: str, kind: Principal, _ask: Ask) -> Rights:
        return Rights(kind, "", "", Unknown("rights", "no principal is known"))

    def server(self, _cluster: str) -> str:
        return "HOST:PORT"


class KnownLogins:
    """Answers of one run: answers after a probe serve as those before the next wave on that cluster."""

    def __init__(self, prober: Prober) -> None:
        self.prober = prober
        self._known: dict[str, Logins] = {}

    def before(self, cluster: str, needs: Sequence[Needs], touched: Sequence[AclBinding]) -> Logins:
        """Rights of each login before the wave, asked once for all later waves. Without them, a right that was always
        missing would look like one that the wave took away."""
        known = self._known.get(cluster, {})
        logins: dict[Principal, ProbedLogin] = {}
        for kind in dict.fromkeys(need.kind for need in needs):
            some = wanted([need for need in needs if need.kind is kind], touched)
            # Asked before all waves, not before each one: the wave before may have taken the right away, and would go
            # unnoticed.
            if kind in known and set(some) <= set(known[kind].wanted):
                logins[kind] = known[kind]
            else:
                logins[kind] = ProbedLogin(wanted=some, why_not=self.prober.why_not(cluster, kind))
        # A login that fails before the batch cannot prove anything after it, so it is left out with its reason.
        rights = self._rights(cluster, {kind: login for kind, login in logins.items() if login.before is None})
        for kind, seen in rights.items():
            if seen.failed is None:
                logins[kind] = replace(logins[kind], before=seen)
            else:
                why_not = f"could not log in before the ACL batch, either: {seen.failed.error}"
                logins[kind] = replace(logins[kind], why_not=why_not)
        return logins

    def after(self, cluster: str, logins: Logins) -> Logins:
        rights = self._rights(cluster, logins)
        return {kind: replace(login, after=rights.get(kind)) for kind, login in logins.items()}

    def keep(self, cluster: str, logins: Logins) -> None:
        """Answers after a probe that passed."""
        self._known[cluster] = {kind: replace(login, before=login.after, after=None) for kind, login in logins.items()}

    def forget(self, cluster: str) -> None:
        self._known.pop(cluster, None)

    def _rights(self, cluster: str, logins: Logins) -> dict[Principal, Rights]:
        """Asks all logins in parallel, because one login can take seconds."""
        asked = {kind: login for kind, login in logins.items() if not login.why_not}
        if not asked:
            return {}
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = {
                kind: pool.submit(self.prober.rights, cluster, kind, ask_for(login.wanted))
                for kind, login in asked.items()
            }
            return {kind: answer.result() for kind, answer in answers.items()}
