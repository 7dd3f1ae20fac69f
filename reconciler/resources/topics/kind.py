"""The kind of topics: their changes, their risks, and how a difference from git came to be."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, assert_never

from reconciler.errors import Unknown
from reconciler.model import changes
from reconciler.model.config_values import human, number, same
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveCluster, LiveTopic, Source
from reconciler.model.plan import Planned
from reconciler.model.ports import ClusterAdmin
from reconciler.model.reports.drift import Cause, Deviation, FoundCause, History, Line, recorded
from reconciler.resources.flows.routes import is_copy, selector_of
from reconciler.resources.kind import ABSENT, REVERSIBLE, Assessment, Kind, World, of_clusters, of_topics, tally
from reconciler.resources.protected_names import CONNECT, MIRRORMAKER, REGISTRY, STREAMS, owner_of
from reconciler.resources.topics.defaults import DECLARED
from reconciler.resources.topics.limits import todo
from reconciler.text import counted

# The risk of a topic's change, its reason, and whether the change can be reverted.

DATA_LOSS = "irreversible: records that expire are gone"
GONE = "irreversible: its records and its id are gone"
GROWTH = "irreversible: Kafka cannot remove partitions"
_RETENTION = ("retention.ms", "retention.bytes")
_ORDER = (changes.Risk.LOW, changes.Risk.MEDIUM, changes.Risk.HIGH)


def assess(change: changes.TopicChange, world: World) -> Assessment:
    """Risk, reason and way back of a change, by its effect on records and their readers."""
    match change:
        case changes.CreateTopic():
            # ``less``: settings by which the copy keeps or accepts less than its source. ``application``: the owner of
            # the source, or empty.
            less = world.kept_less.get(change.ref, ())
            application = _of_an_application(change, world)
            lasting = "reversible while no one has written to it"
            words = [application] if application else []
            if less:
                said = "; ".join(each.words for each in less)
                words.append(f"{said}. {todo([each.written for each in less], less)}")
            if not words:
                return Assessment(changes.Risk.LOW, "", lasting)
            risk = changes.Risk.HIGH if application or any(each.loses for each in less) else changes.Risk.MEDIUM
            return Assessment(risk, "; ".join(words), lasting)
        case changes.AddPartitions():
            if change.depth > 0:
                return Assessment(changes.Risk.LOW, "each record keeps the partition it has at the source", GROWTH)
            moved = f"keys move to other partitions when {change.before} become {change.after}"
            if keyed := _keyed(change.ref, world):
                harm = "so old and new records of one key are no longer in order, nor compacted together"
                return Assessment(changes.Risk.HIGH, f"{moved}; {keyed}, {harm}", GROWTH)
            return Assessment(changes.Risk.MEDIUM, f"{moved}; consumers that rely on the order of a key notice", GROWTH)
        case changes.AlterConfigs():
            # The value after an override is removed is known if another topic of the cluster shows it.
            taken_off = [config.key for config in change.configs if config.after is None]
            below = world.fallbacks(change.cluster) if taken_off else {}
            shown = {key: below[key].value for key in taken_off if key in below}
            assessments = [assess_config(config, shown.get(config.key)) for config in change.configs]
            worst = max(assessments, key=lambda assessment: _ORDER.index(assessment.risk))
            lasting = next((each.reversibility for each in assessments if each.reversibility != REVERSIBLE), REVERSIBLE)
            return Assessment(worst.risk, "; ".join(each.why for each in assessments if each.why), lasting)
        case changes.DeleteTopic():
            records = f"all records of its {counted(change.partitions, 'partition')} are deleted"
            why = f"{records}; remote topics of other clusters stay as they are"
            return Assessment(changes.Risk.HIGH, why, GONE)
        case _:
            assert_never(change)


EXCLUDE = "leave it out with exclude_topics of flow"
_STATE_OF = {
    STREAMS: "Kafka Streams keeps the state of an application in its source",
    CONNECT: "Kafka Connect keeps its configs, offsets or status in its source",
    REGISTRY: "a schema registry keeps its schemas in its source, and one on this side would write here as well",
    MIRRORMAKER: "MirrorMaker 2 keeps its own state in its source",
}


def _of_an_application(change: changes.CreateTopic, world: World) -> str:
    """The owner of a copy's source, in words, if the copy is probably not meant; else empty."""
    if change.role is not changes.Role.REMOTE:
        return ""
    for flow in (flow for flow in world.topology.flows.values() if flow.target == change.cluster):
        selector, live = selector_of(flow), world.live.known(flow.source)
        source = selector.policy.upstream_topic(change.ref.name)
        # Flows of several sources have copies of one name, each under another alias.
        if source is None or live is None or source not in live.topics or not is_copy(selector, change.ref.name):
            continue
        owner = owner_of(source, live.topics)
        if owner and not (owner == MIRRORMAKER and flow.mirrormaker_topics.heartbeats):
            kept = _STATE_OF.get(owner, f"{owner} manages its source")
            return f"{kept}: {EXCLUDE} {flow.name}, unless the copy is intended"
    return ""


def on_nothing(change: changes.AddPartitions | changes.AlterConfigs, assessment: Assessment) -> Assessment:
    """``assessment`` for a topic that has no records now, so none can be lost. A setting that endangers later records
    (unclean elections) keeps its risk."""
    if assessment.risk is not changes.Risk.HIGH:
        return assessment
    if isinstance(change, changes.AlterConfigs) and any(
        config.key not in (*_RETENTION, "cleanup.policy") and assess_config(config).risk is changes.Risk.HIGH
        for config in change.configs
    ):
        return assessment
    lasting = GROWTH if isinstance(change, changes.AddPartitions) else "reversible while no one has written to it"
    return Assessment(changes.Risk.MEDIUM, f"it holds no record now; {assessment.why}", lasting)


def _keyed(ref: TopicRef, world: World) -> str:
    """Why the topic's records must be assumed to have keys, or empty."""
    desired, topic = world.topology.topics.get(ref.name), world.live.topic(ref)
    if desired is not None and desired.labels.get("keyed", "").lower() in ("true", "yes"):
        return "the topic is labelled keyed"
    if topic is not None and isinstance(topic.configs, Unknown):
        return "the topic may be compacted (its configs could not be read)"
    policy = topic.config("cleanup.policy") if topic else None
    return "the topic is compacted" if "compact" in (policy or "") else ""


def assess_config(change: changes.ConfigChange, fallback: str | None = None) -> Assessment:
    """``fallback``: the value after an override is removed, None if unknown."""
    key, value = change.key, fallback if change.after is None else change.after
    before, after = number(change.before), number(value)
    shown = f"{key} {human(key, change.before)} -> {human(key, value)}"
    if key in _RETENTION and value is None:
        return Assessment(changes.Risk.HIGH, f"{key} falls back to the cluster's value, which may keep less", DATA_LOSS)
    lowered = before is not None and after is not None and after < before
    if key in _RETENTION and lowered:
        return Assessment(changes.Risk.HIGH, f"{shown}: records beyond the new limit are deleted at once", DATA_LOSS)
    if key == "cleanup.policy":
        return Assessment(changes.Risk.HIGH, f"{shown}: other records are deleted than before", DATA_LOSS)
    if key == "unclean.leader.election.enable" and value == "true":
        return Assessment(changes.Risk.HIGH, "acknowledged records can be lost when a leader fails", DATA_LOSS)
    if key == "min.insync.replicas" and before != after:
        why = "fewer replicas must have a record" if lowered else "producers fail sooner when replicas are missing"
        return Assessment(changes.Risk.MEDIUM, f"{shown}: {why}")
    if key == "max.message.bytes" and lowered:
        return Assessment(changes.Risk.MEDIUM, f"{shown}: larger records are refused from now on")
    return Assessment(changes.Risk.LOW)


_MISSING = {
    changes.Role.DECLARED: "topic-missing",
    changes.Role.REMOTE: "remote-topic-missing",
    changes.Role.INTERNAL: "internal-missing",
}


def place(change: changes.TopicChange) -> tuple[int, str]:
    """The deepest hop first; deletions take a source before its remote topics."""
    if isinstance(change, changes.DeleteTopic):
        return change.depth, change.ref.name
    return -max(change.depth, 1), change.ref.name  # internal topics come with the first hop


def rests_on(change: changes.TopicChange, sources: Mapping[TopicRef, TopicRef]) -> Iterator[changes.Subject]:
    for ref in (change.ref, sources[change.ref]) if change.ref in sources else (change.ref,):
        yield changes.Subject(changes.About.TOPIC_STATE, ref.cluster, ref.name)
        yield changes.Subject(changes.About.CLUSTER, ref.cluster)


def topic_state(topic: LiveTopic | None) -> str:
    """Everything that a plan of the topic depends on, as text: an apply refuses if it has changed since."""
    if topic is None:
        return ABSENT
    factor = topic.replication_factor or "mixed"
    overrides = ", ".join(f"{key}={value}" for key, value in sorted(topic.overrides.items())) or "no overrides"
    if isinstance(topic.configs, Unknown):
        overrides = "configs unreadable"
    return (
        f"id {topic.topic_id}, {counted(len(topic.partitions), 'partition')}, replication factor {factor}, {overrides}"
    )


def cluster_state(cluster: LiveCluster, _: str) -> str:
    return f"cluster id {cluster.cluster_id}"


def is_safe(change: changes.TopicChange, risk: changes.Risk) -> bool:
    """Whether the loop may do it on its own: low risks of remote topics, never a deletion."""
    return (
        not isinstance(change, changes.DeleteTopic) and change.role is changes.Role.REMOTE and risk == changes.Risk.LOW
    )


def confirm(
    admin: ClusterAdmin, planned: Sequence[changes.TopicChange]
) -> Callable[[changes.TopicChange], bool | None]:
    cluster = admin.read([change.ref.name for change in planned])
    return lambda change: landed(change, cluster)


def landed(change: changes.TopicChange, cluster: LiveCluster) -> bool | None:
    """Whether the cluster is already as the change wants it, even if the response was lost. None: it cannot be seen."""
    topic = cluster.topics.get(change.ref.name)
    if change.ref.name in cluster.hidden:
        return None
    if isinstance(change, changes.DeleteTopic):
        return topic is None or topic.topic_id != change.topic_id
    if topic is None:
        return False
    match change:
        case changes.CreateTopic():
            return change.partitions in (-1, len(topic.partitions))
        case changes.AddPartitions():
            return topic.topic_id == change.topic_id and len(topic.partitions) >= change.after
        case changes.AlterConfigs():
            if isinstance(topic.configs, Unknown):
                return None
            return all(same(config.key, topic.overrides.get(config.key), config.after) for config in change.configs)
        case _:
            assert_never(change)


def deviations(change: changes.TopicChange) -> Iterator[Deviation]:
    """For ``drift``: desired and live values, and who desires them."""
    subject = str(change.ref)
    match change:
        case changes.CreateTopic():
            yield Deviation(subject, _MISSING[change.role], change.shape, "no topic", _of_whom(change))
        case changes.AddPartitions():
            desired, text = counted(change.after, "partition"), counted(change.before, "partition")
            yield Deviation(subject, "partitions", desired, text, _of_whom(change))
        case changes.AlterConfigs():
            for config in change.configs:
                aim = config.after if config.goal is None else config.goal
                desired = f"no override ({config.origin})" if aim is None else human(config.key, aim)
                text = f"{human(config.key, config.before)} ({config.before_source})"
                origin = "" if config.after is None else _origin(config.origin)
                yield Deviation(f"{subject} {config.key}", "config", desired, text, origin, config)
        case changes.DeleteTopic():
            text = f"{counted(change.partitions, 'partition')}, topic id {change.topic_id}"
            yield Deviation(subject, "tombstone-not-carried-out", "no topic", text)
        case _:
            assert_never(change)


def _of_whom(change: changes.CreateTopic | changes.AddPartitions) -> str:
    if change.role is changes.Role.DECLARED:
        return ""
    return "remote topic of a flow" if change.role is changes.Role.REMOTE else change.reason.text


def _origin(text: str) -> str:
    """Remote topics get the same words, whatever their sources are called."""
    who, _, more = text.partition(", ")
    if who == DECLARED:
        return ""
    who = "its source" if who.startswith("source ") else who
    return f"{who}, {more}" if more else who


NOUNS = {
    changes.CreateTopic: "topic",
    changes.AddPartitions: "partition count",
    changes.AlterConfigs: "config",
    changes.DeleteTopic: "topic",
}


def cause(planned: Planned, history: History, config: changes.ConfigChange | None) -> FoundCause | None:
    """How the difference came to be, as far as the audit record and the cluster show it: of one config, where
    ``config`` is given, else of the whole topic. None: nothing is known of it."""
    change = planned.change
    if isinstance(change, changes.AlterConfigs) and config is not None:
        lines = (*history.changes.get(f"create:{change.ref}", ()), *history.changes.get(planned.id, ()))
        before = sorted(lines, key=lambda line: str(line.get("at", "")))
        if config.undeclared:
            why = f"it comes from the source topic ({config.origin}), and the source's value is in no file"
            return FoundCause(Cause.EDITED_OUTSIDE, f"{why}: set there manually")
        ours = [
            (line, old)
            for line in before
            if line.get("result") == "done"
            for old in recorded(line, "configs")
            if old.get("key") == config.key
        ]
        desired = config.after if config.goal is None else config.goal
        done = [(line, old) for line, old in ours if same(config.key, old.get("after"), desired)]
        # If a value comes back after each apply, the cluster sets it, not a person: another apply would not help.
        if len(done) > 1 and all(same(config.key, old.get("before"), config.before) for _, old in done[1:]):
            times = f"set {len(done)} times, last by the apply of {done[-1][0].get('at')}"
            return FoundCause(Cause.NORMALISED, f"{times}, and each time the cluster went back to the same other value")
        # Else the newest apply that set the config is the last known state, and what differs from it came later.
        if ours:
            return _since(*ours[-1], config, desired)
        if config.before_source != Source.TOPIC.value and config.source:
            why = f"the copy has no value of its own, and {config.origin} has one: new there, in git or manually"
            return FoundCause(Cause.UNDETERMINED, why)
        if config.before_source != Source.TOPIC.value:
            default = f"the cluster's default ({config.before_source}) is not the desired value"
            why = (
                f"the topic has no value of its own, and {default}: one of the two changed, or the desired value is new"
            )
            return FoundCause(Cause.DEFAULT_CHANGED, why)
        return FoundCause(Cause.UNDETERMINED, f"set on the topic, and {history.no_run}: edited outside, or new in git")
    if isinstance(change, changes.AddPartitions):
        return _too_few(change, history)
    last = history.last(planned.id)
    if last is None or not isinstance(change, changes.CreateTopic):
        return None
    why = f"done by the apply of {last.get('at')}, and since then the topic is gone or was created again"
    return FoundCause(Cause.EDITED_OUTSIDE, why)


def _too_few(change: changes.AddPartitions, history: History) -> FoundCause | None:
    """Why a topic has fewer partitions than desired."""
    lines = [line for id_ in (f"create:{change.ref}", change.id) for line in history.changes.get(id_, ())]
    done = [(str(line.get("at")), _count_of(line)) for line in lines if line.get("result") == "done"]
    at, ours = max(done, default=("", None))
    if ours is not None and ours > change.before:
        why = f"the apply of {at} left {counted(ours, 'partition')}, so the topic was recreated with fewer"
        return FoundCause(Cause.EDITED_OUTSIDE, why)
    if history.cut_off or history.overtaken:
        return None
    if change.reason.code in (changes.Why.SOURCE_HAS_MORE_PARTITIONS, changes.Why.SOURCE_GETS_MORE_PARTITIONS):
        return FoundCause(Cause.UNDETERMINED, "its source has more now: added there, in git or manually")
    if ours == change.before:
        return FoundCause(Cause.UNDETERMINED, f"as the apply of {at} left it: git declares another value since then")
    return None


def _count_of(line: Line) -> int | None:
    """Partitions that a change left."""
    change = line.get("change")
    count = change.get("after", change.get("partitions")) if isinstance(change, Mapping) else None
    return count if isinstance(count, int) else None


def grown_outside(ref: str, history: History) -> FoundCause:
    """Why a topic has more partitions than git declares."""
    lines = [line for id_ in (f"create:{ref}", f"partitions:{ref}") for line in history.changes.get(id_, ())]
    done = [str(line.get("at")) for line in lines if line.get("result") == "done"]
    if done:
        return FoundCause(
            Cause.EDITED_OUTSIDE, f"set by the apply of {max(done)}, and partitions were added since then"
        )
    return FoundCause(Cause.UNDETERMINED, "partitions were added outside, or git now declares fewer")


def _since(line: Line, old: Mapping[str, Any], config: changes.ConfigChange, desired: str | None) -> FoundCause:
    """The cause of a difference since ``line``, our last run that set the value, which recorded ``old``."""
    at, goal = f"the apply of {line.get('at')}", old.get("goal")
    if config.before_source == Source.TOPIC.value and same(config.key, old.get("after"), config.before):
        if goal is not None:
            return FoundCause(
                Cause.HALF_FINISHED, f"{at} lowered it by one step of several; each further apply continues"
            )
        return FoundCause(Cause.UNDETERMINED, f"as {at} left it: git declares another value since then")
    if same(config.key, old.get("after") if goal is None else goal, desired):
        return FoundCause(Cause.EDITED_OUTSIDE, f"set by {at}, and changed since then")
    return FoundCause(
        Cause.UNDETERMINED, f"set otherwise by {at}; since then it was changed, and git declares another value too"
    )


KIND: Kind[changes.TopicChange] = Kind(
    name=changes.KindName.TOPICS,
    changes=(changes.CreateTopic, changes.AddPartitions, changes.AlterConfigs, changes.DeleteTopic),
    assess=assess,
    place=place,
    rests_on=rests_on,
    states={changes.About.TOPIC_STATE: of_topics(topic_state), changes.About.CLUSTER: of_clusters(cluster_state)},
    is_safe=is_safe,
    takes_away=(changes.DeleteTopic,),
    confirm=confirm,
    deviations=deviations,
    cause=cause,
    counts=lambda planned: tally(planned, NOUNS),
)
