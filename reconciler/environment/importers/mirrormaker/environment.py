"""Imports MirrorMaker 2's files as the YAML files of an environment, with the origin of each line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.environment.adopt.write import scalar, scalar_server, value
from reconciler.environment.importers.mirrormaker.client_settings import Client, providers, servers
from reconciler.environment.importers.mirrormaker.connections import check_cluster, check_flow
from reconciler.environment.importers.mirrormaker.connectors import Connector, Connectors, is_json, join, read_json
from reconciler.environment.importers.mirrormaker.flows import OF_FLOW, Field, FlowReading
from reconciler.environment.importers.mirrormaker.ignored_settings import settle, tell
from reconciler.environment.importers.mirrormaker.placeholders import refuse_placeholders
from reconciler.environment.importers.mirrormaker.properties_file import Property, parse, unquoted
from reconciler.environment.importers.mirrormaker.scopes import Configuration, Flow, Notes, sort
from reconciler.environment.importers.mirrormaker.strimzi import resource as strimzi
from reconciler.environment.importers.mirrormaker.transforms import refuse_transforms
from reconciler.errors import Where

_REMARK = 60
"""The column where remarks begin, at the earliest."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    text: str
    origin: Property | str = ""


@dataclass(frozen=True, slots=True)
class ImportedEnvironment:
    """``lines`` by file name. ``disabled``: flows that are named and not enabled. ``connectors``: what copies a flow
    on a Connect cluster, and the topic of its positions. ``aliases``: of a flow's source in MirrorMaker 2's records,
    where it is not the cluster's name."""

    lines: Mapping[str, tuple[SourceLine, ...]]
    flows: tuple[str, ...]
    disabled: tuple[str, ...]
    notes: Notes
    connectors: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, tuple[SourceLine, ...]]] = field(default_factory=dict)
    """Lines of each cluster and flow, by section and name."""

    def text_of(self, clusters: Sequence[str], flows: Sequence[str]) -> str:
        """One file with these alone."""
        lines = [*self.lines["flows.yaml"][:1]]
        for section, names in (("clusters", clusters), ("flows", flows)):
            lines += [SourceLine(f"{section}:")] if names else []
            lines += [line for name in names for line in self.parts[section][name]]
        return "".join(f"{_written(line)}\n" for line in lines)

    def texts(self) -> dict[str, str]:
        return {file: "".join(f"{_written(line)}\n" for line in lines) for file, lines in self.lines.items()}


@dataclass(frozen=True, slots=True)
class _Part:
    """One cluster or flow: its name, its lines, and the file that says it."""

    name: str
    lines: tuple[SourceLine, ...]
    file: str


def environment(files: Mapping[str, str]) -> ImportedEnvironment:
    """``files``: texts by the name to print. With mistakes in ``notes`` the lines are not to be used."""
    notes = Notes()
    clusters: dict[str, _Part] = {}
    flows: dict[str, _Part] = {}
    disabled: list[str] = []
    aliases: dict[str, str] = {}
    on_connect = _on_connect(files, notes)
    for file, props in _read(files, on_connect):
        refuse_placeholders(props, notes)
        if any(prop.name == "clusters" for prop in notes.unfilled.intersection(props)):
            continue  # without their names no line has a place
        config = sort(props, notes)
        if file in files and not _of_connect(files[file]):
            _named(file, props, config, notes)
        for earlier, later in config.doubled:
            words = f"{later.where}: {later.name} is written again; line {earlier.where.line} does not count"
            notes.differs(words, of=earlier)
        for cluster in config.clusters:
            check_cluster(cluster, config, notes)
            _join(clusters, _part(cluster, _cluster(cluster, config, notes), file, notes), notes)
        sources, never_started = set(), list[str]()
        for flow in _flows(config):
            reading = FlowReading(flow, config, notes)
            if reading.enabled():
                sources.add(flow[0])
                name = f"{flow[0]}-to-{flow[1]}"
                aliases |= {name: reading.alias} if reading.alias != flow[0] else {}
                check_flow(flow, config, notes)
                refuse_transforms(flow, config, notes)
                _join(flows, _part(name, _flow(flow, reading.fields(), config), file, notes), notes)
                continue
            if reading.never_started:
                never_started.append(reading.name)
            elif flow in config.of_flow:
                disabled.append(reading.name)
            if flow in config.of_flow:
                notes.settled |= {prop for name, prop in config.of_flow[flow].items() if name in OF_FLOW}
        if never_started:
            _tell_of_never_started(config.whole["enabled"], never_started, notes, refused=not sources)
        tell(config, notes)
        settle(config, sources, notes)
    if not flows and not notes.mistakes:
        words = "no flow is enabled. MirrorMaker 2 copies nothing with it. Write A->B.enabled = true."
        for file in files:
            notes.wrong(Where(file), words)
    named = {
        f"{source}-to-{target}": (name, on_connect.topics[source, target])
        for (source, target), name in on_connect.names.items()
    }
    sections = {"clusters": clusters, "flows": flows}
    parts = {section: {name: part.lines for name, part in some.items()} for section, some in sections.items()}
    lines = _lines(files, sections)
    return ImportedEnvironment(lines, tuple(flows), tuple(disabled), notes, named, aliases, parts)


def _read(files: Mapping[str, str], on_connect: Connectors) -> Iterator[tuple[str, Sequence[Property]]]:
    """Each file of properties, and all connectors together."""
    of_connect = [file for file, text in files.items() if _of_connect(text)]
    for file, text in files.items():
        if file not in of_connect:
            props, mistakes = parse(file, text)
            on_connect.notes.mistakes += mistakes
            yield file, [_without_quotes(prop, on_connect.notes) for prop in props]
    if of_connect:
        yield ", ".join(of_connect), on_connect.found


def _without_quotes(prop: Property, notes: Notes) -> Property:
    """Quotes are a mistake; what stands in them is read, so that all other mistakes are found."""
    plain = unquoted(prop)
    if plain is not prop:
        words = f"it is {prop.value.strip()}, and quotes are part of the value in Java's properties"
        notes.mistake(prop, f"{words}: MirrorMaker 2 takes them for letters. Remove the quotes.")
    return plain


def _of_connect(text: str) -> bool:
    return strimzi.is_resource(text) or is_json(text)


def _on_connect(files: Mapping[str, str], notes: Notes) -> Connectors:
    """All files of connectors together, since the connectors of one flow are often apart."""
    joined, entries = Connectors(notes), list[Connector]()
    for file, text in files.items():
        if _of_connect(text):
            entries += (strimzi.read if strimzi.is_resource(text) else read_json)(file, text, notes)
    join(entries, joined)
    return joined


def _named(file: str, props: Iterable[Property], config: Configuration, notes: Notes) -> None:
    if not config.clusters:
        last = next((prop for prop in props if prop.name == "clusters"), None)
        where = last.where if last else Where(file)
        words = "clusters names none. It lists the aliases of MirrorMaker 2's clusters. "
        notes.wrong(where, words + "Is this the file that connect-mirror-maker is started with?")


def _flows(config: Configuration) -> Iterator[Flow]:
    """Named ones first, in their order; all pairs where ``enabled`` is written for everybody."""
    yield from config.of_flow
    if "enabled" in config.whole:
        pairs = ((a, b) for a in config.clusters for b in config.clusters if a != b)
        yield from (pair for pair in pairs if pair not in config.of_flow)


def _tell_of_never_started(prop: Property, names: Sequence[str], notes: Notes, *, refused: bool) -> None:
    words = (
        f"starts no flow by itself: MirrorMaker 2 starts one by enabled of its own, or by its heartbeats, and "
        f"emit.heartbeats.enabled is false. So it does not run {', '.join(names)}"
    )
    if refused:
        notes.mistake(prop, f"it {words}. Write {names[0]}.enabled = true for each flow that is to copy.")
    else:
        notes.leaves_out(prop, f"{words}, which are not written; {names[0]}.enabled = true writes one")


def _join(parts: dict[str, _Part], part: _Part, notes: Notes) -> None:
    """Several files may name one cluster, in the same words; each flow is of one file."""
    known = parts.setdefault(part.name, part)
    if known is part or [line.text for line in known.lines] == [line.text for line in part.lines]:
        return
    words = f"{part.name} is another one than in {known.file}. One name is one thing here. Rename one, or import apart."
    notes.wrong(Where(part.file), words)


def _part(name: str, lines: Iterable[SourceLine], file: str, notes: Notes) -> _Part:
    part = _Part(name, tuple(lines), file)
    notes.settled |= {line.origin for line in part.lines if isinstance(line.origin, Property)}
    return part


def _cluster(name: str, config: Configuration, notes: Notes) -> Iterator[SourceLine]:
    yield SourceLine(f"  {scalar(name)}:", config.whole.get("clusters", ""))
    asked = config.of_cluster[name].get("bootstrap.servers") or config.whole.get("bootstrap.servers")
    if asked is None:
        where = config.whole["clusters"].where
        words = f"{name}.bootstrap.servers is not there. Cluster {name} cannot be reached without it. Add the line."
        notes.wrong(where, words)
        return
    yield SourceLine(f"    bootstrap_servers: [{', '.join(map(_server, servers(asked)))}]", asked)
    settings = Client(name, config, providers(config), notes).read()
    if settings:
        yield SourceLine("    client:")
    for setting in settings:
        yield SourceLine(f"      {scalar(setting.name)}: {value(setting.value)}", setting.origin or "")


def _server(text: str) -> str:
    """What is no address stays as it is, for ``validate`` to say so."""
    return scalar_server(text) if re.fullmatch(r"[A-Za-z0-9._:\[\]-]+", text) else scalar(text)


def _flow(flow: Flow, fields: Iterable[Field], config: Configuration) -> Iterator[SourceLine]:
    origin: Property | str = config.of_flow.get(flow, {}).get("enabled") or config.whole.get("enabled") or ""
    yield SourceLine(f"  {scalar(f'{flow[0]}-to-{flow[1]}')}:", origin)
    yield SourceLine(f"    source: {scalar(flow[0])}", origin)
    yield SourceLine(f"    target: {scalar(flow[1])}", origin)
    section = ""
    for each_field in fields:
        *above, key = each_field.path
        if above and above[0] != section:
            yield SourceLine(f"    {above[0]}:")
        section = above[0] if above else ""
        yield SourceLine(f"{'      ' if above else '    '}{key}: {_value(each_field.value)}", each_field.origin)


def _value(given: str | bool | int | tuple[str, ...]) -> str:
    match given:
        case bool() | int():
            return str(given).lower()
        case str():
            return scalar(given)
        case _:
            return f"[{', '.join(map(scalar, given))}]"


def _lines(files: Mapping[str, str], sections: Mapping[str, Mapping[str, _Part]]) -> dict[str, tuple[SourceLine, ...]]:
    head = SourceLine(f"# From MirrorMaker 2's {', '.join(files)}; behind each line the one that it comes from.")
    return {
        f"{section}.yaml": (head, SourceLine(f"{section}:"), *(line for part in parts.values() for line in part.lines))
        for section, parts in sections.items()
    }


def _written(line: SourceLine) -> str:
    match line.origin:
        case "":
            return line.text
        case str():
            remark = line.origin
        case Property():
            remark = f"{line.origin.where.file}:{line.origin.where.line}"
    return f"{line.text.ljust(_REMARK)}  # {remark}"
