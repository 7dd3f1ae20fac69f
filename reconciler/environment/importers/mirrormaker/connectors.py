"""MirrorMaker 2 on a Connect cluster: its connectors as the properties that a dedicated one would have.

Border: connectors in, properties out. ``source.cluster.x`` becomes ``A.x``, ``target.cluster.x`` ``B.x``, all else
``A->B.x``. Which connector's setting counts is decided here, what it becomes is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.errors import Where
from reconciler.mirrormaker.properties import Mistake, Property
from reconciler.mirrormaker.scopes import Flow

KAFKA = "org.apache.kafka.connect.mirror."
SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
_CHECKPOINTS = re.compile(
    r"groups(\..*)?|group\.filter\..*|(sync\.group|emit\.checkpoints|checkpoints|refresh\.groups)\..*"
)
_HEARTBEATS = re.compile(r"(emit\.)?heartbeats\.(?!replication).*")
_OF_CONNECT = ("name", "connector.class", "source.cluster.alias", "target.cluster.alias")


@dataclass(slots=True)
class Connectors:
    """``found``: properties as in a file of connect-mirror-maker; ``implied``: those of them that nobody wrote;
    ``names``: of the connector that copies a flow, ``topics``: where its positions are."""

    found: list[Property] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    implied: set[Property] = field(default_factory=set)
    unneeded: dict[str, list[str]] = field(default_factory=dict)
    names: dict[Flow, str] = field(default_factory=dict)
    topics: dict[Flow, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connector:
    name: str
    kind: str
    flow: Flow
    where: Where
    settings: tuple[Property, ...]
    offsets_topic: str = "connect-offsets"


def join(connectors: Sequence[Connector], made: Connectors) -> None:
    """All files together: the connectors of one flow are often apart."""
    flows: dict[Flow, dict[str, Connector]] = {}
    for one in connectors:
        known = flows.setdefault(one.flow, {}).setdefault(one.kind, one)
        if known is not one:
            words = f"{one.name} is a second {one.kind} of {_named(one.flow)}, beside {known.name} at {known.where}. "
            made.mistakes.append(Mistake(one.where, words + "One flow is made of each pair. Import them apart."))
    if flows and not made.mistakes:
        _clusters(connectors, made)
        for flow, kinds in flows.items():
            _flow(flow, kinds, made)


def _named(flow: Flow) -> str:
    return f"{flow[0]}->{flow[1]}"


def _clusters(connectors: Sequence[Connector], made: Connectors) -> None:
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


def _flow(flow: Flow, kinds: Mapping[str, Connector], made: Connectors) -> None:
    source = kinds.get(SOURCE)
    if source is None:
        other = next(iter(kinds.values()))
        words = f"there is no {SOURCE} of {_named(flow)}, so nothing is copied. Name the file of that connector, too."
        made.mistakes.append(Mistake(other.where, words))
        return
    made.names[flow], made.topics[flow] = source.name, source.offsets_topic
    prefix = f"{_named(flow)}."
    made.found.append(Property(f"{prefix}enabled", "true", source.where))
    written: dict[str, Property] = {}
    for kind, asked in ((SOURCE, None), (CHECKPOINT, _CHECKPOINTS), (HEARTBEAT, _HEARTBEATS)):
        if kind in kinds:
            _take(kinds[kind], asked, written, made)
    for kind, name in ((HEARTBEAT, "emit.heartbeats.enabled"), (CHECKPOINT, "sync.group.offsets.enabled")):
        if kind not in kinds:
            written[name] = Property("", "false", source.where)
            made.implied.add(Property(f"{prefix}{name}", "false", source.where))
    for name, one in written.items():
        if name == "exactly.once.support" and one.value.strip().lower() == "required":
            made.found.append(Property(f"{flow[1]}.exactly.once.source.support", "enabled", one.where))
        else:
            made.found.append(Property(f"{prefix}{name}", one.value, one.where))


def _take(connector: Connector, asked: re.Pattern[str] | None, written: dict[str, Property], made: Connectors) -> None:
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
