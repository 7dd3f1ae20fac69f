"""Compares the configs of a topic: only declared keys; equal values stay as they are."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.errors import Unknown
from reconciler.model.changes import (
    AlterConfigs,
    ConfigChange,
    Ignored,
    Outside,
    OutsideChange,
    Reason,
    Refused,
    Role,
    Subject,
    Why,
    of_topic,
)
from reconciler.model.config_values import THROTTLES, human, same
from reconciler.model.environment.services import offer_of, service_words
from reconciler.model.environment.topology import Cluster, TopicRef, Undeclared
from reconciler.model.live import ConfigValue, LiveTopic, Source
from reconciler.model.plan import Findings
from reconciler.model.state.lock import WISHES
from reconciler.resources.topics.desired import DesiredTopic
from reconciler.resources.topics.limits import loses_earlier


def compare_configs(
    desired: DesiredTopic,
    topic: LiveTopic,
    fallback: Mapping[str, ConfigValue],
    cluster: Cluster,
    taken_off: Container[tuple[TopicRef, str]] = (),
) -> Findings:
    """``taken_off``: overrides that others have removed since the last apply."""
    if isinstance(topic.configs, Unknown):
        # Unknown stops an apply, so it is reported only if a desired value depends on the failed read.
        resting = desired.configs or desired.reset or desired.undeclared is Undeclared.REMOVE
        if not resting and desired.unreadable is None:
            text = f"whether it has overrides that no file declares is not known: {topic.configs.error}"
            counts = desired.undeclared is Undeclared.DRIFT
            return Findings(ignored=(Ignored(of_topic(desired.ref), "configs-unreadable", text),) if counts else ())
        return Findings(unknown=(_unreadable(desired, topic.configs),))
    if desired.unreadable is not None:
        return Findings(unknown=(desired.unreadable,))
    changes: list[ConfigChange] = []
    refused: list[Refused] = []
    ignored: list[Ignored] = []
    settled: list[Subject] = []
    # Keys that are not ours or cannot be compared are sorted out before the comparison. Only a key that the brokers of
    # this cluster offer becomes a change.
    for key, wanted in sorted(desired.configs.items()):
        entry = topic.configs.get(key)
        if key in THROTTLES:
            ignored.append(throttle(desired.ref, key))
        elif entry is None:
            unknown = unknown_key(desired, key)
            refused += unknown.refused
            ignored += unknown.ignored
        elif entry.sensitive or entry.value is None:
            text = "the broker hides its value, so it is not compared"
            ignored.append(Ignored(of_topic(desired.ref, key), "sensitive", text))
        elif wanted.hold:
            problem = f"{desired.ref}: {wanted.hold}; desired is {human(key, wanted.value)} ({wanted.origin})"
            todo = f"Give it a {key} first that keeps all it has, or lower it in one step without lower_retention_by"
            held_back = Refused(of_topic(desired.ref, key), Reason(Why.RETENTION_WITHOUT_START, problem), todo)
            refused.append(held_back)
        elif same(key, entry.value, wanted.value):
            settled.append(of_topic(desired.ref))
        elif lacking := not_offered(desired, key, cluster, entry.value):
            refused += lacking.refused
            ignored += lacking.ignored
        else:
            change = ConfigChange(key, entry.value, entry.source.value, wanted.value, wanted.origin, wanted.goal)
            changes.append(carried(desired, change, wanted.value))
    # If the source has no override, its copy has none either, and falls back to the values of its own brokers.
    for key in sorted(desired.reset):
        entry = topic.configs.get(key)
        if entry is not None and entry.source is Source.TOPIC:
            below = fallback.get(key)
            origin = f"at its default on {desired.source}{_falls(key, below)}"
            change = ConfigChange(key, entry.value, entry.source.value, None, origin)
            follows = desired.source is not None and (desired.source, key) in taken_off
            changes.append(carried(desired, change, below.value if below else None) if follows else change)
    # Overrides that nothing asks for, apart from those that the cluster's service sets itself.
    overrides = (
        {k for k, v in topic.configs.items() if v.source is Source.TOPIC and k not in desired.configs}
        - desired.reset
        - offer_of(cluster).fixed_configs
    )
    others = sorted(overrides) if overrides else []
    if desired.undeclared is Undeclared.REMOVE:
        for key in (key for key in others if key not in THROTTLES):
            entry = topic.configs[key]
            origin = f"in no file, and undeclared is remove{_falls(key, fallback.get(key))}"
            changes.append(ConfigChange(key, entry.value, entry.source.value, None, origin))
    refused += [lower_limit(desired, config) for config in changes if config.undeclared]
    text = f"{desired.reason.text}; config sync" if desired.role is Role.REMOTE else desired.reason.text
    reason = Reason(Why.CONFIG_DIFFERS, text)
    altered = AlterConfigs(desired.ref, topic.topic_id, tuple(changes), desired.role, reason, desired.depth)
    return Findings(
        changes=(altered,) if changes else (),
        refused=tuple(refused),
        ignored=(*ignored, *_left_alone(desired, topic.configs, others)),
        settled=tuple(settled),
        outside=tuple(_drifted(desired, topic.configs, others)),
    )


def carried(desired: DesiredTopic, change: ConfigChange, after: str | None) -> ConfigChange:
    """The copy's change, marked if the copy would lose records earlier by a value of its source that no file declares.
    ``after``: the value that counts then, None if unknown."""
    undeclared = change.key in desired.in_no_file and loses_earlier(change.key, change.before, after)
    return replace(change, undeclared=True) if undeclared else change


def lower_limit(desired: DesiredTopic, config: ConfigChange) -> Refused:
    """Refuses a limit that was set on the source outside of git, since the copy would lose records by it."""
    key, source = config.key, desired.source
    after = "no override" if config.after is None else human(key, config.after)
    comes = f"would go from {human(key, config.before)} to {after}" if config.before_source else f"would be {after}"
    reason = (
        f"{desired.ref} {key} {comes}, as {source} has it, and the source's value is in no file: the copy would lose or"
        " refuse records by a limit that no one reviewed"
    )
    todo = (
        f"Set {source} back, or take its value into git (drift --accept {source}:{key}), or leave {key} to the copy"
        " (sync_topic_configs.exclude of the flow), or accept once with apply --allow-lower-limits"
    )
    return Refused.of(of_topic(desired.ref, key), Why.UNDECLARED_LOWER_LIMIT, reason, todo)


def _falls(key: str, below: ConfigValue | None) -> str:
    return f", falls back to {human(key, below.value)}" if below else ""


def throttle(ref: TopicRef, key: str) -> Ignored:
    return Ignored(of_topic(ref, key), "throttle", "set and cleared by reassignments, also our own")


def unknown_key(desired: DesiredTopic, key: str) -> Findings:
    """A config that the brokers do not know: ignored from a source of another Kafka version, refused from git."""
    subject, brokers = of_topic(desired.ref, key), f"the brokers of {desired.ref.cluster}"
    if desired.configs[key].origin.startswith("source "):
        text = f"set on {desired.source}, but {brokers} do not have it"
        return Findings(ignored=(Ignored(subject, "not-known-by-target", text),))
    todo = "Correct its name, or remove it for clusters whose Kafka version does not have it"
    return Findings(refused=(Refused.of(subject, Why.UNKNOWN_CONFIG, f"{brokers} have no topic config {key}", todo),))


def not_offered(desired: DesiredTopic, key: str, cluster: Cluster, now: str | None = None) -> Findings | None:
    """Findings for a value that the cluster's service does not let anyone set: refused if git declares it or a mirror
    needs it, left out if it comes from the source or is a mere wish of ours. ``now``: the topic's value; None before it
    exists."""
    subject, wanted = of_topic(desired.ref, key), desired.configs[key]
    if not (why := offer_of(cluster).why_not_set(key, wanted.value, now is None)):
        return None
    compacts = key == "cleanup.policy" and "compact" not in (now or "")
    wish = key in WISHES or (desired.reason.code is Why.MIRROR_NEEDS and not compacts)
    if wanted.origin.startswith("source ") or (desired.role is Role.INTERNAL and wish):
        left = f"{human(key, wanted.value)} ({wanted.origin}) is left out"
        text = f"{left}: {cluster.name} is on {service_words(cluster)}, which {why}"
        return Findings(ignored=(Ignored(subject, "not-offered-by-service", text),))
    text = f"{desired.ref} declares {key} {human(key, wanted.value)}"
    return Findings(refused=(refused_by_service(subject, cluster, text, why),))


def refused_by_service(subject: Subject, cluster: Cluster, wanted: str, why: str) -> Refused:
    text = f"{wanted}, and {cluster.name} is on {service_words(cluster)}, which {why}"
    todo = f"Leave it out for {cluster.name}, or set it with the service's own tools where these can"
    if not cluster.service:
        todo += f"; if it is another service, write service: under cluster {cluster.name}"
    return Refused.of(subject, Why.NOT_OFFERED_BY_SERVICE, text, todo)


def _drifted(
    desired: DesiredTopic, configs: Mapping[str, ConfigValue], overrides: Sequence[str]
) -> Iterator[OutsideChange]:
    """Overrides that no file declares, if ``undeclared`` is drift; throttles of a reassignment do not count."""
    for key in overrides if desired.undeclared is Undeclared.DRIFT else ():
        if key not in THROTTLES:
            in_no_file = "no file declares it, and undeclared is drift"
            shown = _shown(key, configs[key])
            yield OutsideChange(Outside.UNDECLARED, of_topic(desired.ref), key, "in no file", shown, why=in_no_file)


def _shown(key: str, entry: ConfigValue) -> str:
    return "(hidden)" if entry.sensitive else human(key, entry.value)


def _left_alone(desired: DesiredTopic, configs: Mapping[str, ConfigValue], overrides: Sequence[str]) -> list[Ignored]:
    """Overrides that stay, for the plan's list of ignored settings."""
    if not overrides:
        return []
    ignored_settings = [throttle(desired.ref, key) for key in overrides if key in THROTTLES]
    others = [key for key in overrides if key not in THROTTLES]
    if others and desired.undeclared is Undeclared.IGNORE:
        text = ", ".join(f"{key}={_shown(key, configs[key])}" for key in others)
        ignored_settings.append(
            Ignored(of_topic(desired.ref), "undeclared-override", f"set on the topic, not declared: {text}")
        )
    return ignored_settings


def _unreadable(desired: DesiredTopic, failed: Unknown) -> Unknown:
    detail = tuple(f"{desired.ref} {key}" for key in sorted({*desired.configs, *desired.reset}))
    todo = failed.todo or f"Let the plan principal describe the configs of {desired.ref}."
    return Unknown(f"{desired.ref} configs", failed.error, todo, detail)
