"""Accepts drift: writes the live value of a declared field into its YAML, at the place where it is declared, and an
override that stands in no file among the configs of its topic.

Only the value's own characters change, so comments, order and layout stay. The result is loaded again and must differ
from before in exactly the accepted fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.environment.adopt.topics import undeclarable, written
from reconciler.environment.adopt.write import value as yaml_value
from reconciler.environment.load import load
from reconciler.environment.yaml.edit import keys_at, place_of, with_entry
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.config_values import THROTTLES, canonical, human, same
from reconciler.model.environment.topology import Topic, Topology, Undeclared, by_name
from reconciler.model.live import LiveState, LiveTopic
from reconciler.resources.topics.defaults import Layers, configs, layers_of, undeclared

IN_NO_FILE = "in no file"
PARTITIONS = "partitions"
FACTOR = "replication_factor"

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Accepted:
    """One field of one topic. ``text`` is what is written, ``found`` what it means to Kafka."""

    topic: str
    field: str
    before: str
    text: str
    found: str

    def __str__(self) -> str:
        return f"{self.topic} {self.field}: {self.before} becomes {self.text}"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """``texts``: the whole new text of each file that changes."""

    accepted: tuple[Accepted, ...]
    texts: Mapping[str, str]


def accept(texts: Mapping[str, str], topology: Topology, live: LiveState, subjects: Sequence[str]) -> Acceptance:
    """``subjects``: ``CLUSTER/TOPIC`` for all its declared fields that differ, or ``CLUSTER/TOPIC:FIELD`` for one.

    Raises ReconcilerError with everything that cannot be accepted; then nothing is to be written.
    """
    accepted: dict[tuple[str, str], Accepted] = {}
    refused: list[str] = []
    for subject in subjects:
        entries, why = _wanted(subject, topology, live)
        refused += [f"{subject}: {name}" for name in why]
        accepted |= {(accepted.topic, accepted.field): accepted for accepted in entries}
    if not refused:
        changed, refused = _written(texts, topology, accepted.values())
    if refused:
        raise ReconcilerError(
            "nothing was accepted, no file was changed",
            "\n".join(f"  {name}" for name in refused),
            "Leave these out, or edit the files by hand.",
        )
    _require_only(topology, load({**texts, **changed}, topology.environment, expired_too=True), accepted.values())
    return Acceptance(tuple(accepted.values()), changed)


def _wanted(subject: str, topology: Topology, live: LiveState) -> tuple[list[Accepted], list[str]]:
    place, _, field = subject.replace(" ", ":", 1).partition(":")
    cluster, sign, name = place.partition("/")
    desired = topology.topics.get(name)
    if not sign or not name:
        return [], ["write CLUSTER/TOPIC, or CLUSTER/TOPIC:FIELD for one of its fields"]
    if desired is None or cluster not in desired.clusters:
        description = "no topic of this name is declared there"
        return [], [f"{description}; a remote topic follows its source, and what is not declared is left as it is"]
    topics = _there(desired, live, cluster)
    if isinstance(topics, str):
        return [], [topics]
    counts = [name for name, count in ((PARTITIONS, desired.partitions), (FACTOR, desired.replication_factor)) if count]
    layers = layers_of(topology, cluster, desired)
    fields = [field] if field else [*counts, *sorted({*desired.configs, *_drifted(layers, topics[cluster])})]
    accepted: list[Accepted] = []
    refused: list[str] = []
    for text in fields:
        told = _field(desired, text, layers, topics)
        if isinstance(told, Accepted):
            accepted.append(told)
        elif told or field:
            refused.append(told or f"{text} does not differ")
    if not accepted and not refused:
        description = "none of the fields declared on the topic itself differs"
        refused.append(f"{description}; values of classes and defaults are edited where they are written")
    return accepted, refused


def _there(desired: Topic, live: LiveState, asked: str) -> Mapping[str, LiveTopic] | str:
    """The topic on each of its clusters, ``asked`` first, or why nothing can be said of it."""
    topics: dict[str, LiveTopic] = {}
    for cluster in (asked, *(name for name in desired.clusters if name != asked)):
        known = live.known(cluster)
        also = "" if cluster == asked else f"the declaration also counts on {cluster}: "
        if known is None:
            return f"{also}cluster {cluster} could not be read"
        if desired.name in known.hidden:
            return f"{also}cluster {cluster} does not show whether it has it"
        if desired.name not in known.topics:
            todo = "the next apply makes it; to agree that it is gone, take it out of the file"
            return f"{also}the topic is not on cluster {cluster}: it was deleted, or no apply has made it yet; {todo}"
        topics[cluster] = known.topics[desired.name]
    return topics


def _drifted(layers: Layers, topic: LiveTopic) -> list[str]:
    """Overrides that no file declares, where these count as drift."""
    if undeclared(layers) is not Undeclared.DRIFT:
        return []
    return [key for key in topic.overrides.keys() - configs(layers).keys() if key not in THROTTLES]


def _field(desired: Topic, field: str, layers: Layers, topics: Mapping[str, LiveTopic]) -> Accepted | str:
    """What to write, or why not; empty when it does not differ on any cluster of the topic. ``layers``: of the cluster
    that was asked for."""
    everywhere = list(topics.values())
    if field == PARTITIONS:
        return _count(desired, field, desired.partitions, topics, [len(topic.partitions) for topic in everywhere])
    if field == FACTOR:
        return _count(
            desired, field, desired.replication_factor, topics, [topic.replication_factor for topic in everywhere]
        )
    if field not in desired.configs and (field in configs(layers) or field not in everywhere[0].overrides):
        return f"{field} is not declared on the topic itself; a default of the cluster or flow is edited by hand"
    return _config(desired, field, topics)


def _count(
    desired: Topic, field: str, declared: int | None, clusters: Iterable[str], value: Sequence[int | None]
) -> Accepted | str:
    """``value``: on each cluster of the topic; None where its partitions differ."""
    if declared is None:
        return f"{field} is not declared on the topic itself"
    if set(value) == {declared}:
        return ""
    if len(set(value)) > 1 or value[0] is None:
        return _apart(field, [str(count or "mixed") for count in value], clusters)
    return Accepted(desired.name, field, str(declared), str(value[0]), str(value[0]))


def _config(desired: Topic, key: str, topics: Mapping[str, LiveTopic]) -> Accepted | str:
    """Also of one that is set on the topic and stands in no file."""
    names: list[str] = []
    for cluster, topic in topics.items():
        entry = None if isinstance(topic.configs, Unknown) else topic.configs.get(key)
        if entry is None or entry.value is None or key in THROTTLES:
            return f"{key} on {cluster} could not be read, or is not known or hidden there"
        if wrong := undeclarable(topic, key, entry.value):
            return f"{key} is {entry.value} on {cluster}: {wrong}"
        names.append(entry.value)
    declared = desired.configs.get(key)
    if declared is not None and all(same(key, name, declared) for name in names):
        return ""
    if not all(same(key, name, names[0]) for name in names):
        return _apart(key, [human(key, name) for name in names], topics)
    before = IN_NO_FILE if declared is None else human(key, declared)
    return Accepted(desired.name, key, before, written(key, names[0]), names[0])


def _apart(field: str, values: Sequence[str], clusters: Iterable[str]) -> str:
    join = ", ".join(f"{value} on {cluster}" for cluster, value in zip(clusters, values, strict=True))
    return f"one declaration counts for all its clusters, but {field} is {join}"


def _written(
    texts: Mapping[str, str], topology: Topology, accepted: Iterable[Accepted]
) -> tuple[dict[str, str], list[str]]:
    changed: dict[str, str] = {}
    refused: list[str] = []
    for value in accepted:
        where = topology.topics[value.topic].where
        text = changed.get(where.file, texts[where.file])
        topic = ("topics", value.topic)
        path = (*topic, value.field) if value.field in (PARTITIONS, FACTOR) else (*topic, "configs", value.field)
        place = place_of(text, *path)
        if place is None and value.before == IN_NO_FILE:
            done = _added(text, value)
        elif place is not None and place.scalar and "\n" not in text[place.value : place.end]:
            old = text[place.value : place.end]
            done = text[: place.value] + _as_before(old, value.text) + text[place.end :]
        else:
            done = None
        if done is None:
            how = "as a list, through an alias, or over several lines, which is edited by hand only"
            line = f"{value.field}: {_as_before('', value.text)}"
            at = place.where(where.file, text) if place is not None else where
            refused.append(f"{value.topic} {value.field}: it is written at {at} {how}; the live value is {line}")
        else:
            changed[where.file] = done
    return changed, refused


def _added(text: str, accepted: Accepted) -> str | None:
    """``text`` with one more config of its topic, in quotes where its neighbours are; None without a plain place."""
    topic = ("topics", accepted.topic)
    there = keys_at(text, *topic)
    neighbours = keys_at(text, *topic, "configs") or there
    quoted = '"' in (text[offset] for offset in neighbours.values())
    key, value = (json.dumps(part) if quoted else yaml_value(part) for part in (accepted.field, accepted.text))
    if "configs" in there:
        return with_entry(text, f"{key}: {value}", *topic, "configs")
    return with_entry(text, f"{json.dumps('configs') if quoted else 'configs'}: {{{key}: {value}}}", *topic)


def _as_before(old: str, new: str) -> str:
    """``new`` quoted as ``old`` was: a file that is also JSON stays that, and a plain ``false`` or number plain."""
    match old[:1]:
        case '"':
            return json.dumps(new, ensure_ascii=False)
        case "'":
            return "'" + new.replace("'", "''") + "'"
    plain = {old, new} <= {"true", "false"} or (_NUMBER.fullmatch(old) and _NUMBER.fullmatch(new))
    return new if plain else yaml_value(new)


def _require_only(before: Topology, after: Topology, accepted: Iterable[Accepted]) -> None:
    """An anchor shared by several topics would carry the value further: then nothing is written."""
    topics = dict(before.topics)
    for value in accepted:
        topic = topics[value.topic]
        if value.field == PARTITIONS:
            topics[value.topic] = replace(topic, partitions=int(value.found))
        elif value.field == FACTOR:
            topics[value.topic] = replace(topic, replication_factor=int(value.found))
        else:
            topics[value.topic] = replace(topic, configs={**topic.configs, value.field: value.found})
    asked, written = (_plain(topology) for topology in (replace(before, topics=by_name(topics.values())), after))
    if asked != written:
        named = ", ".join(f"{it.topic} {it.field} (topic at {before.topics[it.topic].where})" for it in accepted)
        from deepdiff import DeepDiff  # imported in 0.1 s, which only these words are worth

        others = ", ".join(sorted(DeepDiff(asked, written).affected_root_keys))
        raise ReconcilerError(
            f"nothing was accepted, no file was changed: {named} is written once, used in several places (an anchor)",
            f"{others} would change with it.",
            "Give the topic a value of its own first, such as configs: {<<: *anchor, KEY: VALUE}.",
        )


def _plain(topology: Topology) -> dict[str, object]:
    """What accepted values must leave as it is, by the name that people know it by."""
    topics = {
        f"topic {name}": (
            topic.clusters,
            topic.partitions,
            topic.replication_factor,
            {key: canonical(key, text) for key, text in topic.configs.items()},
            dict(topic.labels),
        )
        for name, topic in topology.topics.items()
    }
    parts = {"cluster": topology.clusters, "flow": topology.flows, "mirror": topology.mirrors}
    nouns = {f"{kind} {name}": noun for kind, part in parts.items() for name, noun in part.items()}
    return {**topics, **nouns, "deletions": topology.deletions}
