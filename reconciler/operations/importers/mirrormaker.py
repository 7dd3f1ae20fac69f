"""``import``: writes MirrorMaker 2's configuration as an environment that ``validate`` accepts; with ``--into`` it adds
clusters and flows to an environment, and changes nothing that is there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from reconciler.backends.files import environment_name, read_environment, write_folder, write_texts
from reconciler.environment.importers.mirrormaker.environment import ImportedEnvironment, environment
from reconciler.environment.importers.mirrormaker.properties_file import Mistake, Property, decoded
from reconciler.environment.load import load
from reconciler.errors import Problem, ReconcilerError, TopologyError
from reconciler.model.environment.topology import Cluster, Flow, Topology
from reconciler.text import counted


def run(paths: Sequence[Path], out: Path) -> str:
    """Nothing is written unless all of it is right. Raises ReconcilerError with all mistakes of all files."""
    _require_new(out)
    imported, _ = _imported(paths, out)
    write_folder(out, {out / name: text for name, text in imported.texts().items()})
    flows = f"{counted(len(imported.flows), 'flow')} ({', '.join(imported.flows)})"
    said = [f"wrote {', '.join(imported.lines)} in {shlex.quote(str(out))}: {flows}", "validate takes it as it is"]
    written = "".join(imported.texts().values())
    return "\n".join([*said, *_report(imported, imported.flows, written, shlex.quote(str(out)))])


def run_into(paths: Sequence[Path], folder: Path) -> str:
    """Adds what an environment lacks; raises as ``run``."""
    imported, asked = _imported(paths, folder)
    added = add(imported, asked, folder)
    written = added.path.read_text(encoding="utf-8") if added.path is not None else ""
    return "\n".join([*said_of(added, folder), *_report(imported, added.flows, written, shlex.quote(str(folder)))])


def _imported(paths: Sequence[Path], folder: Path) -> tuple[ImportedEnvironment, Topology]:
    """What the files say, and what they declare by themselves."""
    imported = environment(_read(paths))
    texts, name = imported.texts(), environment_name(folder)
    if mistakes := [*imported.notes.mistakes, *_refused_by_validate(imported, texts, name)]:
        raise _refused(mistakes)
    return imported, load(texts, name)


def _require_new(out: Path) -> None:
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists() or out.is_symlink():
        why = "Files that exist are never changed, and a second declaration of a flow would contradict them."
        into = shlex.quote(str(out))
        todo = f"Add to it what it lacks: reconciler import FILE... --into {into}; or choose another --out."
        raise ReconcilerError(f"{out} is there already", why, todo)


def _read(paths: Sequence[Path]) -> Mapping[str, str]:
    """By file name, or by the whole path where two files have one name."""
    names = [path.name for path in paths]
    texts: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        try:
            texts[path.name if names.count(path.name) == 1 else str(path)] = decoded(path.read_bytes())
        except OSError as error:
            why = "It is to be imported."
            todo = "Name the file of connect-mirror-maker, the JSON of connectors, or Strimzi's resource."
            raise ReconcilerError(f"{path} cannot be read: {error.strerror or error}", why, todo) from None
    return texts


def _refused(mistakes: Sequence[Mistake]) -> ReconcilerError:
    all_mistakes = sorted(mistakes, key=lambda mistake: (mistake.where.file, mistake.where.line))
    lines = "\n".join(dict.fromkeys(map(str, all_mistakes)))
    return ReconcilerError(lines, f"{counted(len(set(all_mistakes)), 'problem')}; nothing was written.")


def _refused_by_validate(imported: ImportedEnvironment, texts: Mapping[str, str], name: str) -> Iterator[Mistake]:
    """Beside mistakes of the import only what is wrong with one more line: the rest may come of what they leave out."""
    try:
        load(texts, name)
    except TopologyError as error:
        known = {(mistake.where.file, mistake.where.line) for mistake in imported.notes.mistakes}
        for problem in error.problems:
            origin = _origin(problem, imported)
            mistake = _at_its_origin(problem, imported)
            own = isinstance(origin, Property) and (mistake.where.file, mistake.where.line) not in known
            if not known or own:
                yield mistake


def _origin(problem: Problem, imported: ImportedEnvironment) -> Property | str:
    lines = imported.lines.get(problem.where.file, ())
    return lines[problem.where.line - 1].origin if 0 < problem.where.line <= len(lines) else ""


def _at_its_origin(problem: Problem, imported: ImportedEnvironment) -> Mistake:
    """A problem that ``validate`` found in a line, placed at the line of MirrorMaker 2's file that it comes from."""
    lines, index, origin = (
        imported.lines.get(problem.where.file, ()),
        problem.where.line - 1,
        _origin(problem, imported),
    )
    words = f"{problem.what}. {problem.why}. {problem.todo}."
    if isinstance(origin, Property):
        return Mistake(origin.where, f"{origin.name}: {words}")
    key = lines[index].text.partition(":")[0].strip() if origin else ""
    above = (line.origin for line in reversed(lines[: index + 1]) if isinstance(line.origin, Property))
    where = next((prop.where for prop in above), problem.where)
    return Mistake(where, f"{key} ({origin}): {words}" if origin else words)


def _report(imported: ImportedEnvironment, flows: Sequence[str], written: str, out: str) -> Iterator[str]:
    """What is different, which secrets ``written`` refers to, and where to go from here. ``flows``: those in it."""
    notes = imported.notes
    if imported.disabled:
        named = ", ".join(imported.disabled)
        yield f"not written, because not enabled: {named} (heartbeats of MirrorMaker 2 go there unless they are off)"
    if notes.different:
        yield "different from MirrorMaker 2; read each:"
        yield from (f"  {_of(some, imported)}{words}" for words, some in notes.different.items())
    if notes.unneeded:
        yield "not needed here:"
        yield from (f"  {', '.join(dict.fromkeys(names))}: {words}" for words, names in notes.unneeded.items())
    if secrets := {name: words for name, words in notes.secrets.items() if f"${{env:{name}}}" in written}:
        yield "secrets to set in the environment of each command and job:"
        yield from (f"  {name}: {words}" for name, words in secrets.items())
    yield "next (docs/begin/from-mirrormaker.md has all steps):"
    yield f"  reconciler doctor {out}"
    for flow in flows:
        place = _on_connect(imported.connectors.get(flow))
        alias = f" --alias {shlex.quote(imported.aliases[flow])}" if flow in imported.aliases else ""
        yield f"  reconciler mirror import-positions {out} {flow}{place}{alias}"
    yield f"  reconciler plan {out}"


def _on_connect(connector: tuple[str, str] | None) -> str:
    if connector is None:
        return ""
    name, topic = connector
    return f" --connector {shlex.quote(name)} --offsets-topic {shlex.quote(topic)}"


def _of(flows: Sequence[str], imported: ImportedEnvironment) -> str:
    """Which flows are meant, where not all are."""
    return f"{', '.join(flows)}: " if flows and len(flows) < len(imported.flows) else ""


FILE = "imported"


@dataclass(frozen=True, slots=True)
class Added:
    """``path``: the file that was written, None where nothing is missing. ``left``: what was left alone, and why."""

    path: Path | None
    flows: tuple[str, ...]
    left: tuple[str, ...]


def add(imported: ImportedEnvironment, asked: Topology, folder: Path) -> Added:
    """``asked``: what the import alone declares. Raises ReconcilerError, and then nothing is written."""
    there = read_environment(folder)
    known = load(there, environment_name(folder), expired_too=True)
    _require_same_clusters(known, asked)
    left = tuple(_left_alone(known, asked))
    clusters = [name for name in asked.clusters if name not in known.clusters]
    flows = [flow.name for flow in asked.flows.values() if _declared(known, flow) is None]
    if not clusters and not flows:
        return Added(None, (), left)
    names = chain((f"{FILE}.yaml",), (f"{FILE}-{number}.yaml" for number in count(2)))
    path = next(folder / name for name in names if not (folder / name).exists())
    text = imported.text_of(clusters, flows)
    try:
        load({**there, str(path): text}, environment_name(folder), expired_too=True)
    except TopologyError as error:
        lines = "\n".join(str(problem) for problem in error.problems)
        todo = f"Correct the files in {folder}, or MirrorMaker 2's, and import again."
        raise ReconcilerError(
            lines, "Together with the files in the folder it is not valid; nothing was written.", todo
        ) from None
    write_texts({path: text})
    return Added(path, tuple(flows), left)


def _declared(known: Topology, flow: Flow) -> Flow | None:
    """The flow of the same name, or of the same two clusters."""
    ends = (flow.source, flow.target)
    alike = (other for other in known.flows.values() if (other.source, other.target) == ends)
    return known.flows.get(flow.name) or next(alike, None)


def _require_same_clusters(known: Topology, asked: Topology) -> None:
    """One address in common is one cluster: a broker belongs to no two."""
    apart = [
        f"cluster {name} has {_addresses(known.clusters[name])} in {known.clusters[name].where}, and "
        f"{_addresses(cluster)} in MirrorMaker 2's file"
        for name, cluster in asked.clusters.items()
        if name in known.clusters and set(known.clusters[name].bootstrap_servers).isdisjoint(cluster.bootstrap_servers)
    ]
    if apart:
        raise ReconcilerError(
            "\n".join(apart),
            "Under one name that may be two clusters, and the flow would copy from another one. Nothing was written.",
            "Add the address that is right to both, or give the cluster another alias in MirrorMaker 2's file.",
        )


def _addresses(cluster: Cluster) -> str:
    return ", ".join(cluster.bootstrap_servers)


def _left_alone(known: Topology, asked: Topology) -> Iterator[str]:
    for name, cluster in asked.clusters.items():
        if (there := known.clusters.get(name)) is None:
            continue
        more = sorted(set(cluster.bootstrap_servers) - set(there.bootstrap_servers))
        words = f"; MirrorMaker 2's file has {', '.join(more)} as well" if more else ""
        client = "; its client settings and principals are not changed" if cluster.client else ""
        yield f"cluster {name}: declared at {there.where}{words}{client}"
    for flow in asked.flows.values():
        if (other := _declared(known, flow)) is not None:
            of = "" if other.name == flow.name else f" as {other.name}"
            differ = _differences(other, flow)
            words = f", where {', '.join(differ)} differ: compare them yourself" if differ else ""
            yield f"flow {flow.name}: declared{of} at {other.where}{words}"


def _differences(there: Flow, asked: Flow) -> Sequence[str]:
    pairs: Mapping[str, tuple[object, object]] = {
        "topics": (there.topics, asked.topics),
        "exclude_topics": (there.exclude_topics, asked.exclude_topics),
        "naming": (there.naming, asked.naming),
        "groups": (there.groups, asked.groups),
        "replication_factor": (there.replication_factor, asked.replication_factor),
        "start": (there.start, asked.start),
        "sync_topic_configs": (there.configs, asked.configs),
        "access": (there.access, asked.access),
        "mirrormaker_topics": (there.mirrormaker_topics, asked.mirrormaker_topics),
    }
    return [name for name, (one, other) in pairs.items() if one != other]


def said_of(added: Added, folder: Path) -> Iterator[str]:
    if added.path is None:
        yield f"nothing is missing in {shlex.quote(str(folder))}; no file was written"
    else:
        flows = f"{counted(len(added.flows), 'flow')} ({', '.join(added.flows)})" if added.flows else "no flow"
        yield f"wrote {added.path}: {flows}; validate accepts it together with the files in the folder"
    if added.left:
        yield f"left alone, because it is declared already ({len(added.left)}):"
        yield from (f"  {words}" for words in added.left)
