"""Guards against accidental loss: an unconfirmed cluster, another repository, too many deletions at once.

Belongs here: findings that block a plan until a user agrees. Not here: rules of a file (`environment.validate`).
"""

from dataclasses import replace

from reconciler.engine.guards.first_contact import first_contacts, forgotten, newer_apply, other_repository
from reconciler.errors import Unknown
from reconciler.model.changes import About, Reason, Refused, Subject, Why
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan
from reconciler.model.state.last_apply import Applied, Consent
from reconciler.resources.shrink_limit import declared_topics, left_behind, shrunken
from reconciler.resources.topics.diff_deletions import renamed_topics
from reconciler.text import counted

_OF_CONSENT = {
    Why.FIRST_CONTACT: "first_contact",
    Why.OTHER_REPOSITORY: "first_contact",
    Why.SHRUNKEN_WISH: "shrink",
    Why.ACCESS_ABOVE_LIMIT: "shrink",
    Why.PRUNE_ABOVE_LIMIT: "shrink",
    Why.UNDECLARED_LOWER_LIMIT: "lower_limits",
}
_JUDGED_HERE = (Why.FIRST_CONTACT, Why.OTHER_REPOSITORY, Why.SHRUNKEN_WISH)


def guarded(
    plan: Plan, topology: Topology, live: LiveState, applied: Applied | Unknown | None, consent: Consent
) -> Plan:
    """``plan`` with the guards' refusals: a declaration that shrank or is empty, and unconfirmed clusters.

    ``applied``: Unknown if this principal cannot read the record; the plan notes that, and ``apply`` checks again.
    """
    if isinstance(applied, Unknown):
        note = f"not checked against the last apply, {applied.subject} could not be read: {applied.error}"
        return released(replace(plan, notes=(*plan.notes, note)), consent)

    # A shrunken environment is one problem; being empty, too, adds nothing.
    changes = [planned.change for planned in plan.changes]
    refusals = list(shrunken(topology, applied))

    # Nothing is declared, but the plan would stop or delete something.
    declared = topology.topics or topology.flows or topology.access or topology.quotas or topology.users
    if not refusals and not declared and changes:
        count = counted(len(changes), "change")
        problem = f"the environment declares no topic, flow or access rule, and the plan has {count}"
        todo = "Check whether a file is missing or empty. If everything is to go, accept with apply --allow-shrink"
        refusals.append(Refused(Subject(About.DECLARED, name="topics"), Reason(Why.SHRUNKEN_WISH, problem), todo))
    refusals += first_contacts(topology, live, applied, changes)
    notes = (*plan.notes, *left_behind(topology, applied), *forgotten(topology, live, applied))
    if applied is not None:
        notes += tuple(renamed_topics(changes, [topic.ref for topic in plan.unmanaged], applied.topics, live))
    return released(replace(plan, refused=(*plan.refused, *refusals), notes=notes), consent)


def from_here(plan: Plan, applied: Applied | Unknown | None, origin: str, *, newer: bool = False) -> Plan:
    """``plan`` with a refusal if the last apply came from another repository, or with a note if it was of a ``newer``
    commit; for ``guarded``."""
    if isinstance(applied, Unknown) or applied is None or not plan.changes:
        return plan
    if refusals := tuple(other_repository(applied, origin)):
        return replace(plan, refused=(*plan.refused, *refusals))
    return replace(plan, notes=(*plan.notes, newer_apply(applied, plan.basis.revision))) if newer else plan


def unjudged(saved: Plan) -> Plan:
    """A saved plan without refusals of ``guarded``, which finds them again; all others hold until a user agrees."""
    return replace(saved, refused=tuple(each for each in saved.refused if each.reason.code not in _JUDGED_HERE))


def released(plan: Plan, consent: Consent) -> Plan:
    """The plan without refusals that ``consent`` covers."""
    kept = (each for each in plan.refused if not getattr(consent, _OF_CONSENT.get(each.reason.code, ""), False))
    return replace(plan, refused=tuple(kept))


def applied_now(topology: Topology, before: Applied | None, met: dict[str, str], by: Applied) -> Applied:
    """The record of a finished apply. ``met``: clusters that the user agreed to change. ``by``: user, time, commit."""
    known = {name: text for name, text in (before.clusters if before else {}).items() if name in topology.clusters}
    return replace(by, clusters={**known, **met}, topics=declared_topics(topology), flows=tuple(sorted(topology.flows)))


def is_prune(plan: Plan) -> bool:
    return any(planned.change.reason.code is Why.PRUNE for planned in plan.changes)
