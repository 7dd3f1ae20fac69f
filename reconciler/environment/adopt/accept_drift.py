"""Accepts drift: writes the live value of a declared field into its place in the YAML, and an undeclared override into
the configs of its topic.

Only the characters of the value change, so comments, order and layout stay. The result is loaded again, and must differ
in exactly the accepted fields.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.environment.adopt.entries import undeclarable, written
from reconciler.environment.adopt.write import value as yaml_value
from reconciler.environment.load import load
from reconciler.environment.yaml.edit import keys_at, place_of, with_entry
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.config_values import THROTTLES, canonical, human, same
from reconciler.model.environment.topology import Topic, TopicDefaults, Topology, Undeclared, by_name
from reconciler.model.live import LiveState, LiveTopic
from reconciler.resources.topics.defaults import Layers, configs, layers_of, undeclared

IN_NO_FILE = "in no file"
PARTITIONS = "partitions"
FACTOR = "replication_factor"

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Accepted:
    """One field of one topic. ``text``: as written in YAML, ``found``: its value in Kafka."""

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
    changed: dict[str, str] = {}
    # Texts are edited in place, one value after the other, so comments, order and quoting stay as the user wrote them.
    for value in accepted.values() if not refused else ():
        where = topology.topics[value.topic].where
        text = changed.get(where.file, texts[where.file])
        topic = ("topics", value.topic)
        path = (*topic, value.field) if value.field in (PARTITIONS, FACTOR) else (*topic, "configs", value.field)
        place = place_of(text, *path)
        done = None
        if place is None and value.before == IN_NO_FILE:
            done = _added(text, value)
        elif place is not None and place.scalar and "\n" not in text[place.value : place.end]:
            old = text[place.value : place.end]
            done = text[: place.value] + _as_before(old, value.text) + text[place.end :]
        if done is None:
            how = "as a list, through an alias, or over several lines, which only you can edit"
            line = f"{value.field}: {_as_before('', value.text)}"
            at = place.where(where.file, text) if place is not None else where
            refused.append(f"{value.topic} {value.field}: it is written at {at} {how}; the live value is {line}")
        else:
            changed[where.file] = done
    if refused:
        raise ReconcilerError(
            "nothing was accepted, no file was changed",
            "\n".join(f"  {name}" for name in refused),
            "Leave these out, or edit the files yourself.",
        )
    # An edit of text can change more than one value, such as behind an anchor: the loaded result decides.
    _require_only(topology, load({**texts, **changed}, topology.environment, expired_too=True), accepted.values())
    return Acceptance(tuple(accepted.values()), changed)


def _wanted(subject: str, topology: Topology, live: LiveState) -> tuple[list[Accepted], list[str]]:
    """Fields of one subject to accept, and why others cannot be. A declaration counts on all its clusters, so a value
    is accepted only where all of them agree with it."""
    place, _, field = subject.replace(" ", ":", 1).partition(":")
    cluster, sign, name = place.partition("/")
    desired = topology.topics.get(name)
    if not sign or not name:
        return [], ["write CLUSTER/TOPIC, or CLUSTER/TOPIC:FIELD for one of its fields"]
    if desired is None or cluster not in desired.clusters:
        description = "no topic of this name is declared there"
        return [], [f"{description}; a remote topic follows its source, and what is not declared is left as it is"]

    # One declaration counts for all clusters of the topic, so all are compared, the requested one first.
    topics: dict[str, LiveTopic] = {}
    for place in (cluster, *(other for other in desired.clusters if other != cluster)):
        known = live.known(place)
        also = "" if place == cluster else f"the declaration also counts on {place}: "
        if known is None:
            return [], [f"{also}cluster {place} could not be read"]
        if name in known.hidden:
            return [], [f"{also}cluster {place} does not show whether it has it"]
        if name not in known.topics:
            todo = "the next apply makes it; to agree that it is gone, take it out of the file"
            missing = f"{also}the topic is not on cluster {place}: it was deleted, or no apply has made it yet"
            return [], [f"{missing}; {todo}"]
        topics[place] = known.topics[name]

    counts = [name for name, count in ((PARTITIONS, desired.partitions), (FACTOR, desired.replication_factor)) if count]
    layers = layers_of(topology, cluster, desired)
    drifted: set[str] = set()
    if undeclared(layers) is Undeclared.DRIFT:  # otherwise an undeclared override is no drift
        drifted = topics[cluster].overrides.keys() - configs(layers).keys() - THROTTLES
    fields = [field] if field else [*counts, *sorted({*desired.configs, *drifted})]
    accepted: list[Accepted] = []
    refused: list[str] = []
    for text in fields:
        outcome = _field(desired, text, layers, topics)
        if isinstance(outcome, Accepted):
            accepted.append(outcome)
        elif outcome or field:
            refused.append(outcome or f"{text} does not differ")
    if not accepted and not refused:
        description = "none of the fields declared on the topic itself differs"
        refused.append(f"{description}; values of classes and defaults are edited where they are written")
    return accepted, refused


def _field(desired: Topic, field: str, layers: Layers, topics: Mapping[str, LiveTopic]) -> Accepted | str:
    """The text to write, or the reason against it; empty if the field differs on no cluster of the topic. ``layers``:
    of the requested cluster."""
    name, everywhere = desired.name, list(topics.values())
    if field in (PARTITIONS, FACTOR):
        declared: int | None = getattr(desired, field)
        if declared is None:
            return f"{field} is not declared on the topic itself"
        factors = [topic.replication_factor for topic in everywhere]  # None where its partitions differ
        counted = [len(topic.partitions) for topic in everywhere] if field == PARTITIONS else factors
        if set(counted) == {declared}:
            return ""
        if len(set(counted)) > 1 or counted[0] is None:
            return _apart(field, [str(count or "mixed") for count in counted], topics)
        return Accepted(name, field, str(declared), str(counted[0]), str(counted[0]))

    if field not in desired.configs and (field in configs(layers) or field not in everywhere[0].overrides):
        todo = "a default of the cluster or flow is edited where it is written"
        return f"{field} is not declared on the topic itself; {todo}"
    values: list[str] = []
    for cluster, topic in topics.items():
        entry = None if isinstance(topic.configs, Unknown) else topic.configs.get(field)
        if entry is None or entry.value is None or field in THROTTLES:
            return f"{field} on {cluster} could not be read, or is not known or hidden there"
        if wrong := undeclarable(topic, field, entry.value):
            return f"{field} is {entry.value} on {cluster}: {wrong}"
        values.append(entry.value)
    config = desired.configs.get(field)
    if config is not None and all(same(field, value, config) for value in values):
        return ""
    if not all(same(field, value, values[0]) for value in values):
        return _apart(field, [human(field, value) for value in values], topics)
    before = IN_NO_FILE if config is None else human(field, config)
    return Accepted(name, field, before, written(field, values[0]), values[0])


def _apart(field: str, values: Sequence[str], clusters: Iterable[str]) -> str:
    join = ", ".join(f"{value} on {cluster}" for cluster, value in zip(clusters, values, strict=True))
    return f"one declaration counts for all its clusters, but {field} is {join}"


def _added(text: str, accepted: Accepted) -> str | None:
    """``text`` with one more config of its topic, quoted as its neighbours are; None if it has no plain place."""
    topic = ("topics", accepted.topic)
    there = keys_at(text, *topic)
    neighbours = keys_at(text, *topic, "configs") or there
    quoted = '"' in (text[offset] for offset in neighbours.values())
    key, value = (json.dumps(part) if quoted else yaml_value(part) for part in (accepted.field, accepted.text))
    if "configs" in there:
        return with_entry(text, f"{key}: {value}", *topic, "configs")
    return with_entry(text, f"{json.dumps('configs') if quoted else 'configs'}: {{{key}: {value}}}", *topic)


def _as_before(old: str, new: str) -> str:
    """``new`` quoted as ``old`` was: a file that is also JSON stays JSON, and a plain ``false`` or number plain."""
    match old[:1]:
        case '"':
            return json.dumps(new, ensure_ascii=False)
        case "'":
            return "'" + new.replace("'", "''") + "'"
    plain = {old, new} <= {"true", "false"} or (_NUMBER.fullmatch(old) and _NUMBER.fullmatch(new))
    return new if plain else yaml_value(new)


def _require_only(before: Topology, after: Topology, accepted: Iterable[Accepted]) -> None:
    """Raises ReconcilerError if an anchor, shared by several topics, would carry a value to others."""
    topics = dict(before.topics)
    for value in accepted:
        topic = topics[value.topic]
        if value.field == PARTITIONS:
            topics[value.topic] = replace(topic, partitions=int(value.found))
        elif value.field == FACTOR:
            topics[value.topic] = replace(topic, replication_factor=int(value.found))
        else:
            topics[value.topic] = replace(topic, configs={**topic.configs, value.field: value.found})
    desired, loaded = (_by_words(topology) for topology in (replace(before, topics=by_name(topics.values())), after))
    if desired != loaded:
        named = ", ".join(f"{it.topic} {it.field} (topic at {before.topics[it.topic].where})" for it in accepted)
        from deepdiff import DeepDiff  # imported in 0.1 s, which only these words are worth

        others = ", ".join(sorted(DeepDiff(desired, loaded).affected_root_keys))
        raise ReconcilerError(
            f"nothing was accepted, no file was changed: {named} is written once, used in several places (an anchor)",
            f"{others} would change with it.",
            "Give the topic a value of its own first, such as configs: {<<: *anchor, KEY: VALUE}.",
        )


def _by_words(topology: Topology) -> dict[str, object]:
    """All of a topology, by the words of messages; configs of topics in one spelling."""
    topics = {
        name: replace(topic, configs={key: canonical(key, text) for key, text in topic.configs.items()})
        for name, topic in topology.topics.items()
    }
    rules = topology.rules
    parts = {"topic": topics, "cluster": topology.clusters, "flow": topology.flows, "mirror": topology.mirrors}
    nouns = {
        f"{kind} {name}": noun
        for kind, part in (*parts.items(), ("class", rules.classes))
        for name, noun in part.items()
    }
    rest = replace(rules, classes={}, defaults=TopicDefaults())
    others = replace(topology, topics={}, clusters={}, flows={}, mirrors={}, rules=rest)
    return {**nouns, "defaults": rules.defaults, "another section": others}
