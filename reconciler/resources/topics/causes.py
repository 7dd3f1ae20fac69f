"""Why a topic is not as git declares, as far as facts tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.model.changes import AddPartitions, AlterConfigs, ConfigChange, CreateTopic
from reconciler.model.config_values import same
from reconciler.model.live import Source
from reconciler.model.plan import Planned
from reconciler.model.reports.drift import Cause, History, Line, Told


def cause(planned: Planned, history: History, config: ConfigChange | None) -> Told | None:
    """Of one config, where one is given."""
    change = planned.change
    if isinstance(change, AlterConfigs) and config is not None:
        lines = (*history.changes.get(f"create:{change.ref}", ()), *history.changes.get(planned.id, ()))
        before = sorted(lines, key=lambda line: str(line.get("at", "")))
        if config.undeclared:
            why = f"it comes from the source topic ({config.origin}), and the source's value is in no file: set there by hand"
            return Told(Cause.EDITED_OUTSIDE, why)
        ours = [
            (line, old) for line in before if line.get("result") == "done" for old in _settings_of(line, config.key)
        ]
        desired = config.after if config.goal is None else config.goal
        done = [(line, old) for line, old in ours if same(config.key, old.get("after"), desired)]
        if len(done) > 1 and all(same(config.key, old.get("before"), config.before) for _, old in done[1:]):
            times = f"set {len(done)} times, last by the apply of {done[-1][0].get('at')}"
            return Told(Cause.NORMALISED, f"{times}, and each time the cluster went back to the same other value")
        if ours:
            return _since(*ours[-1], config, desired)
        if config.before_source != Source.TOPIC.value and config.source:
            why = f"the copy has no value of its own, and {config.origin} has one: new there, in git or by hand"
            return Told(Cause.NOT_TOLD, why)
        if config.before_source != Source.TOPIC.value:
            default = f"the cluster's default ({config.before_source}) is not the desired value"
            why = (
                f"the topic has no value of its own, and {default}: one of the two changed, or the desired value is new"
            )
            return Told(Cause.DEFAULT_CHANGED, why)
        return Told(Cause.NOT_TOLD, f"set on the topic, and {history.nobody}: edited outside, or new in git")
    last = history.last(planned.id)
    if last is None or not isinstance(change, AddPartitions | CreateTopic):
        return None
    gone = "the topic is gone or was made anew" if isinstance(change, CreateTopic) else "it has fewer again"
    return Told(Cause.EDITED_OUTSIDE, f"done by the apply of {last.get('at')}, and since then {gone}")


def grown_outside(ref: str, history: History) -> Told:
    """Why a topic has more partitions than git declares."""
    lines = [line for id_ in (f"create:{ref}", f"partitions:{ref}") for line in history.changes.get(id_, ())]
    done = [str(line.get("at")) for line in lines if line.get("result") == "done"]
    if done:
        return Told(Cause.EDITED_OUTSIDE, f"set by the apply of {max(done)}, and partitions were added since then")
    return Told(Cause.NOT_TOLD, "partitions were added outside, or git now declares fewer")


def _since(line: Line, old: Mapping[str, Any], config: ConfigChange, desired: str | None) -> Told:
    """What happened since ``line``, the last run of ours that set it, to the value that ``old`` tells."""
    at, goal = f"the apply of {line.get('at')}", old.get("goal")
    if config.before_source == Source.TOPIC.value and same(config.key, old.get("after"), config.before):
        if goal is not None:
            return Told(Cause.HALF_FINISHED, f"{at} lowered it by one step of several; each further apply goes on")
        return Told(Cause.NOT_TOLD, f"as {at} left it: git declares another value since then")
    if same(config.key, old.get("after") if goal is None else goal, desired):
        return Told(Cause.EDITED_OUTSIDE, f"set by {at}, and changed since then")
    return Told(Cause.NOT_TOLD, f"set otherwise by {at}; since then it was changed, and git declares another value too")


def _settings_of(line: Line, key: str) -> list[Mapping[str, Any]]:
    """What that run did to one config: none or one."""
    change = line.get("change")
    configs = change.get("configs") if isinstance(change, Mapping) else None
    settings = (
        [config for config in configs if isinstance(config, Mapping)] if isinstance(configs, list | tuple) else []
    )
    return [setting for setting in settings if setting.get("key") == key]
