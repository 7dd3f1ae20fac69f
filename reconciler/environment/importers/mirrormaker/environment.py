"""MirrorMaker 2's files -> the texts of an environment, where each line is from, and what is to be told.

Border: texts in, texts out, all mistakes of all files at once. A text is judged by ``loading``, as any environment is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.errors import Where
from reconciler.mirrormaker import connector_json, strimzi
from reconciler.mirrormaker.clients import Client, providers, servers
from reconciler.mirrormaker.connectors import Connectors, join
from reconciler.mirrormaker.flows import OF_FLOW, Field, FlowReading
from reconciler.mirrormaker.properties import Mistake, Property, parse
from reconciler.mirrormaker.scopes import Configuration, Flow, Notes, sort
from reconciler.mirrormaker.unneeded import settle, tell
from reconciler.topology_text import scalar, scalar_server, value

_REMARK = 60
"""The column where remarks begin, at the earliest."""


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    origin: Property | str = ""


@dataclass(frozen=True, slots=True)
class Environment:
    """``lines`` by file name. ``disabled``: flows that are named and not enabled. ``connectors``: what copies a flow
    on a Connect cluster, and the topic of its positions."""

    lines: Mapping[str, tuple[Line, ...]]
    flows: tuple[str, ...]
    disabled: tuple[str, ...]
    notes: Notes
    connectors: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def texts(self) -> dict[str, str]:
        return {file: "".join(f"{_written(line)}\n" for line in lines) for file, lines in self.lines.items()}


@dataclass(frozen=True, slots=True)
class _Part:
    """One cluster or flow: its name, its lines, and the file that says it."""

    name: str
    lines: tuple[Line, ...]
    file: str


def environment(files: Mapping[str, str]) -> Environment:
    """``files``: texts by the name to print. With mistakes in ``notes`` the lines are not to be used."""
    notes = Notes()
    clusters: dict[str, _Part] = {}
    flows: dict[str, _Part] = {}
    disabled: list[str] = []
    on_connect = _on_connect(files)
    notes.settled |= on_connect.implied
    for words in on_connect.different:
        notes.differs(words)
    for words, names in on_connect.unneeded.items():
        notes.unneeded.setdefault(words, []).extend(names)
    for file, found, mistakes in _read(files, on_connect):
        notes.mistakes += mistakes
        config = sort(found, notes)
        if file in files and not _of_connect(files[file]):
            _named(file, found, config, notes)
        for earlier, later in config.doubled:
            words = f"{later.where}: {later.name} is written again; line {earlier.where.line} does not count"
            notes.differs(words, of=earlier)
        for cluster in config.clusters:
            _join(clusters, _part(cluster, _cluster(cluster, config, notes), file, notes), notes)
        sources = set()
        for flow in _flows(config):
            reading = FlowReading(flow, config, notes)
            if reading.enabled():
                sources.add(flow[0])
                name = f"{flow[0]}-to-{flow[1]}"
                _join(flows, _part(name, _flow(flow, reading.fields(), config), file, notes), notes)
            elif flow in config.of_flow:
                disabled.append(reading.name)
                notes.settled |= {one for name, one in config.of_flow[flow].items() if name in OF_FLOW}
        tell(config, notes)
        settle(config, sources, notes)
    if not flows and not notes.mistakes:
        _nothing(files, notes)
    named = {
        f"{source}-to-{target}": (name, on_connect.topics[source, target])
        for (source, target), name in on_connect.names.items()
    }
    return Environment(_lines(files, clusters, flows), tuple(flows), tuple(disabled), notes, named)


def _read(
    files: Mapping[str, str], on_connect: Connectors
) -> Iterator[tuple[str, Sequence[Property], Sequence[Mistake]]]:
    """Each file of properties, and all connectors together."""
    of_connect = [file for file, text in files.items() if _of_connect(text)]
    for file, text in files.items():
        if file not in of_connect:
            yield file, *parse(file, text)
    if of_connect:
        yield ", ".join(of_connect), on_connect.found, on_connect.mistakes


def _of_connect(text: str) -> bool:
    return strimzi.is_resource(text) or connector_json.is_json(text)


def _on_connect(files: Mapping[str, str]) -> Connectors:
    """All files of connectors together, since the connectors of one flow are often apart."""
    made = Connectors()
    found = []
    for file, text in files.items():
        if _of_connect(text):
            found += (strimzi if strimzi.is_resource(text) else connector_json).read(file, text, made)
    join(found, made)
    return made


def _named(file: str, found: Iterable[Property], config: Configuration, notes: Notes) -> None:
    if not config.clusters:
        last = next((one for one in found if one.name == "clusters"), None)
        where = last.where if last else Where(file)
        words = "clusters names none. It lists the aliases of MirrorMaker 2's clusters. "
        notes.mistakes.append(Mistake(where, words + "Is this the file that connect-mirror-maker is started with?"))


def _nothing(files: Mapping[str, str], notes: Notes) -> None:
    for file in files:
        words = "no flow is enabled. MirrorMaker 2 copies nothing with it. Write A->B.enabled = true."
        notes.mistakes.append(Mistake(Where(file), words))


def _flows(config: Configuration) -> Iterator[Flow]:
    """Named ones first, in their order; all pairs where ``enabled`` is written for everybody."""
    yield from config.of_flow
    if "enabled" in config.whole:
        pairs = ((a, b) for a in config.clusters for b in config.clusters if a != b)
        yield from (pair for pair in pairs if pair not in config.of_flow)


def _join(parts: dict[str, _Part], one: _Part, notes: Notes) -> None:
    """Several files may name one cluster, in the same words; each flow is of one file."""
    known = parts.setdefault(one.name, one)
    if known is one or [line.text for line in known.lines] == [line.text for line in one.lines]:
        return
    words = f"{one.name} is another one than in {known.file}. One name is one thing here. Rename one, or import apart."
    notes.mistakes.append(Mistake(Where(one.file), words))


def _part(name: str, lines: Iterable[Line], file: str, notes: Notes) -> _Part:
    part = _Part(name, tuple(lines), file)
    notes.settled |= {line.origin for line in part.lines if isinstance(line.origin, Property)}
    return part


def _cluster(name: str, config: Configuration, notes: Notes) -> Iterator[Line]:
    yield Line(f"  {scalar(name)}:", config.whole.get("clusters", ""))
    asked = config.of_cluster[name].get("bootstrap.servers") or config.whole.get("bootstrap.servers")
    if asked is None:
        where = config.whole["clusters"].where
        words = f"{name}.bootstrap.servers is not there. Cluster {name} cannot be reached without it. Add the line."
        notes.mistakes.append(Mistake(where, words))
        return
    yield Line(f"    bootstrap_servers: [{', '.join(map(_server, servers(asked)))}]", asked)
    settings = Client(name, config, providers(config), notes).read()
    if settings:
        yield Line("    client:")
    for one in settings:
        yield Line(f"      {scalar(one.name)}: {value(one.value)}", one.origin or "")


def _server(text: str) -> str:
    """What is no address stays as it is, for ``validate`` to say so."""
    return scalar_server(text) if re.fullmatch(r"[A-Za-z0-9._:\[\]-]+", text) else scalar(text)


def _flow(flow: Flow, fields: Iterable[Field], config: Configuration) -> Iterator[Line]:
    origin: Property | str = config.of_flow.get(flow, {}).get("enabled") or config.whole.get("enabled") or ""
    yield Line(f"  {scalar(f'{flow[0]}-to-{flow[1]}')}:", origin)
    yield Line(f"    source: {scalar(flow[0])}", origin)
    yield Line(f"    target: {scalar(flow[1])}", origin)
    section = ""
    for one in fields:
        *above, key = one.path
        if above and above[0] != section:
            yield Line(f"    {above[0]}:")
        section = above[0] if above else ""
        yield Line(f"{'      ' if above else '    '}{key}: {_value(one)}", one.origin)


def _value(one: Field) -> str:
    match one.value:
        case bool():
            return "true" if one.value else "false"
        case int():
            return str(one.value)
        case str():
            return scalar(one.value)
        case _:
            return f"[{', '.join(map(scalar, one.value))}]"


def _lines(
    files: Mapping[str, str], clusters: Mapping[str, _Part], flows: Mapping[str, _Part]
) -> dict[str, tuple[Line, ...]]:
    head = Line(f"# From MirrorMaker 2's {', '.join(files)}; behind each line the one that it comes from.")
    both = {"clusters": clusters, "flows": flows}
    return {
        f"{section}.yaml": (head, Line(f"{section}:"), *(line for part in parts.values() for line in part.lines))
        for section, parts in both.items()
    }


def _written(line: Line) -> str:
    match line.origin:
        case "":
            return line.text
        case str():
            remark = line.origin
        case Property():
            remark = f"{line.origin.where.file}:{line.origin.where.line}"
    return f"{line.text.ljust(_REMARK)}  # {remark}"
