"""Translates MirrorMaker 2's connectors on Connect (JSON, or properties of connect-standalone) into properties of a
dedicated MirrorMaker 2.

``source.cluster.x`` becomes ``A.x``, ``target.cluster.x`` becomes ``B.x``, all else ``A->B.x``.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.environment.importers.mirrormaker.flows import CLASS, KAFKA, OF_FLOW, SEPARATOR
from reconciler.environment.importers.mirrormaker.properties_file import (
    ALIASES,
    Flow,
    Notes,
    Property,
    alike,
    parse,
    parse_plainly,
)
from reconciler.environment.yaml.other_tools import FLOW
from reconciler.errors import Where

SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
KINDS = (SOURCE, CHECKPOINT, HEARTBEAT)
_CHECKPOINTS = re.compile(
    r"groups(\..*)?|group\.filter\..*|(sync\.group|emit\.checkpoints|checkpoints|refresh\.groups)\..*"
)
_HEARTBEATS = re.compile(r"(emit\.)?heartbeats\.(?!replication).*")
_OF_COPIES = re.compile(
    r"(transforms|predicates)(\..*)?|(source\.)?consumer\.(override\.)?(auto\.offset\.reset|isolation\.level)"
    r"|exactly\.once\.support"
)
_NAME_IT = f"A {SOURCE} copies. Name the file with its configuration."
_REPLICATOR = "io.confluent.connect.replicator."
_OF_CONNECT = ("name", "connector.class", *ALIASES)


@dataclass(slots=True)
class Connectors:
    """MirrorMaker 2's connectors on clusters of Kafka Connect, joined to what one file of connect-mirror-maker would
    say."""

    notes: Notes
    found: list[Property] = field(default_factory=list)
    """Properties as in a file of connect-mirror-maker."""
    names: dict[Flow, str] = field(default_factory=dict)
    """Name of the connector that copies a flow."""
    topics: dict[Flow, str] = field(default_factory=dict)
    """The topic that has its positions."""


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector of MirrorMaker 2 on a cluster of Kafka Connect."""

    name: str
    kind: str
    """Source, checkpoint or heartbeat, by its class."""
    flow: Flow
    """Aliases of source and target."""
    where: Where
    """Of its name in the file."""
    settings: tuple[Property, ...]
    """As its configuration has them."""
    offsets_topic: str = "connect-offsets"
    """Where its Connect cluster keeps positions (``offset.storage.topic``)."""


def is_json(text: str) -> bool:
    """No property of MirrorMaker 2 begins like this."""
    return text.lstrip()[:1] in ("{", "[")


def read_json(file: str, text: str, notes: Notes) -> Iterator[Connector]:
    """Connectors in a file of Connect's REST API, with the line of each setting. Mistakes go to ``notes``."""
    try:
        whole = json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        words = f"it begins like JSON and is none: {error.msg}. A connector's configuration is JSON. Correct it."
        notes.wrong(Where(file, error.lineno, error.colno), words)
        return
    except (RecursionError, ValueError) as error:  # the latter: a number of thousands of digits
        fault = "it is nested too deeply" if isinstance(error, RecursionError) else error
        words = f"it begins like JSON and cannot be read: {fault}. No connector is configured like that. Correct it."
        notes.wrong(Where(file, 1, 1), words)
        return
    # The parser keeps no lines: each key is searched for behind ``at``, where the one before it begins.
    at, before, others = 0, len(notes.mistakes), list[str]()
    connectors: list[Connector] = []
    for name, config in _configs(whole, ""):
        kind = kind_of(str(config.get("connector.class") or ""))
        has_class = any(key == "connector.class" for key, _ in config)
        first = "connector.class" if has_class else next((key for key, _ in config), "config")
        begin_at = max(at, text.find(json.dumps(first, ensure_ascii=False), at + 1))
        begin = Where(file, text.count("\n", 0, begin_at) + 1, 1)
        if kind not in KINDS:
            shown = f"connector {name}" if name else "this connector"
            if kind:
                others.append(kind)
                another(begin, shown, kind, notes)
            else:
                words = f"{shown} has no connector.class, so what it does is not known. Connect refuses it, too. "
                notes.wrong(begin, f"{words}Write its class, such as {KAFKA}{SOURCE}.")
            for key, _ in config:
                at = max(at, text.find(json.dumps(key, ensure_ascii=False), at + 1))
            continue
        settings: dict[str, Property] = {}
        for key, value in config:
            at = max(at, text.find(json.dumps(key, ensure_ascii=False), at + 1))
            where = Where(file, text.count("\n", 0, at) + 1, 1)
            if isinstance(value, list):
                notes.wrong(where, f"{key}: it is no text. Connect refuses it, too. Correct it.")
            elif value is None:
                notes.differs(f"{where}: {key} is null, which says nothing")
            else:
                if key in settings:
                    line = settings[key].where.line
                    notes.differs(f"{where}: {key} is written again; line {line} does not count")
                settings[key] = Property(key, str(value).lower() if isinstance(value, bool) else str(value), where)
        connectors.append(of_settings(name, kind, settings, begin))
    if not connectors and len(notes.mistakes) == before:
        instead = f", but {', '.join(dict.fromkeys(others))}" if others else ""
        todo = f"{FLOW}." if any(_REPLICATOR in kind for kind in others) else _NAME_IT
        notes.wrong(Where(file), f"no connector of MirrorMaker 2 is in it{instead}. {todo}")
    yield from connectors


def kind_of(connector_class: str) -> str:
    """The class without Kafka's package."""
    return connector_class.strip().removeprefix(KAFKA)


def another(where: Where, name: str, kind: str, notes: Notes) -> None:
    notes.differs(f"{where}: {name} is {kind}, none of MirrorMaker 2's three, and is left out")


def of_settings(name: str, kind: str, settings: Mapping[str, Property], where: Where) -> Connector:
    """A connector from its settings. MirrorMaker 2's default aliases are source and target."""
    source, target = (
        (settings[f"{side}.cluster.alias"].value.strip() if f"{side}.cluster.alias" in settings else "") or side
        for side in ("source", "target")
    )
    return Connector(name or kind, kind, (source, target), where, tuple(settings.values()))


def is_standalone(text: str) -> bool:
    """Whether it is one connector's properties, as connect-standalone takes them; a dedicated MirrorMaker 2 has the
    class of no connector."""
    props, _ = parse("", text)
    names = {prop.name for prop in props}
    return "connector.class" in names and "clusters" not in names


def read_standalone(file: str, text: str, notes: Notes) -> Iterator[Connector]:
    """A connector in a properties file of Connect's standalone mode."""
    settings: dict[str, Property] = {}
    for prop in parse_plainly(file, text, notes):
        if known := settings.get(prop.name):
            notes.differs(f"{prop.where}: {prop.name} is written again; line {known.where.line} does not count")
        settings[prop.name] = prop
    own = settings["connector.class"]
    name, kind = settings["name"].value.strip() if "name" in settings else "", kind_of(own.value)
    if kind in KINDS:
        yield of_settings(name, kind, settings, own.where)
    else:
        todo = f"{FLOW}." if _REPLICATOR in kind else _NAME_IT
        notes.mistake(own, f"it is {kind}, none of MirrorMaker 2's three connectors. {todo}")


class _Pairs(list[tuple[str, object]]):
    """An object of JSON: names in their order, doubles too."""

    def get(self, name: str) -> object:
        return next((value for key, value in reversed(self) if key == name), None)


def _configs(part: object, name: str) -> Iterator[tuple[str, _Pairs]]:
    """Configs in all forms of Connect's REST API: alone, ``{name, config}``, in lists, or by name
    (``?expand=info``)."""
    if isinstance(part, _Pairs):
        config, own = part.get("config"), part.get("name")
        if isinstance(config, _Pairs):
            yield (own if isinstance(own, str) else name), config
        elif part.get("connector.class") is not None:
            yield (own if isinstance(own, str) else name), part
        else:
            for key, inner in part:
                yield from _configs(inner, name if key == "info" else key)
    elif isinstance(part, list):
        for inner in part:
            yield from _configs(inner, name)


def join(connectors: Sequence[Connector], joined: Connectors) -> None:
    """Joins connectors of all files, since those of one flow are often in several files."""
    flows: dict[Flow, dict[str, Connector]] = {}
    for connector in connectors:
        known = flows.setdefault(connector.flow, {}).setdefault(connector.kind, connector)
        if known is not connector:
            second = f"{connector.name} is a second {connector.kind} of {_named(connector.flow)}"
            words = f"{second}, beside {known.name} at {known.where}. One flow is made of each pair. Import them apart."
            joined.notes.wrong(connector.where, words)
    if not flows or joined.notes.mistakes:
        return

    # Each connector names its clusters; they must agree.
    names = dict.fromkeys(alias for connector in connectors for alias in connector.flow)
    joined.found.append(Property("clusters", ",".join(names), connectors[0].where))
    settings: dict[str, Property] = {}
    for connector in connectors:
        for prop in connector.settings:
            match = re.fullmatch(r"(source|target)\.cluster\.(.+)", prop.name)
            if match is None or prop.name in _OF_CONNECT:
                continue
            alias = connector.flow[0] if match.group(1) == "source" else connector.flow[1]
            name = f"{alias}.{match.group(2)}"
            before = settings.setdefault(name, prop)
            if before is prop:
                joined.found.append(Property(name, prop.value, prop.where))
            elif not alike(before, prop):
                words = f"{prop.name} of {alias} is another one than at {before.where}. One name is one cluster here. "
                joined.notes.wrong(prop.where, words + "Correct one, or import apart.")

    for flow, kinds in flows.items():
        _join_flow(flow, kinds, joined)


def _named(flow: Flow) -> str:
    return f"{flow[0]}->{flow[1]}"


def _join_flow(flow: Flow, kinds: Mapping[str, Connector], joined: Connectors) -> None:
    """One flow's settings out of its up to three connectors. The source connector decides about copies, each of the
    others about its own task."""
    notes, source = joined.notes, kinds.get(SOURCE)
    if source is None:
        other = next(iter(kinds.values()))
        words = f"there is no {SOURCE} of {_named(flow)}, so nothing is copied. Name the file of that connector, too."
        notes.wrong(other.where, words)
        return
    joined.names[flow], joined.topics[flow] = source.name, source.offsets_topic
    prefix = f"{_named(flow)}."
    joined.found.append(Property(f"{prefix}enabled", "true", source.where))
    written: dict[str, Property] = {}
    for alias in (prop for prop in source.settings if prop.name == ALIASES[0] and prop.value.strip() != flow[0]):
        written[ALIASES[0]] = alias

    # The source connector copies, so names, topics and other settings of copies come from it, including its defaults.
    for prop in _taken(source):
        if _CHECKPOINTS.fullmatch(prop.name) or _HEARTBEATS.fullmatch(prop.name):
            notes.differs(f"{prop.where}: {prop.name} has no effect in a {source.kind}, and is left out")
        else:
            written[prop.name] = prop
    for kind, own in ((CHECKPOINT, _CHECKPOINTS), (HEARTBEAT, _HEARTBEATS)):
        if kind in kinds:
            _take_own(kinds[kind], own, written, notes)

    # Names that only the source connector sets: checkpoints of MirrorMaker 2 are of other topics then.
    if checkpoint := kinds.get(CHECKPOINT):
        there = {prop.name for prop in checkpoint.settings}
        for name, default in ((CLASS, "DefaultReplicationPolicy"), (SEPARATOR, ".")):
            named = written.get(name)
            if named and name not in there and named.value.strip() not in (default, KAFKA + default):
                notes.differs(
                    f"{named.where}: {name} is not set in {checkpoint.name}, so checkpoints of MirrorMaker 2 name "
                    f"topics by {default if name == CLASS else 'a dot'}; here they name those that the flow writes"
                )

    for kind, name in ((HEARTBEAT, "emit.heartbeats.enabled"), (CHECKPOINT, "sync.group.offsets.enabled")):
        if kind not in kinds:
            written[name] = Property("", "false", source.where)
            notes.settled.add(Property(f"{prefix}{name}", "false", source.where))
    for name, prop in written.items():
        if name == "exactly.once.support" and prop.value.strip().lower() == "required":
            joined.found.append(Property(f"{flow[1]}.exactly.once.source.support", "enabled", prop.where))
        else:
            joined.found.append(Property(f"{prefix}{name}", prop.value, prop.where))


def _taken(connector: Connector) -> Iterator[Property]:
    for prop in connector.settings:
        if prop.name not in _OF_CONNECT and not re.match(r"(source|target)\.cluster\.", prop.name):
            yield prop


def _take_own(connector: Connector, own: re.Pattern[str], written: dict[str, Property], notes: Notes) -> None:
    """``own``: what no other connector reads. The same name as in the source connector may be here without effect."""
    copying = dict(written)
    for prop in _taken(connector):
        known = copying.get(prop.name)
        if own.fullmatch(prop.name):
            written[prop.name] = prop
        elif known is not None and prop.value.strip() != known.value.strip():
            notes.differs(f"{prop.where}: {prop.name} of {connector.name} differs from {known.where}, which counts")
        elif known is None and (prop.name in OF_FLOW or _OF_COPIES.fullmatch(prop.name)):
            notes.differs(
                f"{prop.where}: {prop.name} of {connector.name} is left out: it copies no record, and the {SOURCE}, "
                "which does, leaves the setting at its default, which counts"
            )
        elif known is None:
            notes.skips(prop.name, f"of a {connector.kind}, which copies no record")
