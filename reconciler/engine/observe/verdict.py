"""The verdict of an environment: its overall health, and every cause that it is not OK, with a remedy.

One function for `status`, its exit code, JSON, the live page and the map, so that they cannot contradict each other.
"""

from collections.abc import Callable, Iterator, Sequence

from reconciler.errors import Unknown
from reconciler.model.environment.services import offer_of
from reconciler.model.environment.topology import Topology
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.reports.health import Health, Verdict, VerdictCause, worst
from reconciler.replication.names import WAITING
from reconciler.replication.status import FlowStatus
from reconciler.resources.mirrors.pause_and_seek import failed_over_to, reported_pauses, resume_command, words
from reconciler.text import ANY_FOLDER, BRIEF, command_of, counted, first_of, grouped, moment, time_words

_ORDER = tuple(Health)
_STATES = {
    "starting": Health.DEGRADED,
    "degraded": Health.DEGRADED,
    "paused": Health.PAUSED,
    "unknown": Health.UNKNOWN,
}
"""Causes of a flow without a condition or pause."""
ELSEWHERE = "FOLDER"
"""Placeholder for the folder in commands that do not work with a folder of clusters only, such as a mirror host's."""


def verdict_of(topology: Topology, live: LiveState, folder: str = ANY_FOLDER) -> Verdict:
    """``folder``: the environment's folder, for commands."""
    reported = live.as_reported()
    causes = [*_clusters(topology, reported, folder), *_mirrors(topology, reported, folder)]
    return Verdict.of_all(causes)


def not_copying(mirror: LiveMirror, ended_by: Callable[[VerdictCause], Sequence[str]] | None = None) -> Iterator[str]:
    """Flows that do not copy although their definition is unchanged, with the worst cause. ``ended_by``: what a plan
    changes that ends a cause."""
    causes = [cause for cause in _flows(mirror, ANY_FOLDER) if cause.health in (Health.STOPPED, Health.UNKNOWN)]
    lasting = Verdict.of_all(cause for cause in causes if not cause.heals).causes
    for some in grouped((cause.subject, cause) for cause in lasting).values():
        changed = [() if ended_by is None else ended_by(cause) for cause in some]
        left = [cause for cause, subjects in zip(some, changed, strict=True) if not subjects]
        shown, then = left, f"A plan does not change that; what does: reconciler status {ANY_FOLDER}"
        if not left:
            names = dict.fromkeys(subject for subjects in changed for subject in subjects)
            shown, then = some, f"It ends with the change of {first_of(list(names), BRIEF)}"
        more = f", and {counted(len(shown) - 1, 'more reason')}" if len(shown) > 1 else ""
        yield f"{shown[0].brief}{more}. {then}"


def _clusters(topology: Topology, live: LiveState, folder: str) -> Iterator[VerdictCause]:
    """A silent cluster is UNKNOWN, with failover as a possible remedy; leaderless or under-replicated partitions are
    DEGRADED, and recover by themselves."""
    for name, cluster in live.clusters.items():
        subject = f"cluster {name}"
        # Failover comes second: most silences pass, and moving consumers for one costs more than waiting.
        if isinstance(cluster, Unknown):
            flows = (flow.name for flow in topology.flows.values() if flow.source == name)
            lost = [f"reconciler failover {folder} {flow} --unplanned --dry-run" for flow in flows]
            wait = f"{todo.rstrip('. ')}. " if (todo := command_of(cluster.todo, folder)) and lost else todo
            todo = f"{wait}If it is lost: {'; '.join(lost[:BRIEF])}" if lost else wait
            yield VerdictCause(Health.UNKNOWN, subject, f"{subject} is unknown", f"unknown: {cluster.error}", todo)
            continue
        leaderless, short = cluster.partitions_amiss
        amiss = [f"{counted(leaderless, 'partition')} without a leader"] if leaderless else []
        amiss += [f"{counted(short, 'under-replicated partition')}"] if short else []
        if amiss:
            said, managed = ", ".join(amiss), offer_of(topology.clusters[name]).log_access
            todo = managed or f"Check that all brokers of {name} run, and their disks."
            yield VerdictCause(Health.DEGRADED, subject, f"{subject}: {said}", said, todo, heals=True)


def _mirrors(topology: Topology, live: LiveState, folder: str) -> Iterator[VerdictCause]:
    """Causes of each mirror: that it is unknown, undeclared, not running or not kept running, or lacks a declared flow;
    then those of its flows."""
    for name, mirror in live.mirrors.items():
        subject = f"mirror {name}"
        if isinstance(mirror, Unknown):
            # A silent cluster is reported once, as its own cause.
            brief, text, todo = f"{subject} is unknown", f"unknown: {mirror.error}", command_of(mirror.todo, folder)
            clusters = live.clusters.items()
            silent = [cluster for cluster, read in clusters if getattr(read, "what", "") == mirror.what]
            if silent:
                text, todo = f"unknown, as cluster {silent[0]} is: it keeps the status of the job", ""
            yield VerdictCause(Health.UNKNOWN, subject, brief, text, todo, heals=bool(silent))
            continue

        # An undeclared job is judged while it copies.
        declared = topology.mirrors.get(name)
        if declared is None and not topology.clusters_alone:
            if mirror.state is JobState.RUNNING:
                text = "runs, and no file declares it"
                todo = f"Stop it: reconciler apply {folder}"
                yield VerdictCause(Health.DEGRADED, subject, f"{subject} is not declared", text, todo)
                yield from _flows(mirror, folder)
            continue

        # A folder of clusters only declares no jobs, so each job is judged by its last report.
        where = folder if declared is not None else ELSEWHERE
        flows = declared.flows if declared is not None else tuple(mirror.flows) or ("FLOW",)

        # First the job as a whole, its supervisor, and missing flows, then its flows.
        ended = declared is None and mirror.state is JobState.STOPPED
        if not ended and (cause := _job(mirror, flows, where)) is not None:
            yield cause
        if mirror.unkept and mirror.state not in (JobState.STOPPED, JobState.FAILED):
            stop = f"reconciler mirror stop {where} {flows[0]}"
            todo = f"Start it again: {stop}, then reconciler apply {where}"
            if declared is not None and declared.hosted:
                host = f"reconciler mirror host {where} --accept FILE"
                todo = f"Start one on a machine that may run it: {host}"
            yield VerdictCause(Health.DEGRADED, subject, f"{subject} is not kept running", mirror.unkept, todo)
        missing = [flow for flow in flows if flow not in mirror.flows] if declared is not None else []
        for flow in missing if mirror.state is JobState.RUNNING else ():
            text = "is declared, and the running job does not carry it"
            todo = f"Restart the job with it: reconciler apply {where}"
            yield VerdictCause(Health.STOPPED, f"flow {flow}", f"flow {flow} is not in the running job", text, todo)
        yield from _flows(mirror, where)


def _job(mirror: LiveMirror, flows: tuple[str, ...], folder: str) -> VerdictCause | None:
    """The fault of the job as a whole."""
    subject, detail = f"mirror {mirror.name}", f": {mirror.detail}" if mirror.detail else ""
    start = f"reconciler mirror start {folder} {flows[0]}"
    match mirror.state:
        case JobState.ABSENT:
            return _stopped(subject, "has no job", f"no job of it was ever seen{detail}", f"reconciler apply {folder}")
        case JobState.STARTING if mirror.started_at_ms is None:  # its supervisor has started another application
            todo = "Check the end of job.log in its run folder; it is tried again meanwhile."
            return VerdictCause(
                Health.STOPPED, subject, f"{subject} crashed", f"its job {mirror.detail}", todo, heals=True
            )
        case JobState.STARTING:
            brief, text = f"{subject} is starting", f"its job is starting{detail}"
            todo = f"Wait for it, or check its log: reconciler status {folder} --watch"
            return VerdictCause(Health.DEGRADED, subject, brief, text, todo, heals=True)
        case JobState.STOPPED:
            return _stopped(subject, "is stopped", f"its job is stopped{detail}", start)
        case JobState.FAILED:
            return _stopped(subject, "has failed", f"its job has failed{detail}", start)
        case JobState.STALE if mirror.gone:
            return _stopped(subject, "is dead", f"its job ended unexpectedly{detail}", start)
        case JobState.STALE:
            text = f"its job says that it runs, and has said nothing for too long{detail}"
            todo = (
                f"Check its machine, and whether it may write its status: reconciler doctor {folder}. "
                f"Where the machine is lost or the job hangs, restart it: reconciler apply {folder}"
            )
            return VerdictCause(Health.UNKNOWN, subject, f"{subject} is silent", text, todo)
        case JobState.RUNNING:
            if mirror.lag_is_current:
                return None
            text = f"its status record is {time_words(mirror.late_ms / 1000)} overdue{detail}"
            todo = "Check the machine of its Spark driver, and the cluster that keeps the record."
            return VerdictCause(Health.UNKNOWN, subject, f"{subject} is silent", text, todo, heals=True)


def _stopped(subject: str, brief: str, text: str, command: str) -> VerdictCause:
    return VerdictCause(Health.STOPPED, subject, f"{subject} {brief}", text, f"Start it: {command}")


def _flows(mirror: LiveMirror, folder: str) -> Iterator[VerdictCause]:
    """Causes of each flow: its conditions and pauses; without any, that it does not copy or lags, if its job reports
    now."""
    for flow in mirror.flows.values():
        causes = [*_conditions(flow, mirror, folder), *_pauses(flow, mirror, folder)]
        yield from causes
        if mirror.state is not JobState.RUNNING or not mirror.lag_is_current:
            continue

        # A flow without condition or pause may still not copy, or have an unknown lag.
        subject, look = f"flow {flow.name}", f"Wait: reconciler status {folder} --watch"
        known = worst(cause.health for cause in causes)
        if flow.resuming_partitions and not causes:
            text = f"is resuming; not copied yet: {counted(flow.resuming_partitions, 'partition')}"
            yield VerdictCause(Health.DEGRADED, subject, f"{subject} is resuming", text, look, heals=True)
        elif flow.state != "running" and not causes:
            health, text = _STATES.get(flow.state, Health.STOPPED), f"is {flow.state}"
            heals = flow.state == "starting"
            yield VerdictCause(health, subject, f"{subject} {text}", text, look, heals=heals)
        elif flow.state != "paused" and known not in (Health.STOPPED, Health.UNKNOWN):
            yield from _standing(flow, look)


def _standing(flow: FlowStatus, look: str) -> Iterator[VerdictCause]:
    """Causes of a flow that should copy but perhaps does not: its lag is unknown, or partitions do not progress."""
    subject = f"flow {flow.name}"
    if flow.records_lag is None:
        of = f" of {counted(flow.lag_unknown_partitions, 'partition')}" if flow.lag_unknown_partitions else ""
        text = f"how far it is behind is not known{of}, and no condition says why yet"
        yield VerdictCause(Health.UNKNOWN, subject, f"lag of {subject} is unknown", text, look, heals=True)
    elif flow.stalled_partitions:
        many = counted(flow.stalled_partitions, "partition")
        text = f"{many} may have records to copy and did not move, and no condition says why yet"
        yield VerdictCause(Health.UNKNOWN, subject, f"{subject}: {many} did not move", text, look, heals=True)


def _conditions(flow: FlowStatus, mirror: LiveMirror, folder: str) -> Iterator[VerdictCause]:
    """Causes by conditions. If a job does not report now, these are its last ones; others may have begun since, and
    none ends without a running job."""
    subject, current = f"flow {flow.name}", mirror.lag_is_current
    at_ms = None if current else mirror.updated_at_ms
    at = "" if at_ms is None else f"in the last record of its job, of {moment(at_ms)}: "
    for condition in flow.conditions:
        code, topic, number = condition.code, condition.topic or "", condition.partition
        place = topic if number is None else f"{topic}-{number}"
        health = _of_condition(flow, code, stops=condition.stops)
        brief = f"{subject}: {code}" + (f" on {place}" if place else "")
        text = f"{code}: {at}{condition.text.rstrip('. ')}"  # a broker's message may end with a full stop
        todo = command_of(condition.todo, folder, flow.name)
        yield VerdictCause(health, subject, brief, text, todo, code, topic, number, current and code in WAITING)
    counts = flow.counted_conditions
    if more := sum(counts.values()) - len(flow.conditions):  # a record holds only the first of very many
        states = [_of_condition(flow, code, stops=stops) for code, stops in counts]
        codes = ", ".join(f"{code} x{count:,}" for (code, _), count in counts.items())
        text = f"{at}and {more:,} more; all together: {codes}"
        health = max(states, key=_ORDER.index)
        yield VerdictCause(health, subject, f"{subject}: {more:,} more conditions", text)


def _of_condition(flow: FlowStatus, code: str, *, stops: bool) -> Health:
    """Health by a condition. One that ends by itself may still delay records: then the flow has stalled partitions, or
    unknown lag. Nothing of a flow that is paused as a whole is delayed by it."""
    waits = flow.records_lag is None or flow.lag_unknown_partitions or flow.stalled_partitions
    waits = waits and flow.state != "paused"
    return Health.STOPPED if stops or (code in WAITING and waits) else Health.DEGRADED


def _pauses(flow: FlowStatus, mirror: LiveMirror, folder: str) -> Iterator[VerdictCause]:
    """Pauses, each with the command that ends it, and the number of those that the record does not list."""
    subject = f"flow {flow.name}"
    known = flow.records_lag if mirror.lag_is_current else None
    waiting = "how many records wait is unknown" if known is None else f"{counted(known, 'record')} of the flow wait"
    for pause, reported in reported_pauses(flow.name, flow):
        scope, every = pause.scope, f"{reported.paused_partitions} of {counted(reported.partitions, 'partition')}"
        text = f"{scope} is paused {words(pause)}; {every}; {waiting}"
        brief, todo = f"{scope} is paused", f"Resume it: {resume_command(scope, folder)}"
        if destination := failed_over_to(pause.reason):
            brief = f"{scope} is failed over to {destination}"
            todo = f"It stays so until consumers go back: reconciler failback {folder} {flow.name}"
        yield VerdictCause(Health.PAUSED, subject, brief, text, todo)
    requests, paused = flow.counted_pauses
    if more := requests - len(flow.pauses):
        text = f"and {counted(more, 'pause')} more; all together hold {counted(paused, 'partition')}"
        yield VerdictCause(Health.PAUSED, subject, f"{subject}: {more:,} more pauses", text)
