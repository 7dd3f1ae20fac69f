"""``drill``: checks whether it may begin, runs it, and writes a report that the audit record vouches for."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reconciler.backends.files import write_text
from reconciler.backends.git import revision
from reconciler.backends.metrics import drill_metrics
from reconciler.backends.state.environment_records import read_cutovers, read_last_drills
from reconciler.errors import ExitCode, Unknown, or_unknown
from reconciler.model.environment.topology import Flow, Principal
from reconciler.model.live import LiveMirror
from reconciler.model.reports.cutover import CutoverSettings
from reconciler.model.reports.drill import DrillPlaces, DrillReport, DrillVerdict
from reconciler.model.reports.failover import Way
from reconciler.model.state.audit_chain import digest
from reconciler.model.state.last_drill import LastDrill, drill_key, dumps
from reconciler.operations.apply.execution import Execution, execution, interrupted_by_sigterm
from reconciler.operations.cutover.plan import CutoverRequest, planned
from reconciler.operations.drill import decide, live, steps
from reconciler.operations.failover.decide import move_of
from reconciler.operations.failover.survey import Survey
from reconciler.operations.mirror import pause as steering
from reconciler.operations.session.session import Session, now_ms, open_session
from reconciler.render.console import filled_in, say, say_now, show, style
from reconciler.render.cutover import page_in
from reconciler.render.drill import drill_json, drill_page
from reconciler.render.markup import Format
from reconciler.resources.flows.routes import declared_flow


@dataclass(frozen=True, slots=True)
class DrillOptions:
    """The options of ``drill``."""

    canary: str
    write_s: float
    """How long the canary is written before it moves."""
    settings: CutoverSettings
    form: Format
    out: Path | None
    """A folder for the report and its page; None: neither is kept."""
    metrics: Path | None
    """A file for node_exporter's textfile collector."""
    steal: str
    """The reason for taking the lock from its holder."""


def drill(env: Path, name: str, options: DrillOptions) -> ExitCode:
    """Raises ReconcilerError if the drill cannot begin."""
    with interrupted_by_sigterm(), open_session(env, Principal.APPLY) as session:
        flow = declared_flow(session.topology, name, "There is nothing to rehearse.")
        canary = options.canary or f"drill.{name}"
        decide.require_declared(session.topology, flow, canary)
        with execution(session, "drill", options.steal) as execute:
            report = _rehearsed(execute, flow, canary, options)
            text = filled_in(drill_json(report), "json")
            try:
                _keep(execute, flow, report, text, options)
            finally:  # its result is shown also where a file of it cannot be written
                seal = digest(json.loads(text)) if options.form is Format.HTML else ""
                show(page_in(options.form, drill_page(report, seal), lambda: text, style()), options.form)
        execute.require_kept()
        return report.exit_code


def _rehearsed(execute: Execution, flow: Flow, canary: str, options: DrillOptions) -> DrillReport:
    """One drill: reverts what a killed one has left, plans a cut-over of the canary alone, and carries it out both
    ways."""
    session, began_ms = execute.session, now_ms()
    topology = session.topology
    journals = read_cutovers(execute.lock.cluster, topology.environment, Principal.APPLY)
    decide.require_alone(topology, flow, canary, steering.pauses_of(session, flow.name), journals, live.DRILL)
    request = CutoverRequest(flow.name, options.settings, decide.exactly_name(canary), decide.exactly_name(canary))
    plan = planned(session, request, say_now)

    # Leftovers of a killed drill are removed first: under its pause nothing would be copied.
    findings: tuple[str, ...] = ()
    if plan.topics:
        former = live.LiveDrill(session, plan, execute, say, DrillPlaces(canary, plan.topics[0].copy), canary)
        if leftovers := steps.take_back(former):
            findings = (f"an earlier drill was cut off, and was taken back now: {', '.join(leftovers)}",)
            plan = planned(session, request, say_now)
    decide.require_ready(plan, canary)
    places = _places(session, flow, canary)
    world = live.LiveDrill(session, plan, execute, say, places, canary)
    course = steps.DrillRun(world, plan, options.write_s, now_ms).run()
    now, holder = revision(session.folder), execute.lock.holder
    notes = (*findings, *decide.warnings_of(plan), *((places.note,) if places.note else ()))
    if world.strange:
        notes += (f"others write into the canary: {world.strange:,} records that are not of this drill",)
    objectives = decide.objectives_seen(flow.objectives, course.recovery_s, course.point)
    return DrillReport(
        topology.environment, flow.name, plan.origin, plan.destination, canary, places, world.drill, holder.who,
        holder.host, now.commit, now.dirty, began_ms, now_ms(), objectives=objectives, findings=notes, **vars(course),
    )  # fmt: skip


def _places(session: Session, flow: Flow, canary: str) -> DrillPlaces:
    """The canary's topics on both sides. The way back is measured only if a flow for it runs and is not paused: a drill
    starts no mirrors."""
    back = move_of(session.topology, Way.FAILBACK, flow.name).drained
    standing = []
    if back:
        job = steering.job_of(session, back)
        if isinstance(job, LiveMirror) and job.state.runs and not steering.pauses_of(session, back):
            standing = [back]
    survey = Survey(session.topology, move_of(session.topology, Way.FAILOVER, flow.name))
    return decide.places_of(session.topology, flow, canary, standing, survey.destination.partitions().keys())


def _keep(execute: Execution, flow: Flow, report: DrillReport, text: str, options: DrillOptions) -> None:
    """Records the report's digest in the audit record before anyone can read the report. ``text``: its JSON, rendered
    once, so that shown and written reports have the recorded digest."""
    seal = digest(json.loads(text))
    execute.record(f"drill:{flow.name}:report:{seal}", lambda: None)  # also of one that lost the lock
    if options.out is not None:
        write_text(options.out / "drill.json", text)
        write_text(options.out / "drill.html", filled_in(page_in(Format.HTML, drill_page(report, seal), str), ".html"))
        say(f"report and page are in {options.out}: reconciler audit verify ENV --report {options.out / 'drill.json'}")

    # The last drill is recorded beside the lock, so that status on any machine can show it.
    environment, cluster = report.environment, execute.lock.cluster
    known = or_unknown("last drills", partial(read_last_drills, cluster, environment, Principal.APPLY))
    if isinstance(known, Unknown):
        say(f"the record of the last drill is left as it is, and no figures are written: {known.error}")
        return
    before = known.get(flow.name)
    met = report.verdict is DrillVerdict.MET
    met_ms = report.ended_ms if met else before.met_ms if before is not None else 0
    point_s = None if report.point is None else report.point.age_s
    last = LastDrill(
        environment, flow.name, report.ended_ms, met_ms, report.verdict, report.recovery_s, point_s, seal, report.who
    )
    if why := execute.lock.keep(drill_key(environment, flow.name), dumps(last)):
        say(f"the record of the last drill could not be written: {why}")
    if options.metrics is not None:
        write_text(options.metrics, drill_metrics(last, flow.objectives))
        options.metrics.chmod(0o644)  # a collector reads it as another user
