"""Compares replication factors: chooses new replicas, or refuses with the reason.

Doubtful states (a broker that is down, replicas out of sync, a reassignment of another tool) are refused; our own
reassignment from an earlier run continues, or is finished.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType

from reconciler.errors import Unknown, or_unknown_why
from reconciler.model import config_values, replicas
from reconciler.model.changes import Change, FinishReassignment, Reason, ReassignReplicas, Refused, Why, of_topic
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveState, LiveTopic, Source, different_configs
from reconciler.model.plan import Findings, merged
from reconciler.model.ports import ClusterReader
from reconciler.model.replicas import THROTTLED_REPLICAS, ReplicaFacts
from reconciler.replication.names import is_reserved
from reconciler.resources.replicas.placement import (
    PartitionReplicas,
    PlacementBasis,
    after,
    basis,
    cost_of_copying,
    place,
)
from reconciler.resources.topics.defaults import layers_of, replication_factor
from reconciler.resources.topics.desired import DesiredTopic, DesiredTopics
from reconciler.resources.topics.diff import mixed
from reconciler.resources.topics.internal import internal_topics
from reconciler.resources.topics.limits import min_insync_above
from reconciler.text import counted, first_of

NAMED = 3


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster and its facts for the comparison."""

    cluster: LiveCluster
    facts: replicas.ReplicaFacts
    basis: PlacementBasis
    pace: replicas.ReassignmentPace

    def moves(self, topic: str) -> dict[int, replicas.ReassignmentInFlight]:
        return {move.partition: move for move in self.facts.moves if move.topic == topic}

    @property
    def away(self) -> tuple[int, ...]:
        """Brokers with replicas that are not alive."""
        held = {broker for topic in self.cluster.topics.values() for p in topic.partitions for broker in p.replicas}
        return tuple(sorted(held - self.basis.racks.keys()))


def compare_replicas(topology: Topology, live: LiveState, topics: DesiredTopics) -> Findings:
    factors: dict[str, list[DesiredTopic]] = {name: [] for name in topology.clusters}
    for cluster, named in topics.alike.items():
        factors[cluster] += (
            topics[TopicRef(cluster, name)] for name, alike in named.items() if alike.replication_factor is not None
        )
    return merged(_cluster(topology, live, name, factors[name]) for name in sorted(topology.clusters))


def wants_replicas(desired: DesiredTopic, topic: LiveTopic) -> bool:
    """Whether git declares a factor, and not all partitions have it."""
    if desired.replication_factor is None:
        return False
    settled = all(len(part.replicas) == desired.replication_factor == len(part.isr) for part in topic.partitions)
    return not settled or any(topic.overrides.get(key) for key in replicas.THROTTLED_REPLICAS)


def _cluster(topology: Topology, live: LiveState, name: str, topics: Iterable[DesiredTopic]) -> Findings:
    """``topics``: with a declared factor."""
    cluster = live.known(name)
    if cluster is None:
        return Findings()
    settled: list[DesiredTopic] = []
    wants: list[DesiredTopic] = []
    for desired in topics:
        if (topic := cluster.topics.get(desired.ref.name)) is not None:
            (wants if wants_replicas(desired, topic) else settled).append(desired)
    findings = Findings(settled=tuple(of_topic(desired.ref) for desired in settled))
    facts = cluster.replicas
    if not isinstance(facts, replicas.ReplicaFacts):
        # Nothing is planned without facts; a factor that seems right may belong to an unfinished reassignment.
        why = facts.error if facts is not None else "it was not looked at closely"
        todo = facts.todo if facts is not None else "Run plan again."
        unseen = [findings]
        for desired in wants:
            ref, name = desired.ref, f"{desired.ref} replication factor"
            if facts is None and cluster.topics[ref.name].replication_factor == desired.replication_factor:
                unseen.append(Findings(settled=(of_topic(ref),)))
            else:
                unseen.append(Findings(unknown=(Unknown(f"{ref} replicas", why, todo, (name,)),)))
        return merged(unseen)
    site = Site(cluster, facts, basis(cluster), topology.clusters[name].reassignment)
    compared = [findings]
    for desired in wants:
        all_findings = _topic(site, desired, cluster.topics[desired.ref.name])
        compared.append(all_findings)
        placed = [
            p for change in all_findings.changes if isinstance(change, ReassignReplicas) for p in change.placements
        ]
        # Later topics are placed as if earlier ones had moved, or all of them would choose the same empty brokers.
        site = replace(site, basis=after(site.basis, placed))
    together = merged(compared)
    return merged((together, Findings(changes=tuple(_to_finish(site, together.changes)))))


def _topic(site: Site, desired: DesiredTopic, topic: LiveTopic) -> Findings:
    """One topic against its declared factor. An unfinished reassignment of ours counts as done if its targets have the
    factor, else its partitions are placed again."""
    factor = desired.replication_factor
    assert factor is not None
    moves = {index: move for index, move in site.moves(topic.name).items() if site.facts.ours(move)}
    # A partition in our own reassignment counts with its former replicas.
    begins = {index: move.before for index, move in moves.items()}
    standing = [
        PartitionReplicas(part.index, begins.get(part.index, part.replicas), part.leader) for part in topic.partitions
    ]
    factors = {len(part.replicas) for part in standing}
    if factors == {factor} and not moves:
        return Findings(settled=(of_topic(desired.ref),))
    if refused := tuple(_refusals(site, desired, topic, standing)):
        return Findings(refused=refused)
    # Fewer replicas may fall below min.insync.replicas, which is unknown if configs could not be read.
    if isinstance(topic.configs, Unknown) and max(factors) > factor:
        return Findings(
            unknown=(Unknown(f"{desired.ref} min.insync.replicas", topic.configs.error, topic.configs.todo),)
        )
    # Moves of an unfinished run that reach the factor keep their targets; all other partitions are placed again.
    kept = {index: move for index, move in moves.items() if len(move.target) == factor}
    fresh = [part for part in standing if part.index not in kept]
    placed = {placement.partition: placement for placement in place(topic.name, fresh, factor, site.basis)}
    placed |= {index: replicas.Placement(index, move.before, move.target) for index, move in kept.items()}
    changing = tuple(placed[i] for i in sorted(placed) if placed[i].before != placed[i].after or i in moves)
    moved = {placement.partition: placement.before for placement in changing}
    factors_now = {len(moved.get(part.index, part.replicas)) for part in topic.partitions}
    text = desired.reason.text
    reason = Reason(Why.REASSIGNMENT_UNFINISHED, f"an earlier run began it; {text}") if kept else None
    size, seconds = cost_of_copying(topic.name, changing, site.facts, site.pace)
    change = ReassignReplicas(
        ref=desired.ref,
        topic_id=topic.topic_id,
        before=factors_now.pop() if len(factors_now) == 1 else None,
        after=factor,
        partitions=max(len(topic.partitions), desired.partitions or 0),
        placements=changing,
        in_flight=len(kept),
        bytes_to_copy=size,
        seconds=math.ceil(seconds),
        pace=site.pace,
        role=desired.role,
        reason=reason or Reason(Why.REPLICATION_FACTOR_DIFFERS, text),
        depth=desired.depth,
    )
    return Findings(changes=(change,))


def _refusals(
    site: Site, desired: DesiredTopic, topic: LiveTopic, standing: Sequence[PartitionReplicas]
) -> Iterator[Refused]:
    """All reasons against changing the factor now."""
    factor = desired.replication_factor
    assert factor is not None
    shown = topic.replication_factor or mixed(topic)
    problem = f"{desired.ref} cannot go from replication factor {shown} to {factor}"
    name, racks = desired.ref.cluster, site.basis.racks
    grows = any(len(part.replicas) < factor for part in standing)

    def refused(code: Why, why: str, todo: str) -> Refused:
        return Refused(of_topic(desired.ref, "replication factor"), Reason(code, f"{problem}: {why}"), todo)

    if factor > len(racks):
        brokers = counted(len(racks), "broker")
        why = f"{name} has {brokers}" + (f", broker {_few(site.away)} does not answer" if site.away else "")
        yield refused(Why.REPLICATION_FACTOR_ABOVE_BROKERS, why, f"Set at most {len(racks)}, or add brokers")
    elif grows and site.away:
        why = (
            f"broker {_few(site.away)} holds replicas and does not answer, so the replicas would go to the wrong places"
        )
        yield refused(Why.BROKER_AWAY, why, "Start it, or move its replicas away, then plan again")
    if grows and len({broker.rack is None for broker in site.cluster.brokers}) > 1:
        bare = _few(broker.id for broker in site.cluster.brokers if broker.rack is None)
        why = f"broker {bare} reports no rack and others do, so replicas could not be spread over racks"
        yield refused(Why.RACKS_UNCLEAR, why, "Set broker.rack on every broker, or on none")
    if others := site.facts.others():
        why = f"{_few(f'{m.topic}-{m.partition}' for m in others)} is being reassigned by someone else"
        todo = "Wait until it has ended, or cancel it with kafka-reassign-partitions --cancel"
        yield refused(Why.REASSIGNMENT_BY_OTHERS, why, todo)
    # A reassignment begins only with all replicas in sync: it would compete with replicas that are catching up.
    alive = site.basis.racks.keys()
    flying = site.moves(topic.name).keys()
    offline = [part.index for part in topic.partitions if set(part.replicas) - alive]
    headless = [part.index for part in topic.partitions if part.leader < 0]
    behind = [p.index for p in topic.partitions if set(p.isr) != set(p.replicas) and p.index not in {*flying, *offline}]
    if headless:
        yield refused(Why.NO_LEADER, f"partition {_few(headless)} has no leader", "Bring its brokers back first")
    if offline:
        why = f"a replica of partition {_few(offline)} is on a broker that does not answer"
        yield refused(Why.REPLICA_OFFLINE, why, "Start the broker, or move its replicas away, then plan again")
    if behind:
        why = f"partition {_few(behind)} has replicas that are not in sync, and a move would take more from them"
        yield refused(Why.UNDER_REPLICATED, why, "Wait until they are in sync, then plan again")
    # The value after this plan's config changes, which come first.
    wanted = desired.configs.get("min.insync.replicas")
    min_insync = config_values.number(wanted.value if wanted else topic.config("min.insync.replicas"))
    least = None if min_insync is None else int(min_insync)
    if any(len(part.replicas) > factor for part in topic.partitions) and least is not None and factor < least:
        why = f"min.insync.replicas is {least}. {min_insync_above(factor)}"
        yield refused(
            Why.FACTOR_BELOW_MIN_INSYNC, why, f"Set min.insync.replicas to at most {factor} under configs as well"
        )


def _to_finish(site: Site, changes: Iterable[Change]) -> Iterator[FinishReassignment]:
    """Unfinished reassignments of earlier runs that no change of this plan continues."""
    journal = site.facts.journal
    if journal is None or any(isinstance(change, ReassignReplicas) for change in changes):
        return
    ours = [move for move in site.facts.moves if site.facts.ours(move)]
    mine, live = set(map(str, journal.rates)), site.cluster.topics
    brokers = sorted({b for b, key in journal.brokers if site.facts.rates.get(b, {}).get(key) in mine})
    lists = [listed for listed in journal.lists if listed.topic in live]
    topics = sorted({listed.topic for listed in lists if live[listed.topic].overrides.get(listed.key)})
    reason = Reason(Why.REASSIGNMENT_UNFINISHED, f"a reassignment of ours on {site.cluster.name} was cut off")
    yield FinishReassignment(site.cluster.name, len(ours), tuple(brokers), tuple(topics), reason)


def _few(items: Iterable[object]) -> str:
    return first_of([str(item) for item in items], NAMED)


# Reads details of replicas, only on clusters where a plan may change them.
#
# They matter if a topic lacks its desired factor, or has throttled replicas, which a reassignment sets first and clears
# last.


def with_replicas(topology: Topology, live: LiveState, readers: Mapping[str, ClusterReader]) -> LiveState:
    """``live`` with replicas of clusters where they matter; a failed read is Unknown for its cluster."""
    wanted = {name: cluster for name in readers if (cluster := live.known(name)) and matter(topology, cluster)}
    if not wanted:
        return live
    with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
        facts = pool.map(lambda name: facts_of(readers[name], topology.environment), wanted)
        looked = {name: replace(wanted[name], replicas=known) for name, known in zip(wanted, facts, strict=True)}
    return LiveState(MappingProxyType({**live.clusters, **looked}), live.mirrors)


def matter(topology: Topology, cluster: LiveCluster) -> bool:
    """Whether replicas of a cluster matter. Errs towards True, because remote topics of flows are not computed here."""
    wanted: dict[str, int] = {}
    if factor := replication_factor(layers_of(topology, cluster.name)):  # topics of mirrors and the audit follow it
        own, audit = [topic.ref for topic in internal_topics(topology)], topology.audit_place()
        wanted |= {ref.name: factor for ref in (*own, audit) if ref is not None and ref.cluster == cluster.name}
    for entry in topology.topics.values():
        if entry.replication_factor and cluster.name in entry.clusters:
            wanted[entry.name] = entry.replication_factor
    flows = {flow.replication_factor for flow in topology.flows.values() if flow.target == cluster.name} - {None}
    configs = (configs.get(key) for configs in different_configs(cluster) for key in THROTTLED_REPLICAS)
    if any(config is not None and config.source is Source.TOPIC and config.value for config in configs):
        return True
    if not wanted and not flows:
        return False
    for topic in cluster.topics.values():
        named = wanted.get(topic.name)
        factors = {named} if named else set() if topic.internal or is_reserved(topic.name) else flows
        parts = topic.partitions
        if any(len(part.replicas) != factor or len(part.isr) != factor for factor in factors for part in parts):
            return True
    return False


def facts_of(reader: ClusterReader, environment: str) -> ReplicaFacts | Unknown:
    return or_unknown_why(f"replicas of {reader.name}", lambda: reader.replica_facts(environment))
