"""Imports MirrorMaker 2's files as the YAML files of an environment, with the origin of each line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from reconciler.environment.adopt.write import scalar, scalar_server, value
from reconciler.environment.importers.mirrormaker import client_settings, not_imported, strimzi
from reconciler.environment.importers.mirrormaker import connectors as connect
from reconciler.environment.importers.mirrormaker.client_settings import CLIENT_PREFIX, SECURITY, servers
from reconciler.environment.importers.mirrormaker.flows import OF_FLOW, FlowReading
from reconciler.environment.importers.mirrormaker.properties_file import (
    Configuration,
    Flow,
    Notes,
    Property,
    alike,
    parse_plainly,
    sort,
)
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.other_tools import CLOUDERA, IMPORT
from reconciler.environment.yaml.read import other_tool, read
from reconciler.environment.yaml.schema import SECTIONS
from reconciler.errors import Where

_ENABLE = "Write A->B.enabled = true."
_COPY = "Add a sourceConnector to a mirror, or name the file of a MirrorSourceConnector."
_OF_YAML = (
    "Of YAML, only these resources of Strimzi's have MirrorMaker 2's settings. Name one, properties of "
    "connect-mirror-maker, or JSON of connectors"
)
_REMARK = 60
"""The column where remarks begin, at the earliest."""
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]+")


@dataclass(frozen=True, slots=True)
class SourceLine:
    text: str
    origin: Property | str = ""


@dataclass(frozen=True, slots=True)
class ImportedEnvironment:
    """The files of an environment, made of MirrorMaker 2's settings. ``lines`` by file name."""

    lines: Mapping[str, tuple[SourceLine, ...]]
    flows: tuple[str, ...]
    disabled: tuple[str, ...]
    """Flows that are named and not enabled."""
    notes: Notes
    connectors: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """What copies a flow on a Connect cluster, and the topic of its positions."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Of a flow's source in MirrorMaker 2's records, if it is not the cluster's name."""
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
    """One cluster or flow: its lines, and the file that has it."""

    lines: tuple[SourceLine, ...]
    file: str


@dataclass(slots=True)
class _Import:
    """What came of the files so far: clusters and flows by name, as the fields of ``ImportedEnvironment``."""

    notes: Notes = field(default_factory=Notes)
    clusters: dict[str, _Part] = field(default_factory=dict)
    flows: dict[str, _Part] = field(default_factory=dict)
    disabled: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)

    def take(self, file: str, config: Configuration) -> None:
        """One file, or all connectors together. Each property ends as a line, a mistake or a note."""
        notes = self.notes
        for earlier, later in config.doubled:
            words = f"{later.where}: {later.name} is written again; line {earlier.where.line} does not count"
            notes.differs(words, of=earlier)
        for cluster in config.clusters:
            check_cluster(cluster, config, notes)
            self._join(self.clusters, cluster, _Part(tuple(_cluster(cluster, config, notes)), file))

        # Named ones first, in their order; all pairs if ``enabled`` is written at top level.
        pairs = [*config.of_flow]
        if "enabled" in config.whole:
            pairs += (pair for pair in permutations(config.clusters, 2) if pair not in config.of_flow)
        sources, never_started = set(), list[str]()
        for flow in pairs:
            reading = FlowReading(flow, config, notes)
            if reading.enabled():
                sources.add(flow[0])
                name = f"{flow[0]}-to-{flow[1]}"
                self.aliases |= {name: reading.alias} if reading.alias != flow[0] else {}
                check_flow(flow, config, notes)
                not_imported.refuse_transforms(flow, config, notes)
                self._join(self.flows, name, _Part(tuple(_flow(reading)), file))
                continue
            if reading.never_started:
                never_started.append(reading.name)
            elif flow in config.of_flow:
                self.disabled.append(reading.name)
            # A flow that is not enabled leaves its settings behind: they count as reported, or each would be an unknown
            # property.
            if flow in config.of_flow:
                notes.settled |= {prop for name, prop in config.of_flow[flow].items() if name in OF_FLOW}
        # A flow that only the top-level ``enabled`` names is started by its heartbeats alone; without them the file
        # looks as if it copied.
        if never_started:
            prop, first = config.whole["enabled"], never_started[0]
            words = (
                f"starts no flow by itself: MirrorMaker 2 starts one by enabled of its own, or by its heartbeats, and "
                f"emit.heartbeats.enabled is false. So it does not run {', '.join(never_started)}"
            )
            if sources:
                notes.leaves_out(prop, f"{words}, which are not written; {first}.enabled = true writes one")
            else:
                notes.mistake(prop, f"it {words}. Write {first}.enabled = true for each flow that is to copy.")
        not_imported.note_unused(config, notes)
        not_imported.settle(config, sources, notes)

    def _join(self, parts: dict[str, _Part], name: str, part: _Part) -> None:
        """Merges parts: several files may declare one cluster, equally; each flow is from one file."""
        self.notes.settled |= {line.origin for line in part.lines if isinstance(line.origin, Property)}
        known = parts.setdefault(name, part)
        if known is not part and [line.text for line in known.lines] != [line.text for line in part.lines]:
            words = f"{name} is another one than in {known.file}. One name is one thing here. Rename one, or import"
            self.notes.wrong(Where(part.file), f"{words} apart.")


def environment(files: Mapping[str, str]) -> ImportedEnvironment:
    """``files``: texts by the name to print. With mistakes in ``notes`` the lines are not to be used."""
    imported = _Import()
    notes, of_connect, entries = imported.notes, list[str](), list[connect.Connector]()
    for file, text in files.items():
        if strimzi.is_resource(text):
            of_connect.append(file)
            entries += strimzi.read(file, text, notes)
        elif words := _no_mirrormaker(file, text):
            notes.wrong(Where(file, 1, 1), words)
            files = {name: text for name, text in files.items() if name != file}
        elif connect.is_json(text):
            of_connect.append(file)
            entries += connect.read_json(file, text, notes)
        elif connect.is_standalone(text):
            of_connect.append(file)
            entries += connect.read_standalone(file, text, notes)
    # All connectors together, since those of one flow are often in several files.
    on_connect = connect.Connectors(notes)
    connect.join(entries, on_connect)

    for file, props in _read(files, of_connect, on_connect):
        not_imported.refuse_placeholders(props, notes)
        if any(prop.name == "clusters" for prop in notes.unfilled.intersection(props)):
            continue  # without their names no line has a place
        config = with_shared_logins(sort(props, notes))
        if file in files and file not in of_connect and not config.clusters:
            last = next((prop for prop in props if prop.name == "clusters"), None)
            words = "clusters names none. It lists the aliases of MirrorMaker 2's clusters. "
            where = last.where if last else Where(file)
            todo = "Is this the file that connect-mirror-maker is started with?"
            if any(re.fullmatch(r"(key|value)\.converter|offset\.storage\..+", prop.name) for prop in props):
                todo = "It looks like a file of Connect's workers: name those of its connectors."
            notes.wrong(where, words + todo)
        imported.take(file, config)
    if not imported.flows and not notes.mistakes:
        for file in files:
            words = "no flow is enabled. MirrorMaker 2 copies nothing with it. "
            todo = _COPY if file in of_connect else _ENABLE
            notes.wrong(Where(file), words + todo)

    head = SourceLine(f"# From MirrorMaker 2's {', '.join(files)}; behind each line the one that it comes from.")
    lines: dict[str, tuple[SourceLine, ...]] = {}
    parts: dict[str, Mapping[str, tuple[SourceLine, ...]]] = {}
    for section, some in (("clusters", imported.clusters), ("flows", imported.flows)):
        parts[section] = {name: part.lines for name, part in some.items()}
        its_lines = (line for part in some.values() for line in part.lines)
        lines[f"{section}.yaml"] = (head, SourceLine(f"{section}:"), *its_lines)
    connectors = {
        f"{source}-to-{target}": (name, on_connect.topics[source, target])
        for (source, target), name in on_connect.names.items()
    }
    flows, disabled = tuple(imported.flows), tuple(imported.disabled)
    return ImportedEnvironment(lines, flows, disabled, notes, connectors, imported.aliases, parts)


def _no_mirrormaker(file: str, text: str) -> str:
    """The problem of a file without settings of MirrorMaker 2; empty for a possible one."""
    if re.search(r"^[ \t]*clusters[ \t]*=", text, re.M) and not CLOUDERA.search(text):
        return ""
    if (tool := other_tool(file, text)) is not None and tool.todo != IMPORT:
        return f"it is {tool.thing}, which import does not read. {tool.todo or _OF_YAML}."
    if not file.endswith((".yaml", ".yml")) or not isinstance(
        root := read(file, text, of_any_tool=True).root, YamlMapping
    ):
        return ""
    if root.entries.keys() & {*SECTIONS, "access", "quotas", "users"}:
        return "it is a part of an environment of this program. It needs no import: plan and apply take its folder."
    return f"it is YAML, and holds no KafkaMirrorMaker2 and no KafkaConnector. {_OF_YAML}."


def _read(
    files: Mapping[str, str], of_connect: Sequence[str], on_connect: connect.Connectors
) -> Iterator[tuple[str, Sequence[Property]]]:
    """Each file of properties, and all connectors together."""
    for file, text in files.items():
        if file in of_connect:
            continue
        yield file, parse_plainly(file, text, on_connect.notes)
    if of_connect:
        yield ", ".join(of_connect), on_connect.found


def _cluster(name: str, config: Configuration, notes: Notes) -> Iterator[SourceLine]:
    yield SourceLine(f"  {scalar(name)}:", config.whole.get("clusters", ""))
    asked = config.of_cluster[name].get("bootstrap.servers") or config.whole.get("bootstrap.servers")
    if asked is None:
        where = config.whole["clusters"].where
        words = f"{name}.bootstrap.servers is missing. Cluster {name} cannot be reached without it. Add the line."
        notes.wrong(where, words)
        return
    # An invalid address is kept, quoted, for ``validate`` to report: a template's ":SERVERS:" breaks plain YAML.
    addresses = (
        scalar_server(text) if _ADDRESS.fullmatch(text) else scalar(text) for text in client_settings.servers(asked)
    )
    yield SourceLine(f"    bootstrap_servers: [{', '.join(addresses)}]", asked)
    settings = client_settings.Client(name, config, notes).read()
    if settings:
        yield SourceLine("    client:")
    for setting in settings:
        yield SourceLine(f"      {scalar(setting.name)}: {value(setting.value)}", setting.origin or "")


def _flow(reading: FlowReading) -> Iterator[SourceLine]:
    """Lines of YAML, each with its originating line of MirrorMaker 2's file."""
    (source, target), config = reading.flow, reading.config
    origin: Property | str = config.of_flow.get(reading.flow, {}).get("enabled") or config.whole.get("enabled") or ""
    yield SourceLine(f"  {scalar(f'{source}-to-{target}')}:", origin)
    yield SourceLine(f"    source: {scalar(source)}", origin)
    yield SourceLine(f"    target: {scalar(target)}", origin)
    section = ""
    for each_field in reading.fields():
        *above, key = each_field.path
        if above and above[0] != section:
            yield SourceLine(f"    {above[0]}:")
        section = above[0] if above else ""
        match each_field.value:
            case bool() | int() as plain:
                text = str(plain).lower()
            case str() as word:
                text = scalar(word)
            case words:
                text = f"[{', '.join(map(scalar, words))}]"
        yield SourceLine(f"{'      ' if above else '    '}{key}: {text}", each_field.origin)


def _written(line: SourceLine) -> str:
    match line.origin:
        case "":
            return line.text
        case str():
            remark = line.origin
        case Property():
            remark = f"{line.origin.where.file}:{line.origin.where.line}"
    return f"{line.text.ljust(_REMARK)}  # {remark}"


# Settings of MirrorMaker 2's single clients: those that all share are of the cluster, other connections are refused.
# A single client with a connection of its own (`producer.override.bootstrap.servers`) would make the flow another one
# than its clusters say. Which clients are whose: MirrorConnectorConfig; `producer.override` is of the producer that
# writes the records.

_OF_ONE_CLIENT = re.compile(
    r"((?:source|target)\.)?(cluster|producer|consumer|admin)\.(override\.)?((?:[a-z]+\.)+[a-z.]+)"
)
_DECIDES = re.compile(r"bootstrap\.servers|security\.protocol|sasl\..+")
_CONNECTS = re.compile(r"bootstrap\.servers|security\.protocol|(sasl|ssl)\..+")
_EFFECTS = {
    "producer": "where records are written",
    "consumer": "from where records are read",
    "admin": "where topics are looked for and made",
    "cluster": "where the flow reads and writes",
}
_DEFAULTS = {"security.protocol": "PLAINTEXT"}
SAME_CONNECTION = "the same connection as its cluster's"


def with_shared_logins(config: Configuration) -> Configuration:
    """Moves connection settings that all kinds of clients of a cluster share to the cluster. All kinds must have them:
    MirrorMaker 2 also uses an admin client for each cluster, which would otherwise have another connection."""
    of_cluster = {name: {**_shared(config, name), **part} for name, part in config.of_cluster.items()}
    return replace(config, of_cluster=of_cluster)


def _shared(config: Configuration, cluster: str) -> dict[str, Property]:
    """Settings that producer, consumer and admin of a cluster have alike, so that they are the cluster's here; empty as
    soon as one differs."""
    kinds: dict[str, dict[str, Property]] = {}
    for name, prop in config.of_cluster[cluster].items():
        match = CLIENT_PREFIX.fullmatch(name)
        if name.startswith(SECURITY):
            return {}
        if match and match[2].startswith(SECURITY):
            kinds.setdefault(match[1], {})[match[2]] = prop
    first = kinds.get("admin", {})
    if len(kinds) < 2 or any(name.startswith(SECURITY) for name in config.whole):
        return {}
    same = all(
        kind.keys() == first.keys() and all(_same(name, prop, first[name]) for name, prop in kind.items())
        for kind in kinds.values()
    )
    return first if same else {}


def check_cluster(cluster: str, config: Configuration, notes: Notes) -> None:
    """``B.producer.x``: refuses settings that the cluster itself lacks; another login got a note (``Client``)."""
    for name, prop in config.of_cluster[cluster].items():
        match = _OF_ONE_CLIENT.fullmatch(name)
        if match is None or match[1] or match[2] == "cluster" or not _CONNECTS.fullmatch(match[4]):
            continue
        _, kind, override, setting = match.groups()
        own = config.of_client(cluster, setting)
        if override:
            notes.leaves_out(prop, "has no effect: override is of a connector's settings, after A->B.")
        elif _same(setting, prop, own):
            notes.drops(prop, SAME_CONNECTION)
        elif setting == "bootstrap.servers" or (own is None and _DECIDES.fullmatch(setting)):
            notes.mistake(prop, _refusal(kind, setting, prop, own, cluster))


def check_flow(flow: Flow, config: Configuration, notes: Notes) -> None:
    """``A->B.producer.override.x`` and similar ones, which override the clusters' settings."""
    for name, prop in config.of_flow.get(flow, {}).items():
        match = _OF_ONE_CLIENT.fullmatch(name)
        if match is None or not _CONNECTS.fullmatch(match[4]) or (match[2] == "cluster" and not match[1]):
            continue
        side, kind, _, setting = match.groups()
        reads = side == "source." or (not side and kind == "consumer")
        cluster = flow[0] if reads else flow[1]
        own = config.of_client(cluster, setting)
        if _same(setting, prop, own):
            notes.drops(prop, SAME_CONNECTION)
        elif _DECIDES.fullmatch(setting):
            notes.mistake(prop, _refusal(kind, setting, prop, own, cluster))


def _same(setting: str, prop: Property, own: Property | None) -> bool:
    """One address in common is one cluster: a broker belongs to no two."""
    ours = own.value.strip() if own is not None else _DEFAULTS.get(setting, "")
    theirs = prop.value.strip()
    if setting == "bootstrap.servers" and own is not None:
        return ours == theirs or not set(servers(prop)).isdisjoint(servers(own))
    if own is not None and alike(prop, own):
        return True
    return ours == theirs or (setting == "security.protocol" and ours.upper() == theirs.upper())


def _refusal(kind: str, setting: str, prop: Property, own: Property | None, cluster: str) -> str:
    """Why a client that logs in otherwise than its cluster cannot be imported, and what to write. Values of secrets are
    never shown."""
    if setting in ("bootstrap.servers", "security.protocol", "sasl.mechanism"):
        ours = f'"{own.value.strip()}"' if own is not None else "not set"
        apart = f'it is "{prop.value.strip()}", and that of cluster {cluster} is {ours}'
    else:
        apart = (
            f"it is another one than that of cluster {cluster}" if own is not None else f"cluster {cluster} has none"
        )
    todo = "Name one cluster in both"
    if setting != "bootstrap.servers":
        elsewhere = "another identity of the mirror goes under principals afterwards"
        todo = f"Write what holds as {cluster}.{setting}, too ({elsewhere})"
    return f"{apart}. It decides {_EFFECTS[kind]}; a cluster has one connection here. {todo}, and import again."
