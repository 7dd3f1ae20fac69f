"""From what was seen before and after a wave to the verdict of its probe. Pure: no clock, nobody is asked.

Brokers' own words on a principal win over what rules come to: they alone know who is a super user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.acls import ANYONE, AclBinding, PatternType, Permission, ResourceType
from reconciler.authorizing.deciding import Request, Rulebook
from reconciler.authorizing.effects import Shift, locked_out, shifts
from reconciler.authorizing.standing import reached
from reconciler.changes import AclChange, CreateAcl
from reconciler.counts import counted
from reconciler.probes import Check, Needs, Verdict
from reconciler.probing.rights import Login, told
from reconciler.probing.undoing import by_hand, carried_out
from reconciler.topology import Principal

SHOWN = 3
_NOBODYS = "\0"

Views = Mapping[int, frozenset[AclBinding]]
"""Broker -> the rules its authorizer works with now."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """``before``: all rules ahead of the wave; ``changes``: those of it that were done; ``server``: for commands."""

    before: frozenset[AclBinding]
    changes: tuple[AclChange, ...]
    views: Views
    needs: tuple[Needs, ...] = ()
    logins: Mapping[Principal, Login] = field(default_factory=dict)
    server: str = "HOST:PORT"

    @property
    def own(self) -> frozenset[AclBinding]:
        return frozenset(one.acl for one in self.changes)


def checks(seen: Evidence) -> tuple[Check, ...]:
    return (_rules(seen), _decisions(seen), *(_principal(needs, seen) for needs in seen.needs))


def lagging(views: Views, changes: Iterable[AclChange]) -> dict[int, tuple[AclChange, ...]]:
    """Broker -> changes it does not show."""
    wanted = tuple(changes)
    found = {
        node: tuple(one for one in wanted if (one.acl in shown) is not isinstance(one, CreateAcl))
        for node, shown in views.items()
    }
    return {node: some for node, some in found.items() if some}


def _rules(seen: Evidence) -> Check:
    subject = "rules"
    if not seen.views:
        return Check(subject, Verdict.UNKNOWN, "no broker showed its rules")
    missing = lagging(seen.views, seen.changes)
    if not missing:
        text = f"{counted(len(seen.changes), 'change')} shown by {counted(len(seen.views), 'broker')}"
        return Check(subject, Verdict.PASSED, text)
    node, some = next(iter(sorted(missing.items())))
    first = some[0]
    what = "is not there" if isinstance(first, CreateAcl) else "is still there"
    more = f", and {len(some) - 1} more" if len(some) > 1 else ""
    return Check(subject, Verdict.FAILED, f"'{first.acl}' {what} on broker {node}{more}")


def _decisions(seen: Evidence) -> Check:
    """Requests that the rules of the wave decide must be decided as planned, whatever others did meanwhile."""
    subject = "who may do what"
    expected = carried_out(seen.before, seen.changes)
    touched = sorted(seen.own)
    others: set[AclBinding] = set()
    for view in set(seen.views.values()):
        differing = expected ^ view
        others |= differing - seen.own
        found = shifts(Rulebook.of(expected), Rulebook.of(view), touched, _names(differing)) if differing else ()
        if found:
            guilty = [acl for acl in sorted(differing) if _concerns(acl, found[0])]
            text = f"{_against(found)}; {_blamed(guilty, view)}"
            return Check(subject, Verdict.FAILED, text, _set_back(guilty, view, seen))
    if not seen.views:
        return Check(subject, Verdict.UNKNOWN, "not worked out, since no broker showed its rules")
    meanwhile = f"{counted(len(others), 'rule')} of others changed meanwhile and decides none of it"
    return Check(subject, Verdict.PASSED, f"as planned; {meanwhile}" if others else "as planned")


def _names(differing: Iterable[AclBinding]) -> dict[ResourceType, set[str]]:
    """Enough names to tell any two decisions apart: those that differing rules are about."""
    found: dict[ResourceType, set[str]] = {}
    for acl in differing:
        if not acl.wildcard:
            name = f"{acl.name}{_NOBODYS}" if acl.pattern is PatternType.PREFIXED else acl.name
            found.setdefault(acl.resource, set()).add(name)
    return found


def _concerns(acl: AclBinding, shift: Shift) -> bool:
    if acl.resource is not shift.resource or acl.principal not in (shift.principal, ANYONE):
        return False
    begins = [one.removesuffix("*") for one in shift.patterns]
    return any(acl.covers_name(name) for name in (*shift.names, *begins)) or acl.name in begins


def _against(found: Sequence[Shift]) -> str:
    one = found[0]
    names = ", ".join((*one.names, *one.patterns)[:SHOWN])
    where = str(one.resource) if one.resource is ResourceType.CLUSTER else f"{one.resource} {names}"
    may = "may" if one.gained else "may not"
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"against the plan {one.principal} {may} {', '.join(one.operations)} on {where}{more}"


def _blamed(guilty: Sequence[AclBinding], view: frozenset[AclBinding]) -> str:
    shown = [f"'{acl}' {'is there' if acl in view else 'is gone'}" for acl in guilty[:SHOWN]]
    return f"meanwhile {', '.join(shown) or 'its rules changed'}"


def _set_back(guilty: Iterable[AclBinding], view: frozenset[AclBinding], seen: Evidence) -> tuple[str, ...]:
    """Against what others did. What the wave itself did is undone with it."""
    return tuple(by_hand(acl, acl not in view, seen.server) for acl in guilty if acl not in seen.own)[:SHOWN]


def _principal(needs: Needs, seen: Evidence) -> Check:
    who = needs.name or "whose name nothing tells"
    subject = f"{needs.kind} principal {who}"
    login = seen.logins.get(needs.kind, Login(why_not="nobody was asked"))
    lost = {**dict(_lost_by_rules(needs, seen, login)), **dict(_lost_by_word(needs, seen, login))}
    if lost:
        worst = sorted(lost.items(), key=lambda one: one[0].resource is not ResourceType.CLUSTER)
        shown = "; ".join(f"{one.operation} on {_where(one)}: {cause.text}" for one, cause in worst[:SHOWN])
        more = f"; and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
        causes = dict.fromkeys(one for one in lost.values() if one.rule is not None and one.rule not in seen.own)
        todo = tuple(by_hand(one.rule, not one.there, seen.server) for one in causes if one.rule is not None)
        text = f"{subject} may no longer do what it works with: {shown}{more}"
        return Check(subject, Verdict.FAILED, text, todo[:SHOWN])
    if login.after is not None and login.after.failed is not None:
        return Check(subject, Verdict.UNKNOWN, f"{subject} could not be asked again: {login.after.failed.error}")
    why_not = login.why_not or ("" if login.asked else "nothing of what it works with is there to be asked about")
    if login.after is None or why_not:
        rest = "; by the rules alone it keeps what it works with" if needs.name else ""
        return Check(subject, Verdict.SKIPPED, f"{why_not}{rest}")
    asked = counted(login.asked, "resource")
    return Check(subject, Verdict.PASSED, f"keeps what it works with, by the brokers' own word on {asked}")


@dataclass(frozen=True, slots=True)
class _Cause:
    """``rule``: denies it while it is ``there``, or allowed it."""

    text: str
    rule: AclBinding | None = None
    there: bool = True


def _lost_by_rules(needs: Needs, seen: Evidence, login: Login) -> Iterator[tuple[AclBinding, _Cause]]:
    for view in set(seen.views.values()) if needs.name else ():
        taking = [one for one in _taking(seen.before, view) if one.principal in (needs.name, ANYONE)]
        wanted = {_request(one): one for one in reached(needs, taking)} if taking else {}
        for lost in locked_out(Rulebook.of(seen.before), Rulebook.of(view), wanted.values()):
            one = wanted.get(lost.request)
            if one is not None and told(login.after, one) is not True:
                yield one, _denied_by(lost.by) or _Cause(f"'{lost.today}' is gone", lost.today, there=False)


def _lost_by_word(needs: Needs, seen: Evidence, login: Login) -> Iterator[tuple[AclBinding, _Cause]]:
    """Of what the brokers allowed before the wave."""
    books = [Rulebook.of(view) for view in set(seen.views.values())]
    for one in login.wanted:
        if one.principal == needs.name and told(login.before, one) is True and told(login.after, one) is False:
            denials = (book.decide(_request(one)) for book in books if needs.name)
            by = next((found.by for found in denials if not found.allowed and found.by is not None), None)
            yield one, _denied_by(by) or _Cause("the brokers deny it")


def _denied_by(rule: AclBinding | None) -> _Cause | None:
    return None if rule is None else _Cause(f"'{rule}' denies it", rule)


def _taking(before: frozenset[AclBinding], after: frozenset[AclBinding]) -> Iterator[AclBinding]:
    yield from (acl for acl in after - before if acl.permission is Permission.DENY)
    yield from (acl for acl in before - after if acl.permission is Permission.ALLOW)


def _request(one: AclBinding) -> Request:
    return Request(one.principal, one.operation, one.resource, one.name)


def _where(one: AclBinding) -> str:
    return str(one.resource) if one.resource is ResourceType.CLUSTER else f"{one.resource} {one.name}"
