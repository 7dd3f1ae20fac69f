"""Which active consumer groups lose a topic by a plan: what to ask of the clusters, and the answers put into the plan.

Kafka does not tell as whom a member of a group logs in; only groups that the loser may use today are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.acls import ANYONE, Operation, ResourceType
from reconciler.authorizing.deciding import Request, Rulebook
from reconciler.authorizing.standing import takes_away
from reconciler.changes import AclChange, Risk
from reconciler.counts import counted
from reconciler.live import LiveState
from reconciler.plans import Plan, Planned
from reconciler.stakes import AccessShift, Question, Reader, Stakes
from reconciler.topology import TopicRef

MOST = 100
"""Topics of one plan that are asked about."""


def reading_questions(plan: Plan, live: LiveState) -> dict[str, tuple[Question, ...]]:
    """Cluster -> topics that somebody may no longer read."""
    found: dict[str, dict[str, Question]] = {}
    left = MOST
    for shift in plan.shifts:
        cluster = live.known(shift.cluster)
        for name in _read(shift):
            if left and cluster is not None and (topic := cluster.topics.get(name)):
                asked = found.setdefault(cluster.name, {})
                left -= name not in asked
                asked[name] = Question(name, len(topic.partitions))
    return {cluster: tuple(some.values()) for cluster, some in found.items()}


def with_readers(plan: Plan, live: LiveState, told: Mapping[TopicRef, Stakes]) -> Plan:
    """``told``: at least the answers to ``reading_questions``. Who takes a topic from an active group is high risk."""
    if not any(_read(shift) for shift in plan.shifts):
        return plan
    shifts = tuple(_with_readers(shift, live, told) if _read(shift) else shift for shift in plan.shifts)
    hit = [shift for shift in shifts if shift.readers]
    return replace(plan, shifts=shifts, changes=tuple(_raised(one, hit) for one in plan.changes))


def _read(shift: AccessShift) -> tuple[str, ...]:
    lost = not shift.gained and shift.resource is ResourceType.TOPIC and Operation.READ in shift.operations
    return shift.names if lost else ()


def _with_readers(shift: AccessShift, live: LiveState, told: Mapping[TopicRef, Stakes]) -> AccessShift:
    cluster = live.known(shift.cluster)
    assert cluster is not None
    assert isinstance(cluster.acls, frozenset)
    book = Rulebook.of(cluster.acls)
    found: dict[str, Reader] = {}
    unknown: list[str] = []
    for name in _read(shift):
        stakes = told.get(TopicRef(shift.cluster, name))
        if stakes is None:
            if name in cluster.topics:
                unknown.append(f"who reads more than {MOST} topics was not asked")
        elif stakes.readers is None:
            unknown += [why for why in stakes.unknown if why.startswith(("who reads", "what is at stake"))]
        else:
            found |= {one.group: one for one in stakes.readers if one.members and _may_use(book, shift, one.group)}
    readers = tuple(found[group] for group in sorted(found))
    return replace(shift, readers=readers, unknown=tuple(dict.fromkeys(unknown)))


def _may_use(book: Rulebook, shift: AccessShift, group: str) -> bool:
    return book.allows(Request(shift.principal, Operation.READ, ResourceType.GROUP, group))


def _raised(planned: Planned, hit: Iterable[AccessShift]) -> Planned:
    change = planned.change
    if not isinstance(change, AclChange) or not takes_away(change):
        return planned
    acl = change.acl
    groups = {
        reader.group
        for shift in hit
        if shift.cluster == change.cluster
        and acl.resource is ResourceType.TOPIC
        and acl.principal in (shift.principal, ANYONE)
        and any(acl.covers_name(name) for name in shift.names)
        for reader in shift.readers
    }
    if not groups:
        return planned
    why = f"{counted(len(groups), 'group')} with members may lose what they read; {planned.risk_why}"
    return replace(planned, risk=Risk.HIGH, risk_why=why)
