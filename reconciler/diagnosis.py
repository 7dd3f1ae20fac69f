"""``doctor``: asks every cluster as every principal, looks at this machine, and lets ``diagnosing`` conclude.

Border: no arguments and no exit codes; those are ``cli``. Nothing is changed anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from reconciler.checkups import Checkup, ClusterFacts, Finding, Rights
from reconciler.diagnosing import asks, cluster_findings, flow_findings, machine_findings, permission_findings
from reconciler.edges.kafka.admin import KafkaCluster
from reconciler.edges.kafka.facts import cluster_facts
from reconciler.edges.kafka.probing import rights
from reconciler.edges.machine import machine
from reconciler.edges.run_folders import state_folder
from reconciler.live import LiveState
from reconciler.observing import observe
from reconciler.routing import Route, Routing, find_routes
from reconciler.topology import Principal, Topology
from reconciler.wiring import read_topology

THREADS = 12


def checkup(folder: Path) -> Checkup:
    """Raises TopologyError for files that are not valid; everything else becomes a finding."""
    topology = read_topology(folder)
    live = _live(topology)
    routing = find_routes(topology, live)
    facts, told = _asked(topology, live, routing.routes)
    return Checkup(topology.environment, tuple(_findings(folder, topology, live, routing, facts, told)))


def _live(topology: Topology) -> LiveState:
    clusters = {name: KafkaCluster(wish, Principal.PLAN) for name, wish in topology.clusters.items()}
    try:
        return observe(clusters)
    finally:
        for cluster in clusters.values():
            cluster.close()


Told = Mapping[tuple[str, Principal], Rights]


def _asked(topology: Topology, live: LiveState, routes: Sequence[Route]) -> tuple[dict[str, ClusterFacts], Told]:
    """All clusters and principals at once: one that is silent costs its own time only."""
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        facts = {name: pool.submit(cluster_facts, wish, Principal.PLAN) for name, wish in topology.clusters.items()}
        told = {
            (name, principal): pool.submit(rights, topology.clusters[name], principal, ask)
            for (name, principal), ask in asks(topology, live, routes).items()
        }
        return (
            {name: future.result() for name, future in facts.items()},
            {key: future.result() for key, future in told.items()},
        )


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
