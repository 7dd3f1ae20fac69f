"""What a plan does to the rights of each principal on the clusters whose access rules it changes, all rules together.

Border: as if the whole plan were carried out; who reads now is asked elsewhere (``readers``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.acls import ANYONE, AclBinding, PatternType, ResourceType
from reconciler.authorizing.deciding import Rulebook
from reconciler.authorizing.effects import Shift, shifts
from reconciler.authorizing.standing import own_standing, takes_away
from reconciler.changes import AclChange, Change, CreateAcl, CreateTopic, DeleteAcl, Refused, Risk
from reconciler.counts import counted
from reconciler.live import LiveCluster, LiveState
from reconciler.plans import Planned
from reconciler.routing import Route
from reconciler.stakes import AccessShift
from reconciler.topology import Topology

MOST_NAMES = 50
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Outlook:
    """``harmless``: changes that take a right away in words and from nobody in fact, as (cluster, rule).
    ``rests_on``: subjects (see ``observations``) that must stay as they are, or somebody might be locked out.
    """

    shifts: tuple[AccessShift, ...] = ()
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    harmless: frozenset[tuple[str, AclBinding]] = frozenset()
    rests_on: tuple[str, ...] = ()


def outlook(topology: Topology, live: LiveState, routes: Iterable[Route], changes: Iterable[Change]) -> Outlook:
    by_cluster: dict[str, list[AclChange]] = {}
    fresh: dict[str, set[str]] = {}
    for change in changes:
        if isinstance(change, AclChange):
            by_cluster.setdefault(change.cluster, []).append(change)
        elif isinstance(change, CreateTopic):
            fresh.setdefault(change.ref.cluster, set()).add(change.ref.name)
    carried = tuple(routes)
    parts = []
    for name, mine in sorted(by_cluster.items()):
        cluster = live.known(name)
        if cluster is not None and isinstance(cluster.acls, frozenset):
            parts.append(_of_cluster(topology, cluster, carried, mine, fresh.get(name, set())))
    return Outlook(
        tuple(sorted((one for part in parts for one in part.shifts), key=lambda one: one.gained)),
        tuple(one for part in parts for one in part.refused),
        tuple(one for part in parts for one in part.notes),
        frozenset().union(*(part.harmless for part in parts)),
        tuple(one for part in parts for one in part.rests_on),
    )


def rules_after(rules: frozenset[AclBinding], changes: Iterable[Change], cluster: str) -> frozenset[AclBinding]:
    """``rules`` of ``cluster`` once ``changes`` are carried out."""
    mine = [one for one in changes if isinstance(one, AclChange) and one.cluster == cluster]
    made = {one.acl for one in mine if isinstance(one, CreateAcl)}
    return (rules | made) - {one.acl for one in mine if isinstance(one, DeleteAcl)}


def judged(planned: Iterable[Planned], found: Outlook) -> Iterable[Planned]:
    """A change that takes nothing from anybody is no risk, whatever its kind."""
    for one in planned:
        change = one.change
        if isinstance(change, AclChange) and (change.cluster, change.acl) in found.harmless:
            yield replace(one, risk=Risk.LOW, risk_why="nobody loses a right by it")
        else:
            yield one


def _of_cluster(
    topology: Topology, cluster: LiveCluster, routes: tuple[Route, ...], changes: list[AclChange], fresh: set[str]
) -> Outlook:
    assert isinstance(cluster.acls, frozenset)
    rules = rules_after(cluster.acls, changes, cluster.name)
    before, after = Rulebook.of(cluster.acls), Rulebook.of(rules)
    names = {ResourceType.TOPIC: cluster.topics.keys() | fresh}
    told = shifts(before, after, [change.acl for change in changes], names)
    ours = own_standing(topology, cluster.name, routes, (before, after), changes)
    losses = [one for one in told if not one.gained]
    harmless = [one for one in changes if takes_away(one) and not any(_by(one.acl, loss) for loss in losses)]
    return Outlook(
        tuple(_shift(cluster.name, one) for one in told),
        ours.refused,
        (*ours.notes, *_first_rules(cluster, before, changes)),
        frozenset((one.cluster, one.acl) for one in harmless),
        tuple(f"acl {cluster.name}/{acl}" for acl in sorted(ours.rests_on)),
    )


def _by(acl: AclBinding, loss: Shift) -> bool:
    if acl.resource is not loss.resource or acl.principal not in (loss.principal, ANYONE):
        return False
    begins = "" if acl.wildcard else acl.name
    return f"{begins}*" in loss.patterns or any(acl.covers_name(name) for name in loss.names)


def _shift(cluster: str, one: Shift) -> AccessShift:
    return AccessShift(
        cluster,
        one.principal,
        one.gained,
        one.resource,
        one.operations,
        one.names[:MOST_NAMES],
        one.patterns,
        max(0, len(one.names) - MOST_NAMES),
        one.host,
    )


def _first_rules(cluster: LiveCluster, before: Rulebook, changes: Iterable[AclChange]) -> Iterable[str]:
    """Brokers hide the value of ``allow.everyone.if.no.acl.found``, since no type of it is known to them."""
    found: Mapping[str, None] = dict.fromkeys(
        change.acl.name
        for change in changes
        if isinstance(change, CreateAcl)
        and change.acl.resource is ResourceType.TOPIC
        and change.acl.pattern is PatternType.LITERAL
        and change.acl.name in cluster.topics
        and not any(before.on(ResourceType.TOPIC, change.acl.name))
    )
    if found:
        shown = ", ".join(list(found)[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
        yield (
            f"{counted(len(found), 'topic')} of {cluster.name} had no access rule and will have one ({shown}): where"
            " brokers run with allow.everyone.if.no.acl.found, which they do not tell, everybody without one is refused"
        )
