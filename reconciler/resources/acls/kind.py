"""The kind of access rules: who may do what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from reconciler.errors import Unknown
from reconciler.model.acls import ANYONE, Permission
from reconciler.model.changes import (
    About,
    AclChange,
    ConfigChange,
    CreateAcl,
    DeleteAcl,
    KindName,
    Reason,
    Risk,
    Subject,
    Why,
)
from reconciler.model.changes.vocabulary import Action
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveCluster, LiveState
from reconciler.model.plan import Planned
from reconciler.model.reports.drift import Cause, Deviation, History, Told
from reconciler.resources.kind import ABSENT, UNKNOWN, Assessment, Counts, Kind, World, parts

AFTER_TOPICS = 1_000
"""Place among the removals; no chain of flows is as long."""


def assess(change: AclChange, _: World) -> Assessment:
    """What is new for those the rule is about; who that is today is for the what-if to say."""
    allows = change.acl.permission is Permission.ALLOW
    if isinstance(change, DeleteAcl):
        if allows:
            return Assessment(Risk.MEDIUM, "clients that still use this right are refused from then on")
        return Assessment(Risk.MEDIUM, "what was denied may be allowed by other rules from then on")
    if not allows:
        return Assessment(Risk.MEDIUM, "a deny rule wins over every rule that allows")
    if change.acl.principal == ANYONE:
        return Assessment(Risk.HIGH, "everybody who can connect is allowed")
    return Assessment(Risk.LOW)


def rests_on(change: AclChange, _: Mapping[TopicRef, TopicRef]) -> Iterator[Subject]:
    yield Subject(About.ACL, change.cluster, str(change.acl))
    yield Subject(About.CLUSTER, change.cluster)
    if isinstance(change, CreateAcl) and change.rests_on:
        cluster, _sign, rule = change.rests_on.partition("/")
        yield Subject(About.ACL, cluster, rule)


def states(live: LiveState) -> Callable[[Subject], str]:
    """The rules of each cluster are put into words once, however many subjects ask."""
    rules = {name: _rules(cluster) for name, cluster in live.clusters.items() if isinstance(cluster, LiveCluster)}

    def state(subject: Subject) -> str:
        known = rules.get(subject.cluster)
        return UNKNOWN if known is None else known.get(subject.name, ABSENT)

    return state


def _rules(cluster: LiveCluster) -> Mapping[str, str] | None:
    """Text of each rule -> what is seen of it; None when they could not be read."""
    access = cluster.access
    if access is None or not isinstance(access.acls, frozenset):
        return None
    owned = {} if isinstance(access.owned, Unknown) else access.owned
    shown = {str(acl): "there, made by an earlier run" if acl in owned else "there" for acl in access.acls}
    return {**shown, **{str(acl): f"{shown.get(str(acl), ABSENT)}, not probed yet" for acl in access.pending}}


def is_safe(change: AclChange, risk: Risk) -> bool:
    """What flows derive for their readers."""
    return isinstance(change, CreateAcl) and bool(change.rests_on) and risk != Risk.HIGH


def deviations(change: AclChange) -> Iterator[Deviation]:
    subject = f"{change.cluster}: {change.acl}"
    match change:
        case CreateAcl():
            yield Deviation(subject, "access-missing", f"a rule ({change.reason.text})", "no such rule")
        case DeleteAcl():
            yield Deviation(subject, "access-left-over", "no such rule", f"the rule ({change.reason.text})")
        case _:
            assert_never(change)


def cause(planned: Planned, _: History, __: ConfigChange | None) -> Told:
    """By the cluster's ownership record, which every run reads, wherever it runs."""
    match planned.change:
        case CreateAcl(reason=Reason(code=Why.REMOVED_OUTSIDE)):
            return Told(Cause.EDITED_OUTSIDE, "an earlier run made the rule, and someone has removed it since")
        case CreateAcl(reason=Reason(code=Why.NOT_PROBED)) | DeleteAcl(reason=Reason(code=Why.NOT_PROBED)):
            return Told(Cause.HALF_FINISHED, "an earlier run did it, and no probe has confirmed it")
        case CreateAcl(rests_on=""):
            return Told(Cause.NOT_TOLD, "no earlier run made the rule: new in git")
        case CreateAcl(rests_on=rule):
            return Told(Cause.NOT_TOLD, f"no earlier run made the rule: new in git, or {rule} is new")
        case DeleteAcl(reason=Reason(code=Why.DECLARED_ABSENT)):
            return Told(Cause.NOT_TOLD, "declared absent, and still or again there")
        case _:
            return Told(Cause.NOT_TOLD, "an earlier run made the rule, and nothing asks for it any more")


def counts(changes: Sequence[AclChange]) -> Counts:
    created = sum(isinstance(change, CreateAcl) for change in changes)
    return Counts(
        parts((Action.CREATE, created, "access rule")), parts((Action.DELETE, len(changes) - created, "access rule"))
    )


KIND: Kind[AclChange] = Kind(
    name=KindName.ACLS,
    changes=(CreateAcl, DeleteAcl),
    assess=assess,
    place=lambda change: (AFTER_TOPICS * isinstance(change, DeleteAcl), f"{change.grant.title} {change.acl}"),
    rests_on=rests_on,
    states={About.ACL: states},
    is_safe=is_safe,
    takes_away=(DeleteAcl,),
    deviations=deviations,
    cause=cause,
    counts=counts,
)
