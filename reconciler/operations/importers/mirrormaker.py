"""``import``: turns MirrorMaker 2's configuration into an environment that ``validate`` accepts; with ``--into`` it
adds clusters and flows to an existing environment, and changes nothing in it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.backends import files
from reconciler.environment.importers.mirrormaker.environment import ImportedEnvironment, environment
from reconciler.environment.importers.mirrormaker.properties_file import Mistake, Property, decoded
from reconciler.environment.load import load
from reconciler.errors import Problem, ReconcilerError, TopologyError
from reconciler.model.environment.topology import Flow, Topology
from reconciler.model.schemas import for_editors
from reconciler.render.markup import visible
from reconciler.text import counted, first_of

SHOWN, MOST_MISTAKES = 10, 100


def run(paths: Sequence[Path], out: Path, *, onward: bool = True) -> str:
    """Writes files only if all input files are valid. Raises ReconcilerError with all mistakes of all files."""
    if files.is_taken(out):
        why = "Files that exist are never changed, and a second declaration of a flow would contradict them."
        into = shlex.quote(str(out))
        todo = f"Add to it what it lacks: reconciler import FILE... --into {into}; or choose another --out."
        raise ReconcilerError(f"{out} already exists", why, todo)
    imported, _ = read(paths, out)
    files.write_folder(out, {out / name: text for name, text in for_editors(imported.texts()).items()})
    flows = f"{counted(len(imported.flows), 'flow')} ({first_of(imported.flows, SHOWN)})"
    said = [f"wrote {', '.join(imported.lines)} in {shlex.quote(str(out))}: {flows}", "validate accepts it as it is"]
    written = "".join(imported.texts().values())
    return _lines([*said, *_report(imported, imported.flows, written, out if onward else None)])


def run_into(paths: Sequence[Path], folder: Path, *, onward: bool = True) -> str:
    """Adds missing clusters and flows to an environment; raises as ``run``."""
    imported, asked = read(paths, folder)
    added = add(imported, asked, folder)
    written = added.path.read_text(encoding="utf-8") if added.path is not None else ""
    return _lines([*said_of(added, folder), *_report(imported, added.flows, written, folder if onward else None)])


def _lines(report: Sequence[str]) -> str:
    """No name of MirrorMaker 2's file begins a line."""
    return "\n".join(visible(line, None) for line in report)


def read(paths: Sequence[Path], folder: Path) -> tuple[ImportedEnvironment, Topology]:
    """The imported environment, and the topology that it declares by itself."""
    # Messages name files by name, or by path if two of them share a name.
    names, texts = [path.name for path in paths], dict[str, str]()
    for path in dict.fromkeys(paths):
        try:
            texts[path.name if names.count(path.name) == 1 else str(path)] = decoded(files.read_given(path))
        except OSError as error:
            why = "The flows are read from it."
            todo = "Name the file of connect-mirror-maker, JSON or properties of connectors, or Strimzi's resource."
            raise ReconcilerError(f"{path} cannot be read: {error.strerror or error}", why, todo) from None

    # A problem that validate finds on a line with a mistake of the import is dropped: it may follow from the mistake.
    imported = environment(texts)
    mistakes = list(imported.notes.mistakes)
    places = [mistake.where for mistake in mistakes] + [prop.where for prop in imported.notes.refused]
    known = {(where.file, where.line) for where in places}
    try:
        asked = load(imported.texts(), files.environment_name(folder))
    except TopologyError as error:
        for problem in error.problems:
            mistake, own = _at_its_origin(problem, imported)
            if not known or (own and (mistake.where.file, mistake.where.line) not in known):
                mistakes.append(mistake)
    if mistakes:
        mistakes.sort(key=lambda mistake: (mistake.where.file, mistake.where.line))
        lines = [visible(str(mistake)) for mistake in dict.fromkeys(mistakes)]
        more = [f"and {len(lines) - MOST_MISTAKES:,} more"] if len(lines) > MOST_MISTAKES else []
        said = "\n".join([*lines[:MOST_MISTAKES], *more])
        raise ReconcilerError(said, f"{counted(len(lines), 'problem')}; nothing was written.")
    return imported, asked


def _at_its_origin(problem: Problem, imported: ImportedEnvironment) -> tuple[Mistake, bool]:
    """A problem of ``validate``, placed at the originating line of MirrorMaker 2's file, and whether that line alone
    causes it."""
    lines, index = imported.lines.get(problem.where.file, ()), problem.where.line - 1
    origin = lines[index].origin if 0 <= index < len(lines) else ""
    words = f"{problem.what}. {problem.why}. {problem.todo}."
    if isinstance(origin, Property):
        return Mistake(origin.where, f"{origin.name}: {words}"), True
    key = lines[index].text.partition(":")[0].strip() if origin else ""
    above = (line.origin for line in reversed(lines[: index + 1]) if isinstance(line.origin, Property))
    where = next((prop.where for prop in above), problem.where)
    return Mistake(where, f"{key} ({origin}): {words}" if origin else words), False


def _report(imported: ImportedEnvironment, flows: Sequence[str], written: str, env: Path | None) -> Iterator[str]:
    """Reports differences, secrets that ``written`` refers to, and the next steps in ``env``. ``flows``: its flows."""
    notes = imported.notes
    if imported.disabled:
        named = ", ".join(imported.disabled)
        yield f"not written, because not enabled: {named} (heartbeats of MirrorMaker 2 go there unless they are off)"
    if notes.different:
        yield "different from MirrorMaker 2; read each:"
        for words, some in notes.different.items():
            whose = f"{', '.join(some)}: " if some and len(some) < len(imported.flows) else ""
            yield f"  {whose}{words}"
    if notes.unneeded:
        yield "not needed here:"
        yield from (f"  {', '.join(dict.fromkeys(names))}: {words}" for words, names in notes.unneeded.items())
    if secrets := {name: words for name, words in notes.secrets.items() if f"${{env:{name}}}" in written}:
        yield "secrets to set in the environment of each command and job:"
        yield from (f"  {name}: {words}" for name, words in secrets.items())
    if env is None:
        return
    out = shlex.quote(str(env))
    yield "next:"
    yield f"  reconciler doctor {out}"
    for flow in flows:
        given = zip(("--connector", "--offsets-topic"), imported.connectors.get(flow, ()), strict=False)
        place = "".join(f" {option} {shlex.quote(name)}" for option, name in given)
        alias = f" --alias {shlex.quote(imported.aliases[flow])}" if flow in imported.aliases else ""
        yield f"  reconciler mirror import-positions {out} {flow}{place}{alias}"
    yield f"  reconciler plan {out}"


FILE = "imported"
COMPARED = {
    "topics": "topics",
    "exclude_topics": "exclude_topics",
    "naming": "naming",
    "groups": "groups",
    "replication_factor": "replication_factor",
    "start": "start",
    "sync_topic_configs": "configs",
    "access": "access",
    "mirrormaker_topics": "mirrormaker_topics",
}
"""YAML key -> field of a flow in which a declared flow may differ from MirrorMaker 2's file."""


@dataclass(frozen=True, slots=True)
class Added:
    """``path``: the written file, None if nothing was missing. ``left``: imported parts that were not added, with
    reasons."""

    path: Path | None
    flows: tuple[str, ...]
    left: tuple[str, ...]


def add(imported: ImportedEnvironment, asked: Topology, folder: Path) -> Added:
    """Writes missing clusters and flows into a new file. ``asked``: the topology of the import alone. Raises
    ReconcilerError before anything is written."""
    there = files.read_environment(folder)
    known = load(there, files.environment_name(folder), expired_too=True)

    # Two clusters with a common address are the same one: a broker belongs to one cluster.
    apart = []
    for name, cluster in asked.clusters.items():
        ours = known.clusters.get(name)
        if ours is not None and set(ours.bootstrap_servers).isdisjoint(cluster.bootstrap_servers):
            here, there_too = ", ".join(ours.bootstrap_servers), ", ".join(cluster.bootstrap_servers)
            apart.append(f"cluster {name} has {here} in {ours.where}, and {there_too} in MirrorMaker 2's file")
    if apart:
        raise ReconcilerError(
            "\n".join(apart),
            "Under one name that may be two clusters, and the flow would copy from another one. Nothing was written.",
            "Add the address that is right to both, or give the cluster another alias in MirrorMaker 2's file.",
        )

    left = tuple(_left_alone(known, asked))
    clusters = [name for name in asked.clusters if name not in known.clusters]
    flows = [flow.name for flow in asked.flows.values() if declared(known, flow) is None]
    if not clusters and not flows:
        return Added(None, (), left)
    path = files.unused_file(folder, FILE)
    # Valid by itself, the new file may still collide with the user's: equal remote names, or a loop over both.
    text = files.for_editors_in(folder, path, imported.text_of(clusters, flows))
    try:
        load({**there, str(path): text}, files.environment_name(folder), expired_too=True)
    except TopologyError as error:
        lines = "\n".join(str(problem) for problem in error.problems)
        todo = f"Correct the files in {folder}, or MirrorMaker 2's, and import again."
        raise ReconcilerError(
            lines, "Together with the files in the folder it is not valid; nothing was written.", todo
        ) from None
    files.write_texts({path: text})
    return Added(path, tuple(flows), left)


def declared(known: Topology, flow: Flow) -> Flow | None:
    """The declared flow of the same name, or between the same two clusters."""
    ends = (flow.source, flow.target)
    alike = (other for other in known.flows.values() if (other.source, other.target) == ends)
    return known.flows.get(flow.name) or next(alike, None)


def _left_alone(known: Topology, asked: Topology) -> Iterator[str]:
    """Flows and clusters that the folder already declares, with their differences from MirrorMaker 2's file. The user
    decides about them; the import never changes them."""
    for name, cluster in asked.clusters.items():
        if (there := known.clusters.get(name)) is None:
            continue
        more = sorted(set(cluster.bootstrap_servers) - set(there.bootstrap_servers))
        words = f"; MirrorMaker 2's file has {', '.join(more)} as well" if more else ""
        client = "; its client settings and principals are not changed" if cluster.client else ""
        yield f"cluster {name}: declared at {there.where}{words}{client}"
    for flow in asked.flows.values():
        if (other := declared(known, flow)) is not None:
            of = "" if other.name == flow.name else f" as {other.name}"
            differ = [name for name, field in COMPARED.items() if getattr(other, field) != getattr(flow, field)]
            words = f", where {', '.join(differ)} differ: compare them yourself" if differ else ""
            yield f"flow {flow.name}: declared{of} at {other.where}{words}"


def said_of(added: Added, folder: Path) -> Iterator[str]:
    """Lines about the written file, and about parts that were not added."""
    if added.path is None:
        yield f"nothing is missing in {shlex.quote(str(folder))}; no file was written"
    else:
        flows = f"{counted(len(added.flows), 'flow')} ({first_of(added.flows, SHOWN)})" if added.flows else "no flow"
        yield f"wrote {added.path}: {flows}; validate accepts it together with the files in the folder"
    if added.left:
        yield f"left alone, because already declared ({len(added.left)}):"
        yield from (f"  {words}" for words in added.left)
