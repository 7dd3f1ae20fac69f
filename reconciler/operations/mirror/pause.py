"""``mirror pause`` and ``mirror resume``: write the record of a pause, wait for the job's confirmation, audit both.

They take no lock: a pause is for emergencies, and must not wait for a running apply. Each record is of one scope.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from reconciler.backends.git import revision
from reconciler.backends.mirror_jobs.status.records import write_records
from reconciler.backends.state.audit import AuditFile
from reconciler.backends.state.lock import this_process
from reconciler.errors import ClusterError, ReconcilerError, Unknown, or_unknown
from reconciler.model.environment.topology import Cluster, Principal, Topology
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.plan import Outcome, Result
from reconciler.operations.apply.audit import Actor, Audit, recorded
from reconciler.operations.session.session import Session, now_ms, open_session
from reconciler.replication.records.pauses import Pause, Scope, dumps, pause_key
from reconciler.resources.mirrors.pause_and_seek import (
    PauseRequest,
    progress,
    reported_pauses,
    require_exists,
    scopes,
    to_lift,
    words,
)

POLL_S = 0.3

Say = Callable[[str], None]


def pause(folder: Path, request: PauseRequest, reason: str, wait_s: float, say: Say) -> str:
    """Pauses a flow; returns the closing words. Raises ReconcilerError, also if the job does not confirm in time."""
    with open_session(folder, Principal.APPLY) as session:
        wanted = scopes(session.topology, request)
        _require_exist(session, wanted, say)
        _require_topic(session, wanted)
        held = {at: pause for scope in wanted for at, pause in pauses_of(session, scope.flow).items()}
        fresh = {scope: _fresh(scope, reason) for scope in wanted if scope not in held}
        for scope in wanted:
            if scope in held:
                say(f"{scope} is paused already {words(held[scope])}")

        # Only a status record newer than the last one before the write confirms it. Both times are by the job's clock,
        # so clocks of two machines are never compared.
        before = _status_times(session, wanted)
        _write(session, "mirror pause", fresh)
        later = _await(session, wanted, before, wait_s, paused=True)
        lines = [f"{scope} is paused; its position stays where it is" for scope in wanted]
        return "\n".join((*lines, *later))


def resume(folder: Path, request: PauseRequest, wait_s: float, say: Say) -> str:
    """Resumes a flow; returns the closing words. Raises ReconcilerError, also if the job does not confirm in time."""
    with open_session(folder, Principal.APPLY) as session:
        wanted = scopes(session.topology, request)
        _require_exist(session, wanted, say)
        _require_topic(session, wanted)
        lifted = {scope: to_lift(scope, _obeyed(session, scope.flow)) for scope in wanted}
        before = _status_times(session, wanted)
        _write(session, "mirror resume", {each_pause.scope: None for each in lifted.values() for each_pause in each})
        later = _await(session, [scope for scope in wanted if lifted[scope]], before, wait_s, paused=False)
    lines: list[str] = []
    for scope, each in lifted.items():
        lines += [f"{each_pause.scope} is resumed; it was paused {words(each_pause)}" for each_pause in each]
        if not each:
            lines.append(f"{scope} was not paused")
    return "\n".join((*lines, *later))


def hold(session: Session, wanted: Sequence[Scope], reason: str, wait_s: float) -> list[str]:
    """Pauses scopes of one flow within a command that writes the audit record itself. Returns remarks.

    Raises ReconcilerError if the records cannot be written, or the job does not confirm in time.
    """
    before = _status_times(session, wanted)
    records: dict[str, bytes | None] = {_keys(session, scope)[0]: dumps(_fresh(scope, reason)) for scope in wanted}
    write_records(place_of(session, wanted[0].flow), Principal.APPLY, records)
    return _await(session, wanted, before, wait_s, paused=True)


def lift(session: Session, wanted: Sequence[Scope], wait_s: float) -> list[str]:
    """Resumes these scopes of one flow, in the same way as ``hold``."""
    before = _status_times(session, wanted)
    held = _obeyed(session, wanted[0].flow)
    lifted = [each_pause.scope for scope in wanted for each_pause in to_lift(scope, held)]
    keys = [key for scope in lifted for key in _keys(session, scope)]
    write_records(place_of(session, wanted[0].flow), Principal.APPLY, dict.fromkeys(keys))
    return _await(session, wanted, before, wait_s, paused=False)


def pauses_of(session: Session, flow: str) -> dict[Scope, Pause]:
    """Pauses of the whole flow, of its topics and of its partitions."""
    pauses, state = session.records[place_of(session, flow).name].pauses(), session.topology.flows[flow].state_name
    written = (pause for scope, pause in sorted(pauses.items()) if scope.flow == state)
    return {(scope := replace(pause.scope, flow=flow)): replace(pause, scope=scope) for pause in written}


def _fresh(scope: Scope, reason: str) -> Pause:
    who = this_process("mirror pause")
    return Pause(scope, now_ms(), f"{who.who}@{who.host}", reason)


def pause_of(session: Session, flow: str) -> Pause | None:
    """The pause of the whole flow."""
    return pauses_of(session, flow).get(Scope(flow))


def job_of(session: Session, flow: str) -> LiveMirror | Unknown | None:
    """The reported state of a flow's mirror."""
    return _live(session, mirror_of(session.topology, flow))


def _require_topic(session: Session, wanted: Iterable[Scope]) -> None:
    """Raises ReconcilerError if the status topic is missing: pauses cannot be read then, and a job may still obey
    them."""
    for cluster in sorted({place_of(session, scope.flow).name for scope in wanted}):
        session.records[cluster].pauses()
        if session.records[cluster].topic_missing:
            topic = session.topology.clusters[cluster].own_topics.status
            raise ReconcilerError(
                f"{cluster} has no topic {topic}: what is paused is not known",
                "Pauses are kept there. A job that runs continues with those that it has read.",
                "Create the topic: reconciler apply ENV. Then run this again.",
            )


def _require_exist(session: Session, wanted: Sequence[Scope], say: Say) -> None:
    """Raises ReconcilerError for a topic or partition that the source lacks. A silent source is only reported: a pause
    must work in an outage, too."""
    for scope in wanted:
        if scope.topic:
            flow = session.topology.flows[scope.flow]
            ask = partial(session.whole, flow.source, scope.topic)
            read = or_unknown(f"cluster {flow.source}", ask, ClusterError)
            if unchecked := require_exists(flow, scope, read):
                say(unchecked)


def mirror_of(topology: Topology, flow: str) -> str:
    mirror = next((m.name for m in topology.mirrors.values() if flow in m.flows), None)
    if mirror is None:
        raise ReconcilerError(f"flow {flow} is in no mirror", "No application carries it.", "Name it in a mirror.")
    return mirror


def place_of(session: Session, flow: str) -> Cluster:
    """The cluster that keeps pauses of the flow."""
    mirror = session.topology.mirrors[mirror_of(session.topology, flow)]
    return session.topology.clusters[session.topology.status_cluster(mirror)]


def _obeyed(session: Session, flow: str) -> Iterable[Pause]:
    """Pauses of a flow, also those that its job still obeys although their records are gone."""
    held, job = pauses_of(session, flow), job_of(session, flow)
    if isinstance(job, LiveMirror) and job.state is JobState.RUNNING and flow in job.flows:
        held |= {pause.scope: pause for pause, _ in reported_pauses(flow, job.flows[flow]) if pause.scope not in held}
    return held.values()


def _keys(session: Session, scope: Scope) -> list[str]:
    """Record keys of a scope: the one under the present name first, then those under former names of flow and
    environment, since a pause outlives a rename. A resume deletes all."""
    topology = session.topology
    named = replace(scope, flow=topology.flows[scope.flow].state_name)
    return [pause_key(environment, named) for environment in (topology.environment, *topology.moved_from)]


def _status_times(session: Session, wanted: Iterable[Scope]) -> Mapping[str, int]:
    """Mirror -> time of its newest status record, by the job's clock."""
    mirrors = {name: session.status(name) for name in {mirror_of(session.topology, scope.flow) for scope in wanted}}
    return {name: (mirror.updated_at_ms or 0) if mirror else 0 for name, mirror in mirrors.items()}


def _write(session: Session, command: str, pauses: Mapping[Scope, Pause | None]) -> None:
    """Writes pauses, None to end one, as one run of the audit record; an empty mapping records no run."""
    if not pauses:
        return
    by_cluster: dict[str, dict[str, bytes | None]] = {}
    for scope, pause in pauses.items():
        keys = _keys(session, scope)
        values = dict.fromkeys(keys) if pause is None else {keys[0]: dumps(pause)}
        by_cluster.setdefault(place_of(session, scope.flow).name, {}).update(values)
    with audited(session, command, [step for values in by_cluster.values() for step in _steps(values)]) as outcomes:
        for cluster, values in by_cluster.items():
            write_records(session.topology.clusters[cluster], Principal.APPLY, values)
            outcomes += [Outcome(step, Result.DONE) for step in _steps(values)]


@contextmanager
def audited(session: Session, command: str, steps: Sequence[str]) -> Iterator[list[Outcome]]:
    """Audits one run of a command without the lock, in the file alone: only the holder of the lock may append to the
    topic, or its chain of digests would fork. Raises as ``apply.audit.recorded``."""
    run, now = uuid.uuid4().hex, revision(session.folder)
    actor = Actor(command, session.topology.environment, this_process(command), now.commit, now.dirty)
    with AuditFile(session.state) as file, recorded(Audit(file), run, actor, steps) as outcomes:
        yield outcomes


def _steps(values: Mapping[str, bytes | None]) -> list[str]:
    return [f"{'resume' if value is None else 'pause'}:{key}" for key, value in values.items()]


def _await(
    session: Session, wanted: Sequence[Scope], before: Mapping[str, int], wait_s: float, *, paused: bool
) -> list[str]:
    """Waits until every job of these flows reports the change. Returns a line for each job that does not run.

    Raises ReconcilerError, with the last report, if a job does not report it in time.
    """
    give_up = time.monotonic() + wait_s
    word, later = "paused" if paused else "resumed", []
    for name in sorted({mirror_of(session.topology, scope.flow) for scope in wanted}):
        mine = [scope for scope in wanted if mirror_of(session.topology, scope.flow) == name]
        while True:
            pause_progress = progress(_live(session, name), mine, paused=paused, asked_ms=before[name])
            if pause_progress.done:
                break
            # A job that does not run reads the record when it starts, before it copies anything. Waiting for it could
            # last for ever.
            if not pause_progress.runs:
                later.append(f"mirror {name} does not run now; this is recorded and holds from its next start")
                break
            if time.monotonic() > give_up:
                problem = f"mirror {name} has not confirmed within {wait_s:g} s: {pause_progress.words}"
                why = f"It is recorded, so it holds as soon as the job has done it: {', '.join(map(str, mine))} {word}."
                raise ReconcilerError(problem, why, "Check again with reconciler status ENV.")
            time.sleep(POLL_S)
    return later


def _live(session: Session, mirror: str) -> LiveMirror | Unknown | None:
    return or_unknown(f"mirror {mirror}", lambda: session.status(mirror), ClusterError)
