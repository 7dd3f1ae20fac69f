"""The verdict on an ACL batch, from observations before and after it, and the undoing of a failed one. Pure functions.

A broker's answer about a principal overrides the rules, because only brokers know super users.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.errors import Unknown
from reconciler.model.changes import AclChange, CreateAcl
from reconciler.model.environment.topology import Principal
from reconciler.model.live import Before, LiveAccess
from reconciler.model.plan import AccessShift
from reconciler.model.principals import ANYONE, WILDCARD, AclBinding, PatternType, Permission, ResourceType, Unsupported
from reconciler.model.reports.probe import Needs, ProbeCheck, ProbeVerdict
from reconciler.resources.acls.authorizer.decide import AccessRequest, Rulebook
from reconciler.resources.acls.authorizer.gains_and_losses import locked_out, shifts
from reconciler.resources.acls.authorizer.lockout import carried_out, reached
from reconciler.resources.acls.probe.rights import ProbedLogin, is_allowed
from reconciler.text import BRIEF, counted, in_shell

_UNUSED_NAME = "\0"

Views = Mapping[int, frozenset[AclBinding]]
"""Broker -> rules in its authorizer."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the probe knows of one wave when it judges it."""

    before: frozenset[AclBinding]
    """All rules before the wave."""
    changes: tuple[AclChange, ...]
    """The done ones of the wave."""
    views: Views
    needs: tuple[Needs, ...] = ()
    logins: Mapping[Principal, ProbedLogin] = field(default_factory=dict)
    server: str = "HOST:PORT"
    """For commands."""

    @property
    def own(self) -> frozenset[AclBinding]:
        return frozenset(change.acl for change in self.changes)


def checks(evidence: Evidence) -> tuple[ProbeCheck, ...]:
    return (_rules(evidence), _decisions(evidence), *(_principal(needs, evidence) for needs in evidence.needs))


def lagging(views: Views, changes: Iterable[AclChange]) -> dict[int, tuple[AclChange, ...]]:
    """Broker -> changes it does not show."""
    wanted = tuple(changes)
    all_changes = {
        node: tuple(change for change in wanted if (change.acl in shown) is not isinstance(change, CreateAcl))
        for node, shown in views.items()
    }
    return {node: some for node, some in all_changes.items() if some}


def _rules(evidence: Evidence) -> ProbeCheck:
    """Checks that every broker shows every change of the wave, since brokers replay metadata independently."""
    subject = "rules"
    if not evidence.views:
        return ProbeCheck(subject, ProbeVerdict.UNKNOWN, "no broker showed its rules")
    missing = lagging(evidence.views, evidence.changes)
    if not missing:
        text = f"{counted(len(evidence.changes), 'change')} shown by {counted(len(evidence.views), 'broker')}"
        return ProbeCheck(subject, ProbeVerdict.PASSED, text)
    node, some = next(iter(sorted(missing.items())))
    first = some[0]
    description = "is missing" if isinstance(first, CreateAcl) else "still exists"
    more = f", and {len(some) - 1} more" if len(some) > 1 else ""
    return ProbeCheck(subject, ProbeVerdict.FAILED, f"'{first.acl}' {description} on broker {node}{more}")


def _decisions(evidence: Evidence) -> ProbeCheck:
    """Checks that requests under the wave's rules are decided as planned, whatever other clients changed meanwhile."""
    subject = "who may do what"
    expected = carried_out(evidence.before, evidence.changes)
    touched = sorted(evidence.own)
    others: set[AclBinding] = set()
    for view in set(evidence.views.values()):
        differing = expected ^ view
        others |= differing - evidence.own
        # The names in differing rules are enough to find every differing decision.
        names: dict[ResourceType, set[str]] = {}
        for acl in differing:
            if not acl.wildcard:
                name = f"{acl.name}{_UNUSED_NAME}" if acl.pattern is PatternType.PREFIXED else acl.name
                names.setdefault(acl.resource, set()).add(name)
        all_shifts = shifts(Rulebook.of(expected), Rulebook.of(view), touched, names) if differing else ()
        if all_shifts:
            guilty = [acl for acl in sorted(differing) if _concerns(acl, all_shifts[0])]
            shown = [f"'{acl}' {'is there' if acl in view else 'is gone'}" for acl in guilty[:BRIEF]]
            text = f"{_against(all_shifts)}; meanwhile {', '.join(shown) or 'its rules changed'}"
            # Commands only revert other clients' changes; the wave's own are undone with it.
            set_back = tuple(
                by_hand(acl, acl not in view, evidence.server) for acl in guilty if acl not in evidence.own
            )[:BRIEF]
            return ProbeCheck(subject, ProbeVerdict.FAILED, text, set_back)
    if not evidence.views:
        return ProbeCheck(subject, ProbeVerdict.UNKNOWN, "not worked out, since no broker showed its rules")
    meanwhile = f"{counted(len(others), 'rule')} of others changed meanwhile and decides none of it"
    return ProbeCheck(subject, ProbeVerdict.PASSED, f"as planned; {meanwhile}" if others else "as planned")


def _concerns(acl: AclBinding, shift: AccessShift) -> bool:
    if acl.resource is not shift.resource or acl.principal not in (shift.principal, ANYONE):
        return False
    begins = [pattern.removesuffix("*") for pattern in shift.patterns]
    return any(acl.covers_name(name) for name in (*shift.names, *begins)) or acl.name in begins


def _against(given_shifts: Sequence[AccessShift]) -> str:
    shift = given_shifts[0]
    names = ", ".join((*shift.names, *shift.patterns)[:BRIEF])
    where = str(shift.resource) if shift.resource is ResourceType.CLUSTER else f"{shift.resource} {names}"
    may = "may" if shift.gained else "may not"
    more = f", and {len(given_shifts) - 1} more" if len(given_shifts) > 1 else ""
    return f"against the plan {shift.principal} {may} {', '.join(shift.operations)} on {where}{more}"


def _principal(needs: Needs, evidence: Evidence) -> ProbeCheck:
    """Checks that one of our principals keeps its needed rights, by the brokers' rules and by their answers to its
    login. A loss by either fails the wave, with commands that revert each responsible rule."""
    who = needs.name or "whose name is not known"
    subject = f"{needs.kind} principal {who}"
    login = evidence.logins.get(needs.kind, ProbedLogin(why_not="no principal was asked"))
    lost = {**dict(_lost_by_rules(needs, evidence, login)), **dict(_lost_by_word(needs, evidence, login))}
    if lost:
        worst = sorted(lost.items(), key=lambda pair: pair[0].resource is not ResourceType.CLUSTER)
        shown = "; ".join(f"{acl.operation} on {_request(acl).where}: {cause.text}" for acl, cause in worst[:BRIEF])
        more = f"; and {len(lost) - BRIEF} more" if len(lost) > BRIEF else ""
        # The wave's own changes are undone with it; only other clients' changes need a command.
        causes = dict.fromkeys(
            cause for cause in lost.values() if cause.rule is not None and cause.rule not in evidence.own
        )
        todo = tuple(
            by_hand(cause.rule, not cause.there, evidence.server) for cause in causes if cause.rule is not None
        )
        text = f"{subject} may no longer do what it works with: {shown}{more}"
        return ProbeCheck(subject, ProbeVerdict.FAILED, text, todo[:BRIEF])
    if login.after is not None and login.after.failed is not None:
        return ProbeCheck(
            subject, ProbeVerdict.UNKNOWN, f"{subject} could not be asked again: {login.after.failed.error}"
        )
    why_not = login.why_not or ("" if login.asked else "nothing of what it works with is there to be asked about")
    if login.after is None or why_not:
        rest = "; by the rules alone it keeps what it works with" if needs.name else ""
        return ProbeCheck(subject, ProbeVerdict.SKIPPED, f"{why_not}{rest}")
    asked = counted(login.asked, "resource")
    return ProbeCheck(subject, ProbeVerdict.PASSED, f"keeps what it works with, by the brokers' own word on {asked}")


@dataclass(frozen=True, slots=True)
class _Cause:
    """``rule``: the cause of a loss: a denial that is ``there``, or a deleted permission."""

    text: str
    rule: AclBinding | None = None
    there: bool = True


def _lost_by_rules(needs: Needs, evidence: Evidence, login: ProbedLogin) -> Iterator[tuple[AclBinding, _Cause]]:
    """Requests that the principal could make before the wave, and that no broker's rules allow now. A login that still
    may is not locked out, whatever the rules say."""
    for view in set(evidence.views.values()) if needs.name else ():
        # A new denial takes rights away, and so does the end of a permission.
        added, gone = view - evidence.before, evidence.before - view
        changed = [acl for acl in added if acl.permission is Permission.DENY]
        changed += [acl for acl in gone if acl.permission is Permission.ALLOW]
        taking = [acl for acl in changed if acl.principal in (needs.name, ANYONE)]
        wanted = {_request(acl): acl for acl in reached(needs, taking)} if taking else {}
        for lost in locked_out(Rulebook.of(evidence.before), Rulebook.of(view), wanted.values()):
            acl = wanted.get(lost.request)
            if acl is not None and is_allowed(login.after, acl) is not True:
                yield acl, _denied_by(lost.by) or _Cause(f"'{lost.today}' is gone", lost.today, there=False)


def _lost_by_word(needs: Needs, evidence: Evidence, login: ProbedLogin) -> Iterator[tuple[AclBinding, _Cause]]:
    """Requests that brokers allowed before the wave and deny now."""
    books = [Rulebook.of(view) for view in set(evidence.views.values())]
    for acl in login.wanted:
        if (
            acl.principal == needs.name
            and is_allowed(login.before, acl) is True
            and is_allowed(login.after, acl) is False
        ):
            denials = (book.decide(_request(acl)) for book in books if needs.name)
            by = next((decision.by for decision in denials if not decision.allowed and decision.by is not None), None)
            yield acl, _denied_by(by) or _Cause("the brokers deny it")


def _denied_by(rule: AclBinding | None) -> _Cause | None:
    return None if rule is None else _Cause(f"'{rule}' denies it", rule)


def _request(acl: AclBinding) -> AccessRequest:
    return AccessRequest(acl.principal, acl.operation, acl.resource, acl.name)


# Undoes a failed ACL batch: ACLs to restore, commands for doing it manually, and the report. Pure functions.

_RESOURCES = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}


def before_of(changes: Iterable[AclChange], access: LiveAccess) -> dict[AclBinding, Before]:
    """State of each rule before its wave. A rule that an unconfirmed earlier wave changed keeps the state before that
    one, so that undoing restores it."""
    rules = access.acls if isinstance(access.acls, frozenset) else frozenset[AclBinding]()
    return {
        change.acl: access.pending.get(change.acl) or Before(change.acl in rules, access.ours.get(change.acl))
        for change in changes
    }


def put_back(rules: Iterable[AclBinding], before: Mapping[AclBinding, Before]) -> frozenset[AclBinding]:
    """``rules`` with the states of ``before`` restored."""
    present = {acl for acl, state in before.items() if state.there}
    return (frozenset(rules) | present) - (before.keys() - present)


def settled(rules: Iterable[AclBinding], before: Mapping[AclBinding, Before]) -> frozenset[AclBinding]:
    """Rules of ``before`` in their former state, so that nothing is left to undo."""
    shown = frozenset(rules)
    return frozenset(acl for acl, state in before.items() if (acl in shown) is state.there)


def by_hand(acl: AclBinding, there: bool, server: str) -> str:
    """The kafka-acls command that makes the rule, or removes it."""
    kind = "deny" if acl.permission is Permission.DENY else "allow"
    resource = (
        "--cluster" if acl.resource is ResourceType.CLUSTER else f"{_RESOURCES[acl.resource]} {in_shell(acl.name)}"
    )
    words = [
        f"kafka-acls.sh --bootstrap-server {server}",
        "--add" if there else "--remove --force",
        f"--{kind}-principal {in_shell(acl.principal)}",
    ]
    if acl.host != WILDCARD:
        words.append(f"--{kind}-host {in_shell(acl.host)}")
    operation = "".join(part.capitalize() for part in acl.operation.split("_"))  # as in DescribeConfigs
    words += [f"--operation {operation}", resource]
    if acl.pattern is PatternType.PREFIXED:
        words.append("--resource-pattern-type prefixed")
    return " ".join(words)


AGAIN = "The next plan shows it again; applying that probes it again."


def unreadable(access: LiveAccess) -> str:
    """Why a wave cannot begin, since it could not be undone; or empty."""
    if isinstance(access.acls, Unsupported):
        return f"{access.acls.why}\nIt keeps no access rules\nSet authorizer.class.name on it."
    todo = access.acls.todo if isinstance(access.acls, Unknown) else ""
    problem = access.acls.error if isinstance(access.acls, Unknown) else ""
    return f"{problem}\nThe present rules must be known, so that they can be restored\n{todo}"


def undone(why: str) -> str:
    return (
        f"done, and undone again, since its probe failed: {why}\n"
        "All is as before this ACL batch.\nFix it and plan again."
    )


def unproven(why: str) -> str:
    return f"done, and not confirmed: {why}\nIt is kept: an unknown result is no reason to undo it.\n{AGAIN}"


def interrupted(undoing: str) -> str:
    if undoing:
        return f"interrupted while it was being undone; it is still in place. Its probe failed: {undoing}\n{AGAIN}"
    return f"interrupted before it was probed; it is kept\n{AGAIN}"


def left_words(change: AclChange, before: Before, about: tuple[str, str, str], first: Sequence[str]) -> str:
    """``about``: error of the probe, error of undoing, an address; ``first``: commands to run before."""
    why, reason, server = about
    lines = [f"done, and NOT undone, although its probe failed: {why}", f"Undoing it failed: {reason}"]
    lines.append("Do it yourself, as a principal with Alter on the cluster:")
    lines += [f"  {name}" for name in (*first, by_hand(change.acl, before.there, server))]
    return "\n".join([*lines, AGAIN])
