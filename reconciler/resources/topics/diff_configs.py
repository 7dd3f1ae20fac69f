"""Compares the configs of a topic: only declared keys; equal values stay as they are."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.errors import Unknown
from reconciler.model.changes import AlterConfigs, ConfigChange, Ignored, Reason, Refused, Role, Why, of_topic
from reconciler.model.changes.findings import Findings, Settled
from reconciler.model.config_values import THROTTLES, human, same
from reconciler.model.live import ConfigValue, LiveTopic, Source
from reconciler.resources.topics.desired import DesiredTopic
from reconciler.resources.topics.expected import DesiredConfig


def compare_configs(desired: DesiredTopic, topic: LiveTopic, fallback: Mapping[str, ConfigValue]) -> Findings:
    subject = str(desired.ref)
    if isinstance(topic.configs, Unknown):
        if not desired.configs and not desired.reset and desired.unreadable is None:
            return Findings()
        return Findings(unknown=(_unreadable(desired, topic.configs),))
    if desired.unreadable is not None:
        return Findings(unknown=(desired.unreadable,))
    changes: list[ConfigChange] = []
    refused: list[Refused] = []
    ignored: list[Ignored] = []
    settled: list[Settled] = []
    for key, wanted in sorted(desired.configs.items()):
        entry = topic.configs.get(key)
        if key in THROTTLES:
            ignored.append(throttle(subject, key))
        elif entry is None:
            refused.extend(unknown_key_refused(desired, key))
            ignored.extend(unknown_key_ignored(desired, key))
        elif entry.sensitive or entry.value is None:
            ignored.append(
                Ignored(f"{subject} {key}", "sensitive", "the broker hides its value, so it is not compared")
            )
        elif wanted.hold:
            refused.append(_held(desired, key, wanted))
        elif same(key, entry.value, wanted.value):
            settled.append(Settled(of_topic(desired.ref), key))
        else:
            changes.append(ConfigChange(key, entry.value, entry.source.value, wanted.value, wanted.origin, wanted.goal))
    for key in sorted(desired.reset):
        entry = topic.configs.get(key)
        if entry is not None and entry.source is Source.TOPIC:
            below = fallback.get(key)
            falls = f", falls back to {human(key, below.value)}" if below else ""
            origin = f"at its default on {desired.source}{falls}"
            changes.append(ConfigChange(key, entry.value, entry.source.value, None, origin))
    altered = AlterConfigs(desired.ref, topic.topic_id, tuple(changes), desired.role, _reason(desired), desired.depth)
    return Findings(
        changes=(altered,) if changes else (),
        refused=tuple(refused),
        ignored=(*ignored, *_left_alone(desired, topic.configs)),
        settled=tuple(settled),
    )


def _held(desired: DesiredTopic, key: str, wanted: DesiredConfig) -> Refused:
    problem = f"{desired.ref}: {wanted.hold}; desired is {human(key, wanted.value)} ({wanted.origin})"
    todo = f"Give it a {key} first that keeps all it has, or lower it in one step without lower_retention_by"
    return Refused(of_topic(desired.ref, key), Reason(Why.RETENTION_WITHOUT_START, problem), todo)


def throttle(subject: str, key: str) -> Ignored:
    return Ignored(f"{subject} {key}", "throttle", "set and cleared by reassignments, also our own")


def unknown_key_refused(desired: DesiredTopic, key: str) -> tuple[Refused, ...]:
    """A config the brokers do not have, asked for by git."""
    if desired.configs[key].origin.startswith("source "):
        return ()
    problem = f"the brokers of {desired.ref.cluster} have no topic config {key}"
    todo = "Correct its name, or remove it for clusters whose Kafka version does not have it"
    return (Refused.of(of_topic(desired.ref, key), Why.UNKNOWN_CONFIG, problem, todo),)


def unknown_key_ignored(desired: DesiredTopic, key: str) -> tuple[Ignored, ...]:
    """A config the brokers do not have, asked for by a source cluster of another Kafka version."""
    if not desired.configs[key].origin.startswith("source "):
        return ()
    text = f"set on {desired.source}, but the brokers of {desired.ref.cluster} do not have it"
    return (Ignored(f"{desired.ref} {key}", "not-known-by-target", text),)


def _reason(desired: DesiredTopic) -> Reason:
    if desired.role is Role.REMOTE:
        return Reason(Why.CONFIG_DIFFERS, f"{desired.reason.text}; config sync")
    return Reason(Why.CONFIG_DIFFERS, desired.reason.text)


def _left_alone(desired: DesiredTopic, configs: Mapping[str, ConfigValue]) -> list[Ignored]:
    overrides = {k for k, v in configs.items() if v.source is Source.TOPIC and k not in desired.configs} - desired.reset
    if not overrides:
        return []
    ignored_settings = [throttle(str(desired.ref), key) for key in sorted(overrides & THROTTLES)]
    if others := sorted(overrides - THROTTLES):
        text = ", ".join(f"{k}={'(hidden)' if configs[k].sensitive else human(k, configs[k].value)}" for k in others)
        ignored_settings.append(
            Ignored(str(desired.ref), "undeclared-override", f"set on the topic, not declared: {text}")
        )
    return ignored_settings


def _unreadable(desired: DesiredTopic, failed: Unknown) -> Unknown:
    detail = tuple(f"{desired.ref} {key}" for key in sorted({*desired.configs, *desired.reset}))
    todo = failed.todo or f"Let the plan principal describe the configs of {desired.ref}."
    return Unknown(f"{desired.ref} configs", failed.error, todo, detail)
