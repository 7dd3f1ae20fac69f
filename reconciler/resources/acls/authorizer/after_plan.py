"""Rights of each principal after a plan that changes ACLs, and groups that lose a topic.

Kafka does not report the principals of group members, so every group that the losing principal may use today is named.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from reconciler.model.changes import About, AclChange, Change, CreateAcl, CreateTopic, Refused, Risk, Subject
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveState
from reconciler.model.plan import AccessShift, Plan, Planned, ReadingGroup, Stakes
from reconciler.model.principals import ANYONE, AclBinding, Operation, PatternType, ResourceType
from reconciler.resources.acls.authorizer.decide import AccessRequest, Rulebook
from reconciler.resources.acls.authorizer.gains_and_losses import shifts
from reconciler.resources.acls.authorizer.lockout import carried_out, own_lockouts, takes_away
from reconciler.resources.flows.routes import Route
from reconciler.text import BRIEF, counted, first_of, grouped

MOST_NAMES = 50


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a plan's access changes do to the access of everyone."""

    shifts: tuple[AccessShift, ...] = ()
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    harmless: frozenset[tuple[str, AclBinding]] = frozenset()
    """Changes that give no principal a right, and take none, as (cluster, rule)."""
    rests_on: tuple[Subject, ...] = ()
    """Subjects that must not change, or a principal may be locked out."""


def outlook(topology: Topology, live: LiveState, routes: Iterable[Route], changes: Iterable[Change]) -> Outlook:
    """The combined effect of a plan's ACL changes on each cluster: gains and losses, lock-outs of this program, and
    deletions without effect. Rules for future topics count, too."""
    changes = tuple(changes)
    by_cluster = grouped((change.cluster, change) for change in changes if isinstance(change, AclChange))
    new_topics = grouped((change.ref.cluster, change.ref.name) for change in changes if isinstance(change, CreateTopic))
    carried = tuple(routes)
    parts = []
    for name, mine in sorted(by_cluster.items()):
        cluster = live.known(name)
        if cluster is not None and isinstance(cluster.acls, frozenset):
            parts.append(_of_cluster(topology, cluster, carried, mine, frozenset(new_topics.get(name, ()))))
    return Outlook(
        tuple(sorted((shift for part in parts for shift in part.shifts), key=lambda shift: shift.gained)),
        tuple(refusal for part in parts for refusal in part.refused),
        tuple(note for part in parts for note in part.notes),
        frozenset().union(*(part.harmless for part in parts)),
        tuple(name for part in parts for name in part.rests_on),
    )


def judged(planned: Iterable[Planned], given_outlook: Outlook) -> Iterable[Planned]:
    """Lowers the risk of changes after which everyone may do what they may today, and says so."""
    for each_planned in planned:
        change = each_planned.change
        if isinstance(change, AclChange) and (change.cluster, change.acl) in given_outlook.harmless:
            moves = "loses" if takes_away(change) else "gains"
            yield replace(each_planned, risk=Risk.LOW, risk_why=f"no one {moves} a right by it")
        else:
            yield each_planned


def _of_cluster(
    topology: Topology, cluster: LiveCluster, routes: tuple[Route, ...], changes: list[AclChange], new_topics: Set[str]
) -> Outlook:
    """``new_topics``: topics that the plan creates, which existing rules may cover. Names are shortened for display
    only after all decisions."""
    assert isinstance(cluster.acls, frozenset)
    rules = carried_out(cluster.acls, changes)
    before, after = Rulebook.of(cluster.acls), Rulebook.of(rules)
    names = {ResourceType.TOPIC: cluster.topics.keys() | new_topics}
    all_shifts = shifts(before, after, [change.acl for change in changes], names, cluster.name)
    ours, upholding = own_lockouts(topology, cluster.name, routes, (before, after), changes)
    idle = [
        change
        for change in changes
        if not any(shift.gained is not takes_away(change) and _by(change.acl, shift) for shift in all_shifts)
    ]
    # A rule that replaces one which the plan deletes gives no principal more than today, and is needed.
    made = [change.acl for change in idle if isinstance(change, CreateAcl)]
    without = shifts(Rulebook.of(rules.difference(made)), after, made, names, cluster.name) if made else ()
    harmless = [change for change in idle if takes_away(change) or not any(_by(change.acl, shift) for shift in without)]
    return Outlook(
        tuple(
            replace(shift, names=shift.names[:MOST_NAMES], more=max(0, len(shift.names) - MOST_NAMES))
            for shift in all_shifts
        ),
        ours.refused,
        (*ours.notes, *_first_rules(cluster, before, changes)),
        frozenset((change.cluster, change.acl) for change in harmless),
        tuple(Subject(About.ACL, cluster.name, str(acl)) for acl in sorted(upholding)),
    )


def _by(acl: AclBinding, shift: AccessShift) -> bool:
    if acl.resource is not shift.resource or acl.principal not in (shift.principal, ANYONE):
        return False
    begins = "" if acl.wildcard else acl.name
    return f"{begins}*" in shift.patterns or any(acl.covers_name(name) for name in shift.names)


def _first_rules(cluster: LiveCluster, before: Rulebook, changes: Iterable[AclChange]) -> Iterable[str]:
    """Notes on topics that get their first rule. Brokers hide ``allow.everyone.if.no.acl.found``, because its type is
    unknown to them, so the effect is uncertain."""
    rules: Mapping[str, None] = dict.fromkeys(
        change.acl.name
        for change in changes
        if isinstance(change, CreateAcl)
        and change.acl.resource is ResourceType.TOPIC
        and change.acl.pattern is PatternType.LITERAL
        and change.acl.name in cluster.topics
        and not any(before.on(ResourceType.TOPIC, change.acl.name))
    )
    if rules:
        shown = first_of(list(rules), BRIEF)
        yield (
            f"{counted(len(rules), 'topic')} of {cluster.name} had no access rule and will have one ({shown}): where"
            " brokers run with allow.everyone.if.no.acl.found (they do not report it), everyone without one is refused"
        )


MOST = 100
"""Most topics of one plan with a lookup of their readers."""


def lost_to_readers(plan: Plan, live: LiveState) -> list[TopicRef]:
    """Existing topics that some principal may no longer read, up to a limit."""
    refs = dict.fromkeys(TopicRef(shift.cluster, name) for shift in plan.shifts for name in _read(shift))
    return [ref for ref in refs if live.topic(ref) is not None][:MOST]


def with_readers(plan: Plan, live: LiveState, impacts: Mapping[TopicRef, Stakes]) -> Plan:
    """``impacts``: at least of ``lost_to_readers``. Taking a topic from an active group is high risk."""
    if not any(_read(shift) for shift in plan.shifts):
        return plan
    shifts = tuple(_with_readers(shift, live, impacts) if _read(shift) else shift for shift in plan.shifts)
    hit = [shift for shift in shifts if shift.readers]
    return replace(plan, shifts=shifts, changes=tuple(_raised(planned, hit) for planned in plan.changes))


def _read(shift: AccessShift) -> tuple[str, ...]:
    lost = not shift.gained and shift.resource is ResourceType.TOPIC and Operation.READ in shift.operations
    return shift.names if lost else ()


def _with_readers(shift: AccessShift, live: LiveState, impacts: Mapping[TopicRef, Stakes]) -> AccessShift:
    """Adds groups with members that read topics which the principal may no longer read, and a note on topics without a
    lookup."""
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
    """Raises a deletion to high risk if groups with members may lose a topic by it."""
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
