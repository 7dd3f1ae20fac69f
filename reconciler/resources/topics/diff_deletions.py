"""Compares declared deletions (tombstones) with the clusters: name, cluster and id must match. Also points out probable
renames: Kafka renames no topic, so a topic that git no longer declares and a new one like it may be meant as one."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.errors import Unknown
from reconciler.model.changes import Change, CreateTopic, DeleteTopic, Reason, Refused, Role, Why, of_topic
from reconciler.model.config_values import same
from reconciler.model.environment.topology import Tombstone, TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveState, LiveTopic
from reconciler.model.plan import Findings
from reconciler.resources.flows.routes import sources_among
from reconciler.resources.protected_names import is_protected
from reconciler.resources.topics.desired import DesiredTopic
from reconciler.text import counted


def without_doomed(topology: Topology, live: LiveState) -> LiveState:
    """``live`` after the tombstones are carried out, so that no flow plans with a topic that is deleted."""
    doomed = {stone.ref for stone in topology.deletions if _applies(stone, live)}
    if not doomed:
        return live
    clusters: dict[str, LiveCluster | Unknown] = {}
    for name, cluster in live.clusters.items():
        if isinstance(cluster, LiveCluster):
            present = {
                topic: live_topic for topic, live_topic in cluster.topics.items() if TopicRef(name, topic) not in doomed
            }
            cluster = replace(cluster, topics=present)
        clusters[name] = cluster
    return LiveState(clusters, live.mirrors)


def compare_tombstones(
    topology: Topology, live: LiveState, desired_topics: Mapping[TopicRef, DesiredTopic]
) -> Iterator[Findings]:
    # A chain of copies is deleted in the order of its hops, so each topic gets its number of hops from the first one
    # that goes.
    """Deletions by tombstones, from the source of a chain of copies to its end. One that is bound to another topic id
    deletes nothing."""
    doomed = [stone.ref for stone in topology.deletions if _applies(stone, live)]
    sources = sources_among(topology, doomed)
    depths = dict.fromkeys(doomed, 0)
    for _ in topology.clusters:  # no chain is longer; a ring would never end
        depths |= {remote: 1 + max(depths[topic] for topic in topics) for remote, topics in sources.items()}
    for stone in sorted(topology.deletions, key=lambda stone: stone.ref):
        cluster, ref = live.known(stone.cluster), stone.ref
        if cluster is None:
            continue
        topic = cluster.topics.get(stone.topic)
        if topic is None and (hidden := cluster.hidden.get(stone.topic)) is not None:
            yield Findings(unknown=(replace(hidden, detail=(f"tombstone of {ref}",)),))
        elif topic is None:
            note = f"{ref} has a tombstone and is gone: the tombstone ({stone.where}) can be removed"
            yield Findings(settled=(of_topic(ref),), notes=(note,))
        elif refused := _refusal(stone, topic, desired_topics.get(ref)):
            yield Findings(refused=(refused,))
        else:
            reason = Reason(Why.TOMBSTONE, f"tombstone in {stone.where}: {stone.reason}")
            count, depth = len(topic.partitions), depths.get(ref, 0)
            yield Findings(changes=(DeleteTopic(ref, topic.topic_id, count, stone.expires, reason, depth),))


def _applies(stone: Tombstone, live: LiveState) -> bool:
    topic = live.topic(stone.ref)
    return topic is not None and topic.topic_id == stone.topic_id and not stone.expired


def _refusal(stone: Tombstone, topic: LiveTopic, desired: DesiredTopic | None) -> Refused | None:
    """Why a tombstone must not be carried out; the surest mistake first: its id is of another topic, the topic is
    protected, the date has passed, or a flow or file would create the topic again."""
    if topic.topic_id != stone.topic_id:
        problem = (
            f"the tombstone of {stone.ref} is for topic id {stone.topic_id}, but {topic.topic_id} is there: it was"
            " created again, or the entry meant another topic"
        )
        todo = "Remove the tombstone, or check the topic and write its id"
        return Refused(of_topic(stone.ref), Reason(Why.TOMBSTONE_OTHER_ID, problem), todo)
    if topic.internal or is_protected(stone.topic):
        problem = f"{stone.ref} is an internal topic and cannot be deleted"
        return Refused(of_topic(stone.ref), Reason(Why.TOMBSTONE_PROTECTED, problem), "Remove the tombstone")
    if stone.expired:
        problem = f"the tombstone of {stone.ref} counted until {stone.expires}, and the topic is still there"
        todo = "Agree again and write a new date, or remove the tombstone"
        return Refused(of_topic(stone.ref), Reason(Why.TOMBSTONE_EXPIRED, problem), todo)
    # Last, because only this reason can pass by itself: the next plan may no longer want the topic.
    if desired is None:
        return None
    problem = f"{stone.ref} has a tombstone, but would be made again: {desired.reason.text}"
    todo = "Exclude its source from the flow, or delete the source first"
    if desired.role is Role.INTERNAL:
        todo = "Remove the tombstone"
    return Refused(of_topic(stone.ref), Reason(Why.TOMBSTONE_STILL_WISHED, problem), todo)


STAYS = "records and readers stay behind on {old}, which is no longer managed, and {new} begins empty"
WAY = (
    "Kafka cannot rename a topic. Let producers write to the new one, let readers finish the old one and change over,"
    " then delete the old one by a tombstone; if you meant the old name, put it back"
)


def renamed_topics(
    changes: Iterable[Change], unmanaged: Collection[TopicRef], declared_before: Collection[str], live: LiveState
) -> Iterator[str]:
    """A note for each new topic that is like one which only the last apply declared. ``declared_before``:
    ``cluster/name`` each."""
    left = [(ref, topic) for ref in unmanaged if str(ref) in declared_before and (topic := live.topic(ref))]
    new = [change for change in changes if isinstance(change, CreateTopic) and change.role is Role.DECLARED]
    pairs = [
        (ref, change) for ref, topic in left for change in new if ref.cluster == change.cluster and _like(change, topic)
    ]
    olds, news = Counter(ref for ref, _ in pairs), Counter(change.ref for _, change in pairs)
    for ref, change in pairs:
        if olds[ref] == news[change.ref] == 1:  # with more candidates it could be any of them
            alike = f"both {counted(change.partitions, 'partition')}, the same configs"
            yield (
                f"{change.ref} is new and looks like {ref} under another name ({alike}):"
                f" {STAYS.format(old=ref.name, new=change.ref.name)}. {WAY}"
            )


def _like(change: CreateTopic, topic: LiveTopic) -> bool:
    """Equal partitions and overrides: in the files, a rename looks like a deletion and a creation."""
    configs = {config.key: config.after for config in change.configs}
    alike = configs.keys() == topic.overrides.keys()
    return (
        change.partitions == len(topic.partitions)
        and alike
        and all(same(key, value, configs[key]) for key, value in topic.overrides.items())
    )
