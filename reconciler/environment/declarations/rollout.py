"""``rollout``: waves of clusters, with gates and soaks between them. Every cluster in one wave, and none in that of the
cluster that backs it up.
"""

from collections.abc import Iterator
from itertools import combinations

from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import Wrong
from reconciler.environment.yaml.locations import Places, Step, unknown_name
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Sequence
from reconciler.environment.yaml.schema import path_words
from reconciler.errors import Problem, Where
from reconciler.model.environment.rollout import Gates, MirrorGate, Rollout, RolloutWave
from reconciler.model.environment.topology import Topology, clusters_in
from reconciler.text import duration_ms, first_of, sentence, suggestion

IGNORED = "ignored"


def build_rollout(reading: Reading) -> Rollout | None:
    """None for an empty section."""
    root = reading.node()
    if not isinstance(root, YamlMapping) or not root.entries:
        return None
    waves = _waves(reading)
    if not waves:
        where = reading.place.where
        todo = "Add waves: a list such as [{name: canary, regions: [eu-west]}, {name: rest, regions: [us-east]}]"
        why = "Without waves the order of the regions is unknown"
        reading.problems.append(Problem("missing-field", where, "rollout lacks the field waves", why, todo))
    usual = Gates()
    lag_ms = None
    if reading.value("gates", "lag", default=None) != IGNORED:
        lag_ms = _duration(reading, "gates", "lag", default=usual.lag_ms)
    gates = Gates(
        reading.value("gates", "offline_partitions", default=usual.offline_partitions),
        reading.value("gates", "under_replicated_partitions", default=usual.under_replicated_partitions),
        lag_ms,
        MirrorGate(reading.value("gates", "mirrors", default=usual.mirrors.value)),
        _duration(reading, "gates", "wait", default=usual.wait_ms) or 0,
    )
    return Rollout(waves, _duration(reading, "soak", default=0) or 0, gates, reading.place.where)


def half_read_rollout(places: Places) -> Rollout | None:
    """The waves of a section that cannot be built, so that slips in their names are reported with the rest."""
    place = places.entries.get(("rollout", "rollout"))
    waves = _waves(Reading("rollout", "rollout", place)) if place is not None else ()
    return Rollout(waves) if waves else None


def _waves(reading: Reading) -> tuple[RolloutWave, ...]:
    node = reading.node("waves")
    return tuple(
        RolloutWave(
            str(reading.value("waves", index, "name", default="")),
            reading.texts("waves", index, "regions"),
            reading.texts("waves", index, "clusters"),
            _duration(reading, "waves", index, "soak", default=None),
            reading.place.document.where(item),
        )
        for index, item in enumerate(node.items if isinstance(node, Sequence) else ())
    )


def _duration(reading: Reading, *path: Step, default: int | None) -> int | None:
    """A duration. The schema has checked the unit; the number may still be too large."""
    if (data := reading.value(*path, default=None)) is None:
        return default
    try:
        return duration_ms(str(data))
    except ValueError as error:
        problem, why = f"{path_words(path)} is {data}", "It cannot be waited for"
        reading.wrong(path, Wrong("bad-duration", problem, why, sentence(error)))
        return default


def check_rollout(topology: Topology, rollout: Rollout | None, places: Places) -> Iterator[Problem]:
    """``rollout``: as far as it could be read."""
    if rollout is None:
        return
    names: dict[str, RolloutWave] = {}
    for index, wave in enumerate(rollout.waves):
        yield from _wave(topology, wave, index, places)
        first = names.setdefault(wave.name, wave)
        if first is not wave and wave.name:
            problem = f"rollout: the wave {wave.name} is defined again"
            why = f"It is already defined at {first.where}, and --until-wave could mean either"
            yield Problem("duplicate-name", _at(places, wave, index), problem, why, "Give it another name")

    taken: dict[str, RolloutWave] = {}
    for index, wave in enumerate(rollout.waves):
        clusters = clusters_in(wave, topology)
        for name in sorted(set(clusters)):
            other = taken.setdefault(name, wave)
            if other is not wave or clusters.count(name) > 1:
                twice = f"the waves {other.name} and {wave.name}" if other is not wave else f"wave {wave.name} twice"
                problem = f"rollout: cluster {name} is in {twice}"
                why = "Its changes could only come in one of them"
                todo = "Name it once: by its region, or by its own name"
                yield Problem("cluster-in-two-waves", _at(places, wave, index), problem, why, todo)
        yield from _backing_each_other(topology, wave, index, places)

    # A typo in a name, which is already reported, is probably why a cluster is in no wave.
    unplaced = [name for name in sorted(topology.clusters) if name not in taken]
    regions = {cluster.region for cluster in topology.clusters.values()}
    slips = any({*wave.clusters} - topology.clusters.keys() or {*wave.regions} - regions for wave in rollout.waves)
    if unplaced and not slips:
        noun, verb = ("cluster", "is") if len(unplaced) == 1 else ("clusters", "are")
        problem = f"rollout: {noun} {first_of(unplaced)} {verb} in no wave"
        why = "It would be unclear when changes there may begin"
        where = places.find("rollout", "rollout", "waves", or_else=rollout.where)
        yield Problem("cluster-in-no-wave", where, problem, why, "Add it to a wave, by its region or its name")


def _at(places: Places, wave: RolloutWave, index: int, *path: Step) -> Where:
    return places.find("rollout", "rollout", "waves", index, *path, or_else=wave.where)


def _wave(topology: Topology, wave: RolloutWave, index: int, places: Places) -> Iterator[Problem]:
    """A wave names known clusters or regions, and at least one."""
    said = f"rollout: wave {wave.name}" if wave.name else f"rollout: waves[{index}]"
    if not wave.regions and not wave.clusters:
        why = "A wave without clusters only looks like caution"
        problem = f"{said} names no region and no cluster"
        yield Problem("empty-wave", _at(places, wave, index), problem, why, "Add regions or clusters")
    for number, name in enumerate(wave.clusters):
        yield from unknown_name(places, topology.clusters, name, said, _at(places, wave, index, "clusters", number))

    # A cluster that could not be read may have any region.
    all_read = places.complete and all(of != "clusters" or name in topology.clusters for of, name in places.entries)
    known = {cluster.region for cluster in topology.clusters.values() if cluster.region is not None}
    for number, name in enumerate(wave.regions):
        if name not in known and all_read:
            problem, why = f"{said} names the unknown region {name}", "No cluster of the environment has it"
            todo = suggestion(name, known, "Add region to the clusters, or name the clusters themselves")
            yield Problem("unknown-region", _at(places, wave, index, "regions", number), problem, why, todo)


def _backing_each_other(topology: Topology, wave: RolloutWave, index: int, places: Places) -> Iterator[Problem]:
    """Finds two clusters of one wave that mirror to each other: a bad change would break both, with no cluster left for
    a failover."""
    ways = {(flow.source, flow.target): flow.name for _, flow in sorted(topology.flows.items())}
    members = sorted(topology.clusters.keys() & {*clusters_in(wave, topology)})
    for left, right in combinations(members, 2):
        out, back = ways.get((left, right)), ways.get((right, left))
        if out is None or back is None:
            continue
        yield Problem(
            "backup-in-same-wave",
            _at(places, wave, index),
            f"rollout: {left} and {right} are both in wave {wave.name}, and they back each other up"
            f" (flows {out} and {back})",
            "A change that breaks one of them would also break the cluster that its applications would move to",
            "Put them in two waves",
        )
