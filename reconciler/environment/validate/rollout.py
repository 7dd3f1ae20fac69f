"""Validates rollout waves: every cluster in one wave, none beside the one it stands in for."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.yaml.locations import Places, unknown_name
from reconciler.errors import Problem, Where
from reconciler.model.environment.rollout import Rollout, RolloutWave
from reconciler.model.environment.topology import Topology, clusters_in
from reconciler.text import first_of, suggestion

SHOWN = 5


def check_rollout(topology: Topology, rollout: Rollout | None, places: Places) -> Iterator[Problem]:
    """``rollout``: as far as it could be read."""
    if rollout is None:
        return
    names: dict[str, RolloutWave] = {}
    for index, wave in enumerate(rollout.waves):
        where = places.find("rollout", "rollout", "waves", index, or_else=wave.where)
        yield from _wave(topology, wave, index, places)
        first = names.setdefault(wave.name, wave)
        if first is not wave and wave.name:
            problem = f"rollout: the wave {wave.name} is defined again"
            why = f"It is already defined at {first.where}, and --until-wave could mean either"
            yield Problem("duplicate-name", where, problem, why, "Give it another name")
    yield from _once(topology, rollout, places)
    yield from _apart(topology, rollout, places)


def _wave(topology: Topology, wave: RolloutWave, index: int, places: Places) -> Iterator[Problem]:
    said = f"wave {wave.name}" if wave.name else f"waves[{index}]"

    def at(*path: str | int) -> Where:
        return places.find("rollout", "rollout", "waves", index, *path, or_else=wave.where)

    if not wave.regions and not wave.clusters:
        why = "A wave that comes to no cluster would only look like caution"
        problem = f"rollout: {said} names no region and no cluster"
        yield Problem("empty-wave", at(), problem, why, "Add regions or clusters")
    for number, name in enumerate(wave.clusters):
        yield from unknown_name(places, topology.clusters, name, f"rollout: {said}", at("clusters", number))
    known = {cluster.region for cluster in topology.clusters.values() if cluster.region is not None}
    for number, name in enumerate(wave.regions):
        if name not in known and _all_known(topology, places):
            problem, why = f"rollout: {said} names the unknown region {name}", "No cluster of the environment has it"
            todo = suggestion(name, known, "Add region to the clusters, or name the clusters themselves")
            yield Problem("unknown-region", at("regions", number), problem, why, todo)


def _all_known(topology: Topology, places: Places) -> bool:
    """A cluster that could not be read may have any region."""
    return places.complete and all(s != "clusters" or name in topology.clusters for s, name in places.entries)


def _once(topology: Topology, rollout: Rollout, places: Places) -> Iterator[Problem]:
    taken: dict[str, RolloutWave] = {}
    for index, wave in enumerate(rollout.waves):
        where = places.find("rollout", "rollout", "waves", index, or_else=wave.where)
        clusters = clusters_in(wave, topology)
        for name in sorted(set(clusters)):
            other = taken.setdefault(name, wave)
            if other is not wave or clusters.count(name) > 1:
                twice = f"the waves {other.name} and {wave.name}" if other is not wave else f"wave {wave.name} twice"
                problem = f"rollout: cluster {name} is in {twice}"
                why = "Its changes could only come in one of them"
                todo = "Name it once: by its region, or by its own name"
                yield Problem("cluster-in-two-waves", where, problem, why, todo)
    unplaced = [name for name in sorted(topology.clusters) if name not in taken]
    slips = any(name not in topology.clusters for wave in rollout.waves for name in wave.clusters)
    regions = {cluster.region for cluster in topology.clusters.values()}
    slips = slips or any(name not in regions for wave in rollout.waves for name in wave.regions)
    if unplaced and not slips:
        noun, verb = ("cluster", "is") if len(unplaced) == 1 else ("clusters", "are")
        problem = f"rollout: {noun} {first_of(unplaced, SHOWN)} {verb} in no wave"
        why = "It would be unclear when changes there may begin"
        where = places.find("rollout", "rollout", "waves", or_else=rollout.where)
        yield Problem("cluster-in-no-wave", where, problem, why, "Add it to a wave, by its region or its name")


def _apart(topology: Topology, rollout: Rollout, places: Places) -> Iterator[Problem]:
    ways = {(flow.source, flow.target): flow.name for _, flow in sorted(topology.flows.items())}
    for index, wave in enumerate(rollout.waves):
        members = sorted({name for name in clusters_in(wave, topology) if name in topology.clusters})
        for left in members:
            for right in (name for name in members if name > left):
                out, back = ways.get((left, right)), ways.get((right, left))
                if out is None or back is None:
                    continue
                yield Problem(
                    "backup-in-same-wave",
                    places.find("rollout", "rollout", "waves", index, or_else=wave.where),
                    f"rollout: {left} and {right} are both in wave {wave.name}, and they back each other up"
                    f" (flows {out} and {back})",
                    "A change that breaks one of them would break at the same time what its applications would move to",
                    "Put them in two waves",
                )
