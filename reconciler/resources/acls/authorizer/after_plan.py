"""The rights of each principal after a plan, on the clusters whose ACLs it changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from reconciler.model.acls import ANYONE, AclBinding, PatternType, ResourceType
from reconciler.model.changes import About, AclChange, Change, CreateAcl, CreateTopic, DeleteAcl, Refused, Risk, Subject
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveCluster, LiveState
from reconciler.model.plan import Planned
from reconciler.model.reports.impact import AccessShift
from reconciler.resources.acls.authorizer.decide import Rulebook
from reconciler.resources.acls.authorizer.gains_and_losses import Shift, shifts
from reconciler.resources.acls.authorizer.lockout import own_standing, takes_away
from reconciler.resources.flows.routes import Route
from reconciler.text import counted, first_of, grouped

MOST_NAMES = 50
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Outlook:
    """``harmless``: changes that take a right away in words and from nobody in fact, as (cluster, rule).
    ``rests_on``: subjects that must stay as they are, or somebody might be locked out.
    """

    shifts: tuple[AccessShift, ...] = ()
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    harmless: frozenset[tuple[str, AclBinding]] = frozenset()
    rests_on: tuple[Subject, ...] = ()


def outlook(topology: Topology, live: LiveState, routes: Iterable[Route], changes: Iterable[Change]) -> Outlook:
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


def rules_after(rules: frozenset[AclBinding], changes: Iterable[Change], cluster: str) -> frozenset[AclBinding]:
    """``rules`` of ``cluster`` once ``changes`` are carried out."""
    mine = [change for change in changes if isinstance(change, AclChange) and change.cluster == cluster]
    created = {change.acl for change in mine if isinstance(change, CreateAcl)}
    return (rules | created) - {change.acl for change in mine if isinstance(change, DeleteAcl)}


def judged(planned: Iterable[Planned], given_outlook: Outlook) -> Iterable[Planned]:
    """A change that takes nothing from anybody is no risk, whatever its kind."""
    for each_planned in planned:
        change = each_planned.change
        if isinstance(change, AclChange) and (change.cluster, change.acl) in given_outlook.harmless:
            yield replace(each_planned, risk=Risk.LOW, risk_why="nobody loses a right by it")
        else:
            yield each_planned


def _of_cluster(
    topology: Topology, cluster: LiveCluster, routes: tuple[Route, ...], changes: list[AclChange], new_topics: Set[str]
) -> Outlook:
    assert isinstance(cluster.acls, frozenset)
    rules = rules_after(cluster.acls, changes, cluster.name)
    before, after = Rulebook.of(cluster.acls), Rulebook.of(rules)
    names = {ResourceType.TOPIC: cluster.topics.keys() | new_topics}
    all_shifts = shifts(before, after, [change.acl for change in changes], names)
    ours = own_standing(topology, cluster.name, routes, (before, after), changes)
    losses = [shift for shift in all_shifts if not shift.gained]
    harmless = [
        change for change in changes if takes_away(change) and not any(_by(change.acl, loss) for loss in losses)
    ]
    return Outlook(
        tuple(
            (
                AccessShift(
                    cluster.name,
                    shift.principal,
                    shift.gained,
                    shift.resource,
                    shift.operations,
                    shift.names[:MOST_NAMES],
                    shift.patterns,
                    max(0, len(shift.names) - MOST_NAMES),
                    shift.host,
                )
            )
            for shift in all_shifts
        ),
        ours.refused,
        (*ours.notes, *_first_rules(cluster, before, changes)),
        frozenset((change.cluster, change.acl) for change in harmless),
        tuple(Subject(About.ACL, cluster.name, str(acl)) for acl in sorted(ours.rests_on)),
    )


def _by(acl: AclBinding, loss: Shift) -> bool:
    if acl.resource is not loss.resource or acl.principal not in (loss.principal, ANYONE):
        return False
    begins = "" if acl.wildcard else acl.name
    return f"{begins}*" in loss.patterns or any(acl.covers_name(name) for name in loss.names)


def _first_rules(cluster: LiveCluster, before: Rulebook, changes: Iterable[AclChange]) -> Iterable[str]:
    """Brokers hide the value of ``allow.everyone.if.no.acl.found``, since no type of it is known to them."""
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
        shown = first_of(list(rules), SHOWN)
        yield (
            f"{counted(len(rules), 'topic')} of {cluster.name} had no access rule and will have one ({shown}): where"
            " brokers run with allow.everyone.if.no.acl.found (they do not report it), everybody without one is refused"
        )
