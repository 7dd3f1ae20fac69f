"""``doctor``: asks every cluster as every principal, checks this machine, and reports findings."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.permissions import cluster_facts, rights
from reconciler.backends.mirror_jobs.runner.foreground_job import PREFLIGHT, ForegroundRun, run_in_foreground
from reconciler.backends.mirror_jobs.runner.machine import machine, page_port, spark_master
from reconciler.backends.mirror_jobs.runner.run_folder import state_folder
from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.backends.state.home import look
from reconciler.engine.doctor import machines
from reconciler.engine.doctor.clusters import cluster_findings
from reconciler.engine.doctor.flows import flow_findings, remote_findings
from reconciler.engine.doctor.permissions import asks, permission_findings
from reconciler.engine.guards.second_copy import copies_of
from reconciler.engine.observe.read_all import observe
from reconciler.errors import ReconcilerError, RunnerError, Unknown
from reconciler.model.environment.topology import Cluster, Mirror, Principal, TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveMirror, LiveState
from reconciler.model.options import WITHIN_S
from reconciler.model.plan import RemoteFacts
from reconciler.model.reports.doctor import Checkup, ClusterFacts, ExecutorLook, Finding, Rights, SparkMaster
from reconciler.model.state.home import home_of
from reconciler.model.state.lock import lock_cluster
from reconciler.operations.review.copy_facts import heartbeats_found, remote_facts
from reconciler.operations.session.session import read_topology
from reconciler.replication.mirrormaker_records import HEARTBEATS
from reconciler.resources.flows.routes import Route, find_routes
from reconciler.resources.mirrors.handover import handovers
from reconciler.resources.topics.internal import heartbeats_places

Answer = TypeVar("Answer")
MASTER_S, EXECUTORS_S = 5.0, 120.0
_NO_EXECUTOR = Unknown(
    "executors",
    f"no executor answered in {EXECUTORS_S:.0f} s: Spark gave the application no core",
    "Free some cores (the finding before says how many are free), and run doctor --executors again",
)


@dataclass(frozen=True, slots=True)
class Deadline:
    """Ends ``within_s`` after ``began``, by the monotonic clock."""

    within_s: float
    began: float

    def left(self, part: float = 1.0) -> float:
        return max(0.0, self.began + self.within_s * part - time.monotonic())

    def missed(self, subject: str, part: float = 1.0) -> Unknown:
        """The unknown of a ``subject`` that has not answered in full by the given part of the time."""
        todo = "Fix the problems of its addresses, or allow more time: doctor --within 2m"
        return Unknown(subject, f"no full answer within {self.within_s * part:g} s", todo)


def checkup(folder: Path, within_s: float = WITHIN_S, *, executors: bool = False) -> Checkup:
    """``executors``: run a Spark application on each mirror's cluster that checks its executors, for up to EXECUTORS_S.

    Raises TopologyError for invalid files, ReconcilerError if no cluster is declared. All else becomes a finding, also
    a question without an answer within ``within_s``; its thread ends with the program."""
    topology = read_topology(folder)
    lock_cluster(topology)  # raises if no cluster is declared
    deadline = Deadline(within_s, time.monotonic())
    # Everything that depends on no other answer is asked at once: one silent cluster must cost its own findings only,
    # not the time of all the others.
    facts = {
        name: _begun(partial(cluster_facts, request, Principal.PLAN)) for name, request in topology.clusters.items()
    }
    homes = _begun(partial(look, topology, Principal.PLAN))
    elsewhere = [mirror for mirror in topology.mirrors.values() if not mirror.master.startswith("local")]
    masters = {
        mirror.name: _begun(partial(_master, mirror, f"mirror {topology.environment}/{mirror.name}"))
        for mirror in elsewhere
    }
    seen = {mirror.name: _begun(partial(_as_reported, topology, mirror)) for mirror in elsewhere}
    looks = {}
    if executors:
        texts, state = handovers(topology), state_folder(folder)
        looks = {name: _begun(partial(_look, topology.mirrors[name], state, texts[name])) for name in masters}

    # Routes follow from the topics of all clusters, and questions about rights and copies follow from routes. So reads
    # of clusters get the first half of the time; a cluster that is late is unknown from there on.
    reads = {name: _begun(partial(live_cluster, declared)) for name, declared in topology.clusters.items()}
    clusters = {
        name: _by(asked, deadline, 0.5) or deadline.missed(f"cluster {name}", 0.5) for name, asked in reads.items()
    }
    live = LiveState(clusters, {})
    with suppress(ReconcilerError):  # findings of that cluster report it
        topology = replace(topology, lock_home=home_of(topology, _by(homes, deadline, 0.5) or {}).home)
    routing, copies = find_routes(topology, live), copies_of(topology, live)
    remotes = _begun(partial(remote_facts, topology, Principal.PLAN, copies))
    beats = _begun(partial(heartbeats_found, topology, Principal.PLAN, live))
    all_rights = _rights(topology, live, routing.routes, deadline)
    read_facts = {}
    for name, future in facts.items():
        late = deadline.missed(f"cluster {name}")
        read_facts[name] = _by(future, deadline) or ClusterFacts(
            name, (), None, late, late, late, {}, late, 0, late, late
        )

    # No questions are asked below: what is not answered by the deadline becomes a finding of its own.
    targets = {flow.target for flow in topology.flows.values()}
    findings: list[Finding] = []
    for name, request in topology.clusters.items():
        findings += cluster_findings(request, read_facts[name], name in targets, int(time.time()))
        rights_here = [found for (cluster, _), found in all_rights.items() if cluster == name]
        findings += permission_findings(topology, name, rights_here, routing.routes)
    findings += flow_findings(topology, live, routing.routes, read_facts, routing.prospects)
    silent = {target: RemoteFacts(unknown=f"no answer within {within_s:g} s") for target in copies}
    unheard: Mapping[str, str | Unknown] = {
        name: deadline.missed(f"topic {HEARTBEATS} on {name}")
        for name in heartbeats_places(topology)
        if live.topic(TopicRef(name, HEARTBEATS)) is not None
    }
    facts_there, heartbeats = _by(remotes, deadline) or silent, _by(beats, deadline) or unheard
    findings += remote_findings(topology, live, copies, facts_there, heartbeats)
    if topology.mirrors:
        here = machine(state_folder(folder))
        findings += machines.machine_findings(here)
        findings += machines.spark_cluster_findings(topology)
        findings += machines.metrics_findings(topology)
        for name, asked in masters.items():
            mirror = topology.mirrors[name]
            master = _by(asked, deadline) or SparkMaster(mirror.master, deadline.missed(name))
            findings += machines.master_findings(mirror, master, here.spark)
            # Executors report only while they run: without --executors the running job's own report has to do.
            if name not in looks:
                wait((seen[name],), deadline.left())
                missed = deadline.missed(f"mirror {name}")
                findings += machines.task_findings(mirror, seen[name].result() if seen[name].done() else missed)
            else:
                patience = Deadline(EXECUTORS_S, deadline.began)
                findings += machines.executor_findings(mirror, _by(looks[name], patience) or _NO_EXECUTOR)
    return Checkup(topology.environment, tuple(findings))


def live_cluster(declared: Cluster) -> LiveCluster | Unknown:
    with KafkaCluster(declared, Principal.PLAN) as cluster:
        return observe({declared.name: cluster}).clusters[declared.name]


def _look(mirror: Mirror, state: Path, handover: str) -> Sequence[ExecutorLook] | RunnerError | Unknown:
    """Starts a small Spark application on the mirror's master, which checks each executor; Unknown without starting one
    if the master does not answer."""
    if isinstance(_master(mirror, "").reached, Unknown):
        return Unknown("executors", "not looked at: the Spark master cannot be used")
    try:
        run = ForegroundRun(mirror, state, handover, {}, script=PREFLIGHT)
        answer = run_in_foreground(run, lambda _: None, lambda _: None)
    except RunnerError as error:
        return error
    rows = answer["executors"]
    return tuple(ExecutorLook(str(row["host"]), str(row["python"]), tuple(row["problems"])) for row in rows)


def _master(mirror: Mirror, application: str) -> SparkMaster:
    return spark_master(mirror.master, application, MASTER_S, page_port(mirror.spark_conf))


def _as_reported(topology: Topology, mirror: Mirror) -> LiveMirror | Unknown | None:
    """The newest status record, which contains the tasks' reports about their executors."""
    records = StatusRecords(topology.clusters[topology.status_cluster(mirror)], topology.environment)
    try:
        return records.read(mirror.name, int(time.time() * 1000))
    except ReconcilerError as error:
        return Unknown(f"mirror {mirror.name}", f"its status record cannot be read: {error.what}", error.todo)
    finally:
        records.close()


def _begun(ask: Callable[[], Answer]) -> Future[Answer]:
    """Asks on a daemon thread that nothing waits for at the end, so that a silent cluster delays no other question."""
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - a bug of ours, raised where the answer is awaited
            future.set_exception(error)

    threading.Thread(target=run, name="doctor", daemon=True).start()
    return future


def _by(future: Future[Answer], deadline: Deadline, part: float = 1.0) -> Answer | None:
    """The answer, or None if there is none by the deadline."""
    wait((future,), deadline.left(part))
    return future.result() if future.done() else None


def _rights(
    topology: Topology, live: LiveState, routes: Sequence[Route], deadline: Deadline
) -> Mapping[tuple[str, Principal], Rights]:
    """Rights by cluster and principal, asked all at once. A missing answer counts as unchecked, neither as a right nor
    as the lack of one."""
    asked = {
        (name, principal): _begun(partial(rights, topology.clusters[name], principal, ask))
        for (name, principal), ask in asks(topology, live, routes).items()
    }
    answers: dict[tuple[str, Principal], Rights] = {}
    for (name, principal), future in asked.items():
        late = deadline.missed(f"cluster {name}")
        failed = replace(late, error=f"{late.error}; the permissions of {principal} were not looked at")
        server = topology.clusters[name].bootstrap_servers[0]
        unknown = Rights(principal, f"<principal {principal}>", server, failed)
        answers[name, principal] = _by(future, deadline) or unknown
    return answers
