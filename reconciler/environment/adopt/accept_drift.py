"""Drift taken over into git: the live value of a declared field, written at the very place where it is declared.

Border: texts in, changed texts out. Only the value's own characters change, so comments, order and layout stay; the
result is loaded again and must differ from before in exactly the accepted fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.adopting import undeclarable, written
from reconciler.errors import ReconcilerError, Unknown
from reconciler.live import LiveState, LiveTopic, Source
from reconciler.loading import load
from reconciler.topic_configs import THROTTLES, canonical, human, same
from reconciler.topology import Topic, TopicRef, Topology, by_name
from reconciler.topology_text import value as yaml_value
from reconciler.yaml_nodes import Mapping as YamlMapping
from reconciler.yaml_nodes import Node, Scalar
from reconciler.yaml_text import read

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
        found, why = _wanted(subject, topology, live)
        refused += [f"{subject}: {one}" for one in why]
        accepted |= {(one.topic, one.field): one for one in found}
    if not refused:
        changed, refused = _written(texts, topology, accepted.values())
    if refused:
        raise ReconcilerError(
            "nothing was accepted, no file was changed",
            "\n".join(f"  {one}" for one in refused),
            "Leave these out, or edit the files by hand.",
        )
    _require_only(topology, load({**texts, **changed}, topology.environment, expired_too=True), accepted.values())
    return Acceptance(tuple(accepted.values()), changed)


def _wanted(subject: str, topology: Topology, live: LiveState) -> tuple[list[Accepted], list[str]]:
    place, _, field = subject.replace(" ", ":", 1).partition(":")
    cluster, sign, name = place.partition("/")
    wish = topology.topics.get(name)
    if not sign or not name:
        return [], ["write CLUSTER/TOPIC, or CLUSTER/TOPIC:FIELD for one of its fields"]
    if wish is None or cluster not in wish.clusters:
        what = "no topic of this name is declared there"
        return [], [f"{what}; a remote topic follows its source, and what is not declared is left as it is"]
    counts = [name for name, count in ((PARTITIONS, wish.partitions), (FACTOR, wish.replication_factor)) if count]
    fields = [field] if field else [*counts, *sorted(wish.configs)]
    accepted: list[Accepted] = []
    refused: list[str] = []
    for one in fields:
        told = _field(wish, one, live, cluster)
        if isinstance(told, Accepted):
            accepted.append(told)
        elif told or field:
            refused.append(told or f"{one} does not differ")
    if not accepted and not refused:
        what = "none of the fields declared on the topic itself differs"
        refused.append(f"{what}; values of classes and defaults are edited where they stand")
    return accepted, refused


def _field(wish: Topic, field: str, live: LiveState, asked: str) -> Accepted | str:
    """What to write, or why not; empty when it does not differ on any cluster of the topic. ``asked``: of a cluster."""
    topics: list[LiveTopic] = []
    for cluster in wish.clusters:
        known = live.known(cluster)
        if known is None or wish.name not in known.topics:
            why = "could not be read" if known is None else "does not have it"
            return f"{TopicRef(cluster, wish.name)}: the declaration also counts there, and the cluster {why}"
        topics.append(known.topics[wish.name])
    if field == PARTITIONS:
        return _count(wish, field, wish.partitions, [len(topic.partitions) for topic in topics])
    if field == FACTOR:
        return _count(wish, field, wish.replication_factor, [topic.replication_factor for topic in topics])
    if field not in wish.configs:
        return _undeclared(field, topics[wish.clusters.index(asked)])
    return _config(wish, field, topics)


def _count(wish: Topic, field: str, declared: int | None, found: Sequence[int | None]) -> Accepted | str:
    """``found``: on each cluster of the topic; None where its partitions differ."""
    if declared is None:
        return f"{field} is not declared on the topic itself"
    if set(found) == {declared}:
        return ""
    if len(set(found)) > 1 or found[0] is None:
        return _apart(field, [str(count or "mixed") for count in found], wish)
    return Accepted(wish.name, field, str(declared), str(found[0]), str(found[0]))


def _undeclared(key: str, topic: LiveTopic) -> str:
    configs = topic.configs
    entry = None if isinstance(configs, Unknown) else configs.get(key)
    if entry is None or entry.value is None or entry.source is not Source.TOPIC or key in THROTTLES:
        return f"{key} is not declared on the topic itself; a default of the cluster or flow is edited by hand"
    line = f"{key}: {yaml_value(written(key, entry.value))}"
    return f"{key} is set there and not declared, so there is no value to replace: add {line} to the topic's configs"


def _config(wish: Topic, key: str, topics: Sequence[LiveTopic]) -> Accepted | str:
    found: list[str] = []
    for cluster, topic in zip(wish.clusters, topics, strict=True):
        entry = None if isinstance(topic.configs, Unknown) else topic.configs.get(key)
        if entry is None or entry.value is None or key in THROTTLES:
            return f"{key} on {cluster} could not be read, or is not known or hidden there"
        if wrong := undeclarable(topic, key, entry.value):
            return f"{key} is {entry.value} on {cluster}: {wrong}"
        found.append(entry.value)
    if all(same(key, one, wish.configs[key]) for one in found):
        return ""
    if not all(same(key, one, found[0]) for one in found):
        return _apart(key, [human(key, one) for one in found], wish)
    return Accepted(wish.name, key, human(key, wish.configs[key]), written(key, found[0]), found[0])


def _apart(field: str, values: Sequence[str], wish: Topic) -> str:
    told = ", ".join(f"{value} on {cluster}" for cluster, value in zip(wish.clusters, values, strict=True))
    return f"one declaration counts for all its clusters, but {field} is {told}"


def _written(
    texts: Mapping[str, str], topology: Topology, accepted: Iterable[Accepted]
) -> tuple[dict[str, str], list[str]]:
    changed: dict[str, str] = {}
    refused: list[str] = []
    for one in accepted:
        where = topology.topics[one.topic].where
        text = changed.get(where.file, texts[where.file])
        node = _node(read(where.file, text).root, one)
        done = _spliced(text, node, one)
        if done is None:
            place = replace(where, line=node.line, column=node.column) if node else where
            how = "as a list, through an alias, or over several lines, which is edited by hand only"
            line = f"{one.field}: {_as_before('', one.text)}"
            refused.append(f"{one.topic} {one.field}: it is written at {place} {how}; the live value is {line}")
        else:
            changed[where.file] = done
    return changed, refused


def _spliced(text: str, node: Node | None, one: Accepted) -> str | None:
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
    lines[node.line - 1] = line[:start] + _as_before(line[start:end], one.text) + line[end:]
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


def _node(root: Node | None, one: Accepted) -> Node | None:
    path = ("topics", one.topic, *((one.field,) if one.field in (PARTITIONS, FACTOR) else ("configs", one.field)))
    node = root
    for step in path:
        if not isinstance(node, YamlMapping) or step not in node.entries:
            return None
        node = node.entries[step].value
    return node


def _require_only(before: Topology, after: Topology, accepted: Iterable[Accepted]) -> None:
    """An anchor shared by several topics would carry the value further: then nothing is written."""
    wished = dict(before.topics)
    for one in accepted:
        topic = wished[one.topic]
        if one.field == PARTITIONS:
            wished[one.topic] = replace(topic, partitions=int(one.found))
        elif one.field == FACTOR:
            wished[one.topic] = replace(topic, replication_factor=int(one.found))
        else:
            wished[one.topic] = replace(topic, configs={**topic.configs, one.field: one.found})
    asked, written = (list(_plain(one)) for one in (replace(before, topics=by_name(wished.values())), after))
    if asked != written:
        named = ", ".join(f"{one.topic} {one.field} (topic at {before.topics[one.topic].where})" for one in accepted)
        others = ", ".join(str(one[0]) for one in written if isinstance(one, tuple) and one and one not in asked)
        raise ReconcilerError(
            f"nothing was accepted, no file was changed: {named} is written once, used in several places (an anchor)",
            f"{others or 'Something else'} would change with it.",
            "Give the topic a value of its own first, such as configs: {<<: *anchor, KEY: VALUE}.",
        )


def _plain(topology: Topology) -> Iterator[object]:
    yield from (dict(topology.clusters), dict(topology.flows), dict(topology.mirrors), topology.deletions)
    for name, topic in sorted(topology.topics.items()):
        configs = {key: canonical(key, text) for key, text in topic.configs.items()}
        yield name, topic.clusters, topic.partitions, topic.replication_factor, configs, dict(topic.labels)
