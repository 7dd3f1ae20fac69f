"""``plan``: shows the meaning of an edit and its changes on live clusters; ``compare``: compares two folders; ``map``:
draws the environment from git, clusters, jobs and a saved plan.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

from reconciler.backends.files import read_environment, read_given_text
from reconciler.backends.git import Revision, Snapshot, is_touched, revision, snapshot
from reconciler.engine.edits.compare import compare
from reconciler.engine.edits.edit_and_plan import EditAndPlan
from reconciler.engine.edits.effects import without_effect
from reconciler.engine.edits.promotion import promotion
from reconciler.engine.explain import explain
from reconciler.engine.guards.first_contact import held_to_base
from reconciler.engine.plan import file as planfile
from reconciler.engine.topic_list import owners
from reconciler.engine.topology_map import topology_map
from reconciler.environment.load import load
from reconciler.environment.load_clusters import read_head
from reconciler.environment.yaml.locations import Places
from reconciler.environment.yaml.read import read
from reconciler.environment.yaml.sections import collect
from reconciler.errors import ExitCode, ReconcilerError, TopologyError
from reconciler.model.environment.topology import Cluster, Principal, TopicRef, Topology
from reconciler.model.plan import Plan
from reconciler.model.reports.edit import Against, EditComparison, PromotionReport
from reconciler.model.reports.explain import Explanation
from reconciler.model.reports.topology_map import TopologyMap
from reconciler.model.state.last_apply import Consent
from reconciler.operations.clusters.status import lock_of, rollout_status
from reconciler.operations.review.reviews import make_plan
from reconciler.operations.session.early_reads import Begun, begin
from reconciler.operations.session.session import Session, open_session, read_topology
from reconciler.render.plan.formats import Review
from reconciler.render.plan.sections import Handoff
from reconciler.replication.allowed import allowed
from reconciler.resources.flows.renames import as_called_now


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The options of ``plan``."""

    base: str | None = None
    revert: bool = False
    """Plan the way back to ``base``."""
    offline: bool = False
    """Ask no cluster."""
    prune: bool = False
    """Delete topics that git no longer declares."""
    allow_new_address: bool = False
    """Also log in to clusters with another connection than in ``base``."""

    @property
    def consent(self) -> Consent:
        return Consent(prune=self.prune)


def untouched(env: Path, ref: str) -> str | None:
    """A sentence if no file of the environment differs from ``ref``, else None."""
    at = snapshot(env, ref)
    if is_touched(env, at):
        return None
    return f"{env} is untouched since {ref} (commit {at.commit[:12]}): nothing to plan"


def review(env: Path, request: PlanRequest, begun: Begun | None = None) -> Review:
    """``begun``: early reads of ``env``, if ``request`` has no base."""
    if request.base is None:
        if request.revert or request.offline:
            word = "--revert" if request.revert else "--offline"
            why, todo = "It says what to compare with.", f"Write --base main {word}."
            raise ReconcilerError(f"{word} is given without --base", why, todo)
        with open_session(env, Principal.PLAN, begun or begin(env, Principal.PLAN)) as session:
            return _reviewed(session, make_plan(session, consent=request.consent))
    now, at = read_topology(env), snapshot(env, request.base)
    if at.relinked and not request.allow_new_address:
        raise ReconcilerError(
            f"{env} is not planned, connection changed: since {request.base} another folder is read under this name:"
            f" {at.relinked}",
            "Its clusters are another folder's, and credentials of this environment would go to them.",
            "Put the files there; or let the link be reviewed, then plan with --allow-new-address.",
        )
    against = Against(request.base, at.commit, revision(env).dirty, request.revert)
    try:
        # In ``base``, tombstones may have expired since, so they are accepted; a plan back to ``base`` needs valid
        # ones.
        before = load(at.named, now.environment, None if request.revert else date.min) if at.texts else None
    except TopologyError as error:
        if request.offline or request.revert:
            raise
        held = _held(now, read_head(at.named).clusters, request)
        return replace(_planned(env, held, None, request), against=against, base_problems=error.problems)
    if not request.revert:
        comparison = replace(compare(before, now), same_text=not is_touched(env, at))
        held = _held(now, before.clusters if before is not None else {}, request)
        planned = Review(None) if request.offline else _planned(env, held, None, request, before)
        return _effects(replace(planned, comparison=comparison, against=against), before, now)
    if before is None:
        why = "Going back would mean an empty environment, and that is never applied."
        todo = "To remove topics, declare tombstones for them."
        raise ReconcilerError(f"{env} was not there at {request.base}, so there is no going back to it", why, todo)
    back: EditComparison = replace(compare(now, before), same_text=not is_touched(env, at))
    planned = Review(None) if request.offline else _planned(env, before, at, request, now)
    return _effects(replace(planned, comparison=back, against=against, undone=compare(before, now)), now, before)


def _effects(planned: Review, before: Topology | None, now: Topology) -> Review:
    """Adds entries of the edit without a change in the plan."""
    if planned.plan is None or planned.seen is None or planned.comparison is None:
        return planned
    base = before or Topology(now.environment, {}, {}, {}, {})  # in a new environment every entry is new
    sides = EditAndPlan(as_called_now(base, now), now, planned.plan, planned.seen)
    return replace(planned, effectless=without_effect(planned.comparison, sides))


def explained(env: Path, subject: str, offline: bool) -> Explanation:
    if offline:
        return explain(read_topology(env), subject, None, _places(env))
    with open_session(env, Principal.PLAN) as session:
        cluster, _, topic = subject.partition(":")[0].partition("/")
        live = session.observe([TopicRef(cluster, topic)] if topic else ())
        return explain(session.topology, subject, live, _places(env))


def _places(env: Path) -> Places:
    places, _ = collect(read(file, text) for file, text in sorted(read_environment(env).items()))
    return places


def handoff(env: Path, out: Path | None, request: PlanRequest, artifact: str) -> Handoff:
    """The command that applies a saved plan. A plan of the way back has none: the user first reverts the folder in git,
    and then plans as usual."""
    command = f"reconciler apply {shlex.quote(str(env))}"
    if out is not None:
        command += f" --plan {shlex.quote(str(out))}"
    if request.prune:
        command += " --prune"
    return Handoff("" if request.revert else command, artifact)


def goes_on(plan: Plan, handoff: Handoff) -> str:
    """Words on how to apply a saved plan."""
    if not handoff.apply:
        return "to apply it, git revert first"
    if plan.refused or plan.unknown:
        return f"apply refuses it while anything is blocked or unknown; the rest of it with: {handoff.apply} --partial"
    return f"apply exactly this with: {handoff.apply}"


def worst(codes: Sequence[int]) -> ExitCode:
    """The exit code for several environments: errors first, then blocked plans, then changes."""
    order = (ExitCode.DONE, ExitCode.CHANGES, ExitCode.BLOCKED, ExitCode.ERROR)
    return max((ExitCode(code) for code in codes), key=lambda code: order.index(code) if code in order else len(order))


def _planned(
    env: Path, topology: Topology, at: Snapshot | None, request: PlanRequest, base: Topology | None = None
) -> Review:
    with closing(Session(env, topology, Principal.PLAN)) as session:
        seen = Revision(at.commit) if at else None
        return _reviewed(session, make_plan(session, seen, request.consent, base=base))


def _reviewed(session: Session, plan: Plan) -> Review:
    """A plan with details that only HTML and Markdown show; they are computed on demand."""
    live, figures = session.last.live, session.last.amounts
    assert live is not None  # making a plan reads everything
    drawn = partial(topology_map, session.topology, live, plan)
    return Review(plan, drawn=drawn, owned=partial(owners, session.topology, live), amounts=figures, seen=live)


def _held(topology: Topology, base: Mapping[str, Cluster], request: PlanRequest) -> Topology:
    return topology if request.allow_new_address else held_to_base(topology, base, allowed(os.environ))


def compare_folders(source: Path, target: Path, names: Sequence[str]) -> PromotionReport:
    """``names``: pairs ``a=b``, a name in ``source`` and its counterpart in ``target``. Raises ReconcilerError."""
    mapped: dict[str, str] = {}
    for word in names:
        name, sign, other = word.partition("=")
        if not (name and sign and other):
            why = "It says what a cluster, flow, mirror or principal of the first environment is called in the second."
            raise ReconcilerError(f"--map is {word or 'empty'}", why, "Write it as staging-east=east.")
        if mapped.setdefault(name, other) != other:
            problem = f"--map gives {name} two names, {mapped[name]} and {other}"
            raise ReconcilerError(problem, "It can be compared with one.", "Leave one out.")
    report = promotion(read_topology(source), read_topology(target), mapped)
    if report.source != report.target:
        return report
    return replace(report, source=str(source), target=str(target))  # the folders may have the same name


def read_plan(path: Path, why: str = "Nothing was applied.") -> Plan:
    """A saved plan. ``why``: the consequence of a failed read, for the message. Raises ReconcilerError."""
    todo = "Make it with: reconciler plan ENV --out FILE."
    return planfile.loads(read_given_text(path, f"the saved plan {path}", why, todo))


def draw(env: Path, plan_file: Path | None, offline: bool) -> TopologyMap:
    """``offline``: ask no cluster. Raises ReconcilerError for a plan of another environment."""
    topology, plan = read_topology(env), None
    if plan_file is not None:
        plan = read_plan(plan_file, "Without it there is nothing to draw on the map.")
        if plan.basis.environment != topology.environment:
            raise ReconcilerError(
                f"{plan_file} is a plan of environment {plan.basis.environment}, and the map is of "
                f"{topology.environment}",
                "Its changes would be drawn on clusters that they are not for.",
                f"Name the folder of {plan.basis.environment}, or save a plan of {topology.environment}.",
            )
    if offline:
        return topology_map(topology, None, plan)
    with open_session(env, Principal.PLAN) as session:
        live = session.observe()
        status = rollout_status(session, live, lock_of(session, live)) if topology.rollout is not None else None
        return topology_map(session.topology, live, plan, status.promotion if status is not None else None)
