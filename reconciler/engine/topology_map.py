"""Draws the map of an environment from what git declares, what clusters and jobs answered, and a plan."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from reconciler.engine.edits.flows import blank
from reconciler.engine.observe.verdict import verdict_of
from reconciler.engine.plan.summary import verdict
from reconciler.engine.rollout.waves import course_of, health_of, wave_state
from reconciler.errors import Unknown
from reconciler.model.changes import About, Action, MirrorChange, Risk, StartMirror, StopMirror, Subject
from reconciler.model.environment.topology import Cluster, Flow, Mirror, TopicRef, Topology
from reconciler.model.live import JobState, LiveCluster, LiveMirror, LiveState
from reconciler.model.plan import Plan
from reconciler.model.reports import topology_map as drawing
from reconciler.model.reports.health import Health, Verdict
from reconciler.model.state.rollout_progress import Promotion
from reconciler.resources.flows.routes import TopicHop, hops_between
from reconciler.resources.mirrors.handover import flow_handover
from reconciler.text import counted

Progress = Promotion | Unknown | None
"""Of the rollout; None: it was not read, or nothing was rolled out yet."""


def topology_map(
    topology: Topology, live: LiveState | None = None, plan: Plan | None = None, progress: Progress = None
) -> drawing.TopologyMap:
    """``live`` None: no cluster was asked, so topics that travel are those that git declares."""
    live = live.as_reported() if live is not None else None
    hops = hops_between(topology, live if live is not None else blank(topology))
    # The plan's waves where there is one: they are those of the changes that it shows.
    course = plan.rollout if plan is not None and plan.rollout is not None else course_of(topology)
    by_wave = Counter(planned.wave for planned in plan.changes) if plan is not None else None
    wave_of = {name: wave.name for wave in (course.waves if course else ()) for name in wave.clusters}
    findings = _Findings(plan) if plan is not None else None
    waves = []
    for wave in course.waves if course else ():
        count = None if by_wave is None else by_wave.get(wave.name, 0)
        state = wave_state(wave, progress) if progress is not None else ""
        waves.append(drawing.MapWave(wave.name, wave.clusters, wave.soak_ms, count, state))
    return drawing.TopologyMap(
        topology.environment,
        tuple(_cluster(each, topology, live, findings, wave_of) for each in topology.clusters.values()),
        tuple(_flows(topology, live, findings, Counter(hop.flow for hop in hops))),
        tuple(_chains(hops)),
        tuple(waves),
        course.gates if course else None,
        live is not None,
        plan is not None,
        verdict(plan) if plan is not None else "",
    )


def moved_on(drawn: drawing.TopologyMap, topology: Topology, live: LiveState) -> drawing.TopologyMap:
    """``drawn`` with what jobs say now, which costs little: topics that travel and the plan stay as they were drawn. A
    cluster that ``live`` knows nothing of any more is unknown."""
    live, health = live.as_reported(), verdict_of(topology, live)
    job_of = {flow: live.mirrors.get(name) for name, mirror in topology.mirrors.items() for flow in mirror.flows}
    flows = []
    for flow in drawn.flows:
        job = job_of.get(flow.name)
        # Without what the job said before, so that a silent one keeps no figures.
        bare = replace(flow, state=drawing.State.UNKNOWN, said=drawing.NOT_LOOKED_AT, conditions=None, lag_at_least=0)
        bare = replace(bare, records_per_second=None, bytes_per_second=None, records_lag=None, seconds_lag=None)
        flows.append(_as_reported(bare, job, health) if job is not None else bare)
    clusters = []
    for cluster in drawn.clusters:
        if isinstance(why := live.clusters.get(cluster.name), Unknown):
            problems = (f"unknown: {why.what}",)
            cluster = replace(cluster, state=drawing.State.UNKNOWN, brokers=None, topics=None, problems=problems)
        clusters.append(cluster)
    return replace(drawn, clusters=tuple(clusters), flows=tuple(flows))


class _Findings:
    """What a plan says of clusters, flows and mirrors, by name."""

    def __init__(self, plan: Plan) -> None:
        """A restart marks the flows that cause it, not every flow of the mirror."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.flows: dict[str, set[drawing.PlanMark]] = defaultdict(set)
        self.mirrors: dict[str, set[drawing.PlanMark]] = defaultdict(set)
        self.because: dict[str, list[str]] = defaultdict(list)  # why a flow's mirror restarts
        for planned in plan.changes:
            change = planned.change
            if isinstance(change, MirrorChange):
                mark = drawing.PlanMark.ADDED if isinstance(change, StartMirror) else drawing.PlanMark.RESTARTING
                self.mirrors[change.mirror].add(drawing.PlanMark.REMOVED if isinstance(change, StopMirror) else mark)
                # A restart names its reasons by flow, and the map marks that flow instead of the whole mirror.
                for line in () if isinstance(change, StopMirror) else change.because:
                    word, _, name = line.partition(":")[0].partition(" ")
                    if word == "flow":
                        self.because[name].append(line.partition(": ")[2])
            else:
                counted_as = {Action.CREATE: "added", Action.DELETE: "removed"}.get(change.action, "changed")
                counts[change.cluster][counted_as] += 1
                counts[change.cluster]["high_risk"] += planned.risk == Risk.HIGH
        # Refused and unknown subjects have no planned change, so they are counted on their own.
        subjects = [(refused.subject, drawing.PlanMark.BLOCKED) for refused in plan.refused]
        subjects += [(Subject.of_text(unknown.subject), drawing.PlanMark.UNKNOWN) for unknown in plan.unknown]
        for subject, mark in subjects:
            if subject.about is About.FLOW:
                self.flows[subject.name].add(mark)
            elif subject.about is About.MIRROR:
                self.mirrors[subject.name].add(mark)
            else:
                counts[_place(subject)][mark.value] += 1
        self.clusters = {name: drawing.PlannedCounts(**count) for name, count in counts.items()}
        self.outside = Counter(_place(change.subject) for change in plan.outside)  # differences that no plan made
        # Those that answered when the plan was made, and those that did not.
        self.seen = {cluster.name: cluster for cluster in plan.basis.clusters if cluster.cluster_id is not None}
        self.unread = {cluster.name for cluster in plan.basis.clusters} - self.seen.keys()


def _place(subject: Subject) -> str:
    """The cluster, on which a failed read of ``quotas east`` and of ``remote topics on east`` counts, too."""
    if subject.about is About.OTHER:
        return subject.name.rpartition(" ")[2]
    return subject.name if subject.about is About.CLUSTER and not subject.cluster else subject.cluster


def _cluster(
    declared: Cluster,
    topology: Topology,
    live: LiveState | None,
    findings: _Findings | None,
    wave_of: Mapping[str, str],
) -> drawing.MapCluster:
    """The node of a cluster: live facts, the plan's effect, and the wave that it is in."""
    name = declared.name
    topics = sum(name in topic.clusters for topic in topology.topics.values())
    planned = findings.clusters.get(name, drawing.PlannedCounts()) if findings is not None else None
    # Of a cluster that was not read when the plan was made it is unknown whether it has changes.
    unread = findings is not None and name in findings.unread
    if unread and planned is not None and not planned.unknown:
        planned = drawing.PlannedCounts(unknown=1)
    outside = None if findings is None or unread else findings.outside.get(name, 0)
    node = drawing.MapCluster(name, declared.region or "", topics, planned=planned, outside=outside)
    node = replace(node, wave=wave_of.get(name, ""))
    read = live.clusters.get(name) if live is not None else None
    if isinstance(read, LiveCluster):
        health = health_of(read)
        counts = {"offline partition": health.offline, "under-replicated partition": health.short}
        problems = tuple(counted(len(some), name) for name, some in counts.items() if some)
        state = drawing.State.PROBLEM if problems else drawing.State.OK
        return replace(node, state=state, brokers=len(read.brokers), topics=read.topic_count, problems=problems)
    if isinstance(read, Unknown):
        return replace(node, problems=(f"unknown: {read.what}",))
    seen = findings.seen.get(name) if findings is not None else None
    return node if seen is None else replace(node, brokers=seen.brokers, topics=seen.topics)


def _flows(
    topology: Topology, live: LiveState | None, findings: _Findings | None, travelling: Mapping[str, int]
) -> Iterator[drawing.MapFlow]:
    """The edges, each with its job's state and the plan's effect on it."""
    mirror_of = {name: mirror for mirror in topology.mirrors.values() for name in mirror.flows}
    health = verdict_of(topology, live) if live is not None else Verdict()
    for flow in topology.flows.values():
        mirror = mirror_of.get(flow.name)
        job = live.mirrors.get(mirror.name) if live is not None and mirror is not None else None
        # With one side unread, the number of topics is unknown. Zero would look as if nothing travelled.
        known = live is None or bool(live.known(flow.source) and live.known(flow.target))
        drawn = drawing.MapFlow(
            flow.name,
            flow.source,
            flow.target,
            mirror.name if mirror is not None else "",
            flow.delivery.value,
            topics=travelling.get(flow.name, 0) if known else None,
            mark=_flow_mark(topology, flow, mirror, job, findings) if findings is not None else None,
            plan_why=tuple(findings.because.get(flow.name, ())) if findings is not None else (),
            labels=flow.labels,
            offsets=flow.offsets.value,
        )
        yield _as_reported(drawn, job, health) if job is not None else drawn


def _flow_mark(
    topology: Topology,
    flow: Flow,
    mirror: Mirror | None,
    job: LiveMirror | Unknown | None,
    findings: _Findings,
) -> drawing.PlanMark | None:
    """A job that restarts stops all its flows for a moment; where its status shows which ones differ, those are marked
    as what they are."""
    marks = set(findings.flows.get(flow.name, ()))
    marks |= findings.mirrors.get(mirror.name, set()) if mirror is not None else set()
    if findings.unread & {flow.source, flow.target}:
        marks.add(drawing.PlanMark.UNKNOWN)
    if drawing.PlanMark.RESTARTING in marks and isinstance(job, LiveMirror) and job.flows:
        running = job.flows.get(flow.name)
        if running is None:
            marks = marks - {drawing.PlanMark.RESTARTING} | {drawing.PlanMark.ADDED}
        elif running.fingerprint != flow_handover(topology, flow)["fingerprint"]:
            marks = marks - {drawing.PlanMark.RESTARTING} | {drawing.PlanMark.CHANGED}
    return drawing.worst_mark(frozenset(marks))


def _as_reported(flow: drawing.MapFlow, job: LiveMirror | Unknown, health: Verdict) -> drawing.MapFlow:
    """The flow with what its job says now; the figures of a job that does not report now are left out."""
    if isinstance(job, Unknown):
        return replace(flow, said=f"unknown: {job.what}")
    status = job.flows.get(flow.name)
    if job.state is not JobState.RUNNING:
        absent = job.state is JobState.ABSENT
        said = "no job yet" if absent else f"its job is {job.state.value}"
        # A flow that has no job yet because the plan is to start it is as it should be.
        state = drawing.State.IDLE if absent and flow.mark is not None else _STATES[health.of(f"mirror {job.name}")]
        return replace(flow, state=state, said=said)
    if status is None:
        return replace(flow, state=drawing.State.PROBLEM, said="not in the running job")
    conditions = sum(status.counted_conditions.values())
    if not job.lag_is_current:
        return replace(flow, said="its job has not reported lately", topics=status.topics, conditions=conditions)

    # The worst that is known of the flow, in few words; its state where that is all.
    subject = f"flow {flow.name}"
    said, cause = status.state, next((cause for cause in health.causes if cause.subject == subject), None)
    if cause is not None:
        brief = cause.brief.replace(f" of {subject}", "").removeprefix(f"{subject} ").removeprefix("is ")
        said = cause.code or brief
    return replace(
        flow,
        state=_STATES[health.of(subject)],
        said=said,
        topics=status.topics,
        records_per_second=status.records_per_second,
        bytes_per_second=status.bytes_per_second,
        records_lag=status.records_lag,
        seconds_lag=status.seconds_lag,
        lag_at_least=status.records_lag_at_least,
        conditions=conditions,
    )


_STATES: Mapping[Health, drawing.State] = {
    Health.OK: drawing.State.OK,
    Health.PAUSED: drawing.State.IDLE,
    Health.DEGRADED: drawing.State.PROBLEM,
    Health.UNKNOWN: drawing.State.UNKNOWN,
    Health.STOPPED: drawing.State.PROBLEM,
}


def _chains(hops: Collection[TopicHop]) -> Iterator[drawing.Chain]:
    """The whole way of each topic that came over a flow and goes on over another. Where several flows make a topic, the
    first one by name is followed back."""
    makers: dict[TopicRef, TopicHop] = {}
    for hop in sorted(hops):
        makers.setdefault(hop.remote, hop)
    going_on = {hop.source for hop in hops}
    counts: Counter[tuple[tuple[str, ...], tuple[str, ...]]] = Counter()
    for hop in hops:
        if hop.remote in going_on or hop.source not in makers:
            continue
        clusters, flows = [hop.remote.cluster, hop.source.cluster], [hop.flow]
        before = makers.get(hop.source)
        while before is not None and before.source.cluster not in clusters:
            clusters.append(before.source.cluster)
            flows.append(before.flow)
            before = makers.get(before.source)
        if len(flows) > 1:
            counts[(tuple(reversed(clusters)), tuple(reversed(flows)))] += 1
    for (clusters_on_it, flows_on_it), topics in sorted(counts.items()):
        yield drawing.Chain(clusters_on_it, flows_on_it, topics)
