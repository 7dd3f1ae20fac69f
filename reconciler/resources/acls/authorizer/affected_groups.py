"""Which active consumer groups lose a topic by a plan.

Kafka does not tell as whom a member of a group logs in; only groups that the loser may use today are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.model.acls import ANYONE, Operation, ResourceType
from reconciler.model.changes import AclChange, Risk
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan, Planned
from reconciler.model.reports.impact import AccessShift, ImpactQuery, ReadingGroup, Stakes
from reconciler.resources.acls.authorizer.decide import AccessRequest, Rulebook
from reconciler.resources.acls.authorizer.lockout import takes_away
from reconciler.text import counted

MOST = 100
"""Topics of one plan that are asked about."""


def reading_questions(plan: Plan, live: LiveState) -> dict[str, tuple[ImpactQuery, ...]]:
    """Cluster -> topics that somebody may no longer read."""
    queries: dict[str, dict[str, ImpactQuery]] = {}
    groups_left = MOST
    for shift in plan.shifts:
        cluster = live.known(shift.cluster)
        for name in _read(shift):
            if groups_left and cluster is not None and (topic := cluster.topics.get(name)):
                asked = queries.setdefault(cluster.name, {})
                groups_left -= name not in asked
                asked[name] = ImpactQuery(name, len(topic.partitions))
    return {cluster: tuple(some.values()) for cluster, some in queries.items()}


def with_readers(plan: Plan, live: LiveState, impacts: Mapping[TopicRef, Stakes]) -> Plan:
    """``impacts``: at least the answers to ``reading_questions``. Taking a topic from an active group is high risk."""
    if not any(_read(shift) for shift in plan.shifts):
        return plan
    shifts = tuple(_with_readers(shift, live, impacts) if _read(shift) else shift for shift in plan.shifts)
    hit = [shift for shift in shifts if shift.readers]
    return replace(plan, shifts=shifts, changes=tuple(_raised(planned, hit) for planned in plan.changes))


def _read(shift: AccessShift) -> tuple[str, ...]:
    lost = not shift.gained and shift.resource is ResourceType.TOPIC and Operation.READ in shift.operations
    return shift.names if lost else ()


def _with_readers(shift: AccessShift, live: LiveState, impacts: Mapping[TopicRef, Stakes]) -> AccessShift:
    cluster = live.known(shift.cluster)
    assert cluster is not None
    assert isinstance(cluster.acls, frozenset)
    book = Rulebook.of(cluster.acls)
    reading_groups: dict[str, ReadingGroup] = {}
    unknown: list[str] = []
    for name in _read(shift):
        stakes = impacts.get(TopicRef(shift.cluster, name))
        if stakes is None:
            if name in cluster.topics:
                unknown.append(f"who reads more than {MOST} topics was not asked")
        elif stakes.readers is None:
            unknown += [why for why in stakes.unknown if why.startswith(("who reads", "what is at stake"))]
        else:
            reading_groups |= {
                reader.group: reader
                for reader in stakes.readers
                if reader.members
                and book.allows(AccessRequest(shift.principal, Operation.READ, ResourceType.GROUP, reader.group))
            }
    readers = tuple(reading_groups[group] for group in sorted(reading_groups))
    return replace(shift, readers=readers, unknown=tuple(dict.fromkeys(unknown)))


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
