"""MirrorMaker 2 on a Connect cluster: the JSON of its connectors as the properties that a dedicated one would have.

Border: JSON texts in, properties out. ``source.cluster.x`` becomes ``A.x``, ``target.cluster.x`` ``B.x``, all else
``A->B.x``. Which connector's setting counts is decided here, what it becomes is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.errors import Where
from reconciler.mirrormaker.properties import Mistake, Property
from reconciler.mirrormaker.scopes import Flow

_KAFKA = "org.apache.kafka.connect.mirror."
_SOURCE, _CHECKPOINT, _HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
_CHECKPOINTS = re.compile(
    r"groups(\..*)?|group\.filter\..*|(sync\.group|emit\.checkpoints|checkpoints|refresh\.groups)\..*"
)
_HEARTBEATS = re.compile(r"(emit\.)?heartbeats\.(?!replication).*")
_OF_CONNECT = ("name", "connector.class", "source.cluster.alias", "target.cluster.alias")


@dataclass(slots=True)
class Connectors:
    """``found``: properties as in a file of connect-mirror-maker; ``implied``: those of them that nobody wrote;
    ``names``: of the connector that copies a flow."""

    found: list[Property] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    implied: set[Property] = field(default_factory=set)
    names: dict[Flow, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Connector:
    name: str
    kind: str
    flow: Flow
    where: Where
    settings: tuple[Property, ...]


def is_json(text: str) -> bool:
    """No property of MirrorMaker 2 begins like this."""
    return text.lstrip()[:1] in ("{", "[")


def read(files: Mapping[str, str]) -> Connectors:
    """All files together: the connectors of one flow are often apart."""
    made = Connectors()
    connectors: list[_Connector] = []
    for file, text in files.items():
        before = len(connectors), len(made.mistakes)
        connectors += _of_file(file, text, made)
        if (len(connectors), len(made.mistakes)) == before:
            words = f"no connector of MirrorMaker 2 is in it. A {_SOURCE} copies. Name the file with its configuration."
            made.mistakes.append(Mistake(Where(file), words))
    flows: dict[Flow, dict[str, _Connector]] = {}
    for one in connectors:
        known = flows.setdefault(one.flow, {}).setdefault(one.kind, one)
        if known is not one:
            words = f"{one.name} is a second {one.kind} of {_named(one.flow)}, beside {known.name} at {known.where}. "
            made.mistakes.append(Mistake(one.where, words + "One flow is made of each pair. Import them apart."))
    if flows and not made.mistakes:
        _clusters(connectors, made)
        for flow, kinds in flows.items():
            _flow(flow, kinds, made)
    return made


def _named(flow: Flow) -> str:
    return f"{flow[0]}->{flow[1]}"


def _of_file(file: str, text: str, made: Connectors) -> Iterator[_Connector]:
    try:
        whole = json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        words = f"it begins like JSON and is none: {error.msg}. A connector's configuration is JSON. Correct it."
        made.mistakes.append(Mistake(Where(file, error.lineno, error.colno), words))
        return
    at = 0
    for name, config in _configs(whole, ""):
        connector, at = _connector(name, config, (file, text, at), made)
        if connector is not None:
            yield connector


class _Pairs(list[tuple[str, object]]):
    """An object of JSON: names in their order, doubles too."""

    def get(self, name: str) -> object:
        return next((value for key, value in reversed(self) if key == name), None)


def _configs(part: object, name: str) -> Iterator[tuple[str, _Pairs]]:
    """As Connect takes and gives them: alone, ``{name, config}``, in lists, or by name (``?expand=info``)."""
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


def _connector(
    name: str, config: _Pairs, place: tuple[str, str, int], made: Connectors
) -> tuple[_Connector | None, int]:
    """The connector, and where its text ends at least."""
    file, text, at = place
    kind, settings = str(config.get("connector.class") or "").strip().removeprefix(_KAFKA), dict[str, Property]()
    begin = Where(file, text.count("\n", 0, text.find('"connector.class"', at)) + 1, 1)
    if kind not in (_SOURCE, _CHECKPOINT, _HEARTBEAT):
        shown = f"connector {name}" if name else "this connector"
        made.different.append(f"{begin}: {shown} is none of MirrorMaker 2's three and is left out")
        return None, text.find('"connector.class"', at) + 1
    for key, value in config:
        at = max(at, text.find(json.dumps(key, ensure_ascii=False), at))
        where = Where(file, text.count("\n", 0, at) + 1, 1)
        if isinstance(value, list):
            made.mistakes.append(Mistake(where, f"{key}: it is no text. Connect refuses it, too. Correct it."))
        elif value is None:
            made.different.append(f"{where}: {key} is null, which says nothing")
        else:
            if key in settings:
                line = settings[key].where.line
                made.different.append(f"{where}: {key} is written again; line {line} does not count")
            settings[key] = Property(key, str(value).lower() if isinstance(value, bool) else str(value), where)
    flow = tuple(
        settings[f"{side}.cluster.alias"].value.strip() if f"{side}.cluster.alias" in settings else side
        for side in ("source", "target")
    )
    return _Connector(name or kind, kind, (flow[0], flow[1]), begin, tuple(settings.values())), at


def _clusters(connectors: list[_Connector], made: Connectors) -> None:
    """Each connector names its clusters; they must agree."""
    names = dict.fromkeys(alias for one in connectors for alias in one.flow)
    made.found.append(Property("clusters", ",".join(names), connectors[0].where))
    known: dict[str, Property] = {}
    for connector in connectors:
        for one in connector.settings:
            match = re.fullmatch(r"(source|target)\.cluster\.(.+)", one.name)
            if match is None or one.name in _OF_CONNECT:
                continue
            alias = connector.flow[0] if match.group(1) == "source" else connector.flow[1]
            name = f"{alias}.{match.group(2)}"
            before = known.setdefault(name, one)
            if before is one:
                made.found.append(Property(name, one.value, one.where))
            elif before.value.strip() != one.value.strip():
                words = f"{one.name} of {alias} is another one than at {before.where}. One name is one cluster here. "
                made.mistakes.append(Mistake(one.where, words + "Correct one, or import apart."))


def _flow(flow: Flow, kinds: Mapping[str, _Connector], made: Connectors) -> None:
    source = kinds.get(_SOURCE)
    if source is None:
        other = next(iter(kinds.values()))
        words = f"there is no {_SOURCE} of {_named(flow)}, so nothing is copied. Name the file of that connector, too."
        made.mistakes.append(Mistake(other.where, words))
        return
    made.names[flow] = source.name
    prefix = f"{_named(flow)}."
    made.found.append(Property(f"{prefix}enabled", "true", source.where))
    written: dict[str, Property] = {}
    for kind, asked in ((_SOURCE, None), (_CHECKPOINT, _CHECKPOINTS), (_HEARTBEAT, _HEARTBEATS)):
        if kind in kinds:
            _take(kinds[kind], asked, written, made)
    for kind, name in ((_HEARTBEAT, "emit.heartbeats.enabled"), (_CHECKPOINT, "sync.group.offsets.enabled")):
        if kind not in kinds:
            written[name] = Property("", "false", source.where)
            made.implied.add(Property(f"{prefix}{name}", "false", source.where))
    for name, one in written.items():
        if name == "exactly.once.support" and one.value.strip().lower() == "required":
            made.found.append(Property(f"{flow[1]}.exactly.once.source.support", "enabled", one.where))
        else:
            made.found.append(Property(f"{prefix}{name}", one.value, one.where))


def _take(connector: _Connector, asked: re.Pattern[str] | None, written: dict[str, Property], made: Connectors) -> None:
    """Each connector reads only what is its own: the same name may stand in another one without effect."""
    for one in connector.settings:
        if one.name in _OF_CONNECT or re.match(r"(source|target)\.cluster\.", one.name):
            continue
        own = asked is None or asked.fullmatch(one.name)
        if asked is None and (_CHECKPOINTS.fullmatch(one.name) or _HEARTBEATS.fullmatch(one.name)):
            made.different.append(f"{one.where}: {one.name} has no effect in a {connector.kind}, and is left out")
        elif own or one.name not in written:
            written[one.name] = one
        elif one.value.strip() != written[one.name].value.strip():
            counts = written[one.name].where
            made.different.append(f"{one.where}: {one.name} of {connector.name} differs from {counts}, which counts")
