"""Compares the configs of one existing topic. Only wished keys; a value that already holds is left as it is."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.changes import AlterConfigs, ConfigChange, Ignored, Reason, Refused, Role
from reconciler.diffing.findings import Findings, Settled
from reconciler.diffing.wishes import TopicWish
from reconciler.errors import Unknown
from reconciler.live import ConfigValue, LiveTopic, Source
from reconciler.prospects import Wanted
from reconciler.topic_configs import THROTTLES, human, same


def compare_configs(wish: TopicWish, topic: LiveTopic, fallback: Mapping[str, ConfigValue]) -> Findings:
    subject = str(wish.ref)
    if isinstance(topic.configs, Unknown):
        if not wish.configs and not wish.reset and wish.unreadable is None:
            return Findings()
        return Findings(unknown=(_unreadable(wish, topic.configs),))
    if wish.unreadable is not None:
        return Findings(unknown=(wish.unreadable,))
    changes: list[ConfigChange] = []
    refused: list[Refused] = []
    ignored: list[Ignored] = []
    settled: list[Settled] = []
    for key, wanted in sorted(wish.configs.items()):
        entry = topic.configs.get(key)
        if key in THROTTLES:
            ignored.append(throttle(subject, key))
        elif entry is None:
            refused.extend(unknown_key_refused(wish, key))
            ignored.extend(unknown_key_ignored(wish, key))
        elif entry.sensitive or entry.value is None:
            ignored.append(
                Ignored(f"{subject} {key}", "sensitive", "the broker hides its value, so it is not compared")
            )
        elif wanted.hold:
            refused.append(_held(wish, key, wanted))
        elif same(key, entry.value, wanted.value):
            settled.append(Settled(subject, key))
        else:
            changes.append(ConfigChange(key, entry.value, entry.source.value, wanted.value, wanted.origin, wanted.goal))
    for key in sorted(wish.reset):
        entry = topic.configs.get(key)
        if entry is not None and entry.source is Source.TOPIC:
            below = fallback.get(key)
            falls = f", falls back to {human(key, below.value)}" if below else ""
            origin = f"at its default on {wish.source}{falls}"
            changes.append(ConfigChange(key, entry.value, entry.source.value, None, origin))
    altered = AlterConfigs(wish.ref, topic.topic_id, tuple(changes), wish.role, _reason(wish), wish.depth)
    return Findings(
        changes=(altered,) if changes else (),
        refused=tuple(refused),
        ignored=(*ignored, *_left_alone(wish, topic.configs)),
        settled=tuple(settled),
    )


def _held(wish: TopicWish, key: str, wanted: Wanted) -> Refused:
    what = f"{wish.ref}: {wanted.hold}; wished is {human(key, wanted.value)} ({wanted.origin})"
    todo = f"Give it a {key} first that keeps all it has, or lower it in one step without lower_retention_by"
    return Refused(f"{wish.ref} {key}", Reason("retention-without-start", what), todo)


def throttle(subject: str, key: str) -> Ignored:
    return Ignored(
        f"{subject} {key}", "throttle", "set and cleared by whoever moves replicas, also by our own reassignments"
    )


def unknown_key_refused(wish: TopicWish, key: str) -> tuple[Refused, ...]:
    """A config the brokers do not have, asked for by git."""
    if wish.configs[key].origin.startswith("source "):
        return ()
    return (
        Refused(
            f"{wish.ref} {key}",
            Reason("unknown-config", f"the brokers of {wish.ref.cluster} have no topic config {key}"),
            "Correct its name, or remove it for clusters whose Kafka version does not have it",
        ),
    )


def unknown_key_ignored(wish: TopicWish, key: str) -> tuple[Ignored, ...]:
    """A config the brokers do not have, asked for by a source cluster of another Kafka version."""
    if not wish.configs[key].origin.startswith("source "):
        return ()
    text = f"set on {wish.source}, but the brokers of {wish.ref.cluster} do not have it"
    return (Ignored(f"{wish.ref} {key}", "not-known-by-target", text),)


def _reason(wish: TopicWish) -> Reason:
    if wish.role is Role.REMOTE:
        return Reason("config-differs", f"{wish.reason.text}; config sync")
    return Reason("config-differs", wish.reason.text)


def _left_alone(wish: TopicWish, configs: Mapping[str, ConfigValue]) -> list[Ignored]:
    overrides = {k for k, v in configs.items() if v.source is Source.TOPIC and k not in wish.configs} - wish.reset
    if not overrides:
        return []
    found = [throttle(str(wish.ref), key) for key in sorted(overrides & THROTTLES)]
    if others := sorted(overrides - THROTTLES):
        text = ", ".join(f"{k}={'(hidden)' if configs[k].sensitive else human(k, configs[k].value)}" for k in others)
        found.append(Ignored(str(wish.ref), "undeclared-override", f"set on the topic, not wished: {text}"))
    return found


def _unreadable(wish: TopicWish, failed: Unknown) -> Unknown:
    detail = tuple(f"{wish.ref} {key}" for key in sorted({*wish.configs, *wish.reset}))
    todo = failed.todo or f"Let the plan principal describe the configs of {wish.ref}."
    return Unknown(f"{wish.ref} configs", failed.error, todo, detail)
