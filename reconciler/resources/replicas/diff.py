"""Replication factors that differ: which replicas would be chosen, or why they cannot be moved now.

A cluster or topic in doubt (a broker away, replicas out of sync, someone else's reassignment) is refused with the
reason; a reassignment of ours that an earlier run left is gone on with, or finished.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from reconciler.changes import Change, FinishReassignment, Reason, ReassignReplicas, Refused
from reconciler.counts import counted
from reconciler.diffing.findings import Findings, Settled, merged
from reconciler.diffing.topics import mixed
from reconciler.diffing.wishes import TopicWish, TopicWishes
from reconciler.errors import Unknown
from reconciler.live import LiveCluster, LivePartition, LiveState, LiveTopic
from reconciler.placing import Ground, Standing, after, ground, place
from reconciler.placing.loads import bytes_to_copy, seconds_to_copy
from reconciler.replicas import THROTTLED_REPLICAS, Move, Pace, Placement, ReplicaFacts
from reconciler.topic_configs import number
from reconciler.topology import TopicRef, Topology

NAMED = 3


@dataclass(frozen=True, slots=True)
class Site:
    """One cluster on which factors are compared."""

    cluster: LiveCluster
    facts: ReplicaFacts
    ground: Ground
    pace: Pace

    def moves(self, topic: str) -> dict[int, Move]:
        return {move.partition: move for move in self.facts.moves if move.topic == topic}

    @property
    def away(self) -> tuple[int, ...]:
        """Brokers that hold replicas and do not answer."""
        held = {broker for topic in self.cluster.topics.values() for p in topic.partitions for broker in p.replicas}
        return tuple(sorted(held - self.ground.racks.keys()))


def compare_replicas(topology: Topology, live: LiveState, wished: TopicWishes) -> Findings:
    factors: dict[str, list[TopicWish]] = {name: [] for name in topology.clusters}
    for cluster, named in wished.alike.items():
        factors[cluster] += (
            wished[TopicRef(cluster, name)] for name, alike in named.items() if alike.replication_factor is not None
        )
    return merged(_cluster(topology, live, name, factors[name]) for name in sorted(topology.clusters))


def wants_replicas(wish: TopicWish, topic: LiveTopic) -> bool:
    """Whether git names a factor that the topic does not plainly have."""
    if wish.replication_factor is None:
        return False
    settled = all(len(part.replicas) == wish.replication_factor == len(part.isr) for part in topic.partitions)
    return not settled or any(topic.overrides.get(key) for key in THROTTLED_REPLICAS)


def _cluster(topology: Topology, live: LiveState, name: str, wished: Iterable[TopicWish]) -> Findings:
    """``wished``: those that name a factor."""
    cluster = live.known(name)
    if cluster is None:
        return Findings()
    settled: list[TopicWish] = []
    wants: list[TopicWish] = []
    for wish in wished:
        if (topic := cluster.topics.get(wish.ref.name)) is not None:
            (wants if wants_replicas(wish, topic) else settled).append(wish)
    found = Findings(settled=tuple(Settled(str(wish.ref), "replication factor") for wish in settled))
    facts = cluster.replicas
    if not isinstance(facts, ReplicaFacts):
        return merged((found, *(_not_seen(wish, cluster.topics[wish.ref.name], facts) for wish in wants)))
    site = Site(cluster, facts, ground(cluster), topology.clusters[name].reassignment)
    compared = [found]
    for wish in wants:
        one = _topic(site, wish, cluster.topics[wish.ref.name])
        compared.append(one)
        placed = [p for change in one.changes if isinstance(change, ReassignReplicas) for p in change.placements]
        site = replace(site, ground=after(site.ground, placed))
    together = merged(compared)
    return merged((together, Findings(changes=tuple(_left(site, together.changes)))))


def _not_seen(wish: TopicWish, topic: LiveTopic, facts: Unknown | None) -> Findings:
    """Without a closer look nothing is planned; a factor that seems right may still be on its way."""
    if facts is None and topic.replication_factor == wish.replication_factor:
        return Findings(settled=(Settled(str(wish.ref), "replication factor"),))
    why = facts.error if facts is not None else "nobody looked closer"
    todo = facts.todo if facts is not None else "Run plan again."
    return Findings(unknown=(Unknown(f"{wish.ref} replicas", why, todo, (f"{wish.ref} replication factor",)),))


def _topic(site: Site, wish: TopicWish, topic: LiveTopic) -> Findings:
    factor = wish.replication_factor
    assert factor is not None
    moves = {index: move for index, move in site.moves(topic.name).items() if site.facts.ours(move)}
    standing = [_standing(part, moves.get(part.index)) for part in topic.partitions]
    factors = {len(part.replicas) for part in standing}
    if factors == {factor} and not moves:
        return Findings(settled=(Settled(str(wish.ref), "replication factor"),))
    if refused := tuple(_refusals(site, wish, topic, standing)):
        return Findings(refused=refused)
    if isinstance(topic.configs, Unknown) and max(factors) > factor:
        return Findings(unknown=(Unknown(f"{wish.ref} min.insync.replicas", topic.configs.error, topic.configs.todo),))
    kept = {index: move for index, move in moves.items() if len(move.target) == factor}
    fresh = [part for part in standing if part.index not in kept]
    placed = {one.partition: one for one in place(topic.name, fresh, factor, site.ground)}
    placed |= {index: Placement(index, move.before, move.target) for index, move in kept.items()}
    changing = tuple(placed[i] for i in sorted(placed) if placed[i].before != placed[i].after or i in moves)
    return Findings(changes=(_change(site, wish, topic, changing, frozenset(kept)),))


def _standing(part: LivePartition, move: Move | None) -> Standing:
    return Standing(part.index, move.before if move else part.replicas, part.leader)


def _change(
    site: Site, wish: TopicWish, topic: LiveTopic, changing: tuple[Placement, ...], begun: frozenset[int]
) -> ReassignReplicas:
    factors = {len(one.before) for one in changing} | {
        len(part.replicas) for part in topic.partitions if part.index not in {one.partition for one in changing}
    }
    assert wish.replication_factor is not None
    text = wish.reason.text
    reason = Reason("reassignment-unfinished", f"an earlier run began it; {text}") if begun else None
    keyed = {(topic.name, one.partition): one for one in changing}
    return ReassignReplicas(
        ref=wish.ref,
        topic_id=topic.topic_id,
        before=factors.pop() if len(factors) == 1 else None,
        after=wish.replication_factor,
        partitions=max(len(topic.partitions), wish.partitions or 0),
        placements=changing,
        in_flight=len(begun),
        bytes_to_copy=bytes_to_copy(topic.name, changing, site.facts),
        seconds=math.ceil(seconds_to_copy(keyed, site.facts, site.pace)),
        pace=site.pace,
        role=wish.role,
        reason=reason or Reason("replication-factor-differs", text),
        depth=wish.depth,
    )


def _refusals(site: Site, wish: TopicWish, topic: LiveTopic, standing: Sequence[Standing]) -> Iterator[Refused]:
    """Every reason why the factor cannot be changed now."""
    factor = wish.replication_factor
    assert factor is not None
    shown = topic.replication_factor or mixed(topic)
    what = f"{wish.ref} cannot go from replication factor {shown} to {factor}"
    name, racks = wish.ref.cluster, site.ground.racks
    grows = any(len(part.replicas) < factor for part in standing)

    def refused(code: str, why: str, todo: str) -> Refused:
        return Refused(f"{wish.ref} replication factor", Reason(code, f"{what}: {why}"), todo)

    if factor > len(racks):
        brokers = counted(len(racks), "broker")
        why = f"{name} has {brokers}" + (f", broker {_few(site.away)} does not answer" if site.away else "")
        yield refused("replication-factor-above-brokers", why, f"Set at most {len(racks)}, or add brokers")
    elif grows and site.away:
        why = (
            f"broker {_few(site.away)} holds replicas and does not answer, so the replicas would go to the wrong places"
        )
        yield refused("broker-away", why, "Start it, or move its replicas away, then plan again")
    if grows and len({broker.rack is None for broker in site.cluster.brokers}) > 1:
        bare = _few(broker.id for broker in site.cluster.brokers if broker.rack is None)
        why = f"broker {bare} tells no rack and others do, so replicas could not be spread over racks"
        yield refused("racks-unclear", why, "Set broker.rack on every broker, or on none")
    if others := site.facts.others():
        why = f"{_few(f'{m.topic}-{m.partition}' for m in others)} is being reassigned by someone else"
        todo = "Wait until it has ended, or cancel it with kafka-reassign-partitions --cancel"
        yield refused("reassignment-by-others", why, todo)
    yield from (refused(*one) for one in _health(site, wish, topic, factor))


def _health(site: Site, wish: TopicWish, topic: LiveTopic, factor: int) -> Iterator[tuple[str, str, str]]:
    alive = site.ground.racks.keys()
    flying = site.moves(topic.name).keys()
    offline = [part.index for part in topic.partitions if set(part.replicas) - alive]
    headless = [part.index for part in topic.partitions if part.leader < 0]
    behind = [p.index for p in topic.partitions if set(p.isr) != set(p.replicas) and p.index not in {*flying, *offline}]
    if headless:
        yield "no-leader", f"partition {_few(headless)} has no leader", "Bring its brokers back first"
    if offline:
        why = f"a replica of partition {_few(offline)} is on a broker that does not answer"
        yield "replica-offline", why, "Start the broker, or move its replicas away, then plan again"
    if behind:
        why = f"partition {_few(behind)} has replicas that are not in sync, and a move would take more from them"
        yield "under-replicated", why, "Wait until they are in sync, then plan again"
    least = _min_insync(wish, topic)
    if any(len(part.replicas) > factor for part in topic.partitions) and least is not None and factor < least:
        why = f"min.insync.replicas is {least}, so no producer with acks=all could write any more"
        yield "factor-below-min-insync", why, f"Set min.insync.replicas to at most {factor} under configs as well"


def _min_insync(wish: TopicWish, topic: LiveTopic) -> int | None:
    """As it will be when the configs of this plan are set, which comes first."""
    wanted = wish.configs.get("min.insync.replicas")
    entry = None if isinstance(topic.configs, Unknown) else topic.configs.get("min.insync.replicas")
    found = number(wanted.value) if wanted else number(entry.value) if entry else None
    return None if found is None else int(found)


def _left(site: Site, changes: Iterable[Change]) -> Iterator[FinishReassignment]:
    """What an earlier run left, where no change of this plan takes it up."""
    journal = site.facts.journal
    if journal is None or any(isinstance(change, ReassignReplicas) for change in changes):
        return
    ours = [move for move in site.facts.moves if site.facts.ours(move)]
    brokers = tuple(
        sorted({b for b, key in journal.brokers if site.facts.rates.get(b, {}).get(key) in _ours(journal.rates)})
    )
    live = site.cluster.topics
    topics = tuple(
        sorted({one.topic for one in journal.lists if one.topic in live and live[one.topic].overrides.get(one.key)})
    )
    text = f"a reassignment of ours on {site.cluster.name} was cut off"
    yield FinishReassignment(site.cluster.name, len(ours), brokers, topics, Reason("reassignment-unfinished", text))


def _ours(rates: Iterable[int]) -> set[str]:
    return {str(rate) for rate in rates}


def _few(items: Iterable[object]) -> str:
    names = [str(item) for item in items]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
