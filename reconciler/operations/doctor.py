"""``doctor``: asks every cluster as every principal, looks at this machine, and lets ``diagnosing`` conclude.

Border: no arguments and no exit codes; those are ``cli``. Nothing is changed anywhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from reconciler.checkups import Checkup, ClusterFacts, Finding, Rights
from reconciler.choices import WITHIN_S
from reconciler.diagnosing import asks, cluster_findings, flow_findings, machine_findings, permission_findings
from reconciler.edges.kafka.admin import KafkaCluster
from reconciler.edges.kafka.facts import cluster_facts
from reconciler.edges.kafka.probing import rights
from reconciler.edges.machine import machine
from reconciler.edges.run_folders import state_folder
from reconciler.errors import Unknown
from reconciler.live import LiveCluster, LiveState
from reconciler.locks import lock_cluster
from reconciler.observing import observe
from reconciler.routing import Route, Routing, find_routes
from reconciler.topology import Cluster, Principal, Topology
from reconciler.wiring import read_topology

Answer = TypeVar("Answer")
Told = Mapping[tuple[str, Principal], Rights]


@dataclass(frozen=True, slots=True)
class Deadline:
    """``within_s`` after ``began``, by the monotonic clock. The first half is for what the second rests on."""

    within_s: float
    began: float

    def left(self, part: float = 1.0) -> float:
        return max(0.0, self.began + self.within_s * part - time.monotonic())

    def missed(self, subject: str, part: float = 1.0) -> Unknown:
        """Of what was not told by then."""
        what = f"no full answer within {self.within_s * part:g} s"
        return Unknown(subject, what, "Mend what is told of its addresses, or give it longer: doctor --within 2m")


def checkup(folder: Path, within_s: float = WITHIN_S) -> Checkup:
    """Raises TopologyError for files that are not valid, ReconcilerError where no cluster is declared; all else becomes
    a finding, also what was not asked or answered within ``within_s``. Questions that are still open then are left to
    threads that end with the program."""
    topology = read_topology(folder)
    lock_cluster(topology)  # there is none to look at where none is declared
    deadline = Deadline(within_s, time.monotonic())
    facts = {name: _begun(partial(cluster_facts, wish, Principal.PLAN)) for name, wish in topology.clusters.items()}
    live = _live(topology, deadline)
    routing = find_routes(topology, live)
    told = _rights(topology, live, routing.routes, deadline)
    seen = {name: _by(future, deadline) or _cut_off(name, deadline) for name, future in facts.items()}
    found = _findings(folder, topology, live, routing, seen, told)
    return Checkup(topology.environment, tuple(found))


def _begun(ask: Callable[[], Answer]) -> Future[Answer]:
    """On a thread of its own, which nobody waits for in the end: a silent cluster costs its own time only."""
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - a slip of ours, for who waits
            future.set_exception(error)

    threading.Thread(target=run, name="doctor", daemon=True).start()
    return future


def _by(future: Future[Answer], deadline: Deadline, part: float = 1.0) -> Answer | None:
    """None: not by then."""
    wait((future,), deadline.left(part))
    return future.result() if future.done() else None


def _live(topology: Topology, deadline: Deadline) -> LiveState:
    asked = {name: _begun(partial(_read, wish)) for name, wish in topology.clusters.items()}
    found = {name: _by(future, deadline, 0.5) for name, future in asked.items()}
    return LiveState({n: one or deadline.missed(f"cluster {n}", 0.5) for n, one in found.items()}, {})


def _read(wish: Cluster) -> LiveCluster | Unknown:
    with KafkaCluster(wish, Principal.PLAN) as cluster:
        return observe({wish.name: cluster}).clusters[wish.name]


def _rights(topology: Topology, live: LiveState, routes: Sequence[Route], deadline: Deadline) -> Told:
    asked = {
        (name, principal): _begun(partial(rights, topology.clusters[name], principal, ask))
        for (name, principal), ask in asks(topology, live, routes).items()
    }
    found = {key: _by(future, deadline) for key, future in asked.items()}
    return {key: one or _not_told(topology.clusters[key[0]], key[1], deadline) for key, one in found.items()}


def _not_told(wish: Cluster, principal: Principal, deadline: Deadline) -> Rights:
    late = deadline.missed(f"cluster {wish.name}")
    failed = replace(late, error=f"{late.error}; the permissions of {principal} were not looked at")
    return Rights(principal, f"<principal {principal}>", wish.bootstrap_servers[0], failed)


def _cut_off(name: str, deadline: Deadline) -> ClusterFacts:
    late = deadline.missed(f"cluster {name}")
    return ClusterFacts(name, (), None, late, late, late, {}, late, 0, late, late)


def _findings(
    folder: Path,
    topology: Topology,
    live: LiveState,
    routing: Routing,
    facts: Mapping[str, ClusterFacts],
    told: Told,
) -> Iterator[Finding]:
    targets = {flow.target for flow in topology.flows.values()}
    for name, wish in topology.clusters.items():
        yield from cluster_findings(wish, facts[name], name in targets, int(time.time()))
        mine = [found for (cluster, _), found in told.items() if cluster == name]
        yield from permission_findings(topology, name, mine, routing.routes)
    yield from flow_findings(topology, live, routing.routes, facts, routing.prospects)
    if topology.mirrors:
        yield from machine_findings(machine(state_folder(folder)))
