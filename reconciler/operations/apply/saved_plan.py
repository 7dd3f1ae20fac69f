"""A saved plan before it is applied: what speaks against it now, and what of its ground has moved."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from reconciler.backends.clusters.impact import ask_stakes
from reconciler.backends.git import revision
from reconciler.engine.guards import from_here, guarded, unjudged
from reconciler.engine.observe.read_all import observe
from reconciler.engine.plan.build import basis_now, still_true
from reconciler.engine.plan.fingerprints import basis, unreadable
from reconciler.engine.plan.impact import filled, on_empty
from reconciler.errors import Moved, ReconcilerError
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan
from reconciler.model.state.last_apply import Consent
from reconciler.operations.apply.met_clusters import strange
from reconciler.operations.session.session import Session


def guard_saved(session: Session, saved: Plan, consent: Consent) -> Plan:
    """A saved plan with the objections of now. Reads only clusters that are not vouched for."""
    session.keep_last_apply(session.read_last_apply(consent), revision(session.folder))
    live = observe({name: session.clusters[name] for name in strange(session, saved) if name in session.clusters})
    made = from_here(unjudged(saved), session.last.applied, session.last.origin)
    return guarded(made, session.topology, live, session.last.applied, consent)


def what_moved(session: Session, planned: Plan) -> tuple[Moved, ...]:
    """What of the plan's ground is no longer as it was; reads only that ground."""
    rests_on = basis([observation.subject for observation in planned.basis.observed])
    readers = {name: session.clusters[name] for name in rests_on.wanted.topics or () if name in session.clusters}
    session.look_for_strays(set(rests_on.mirrors))
    live = observe(readers, session.runner, rests_on.mirrors, rests_on.wanted)
    if unknown := unreadable(live):
        why = "\n".join(f"  {each_unknown.subject}: {each_unknown.error}" for each_unknown in unknown)
        todo = "Fix it and apply again."
        raise ReconcilerError("nothing was applied: what the plan rests on could not be read again", why, todo)
    return (*still_true(planned, basis_now(planned, session.topology, live)), *_filled(session, planned, live))


def _filled(session: Session, planned: Plan, live: LiveState) -> tuple[Moved, ...]:
    asked = on_empty(planned, live)
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        return filled(planned, ask_stakes(pool, session.topology.clusters, session.principal, asked)())
