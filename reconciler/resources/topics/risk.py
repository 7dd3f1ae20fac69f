"""The risk of a topic's change, its reason, and whether the change can be reverted."""

from typing import assert_never

from reconciler.model import changes
from reconciler.model.config_values import human, number
from reconciler.model.environment.topology import TopicRef
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.kind import REVERSIBLE, Assessment, World
from reconciler.resources.protected_names import CONNECT, MIRRORMAKER, REGISTRY, STREAMS, owner_of
from reconciler.resources.topics.limits import todo
from reconciler.text import counted

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
    for flow in world.topology.flows.values():
        source = selector_of(flow).policy.upstream_topic(change.ref.name) if flow.target == change.cluster else None
        live = world.live.known(flow.source) if source else None
        if source is None or live is None or source not in live.topics or selector_of(flow).why_not(source) is not None:
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
