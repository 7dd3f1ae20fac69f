"""Accepts drift: writes the live value of a declared field into its YAML, at the place where it is declared.

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
from reconciler.environment.yaml.nodes import Node, Scalar, node_at
from reconciler.environment.yaml.read import read
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.config_values import THROTTLES, canonical, human, same
from reconciler.model.environment.topology import Topic, TopicRef, Topology, by_name
from reconciler.model.live import LiveState, LiveTopic, Source

PARTITIONS = "partitions"
FACTOR = "replication_factor"

_QUOTED = re.compile(r"""'(?:[^'\n]|'')*'|"(?:[^"\\\n]|\\.)*\"""")

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
    counts = [name for name, count in ((PARTITIONS, desired.partitions), (FACTOR, desired.replication_factor)) if count]
    fields = [field] if field else [*counts, *sorted(desired.configs)]
    accepted: list[Accepted] = []
    refused: list[str] = []
    for text in fields:
        told = _field(desired, text, live, cluster)
        if isinstance(told, Accepted):
            accepted.append(told)
        elif told or field:
            refused.append(told or f"{text} does not differ")
    if not accepted and not refused:
        description = "none of the fields declared on the topic itself differs"
        refused.append(f"{description}; values of classes and defaults are edited where they are written")
    return accepted, refused


def _field(desired: Topic, field: str, live: LiveState, asked: str) -> Accepted | str:
    """What to write, or why not; empty when it does not differ on any cluster of the topic. ``asked``: of a cluster."""
    topics: list[LiveTopic] = []
    for cluster in desired.clusters:
        known = live.known(cluster)
        if known is None or desired.name not in known.topics:
            why = "could not be read" if known is None else "does not have it"
            if known is not None and desired.name in known.hidden:
                why = "does not show whether it has it"
            return f"{TopicRef(cluster, desired.name)}: the declaration also counts there, and the cluster {why}"
        topics.append(known.topics[desired.name])
    if field == PARTITIONS:
        return _count(desired, field, desired.partitions, [len(topic.partitions) for topic in topics])
    if field == FACTOR:
        return _count(desired, field, desired.replication_factor, [topic.replication_factor for topic in topics])
    if field not in desired.configs:
        return _undeclared(field, topics[desired.clusters.index(asked)])
    return _config(desired, field, topics)


def _count(desired: Topic, field: str, declared: int | None, value: Sequence[int | None]) -> Accepted | str:
    """``value``: on each cluster of the topic; None where its partitions differ."""
    if declared is None:
        return f"{field} is not declared on the topic itself"
    if set(value) == {declared}:
        return ""
    if len(set(value)) > 1 or value[0] is None:
        return _apart(field, [str(count or "mixed") for count in value], desired)
    return Accepted(desired.name, field, str(declared), str(value[0]), str(value[0]))


def _undeclared(key: str, topic: LiveTopic) -> str:
    configs = topic.configs
    entry = None if isinstance(configs, Unknown) else configs.get(key)
    if entry is None or entry.value is None or entry.source is not Source.TOPIC or key in THROTTLES:
        return f"{key} is not declared on the topic itself; a default of the cluster or flow is edited by hand"
    line = f"{key}: {yaml_value(written(key, entry.value))}"
    return f"{key} is set there and not declared, so there is no value to replace: add {line} to the topic's configs"


def _config(desired: Topic, key: str, topics: Sequence[LiveTopic]) -> Accepted | str:
    names: list[str] = []
    for cluster, topic in zip(desired.clusters, topics, strict=True):
        entry = None if isinstance(topic.configs, Unknown) else topic.configs.get(key)
        if entry is None or entry.value is None or key in THROTTLES:
            return f"{key} on {cluster} could not be read, or is not known or hidden there"
        if wrong := undeclarable(topic, key, entry.value):
            return f"{key} is {entry.value} on {cluster}: {wrong}"
        names.append(entry.value)
    if all(same(key, name, desired.configs[key]) for name in names):
        return ""
    if not all(same(key, name, names[0]) for name in names):
        return _apart(key, [human(key, name) for name in names], desired)
    return Accepted(desired.name, key, human(key, desired.configs[key]), written(key, names[0]), names[0])


def _apart(field: str, values: Sequence[str], desired: Topic) -> str:
    join = ", ".join(f"{value} on {cluster}" for cluster, value in zip(desired.clusters, values, strict=True))
    return f"one declaration counts for all its clusters, but {field} is {join}"


def _written(
    texts: Mapping[str, str], topology: Topology, accepted: Iterable[Accepted]
) -> tuple[dict[str, str], list[str]]:
    changed: dict[str, str] = {}
    refused: list[str] = []
    for value in accepted:
        where = topology.topics[value.topic].where
        text = changed.get(where.file, texts[where.file])
        node = _node(read(where.file, text).root, value)
        done = _spliced(text, node, value)
        if done is None:
            place = replace(where, line=node.line, column=node.column) if node else where
            how = "as a list, through an alias, or over several lines, which is edited by hand only"
            line = f"{value.field}: {_as_before('', value.text)}"
            refused.append(f"{value.topic} {value.field}: it is written at {place} {how}; the live value is {line}")
        else:
            changed[where.file] = done
    return changed, refused


def _spliced(text: str, node: Node | None, accepted: Accepted) -> str | None:
    """``text`` with the one value replaced; None when it is not a plain or quoted value on a single line."""
    if not isinstance(node, Scalar):
        return None
    mark = text[: text.startswith("\ufeff")]  # no reader of YAML counts it as a column
    lines = text.removeprefix(mark).splitlines(keepends=True)
    line, start = lines[node.line - 1], node.column - 1
    quoted = _QUOTED.match(line, start)
    end = quoted.end() if quoted else start + len(node.text)
    if not quoted and line[start:end] != node.text:
        return None
    lines[node.line - 1] = line[:start] + _as_before(line[start:end], accepted.text) + line[end:]
    return mark + "".join(lines)


def _as_before(old: str, new: str) -> str:
    """``new`` quoted as ``old`` was: a file that is also JSON stays that, and a plain ``false`` or number plain."""
    match old[:1]:
        case '"':
            return json.dumps(new, ensure_ascii=False)
        case "'":
            return "'" + new.replace("'", "''") + "'"
    plain = {old, new} <= {"true", "false"} or (_NUMBER.fullmatch(old) and _NUMBER.fullmatch(new))
    return new if plain else yaml_value(new)


def _node(root: Node | None, accepted: Accepted) -> Node | None:
    path = (accepted.field,) if accepted.field in (PARTITIONS, FACTOR) else ("configs", accepted.field)
    return node_at(root, "topics", accepted.topic, *path)


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
