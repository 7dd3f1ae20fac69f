"""``import``: writes MirrorMaker 2's configuration as an environment that ``validate`` accepts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reconciler.backends.files import environment_name, write_folder
from reconciler.environment.importers.mirrormaker.environment import ImportedEnvironment, environment
from reconciler.environment.importers.mirrormaker.properties_file import Mistake, Property, decoded
from reconciler.environment.load import load
from reconciler.errors import Problem, ReconcilerError, TopologyError
from reconciler.model.environment.topology import Topology
from reconciler.operations.importers.into import add, said_of
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
