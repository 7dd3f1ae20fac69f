"""Guards against losing by accident: protected names, prune, a wish that shrank, a cluster nobody has met.

Border: nouns in, findings out; each guard is a module of its own.
"""

from __future__ import annotations

from dataclasses import replace

from reconciler.applied import Applied, Consent
from reconciler.changes import Reason, Refused
from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.guarding.contact import FIRST_CONTACT, clusters_of, first_contacts, let_through, unmet
from reconciler.guarding.elsewhere import OTHER_REPOSITORY, forgotten, other_repository
from reconciler.guarding.pruning import PRUNE
from reconciler.guarding.shrinking import ABOVE, SHRUNKEN, declared_topics, left_behind, shrunken
from reconciler.live import LiveState
from reconciler.plans import Plan
from reconciler.topology import Topology

__all__ = [
    "applied_now",
    "clusters_of",
    "from_here",
    "guarded",
    "is_prune",
    "moved_record",
    "released",
    "unjudged",
    "unmet",
]

_OF_CONSENT = {
    FIRST_CONTACT: "first_contact",
    OTHER_REPOSITORY: "first_contact",
    SHRUNKEN: "shrink",
    ABOVE: "shrink",
    "prune-above-limit": "shrink",
}
_JUDGED_HERE = (FIRST_CONTACT, OTHER_REPOSITORY, SHRUNKEN)


def guarded(
    plan: Plan, topology: Topology, live: LiveState, applied: Applied | Unknown | None, consent: Consent
) -> Plan:
    """``plan`` with what speaks against it: a wish that shrank, clusters nobody has met, an empty wish.

    ``applied`` Unknown: the record cannot be read by this principal; that is noted, and ``apply`` looks again.
    """
    if isinstance(applied, Unknown):
        note = f"not checked against the last apply, {applied.subject} could not be read: {applied.error}"
        return replace(plan, notes=(*plan.notes, note))
    found = list(shrunken(topology, applied)) or list(_empty(plan, topology))
    changes = [planned.change for planned in plan.changes]
    found += first_contacts(topology, live, applied, changes)
    notes = (
        *plan.notes,
        *left_behind(topology, applied),
        *forgotten(topology, live, applied),
        *(() if consent.first_contact else let_through(topology, live, applied, changes)),
    )
    return released(replace(plan, refused=(*plan.refused, *found), notes=notes), consent)


def from_here(plan: Plan, applied: Applied | Unknown | None, origin: str) -> Plan:
    """``plan`` with what speaks against it when the last apply was made from another repository; for ``guarded``."""
    if isinstance(applied, Unknown) or not plan.changes:
        return plan
    return replace(plan, refused=(*plan.refused, *other_repository(applied, origin)))


def unjudged(saved: Plan) -> Plan:
    """Without what ``guarded`` finds anew; every other refusal of a saved plan stands until somebody agrees to it."""
    return replace(saved, refused=tuple(one for one in saved.refused if one.reason.code not in _JUDGED_HERE))


def released(plan: Plan, consent: Consent) -> Plan:
    """Without the refusals somebody has agreed to."""
    kept = [one for one in plan.refused if not getattr(consent, _OF_CONSENT.get(one.reason.code, ""), False)]
    return replace(plan, refused=tuple(kept))


def applied_now(topology: Topology, before: Applied | None, met: dict[str, str], by: Applied) -> Applied:
    """The record of an apply that is over. ``met``: clusters it was agreed to change. ``by``: who, when, commit."""
    known = {name: one for name, one in (before.clusters if before else {}).items() if name in topology.clusters}
    return replace(by, clusters={**known, **met}, topics=declared_topics(topology), flows=tuple(sorted(topology.flows)))


def is_prune(plan: Plan) -> bool:
    return any(planned.change.reason.code == PRUNE for planned in plan.changes)


def _empty(plan: Plan, topology: Topology) -> list[Refused]:
    """Nothing at all is declared, and yet something would be stopped or deleted."""
    wished = topology.topics or topology.flows or topology.access or topology.quotas or topology.users
    if wished or not plan.changes:
        return []
    changes = counted(len(plan.changes), "change")
    what = f"the environment declares no topic, flow or access rule, and the plan has {changes}"
    todo = "Look whether a file is missing or empty. If everything is to go, agree with apply --allow-shrink"
    return [Refused("declared topics", Reason(SHRUNKEN, what), todo)]
