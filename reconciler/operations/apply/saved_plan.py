"""Compares a saved or reviewed plan with the clusters and a fresh plan, so that no unreviewed change is carried out."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from reconciler.backends.clusters.impact import ask_stakes
from reconciler.backends.git import revision
from reconciler.engine.guards import from_here, guarded, unjudged
from reconciler.engine.observe.read_all import observe
from reconciler.engine.plan.build import basis_now, still_true
from reconciler.engine.plan.fingerprints import basis, unreadable
from reconciler.engine.plan.impact import filled, on_empty
from reconciler.errors import Moved, ReconcilerError
from reconciler.model.changes import AddPartitions, Change, Reason, Why
from reconciler.model.config_values import duration
from reconciler.model.plan import Plan
from reconciler.model.state.last_apply import Consent
from reconciler.operations.apply.records import strange
from reconciler.operations.session.session import Session
from reconciler.render.plan.kinds import headline
from reconciler.render.plan.waves import gates_words


def guard_saved(session: Session, saved: Plan, consent: Consent) -> Plan:
    """A saved plan with the guards' present objections. Reads only clusters that git and earlier applies do not
    confirm."""
    session.keep_last_apply(session.read_last_apply(consent), revision(session.folder))
    live = observe({name: session.clusters[name] for name in strange(session, saved) if name in session.clusters})
    made = from_here(unjudged(saved), session.last.applied, session.last.origin, newer=session.last.newer)
    return guarded(made, session.topology, live, session.last.applied, consent)


def what_moved(session: Session, planned: Plan) -> tuple[Moved, ...]:
    """Facts of the plan's basis that have changed since. Reads nothing else."""
    needed = basis([observation.subject for observation in planned.basis.observed])
    readers = {name: session.clusters[name] for name in needed.wanted.topics or () if name in session.clusters}
    session.find_strays(set(needed.mirrors))
    live = observe(readers, session.runner, needed.mirrors, needed.wanted)
    if unknown := unreadable(live):
        why = "\n".join(f"  {each_unknown.subject}: {each_unknown.error}" for each_unknown in unknown)
        todo = "Fix it and apply again."
        raise ReconcilerError("nothing was applied: what the plan depends on could not be read again", why, todo)

    # A topic that was empty at planning time may hold records now.
    asked = on_empty(planned, live)
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        stakes = ask_stakes(pool, session.topology.clusters, session.principal, asked)()
    return (*still_true(planned, basis_now(planned, session.topology, live)), *filled(planned, stakes))


def uncovered(fresh: Plan, reviewed: Plan) -> tuple[Moved, ...]:
    """Changes of ``fresh`` that ``reviewed`` lacks or has in another form; empty if all were reviewed.

    Changes of ``reviewed`` alone do not count: an apply has carried them out since.
    """
    if fresh.basis.environment != reviewed.basis.environment:
        return (Moved("environment", reviewed.basis.environment, fresh.basis.environment),)
    if fresh.rollout != reviewed.rollout:
        return (Moved("rollout", _course(reviewed), _course(fresh)),)
    moved, reviewed_changes = list[Moved](), {planned.id: planned for planned in reviewed.changes}
    for planned in fresh.changes:
        before, now = reviewed_changes.get(planned.id), headline(planned.change)
        if before is None:
            moved.append(Moved(planned.id, "not in the reviewed plan", now))
        elif _what_it_does(before.change) != _what_it_does(planned.change):
            was = headline(before.change)
            moved.append(Moved(planned.id, was, f"{now}, with other values" if was == now else now))
        elif before.risk != planned.risk:
            moved.append(Moved(planned.id, f"{before.risk} risk", f"{planned.risk} risk: {planned.risk_why}"))
    return tuple(moved)


def beyond(saved: Plan, fresh: Plan) -> Iterator[Moved]:
    """Changes of ``saved`` that a fresh plan lacks, or has in another form, wave or order."""
    if fresh.rollout != saved.rollout:
        yield Moved("rollout", _course(saved), _course(fresh))
    now = {planned.id: planned for planned in fresh.changes}
    for planned in saved.changes:
        same = now.get(planned.id)
        if same is None:
            yield Moved(planned.id, headline(planned.change), "not in a fresh plan")
        elif _what_it_does(same.change) != _what_it_does(planned.change):
            yield Moved(planned.id, headline(planned.change), f"{headline(same.change)}, with other values")
        elif (same.needs, same.stage, same.wave) != (planned.needs, planned.stage, planned.wave):
            yield Moved(planned.id, f"in {planned.stage}", f"in {same.stage}, at another place of the order")


def _course(plan: Plan) -> str:
    if plan.rollout is None:
        return "without waves"
    waves = [f"{wave.name} ({', '.join(wave.clusters)}; soak {duration(wave.soak_ms)})" for wave in plan.rollout.waves]
    return f"{', then '.join(waves)}; {gates_words(plan.rollout.gates)}"


def _what_it_does(change: Change) -> Change:
    """The change without the source's partition count, which may grow meanwhile and does not alter the outcome."""
    return replace(change, reason=Reason(Why.NOTHING, "")) if isinstance(change, AddPartitions) else change
