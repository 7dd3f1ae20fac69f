"""Parity between clusters: how copies of one topic differ, and whether a rule allows it.

A remote topic is compared with the configs that sync derives from its live source; a topic that git declares on several
clusters with its declared values, every copy with the first.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from reconciler.errors import Unknown
from reconciler.model.config_values import TIERED_STORAGE, human, same
from reconciler.model.environment.topology import Topic, TopicRef, Topology
from reconciler.model.live import LiveState, Source
from reconciler.model.reports import drift
from reconciler.replication.expressions.match import expressions
from reconciler.resources.flows.routes import Route
from reconciler.resources.topics.defaults import DECLARED, Given, configs, layers_of
from reconciler.resources.topics.expected import synced_configs
from reconciler.text import counted

_ONCE = "declared once for both"


def parity(topology: Topology, live: LiveState, routes: Sequence[Route]) -> drift.Parity:
    """Both sides of each flow, and each topic that git declares on several clusters."""
    disparities: list[drift.Disparity] = []
    unknown = [
        Unknown(f"cluster {name}", cluster.error, cluster.todo)
        for name in sorted(topology.clusters)
        if isinstance(cluster := live.clusters.get(name, Unknown(name, "it was not read")), Unknown)
    ]
    compared = 0
    for pair in (*both_sides(topology, live, routes), *declared_twice(topology, live, routes)):
        if isinstance(pair, Unknown):
            unknown.append(pair)
            continue
        if isinstance(pair, drift.Disparity):
            disparities.append(pair)
            continue
        compared += 1
        disparities += pair.disparities
        unknown += pair.unread
    return drift.Parity(topology.environment, compared, tuple(disparities), tuple(dict.fromkeys(unknown)))


def both_sides(
    topology: Topology, live: LiveState, routes: Sequence[Route]
) -> Iterator[drift.ComparedTopics | drift.Disparity | Unknown]:
    """A Disparity if one side is missing; Unknown if one is hidden; None if both are missing."""
    for route in routes:
        ends = drift.Ends(route.flow, route.source, route.remote)
        here, there = live.topic(route.source), live.topic(route.remote)
        if here and there:
            yield _compared(drift.Pair(ends, here, there), _FlowRules(topology, route))
        elif hidden := drift.unseen(live, route.source) or drift.unseen(live, route.remote):
            yield hidden
        elif here or there:
            words = [counted(len(topic.partitions), "partition") if topic else "no topic" for topic in (here, there)]
            side = "remote" if here else "source"
            why = f"the {side} topic does not exist; apply creates declared and matched topics"
            yield ends.apart("topic", words[0], words[1], drift.ParityVerdict(False, why))


def declared_twice(
    topology: Topology, live: LiveState, routes: Sequence[Route]
) -> Iterator[drift.ComparedTopics | drift.Disparity | Unknown]:
    """A Disparity if one side is missing; Unknown if one is hidden; None if both are missing, or one cluster was not
    read."""
    # Sides of a flow are compared as such elsewhere, by the rules of copies: their partitions and configs may differ
    # here.
    flowing = {frozenset((route.source, route.remote)) for route in routes}
    for topic in topology.topics.values():
        read = [TopicRef(cluster, topic.name) for cluster in topic.clusters if live.known(cluster)]
        first = next((ref for ref in read if live.topic(ref)), None)
        for ref in read:
            if len(read) > 1 and (hidden := drift.unseen(live, ref)):
                yield hidden
                continue
            if first is None or ref == first or {first, ref} in flowing:
                continue
            here, there = (live.topic(each) for each in (first, ref))
            assert here is not None
            ends = drift.Ends("", first, ref)
            if there is not None:
                yield _compared(drift.Pair(ends, here, there), _DeclaredRules(topology, topic))
            else:
                words = counted(len(here.partitions), "partition")
                yield ends.apart("topic", words, "no topic", drift.ParityVerdict(False, f"{_ONCE}; apply makes it"))


@dataclass(frozen=True, slots=True)
class _FlowRules:
    topology: Topology
    route: Route

    def partitions(self, here: int, there: int) -> drift.ParityVerdict:
        if there > here:
            return drift.ParityVerdict(True, "more partitions on the target do no harm, and Kafka cannot remove them")
        return drift.ParityVerdict(False, "records of the others have no place")

    def factor(self, there: int) -> drift.ParityVerdict:
        declared = self.route.replication_factor
        why = "each cluster has its own factor" if declared is None else f"the flow or its target declares {declared}"
        return drift.ParityVerdict(declared in (None, there), why)

    def configs(self, pair: drift.Pair) -> Callable[[drift.Configured], drift.ParityVerdict]:
        """Judges the configs of one pair. Each answer names the rule that allows the difference, or that it breaks."""
        route, remote = self.route, self.route.remote
        desired = self.topology.topics.get(remote.name)
        declared = desired if desired is not None and remote.cluster in desired.clusters else None
        # What plan would write to the remote topic, by the same rules: parity must not call a difference wrong that
        # plan leaves alone.
        own = configs(layers_of(self.topology, remote.cluster, declared)) if declared else {}
        sync = self.topology.flows[route.flow].configs
        by_route = replace(sync, enabled=sync.enabled and not route.two_way)
        asked = synced_configs(by_route, route.source, pair.here.configs, layers_of(self.topology, remote.cluster))
        assert not isinstance(asked, Unknown)
        defaults = configs(layers_of(self.topology, remote.cluster))
        of_target = sync.use_defaults_from == "target"

        def judge(configured: drift.Configured) -> drift.ParityVerdict:
            key, source = configured.key, configured.here.source
            # What git declares for the remote topic wins over config sync, so it alone decides.
            if key in own:
                return _given(own[key], configured, f"declared for {remote} itself")
            if key in asked.set and key in defaults and asked.set[key].origin == defaults[key].layer.name:
                return _given(defaults[key], configured, "")

            # By MirrorMaker 2's rules of config sync, as in ``synced_configs``.
            if route.two_way:
                return drift.ParityVerdict(True, "the same name flows both ways, so neither side leads")
            if not sync.enabled:
                return drift.ParityVerdict(True, "the flow does not sync configs")
            if hit := expressions(sync.exclude).first(key):
                return drift.ParityVerdict(True, f"not synced: sync_topic_configs.exclude has {hit}")
            if key in TIERED_STORAGE and configured.there.source is not Source.TOPIC:
                return drift.ParityVerdict(True, "each cluster keeps older segments where it can")
            if configured.here.read_only or (source is Source.STATIC and of_target):
                return drift.ParityVerdict(True, "config sync takes over nothing from the file of a source broker")
            if source is Source.BUILT_IN and of_target and configured.there.source is Source.TOPIC:
                return drift.ParityVerdict(
                    False, "not set on the source, so config sync takes the override off the target"
                )
            if source is Source.BUILT_IN and of_target:
                why = "not set on the source: each cluster's own default (use_defaults_from: target)"
                return drift.ParityVerdict(True, why)
            return drift.ParityVerdict(False, "config sync keeps it equal, so this is drift")

        return judge


def _given(given: Given, configured: drift.Configured, own: str) -> drift.ParityVerdict:
    """``own``: words for the place where the topic itself sets the value."""
    words = own if given.layer.name == DECLARED else given.layer.words
    if same(configured.key, given.value, configured.there.value):
        return drift.ParityVerdict(True, words)
    return drift.ParityVerdict(False, f"{words} says {human(configured.key, given.value)}")


@dataclass(frozen=True, slots=True)
class _DeclaredRules:
    topology: Topology
    topic: Topic

    def partitions(self, _here: int, _there: int) -> drift.ParityVerdict:
        return _declared("partitions", self.topic.partitions)

    def factor(self, _there: int) -> drift.ParityVerdict:
        return _declared("factor", self.topic.replication_factor)

    def configs(self, pair: drift.Pair) -> Callable[[drift.Configured], drift.ParityVerdict]:
        """Judges the configs of a topic that git declares on both clusters: each side by its own layers."""
        here, there = (
            configs(layers_of(self.topology, ref.cluster, self.topic)) for ref in (pair.ends.source, pair.ends.remote)
        )

        def judge(configured: drift.Configured) -> drift.ParityVerdict:
            mine, theirs = here.get(configured.key), there.get(configured.key)
            if mine is None and theirs is None:
                if Source.TOPIC not in (configured.here.source, configured.there.source):
                    return drift.ParityVerdict(True, "not set on the topic: each cluster's own default")
                why = "set outside git on the topic itself, and not alike: declare it, or take it off"
                return drift.ParityVerdict(False, why)
            given = [(each, config) for each, config in ((mine, configured.here), (theirs, configured.there)) if each]
            for each, config in given:
                if not same(configured.key, each.value, config.value):
                    words = f"{_ONCE}:" if each.layer.name == DECLARED else f"{each.layer.words} says"
                    return drift.ParityVerdict(False, f"{words} {human(configured.key, each.value)}")
            return drift.ParityVerdict(True, " and ".join(dict.fromkeys(each.layer.words for each, _ in given)))

        return judge


def _declared(subject: str, declared: int | None) -> drift.ParityVerdict:
    if declared is not None:
        return drift.ParityVerdict(False, f"{_ONCE}: {declared}")
    why = f"the topic declares no {subject}, so each cluster had its own when the topic was made"
    return drift.ParityVerdict(True, why)


def _compared(pair: drift.Pair, rules: _FlowRules | _DeclaredRules) -> drift.ComparedTopics:
    """Differences between a topic and its copy, each with a verdict: as declared, or not. The replication factor is
    compared only if all partitions of a topic have the same."""
    disparities: list[drift.Disparity] = []
    here, there = len(pair.here.partitions), len(pair.there.partitions)
    if here != there:
        disparities.append(pair.ends.apart("partitions", str(here), str(there), rules.partitions(here, there)))
    factor, other = pair.here.replication_factor, pair.there.replication_factor
    if factor is None or factor != other:
        verdict = drift.ParityVerdict(False, "partitions of one topic differ from each other")
        if factor is not None and other is not None:
            verdict = rules.factor(other)
        disparities.append(pair.ends.apart("replication factor", drift.shown(factor), drift.shown(other), verdict))
    if config_pairs := tuple(drift.differing(pair)):
        judge = rules.configs(pair)
        disparities += (configured.disparity(pair.ends, judge(configured)) for configured in config_pairs)
    return drift.ComparedTopics(tuple(disparities), pair.unread)
